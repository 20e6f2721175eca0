"""The folder of a run: the trained model, and in `training` the checkpoints to go on from.

The note that is written last, `pastalang.json`, says that a run is finished. Until then the same command goes on with
it, whatever the folder holds already.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from pastalang import __version__
from pastalang.runtime.models.probe_tokens import Kind
from pastalang.runtime.models.training_note import FILE
from pastalang.training.errors import BadData, UnreadableData

WORK: Final = "training"
ROWS: Final = "rows"  # in WORK: recorded rows, whose names say what they depend on
_MARK: Final = "run.json"  # in WORK: the folder was made by a run


class Stand(Enum):
    """What is in a folder."""

    NOTHING = auto()
    UNFINISHED_RUN = auto()
    FINISHED_RUN = auto()
    SOMETHING_ELSE = auto()


def stand_of(folder: Path) -> Stand:
    """Raises `BadData` if it is not a folder."""
    if not folder.exists():
        return Stand.NOTHING
    if not folder.is_dir():
        raise BadData(f"{folder} is not a folder")
    if (folder / WORK / _MARK).is_file():
        return Stand.FINISHED_RUN if (folder / FILE).is_file() else Stand.UNFINISHED_RUN
    has_rows_only = all(place == folder / WORK / ROWS for place in _two_deep(folder))  # it ended while it recorded
    return Stand.NOTHING if has_rows_only else Stand.SOMETHING_ELSE


def _two_deep(folder: Path) -> Iterator[Path]:
    for place in folder.iterdir():
        inside = list(place.iterdir()) if place.is_dir() else []
        yield from inside or [place]


def check_folder(folder: Path, *, overwrite: bool) -> Stand:
    """Refuse a folder that holds anything but a run to go on with, unless it may be overwritten. Changes nothing."""
    stand = stand_of(folder)
    if overwrite:
        return stand
    if stand is Stand.FINISHED_RUN:
        raise BadData(f"{folder} holds a finished run; choose another folder, or begin anew with --overwrite")
    if stand is Stand.SOMETHING_ELSE:
        raise BadData(f"{folder} is not empty; choose another folder, or pass --overwrite")
    return stand


def prepare_folder(folder: Path, *, overwrite: bool) -> Stand:
    """Make the folder of a new run, or go on with the one that is there. `overwrite` begins anew."""
    stand = check_folder(folder, overwrite=overwrite)
    work = folder / WORK
    try:
        if overwrite:
            for name in (FILE, *(kind.file for kind in Kind)):
                (folder / name).unlink(missing_ok=True)
            _clear(work)
        work.mkdir(parents=True, exist_ok=True)
        (work / _MARK).write_text(json.dumps({"pastalang": __version__}) + "\n", encoding="utf-8")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UnreadableData(f"{folder} cannot be made: {reason}") from problem
    return Stand.NOTHING if overwrite else stand


def write_options(folder: Path, options: Mapping[str, Any], identity: Mapping[str, str]) -> None:
    """`run.toml`: the options of the command, to repeat the run with `--config`, and what it was started with."""
    lines = ["# pasta train --config run.toml --out FOLDER repeats this run.", f"pastalang = {_toml(__version__)}", ""]
    lines += [f"{name} = {_toml(value)}" for name, value in options.items() if value is not None]
    lines += ["", "[identity]", *(f"{_toml(name)} = {_toml(value)}" for name, value in identity.items())]
    (folder / "run.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _clear(work: Path) -> None:
    """Forget all of a run but the rows that it has recorded."""
    for place in work.iterdir() if work.is_dir() else ():
        if place.is_dir() and place.name != ROWS:
            shutil.rmtree(place, ignore_errors=True)
        elif not place.is_dir():
            place.unlink(missing_ok=True)
