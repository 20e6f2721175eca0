"""How a model is named: by its folder, by its name on the hub, or as a model that comes with the package.

Commands check the name before anything heavy is imported. The name of a shipped model always means the shipped model;
a folder of the same name is written `./name`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from pastalang.runtime.errors import LoadError

DTypeName: TypeAlias = Literal["float32", "bfloat16", "float16", "float64"]  # what a model computes in

DEFAULT = "pasta-mini"
NAMES = (DEFAULT,)
WEIGHTS = Path(__file__).parents[2] / "weights"
_CONFIG = "config.json"
_WEIGHTS = (".safetensors", ".bin", ".index.json", ".gguf")  # how the names of files with weights end
_TOKENIZER = ("token", "vocab", "merges", "spm", "spiece", "sentencepiece", "tekken", ".model")
_NEEDED = ("config.json", "tokenizer.json", "model.safetensors")


def shipped_folder(source: object) -> Path | None:
    """The folder of a shipped model; None for any other source. Raises `LoadError` if its files are missing."""
    if not isinstance(source, str) or source not in NAMES:
        return None
    folder = WEIGHTS / source
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise LoadError(
            f"{source} is not part of this installation: {folder} has no {', '.join(missing)}; "
            "name another model, as a folder or by its name on the hub"
        )
    return folder


def check_source(source: object, *, with_weights: bool = True) -> None:
    """Raises `LoadError` if nothing can be loaded from the source. A name that may be on the hub is accepted."""
    if not isinstance(source, str | Path) or not str(source):
        raise LoadError(f"a model is a folder, a name on the hub, or a model and its tokenizer, not {source!r}")
    if shipped_folder(source) is not None:
        return
    folder = Path(source)
    if folder.is_dir():
        _check_folder(folder, with_weights=with_weights)
    elif folder.exists():
        raise LoadError(f"{source} is a file; a model is a folder")
    elif isinstance(source, Path) or folder.is_absolute() or source.startswith(".") or len(folder.parts) > 2:
        raise LoadError(f"there is no folder {source}")


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
