"""What a model is named by, looked at before anything heavy is imported: a folder, or a name on the hub or of ours."""

from __future__ import annotations

from pathlib import Path

from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.shipped import shipped_folder


def check_source(source: object) -> None:
    """Raises `LoadError` where nothing can be loaded from it. A name that may stand on the hub is let through."""
    if not isinstance(source, str | Path) or not str(source):
        raise LoadError(f"a model is a folder, a name on the hub, or a model and its tokenizer, not {source!r}")
    if shipped_folder(source) is not None:
        return
    folder = Path(source)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise LoadError(f"the folder {source} holds no model: there is no config.json in it")
    elif folder.exists():
        raise LoadError(f"{source} is a file; a model is a folder")
    elif isinstance(source, Path) or folder.is_absolute() or source.startswith(".") or len(folder.parts) > 2:
        raise LoadError(f"there is no folder {source}")
