"""The folder of a run: the trained model, and in `training` the checkpoints to go on from.

The note that is written last, `pastalang.json`, says that a run is finished. Until then the same command goes on with
it, whatever the folder holds already.
"""

from __future__ import annotations

import json
import shutil
from enum import Enum, auto
from pathlib import Path
from typing import Final

from pastalang import __version__
from pastalang.runtime.models.training_note import FILE
from pastalang.training.errors import BadData, UnreadableData

WORK: Final = "training"
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
    return Stand.SOMETHING_ELSE if any(folder.iterdir()) else Stand.NOTHING


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
            (folder / FILE).unlink(missing_ok=True)
            shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True, exist_ok=True)
        (work / _MARK).write_text(json.dumps({"pastalang": __version__}) + "\n", encoding="utf-8")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UnreadableData(f"{folder} cannot be made: {reason}") from problem
    return Stand.NOTHING if overwrite else stand
