"""Models that come with the package: a name comes in, the folder inside the package goes out. Nothing is fetched.

The name alone means the model of the package, wherever it is used; a folder of the same name is written `./name`.
"""

from __future__ import annotations

from pathlib import Path

from pastalang.runtime.errors import LoadError

DEFAULT = "pasta-mini"
NAMES = (DEFAULT,)
WEIGHTS = Path(__file__).parents[2] / "weights"
_NEEDED = ("config.json", "tokenizer.json", "model.safetensors")


def shipped_folder(source: object) -> Path | None:
    """None where the source is no name of a shipped model. Raises `LoadError` where its files are not there."""
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
