"""How a model is named: by its folder, by its name on the hub, or as a model that comes with the package.

Commands check the name before anything heavy is imported. The name of a shipped model always means the shipped model;
a folder of the same name is written `./name`.
"""

from __future__ import annotations

from pathlib import Path

from pastalang.runtime.errors import LoadError

DEFAULT = "pasta-mini"
NAMES = (DEFAULT,)
WEIGHTS = Path(__file__).parents[2] / "weights"
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


def check_source(source: object) -> None:
    """Raises `LoadError` if nothing can be loaded from the source. A name that may be on the hub is accepted."""
    if not isinstance(source, str | Path) or not str(source):
        raise LoadError(f"a model is a folder, a name on the hub, or a model and its tokenizer, not {source!r}")
    if shipped_folder(source) is not None:
        return
    folder = Path(source)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise LoadError(f"the folder {source} holds no model: it has no config.json")
    elif folder.exists():
        raise LoadError(f"{source} is a file; a model is a folder")
    elif isinstance(source, Path) or folder.is_absolute() or source.startswith(".") or len(folder.parts) > 2:
        raise LoadError(f"there is no folder {source}")
