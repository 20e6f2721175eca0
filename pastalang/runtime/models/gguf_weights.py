"""Weights in GGUF files: converted once into a folder of the cache, from which they load in seconds ever after.

    model.Q4_1.gguf ── checked ── dequantised ── cache/pastalang/gguf/model.Q4_1-1f0c…/ ── loaded like any folder

The folder has another name for another file, and it is renamed to that name when it is complete. So a conversion that
stops anywhere leaves nothing behind that could be taken for a model, and of two processes that convert one file at the
same time, one result is kept.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.load_errors import as_load_error, quietly
from pastalang.runtime.models.source import fingerprint_of_file, missing_for_gguf

_VERSION: Final = 1  # of what is written for a file: part of its folder's name
_ABANDONED: Final = 24 * 3600  # seconds after which a folder that nobody completed is deleted
_PARTIAL: Final = ".partial-"
_EXPERTS: Final = ("_exps.", "_shexp.")  # in the names of tensors
_SCALED_ROPE: Final = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


def weights_of_gguf(file: Path) -> Path:
    """The folder with the weights and the tokenizer of the file, made now if there is none. Raises `LoadError`."""
    folder = _folder_of(file)
    if not folder.is_dir():
        _check_packages(file)
        contents = _read_contents(file)
        _check_tensors(file, contents)
        _check_positions(file, contents)
        _convert(file, contents, folder)
    return folder


def check_tokenizer_of_gguf(file: Path) -> None:
    """Raises `LoadError` for a file that is damaged, or holds no tokenizer."""
    if not _folder_of(file).is_dir():
        _check_packages(file)
        _read_contents(file)


def tokenizer_of_gguf(file: Path) -> Path:
    """The folder with the tokenizer of the file and perhaps its weights, made now if there is none."""
    whole = _folder_of(file)
    folder = whole.with_name(f"tokenizer-{whole.name}")
    if whole.is_dir() or folder.is_dir():
        return whole if whole.is_dir() else folder
    _check_packages(file)
    _read_contents(file)
    from transformers import AutoTokenizer

    with as_load_error(file, "the tokenizer of"), quietly(), _without_bars():
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    with _made(folder) as partial, quietly():
        tokenizer.save_pretrained(partial)
    return folder


def _folder_of(file: Path) -> Path:
    return cache_folder() / "gguf" / f"{file.stem}-{_VERSION}-{fingerprint_of_file(file)}"


def cache_folder() -> Path:
    """`XDG_CACHE_HOME`, or the folder that the platform has for caches."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named) / "pastalang"
    match sys.platform:
        case "darwin":
            return Path.home() / "Library" / "Caches" / "pastalang"
        case "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "pastalang" / "Cache"
        case _:
            return Path.home() / ".cache" / "pastalang"


def _check_packages(file: Path) -> None:
    missing = missing_for_gguf()
    if missing is not None:
        raise LoadError(f"{file} needs the package {missing} to be read: pip install 'pastalang[gguf]'")


def _convert(file: Path, contents: Any, folder: Path) -> None:
    dtype = _dtype_of(contents)
    with _as_unwritable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        _delete_abandoned(folder.parent)
        _check_room(contents, dtype, folder)
    _say(f"converting {file.name}, once: the result is kept in {folder.parent}")
    model, tokenizer = _read(file, contents, dtype)
    with _made(folder) as partial:
        _write(model, tokenizer, partial)


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """A folder to write to, which gets its name when all is written."""
    with _as_unwritable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder.parent))
        try:
            yield partial
            _complete(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _read_contents(file: Path) -> Any:
    """A `GGUFReader` of a whole file with a tokenizer."""
    from gguf import GGUFReader

    try:
        contents = GGUFReader(file)
    except Exception as problem:  # anything: an index out of range, a name that is no text, a shape that does not fit
        raise LoadError(f"{file} is cut off or damaged: its table of tensors does not fit its contents") from problem
    if "tokenizer.ggml.model" not in contents.fields or "tokenizer.ggml.tokens" not in contents.fields:
        raise LoadError(
            f"{file} holds no tokenizer: it has no tokenizer.ggml.tokens; convert the model with its tokenizer"
        )
    if "split.count" in contents.fields and int(contents.fields["split.count"].contents()) > 1:
        raise LoadError(f"{file} is one of several parts of a model: join them with `llama-gguf-split --merge`")
    return contents


def _check_tensors(file: Path, contents: Any) -> None:
    """Refuses what could be read only in part, which would give other weights without a word."""
    from gguf.quants import dequantize

    for tensor in contents.tensors:
        if tensor.name in _SCALED_ROPE:
            raise _scaled(file, f"a tensor of its own ({tensor.name})")
    for tensor in {tensor.tensor_type: tensor for tensor in contents.tensors}.values():
        try:
            dequantize(tensor.data[:1], tensor.tensor_type)
        except NotImplementedError as problem:
            raise LoadError(
                f"{file} holds {tensor.name} in {tensor.tensor_type.name}, which the package gguf cannot read"
            ) from problem


def _check_positions(file: Path, contents: Any) -> None:
    """Refuses rotary positions that are scaled by a setting which transformers passes over: it reads those of few
    architectures, and all others as if they were not scaled."""
    given = {key.partition(".")[2]: field.contents() for key, field in contents.fields.items() if ".rope." in key}
    kind = given.get("rope.scaling.type", "linear")
    factor = given.get("rope.scaling.factor") or given.get("rope.scale_linear") or 1
    if kind == "none" or factor == 1:
        return
    from transformers import AutoConfig

    from pastalang.runtime.models.compatibility import rope_types

    with as_load_error(file), quietly(), _without_bars():
        config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    if not rope_types(config) - {"default"}:
        raise _scaled(file, f"{factor:g} ({kind})")


def _scaled(file: Path, how: str) -> LoadError:
    return LoadError(
        f"{file} scales its rotary positions by {how}, which is not read from GGUF: use the model's folder of "
        "safetensors"
    )


def _dtype_of(contents: Any) -> torch.dtype:
    """The type that the weights are kept in. Half precision has more digits than any quantised weight."""
    kinds = {tensor.tensor_type.name for tensor in contents.tensors if len(tensor.shape) > 1}
    if "F32" in kinds:
        return torch.float32
    return torch.bfloat16 if "BF16" in kinds else torch.float16


def _check_room(contents: Any, dtype: torch.dtype, folder: Path) -> None:
    needed = dtype.itemsize * sum(prod(map(int, tensor.shape)) for tensor in contents.tensors)
    free = shutil.disk_usage(folder.parent).free
    if free < needed:
        raise _no_room(folder, f"{needed / 1e9:.2f} GB are needed and {free / 1e9:.2f} GB are free")


def _read(file: Path, contents: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with as_load_error(file), quietly(), _without_bars():
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        model, found = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=dtype, output_loading_info=True
        )
    missing = sorted(found["missing_keys"])
    if missing:
        raise LoadError(
            f"{file} holds {_unread(contents)}: {len(missing)} weights are missing, {missing[0]} among them"
        )
    return model, tokenizer


def _write(model: Any, tokenizer: Any, folder: Path) -> None:
    """Without the mark that the weights were quantised, which they are no longer."""
    config = model.config
    config.architectures = [type(model).__name__]
    del config.quantization_config
    with quietly():
        config.save_pretrained(folder)
        model.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    save_file(_each_once(model.state_dict()), folder / "model.safetensors", metadata={"format": "pt"})


def _unread(contents: Any) -> str:
    experts = [tensor.name for tensor in contents.tensors if any(part in tensor.name for part in _EXPERTS)]
    architecture = contents.fields["general.architecture"].contents()
    if experts:
        return f"a mixture of experts ({experts[0]}), which is not read for the architecture {architecture}"
    return f"other tensors than those of the architecture {architecture}"


def _each_once(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Without the second name of a weight that two parts share."""
    names = {weight.data_ptr(): name for name, weight in reversed(weights.items())}
    return {name: weights[name].contiguous() for name in names.values()}


def _complete(partial: Path, folder: Path) -> None:
    try:
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process has made the same folder
            raise


def _delete_abandoned(cache: Path) -> None:
    """The folders of conversions that were killed."""
    for place in cache.glob(f"{_PARTIAL}*"):
        if time.time() - place.stat().st_mtime > _ABANDONED:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _as_unwritable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as problem:
        raise _no_room(folder, _reason(problem)) from problem


def _reason(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.errno is not None:
        return os.strerror(problem.errno).lower()
    return next(iter(str(problem).splitlines()), type(problem).__name__)


def _no_room(folder: Path, reason: str) -> LoadError:
    return LoadError(
        f"the converted weights cannot be written to {folder.parent}: {reason}; make room, or let XDG_CACHE_HOME name "
        "another folder"
    )


@contextmanager
def _without_bars() -> Iterator[None]:
    """The bar of this conversion is not one of those that `quietly` can turn off where there is no terminal."""
    if _has_terminal():
        yield
        return
    with redirect_stderr(StringIO()):
        yield


def _has_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _say(line: str) -> None:
    """On a terminal, where a minute of silence would look like a mistake."""
    if _has_terminal():
        print(f"\r\x1b[K{line}", file=sys.stderr)
