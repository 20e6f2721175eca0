"""What can go wrong in training: bad data, with its file and row, and runs that cannot go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Final

from pastalang.failures import FileError, PastaError, WrongFormat

_PACKAGE: Final = Path(__file__).parents[1]
_SHOWN: Final = 20  # bad rows that a message shows


class BadRow(PastaError):
    """A row that cannot be trained on. `origin` is its file and line, if they are known."""

    def __init__(self, reason: str, *, origin: str = "") -> None:
        self.reason = reason
        self.origin = origin
        super().__init__(f"{origin}: {reason}" if origin else reason)

    def at(self, origin: str) -> BadRow:
        """The same error with this origin."""
        return BadRow(self.reason, origin=origin)


class BadRows(PastaError):
    """Rows that cannot be used, all of them. The message shows the first ones."""

    def __init__(self, problems: Sequence[BadRow], *, rows: int, advice: str = "") -> None:
        self.problems = tuple(problems)
        if len(problems) == rows == 1:
            super().__init__(str(problems[0]))
            return
        head = f"{len(problems):,} of {rows:,} rows cannot be used" + (f"; {advice}" if advice else "")
        super().__init__("\n".join([head, *listed(problems)]))


def listed(problems: Sequence[BadRow]) -> list[str]:
    """The first bad rows, a line each, and how many more there are."""
    rest = len(problems) - _SHOWN
    return [
        *("  " + str(problem).replace("\n", "\n    ") for problem in problems[:_SHOWN]),
        *([f"  and {rest:,} more"] if rest > 0 else []),
    ]


def leave_out_or_refuse(
    problems: Sequence[BadRow], *, rows: int, skip_bad: bool | None, report: Callable[[str], None]
) -> None:
    """Raises `BadRows` unless bad rows are to be skipped and others are left. With None, there is no such choice."""
    if not problems:
        return
    if not skip_bad or len(problems) == rows:
        raise BadRows(problems, rows=rows, advice="--skip-bad leaves them out" if skip_bad is False else "")
    report("\n".join([f"{len(problems):,} of {rows:,} rows are left out", *listed(problems)]))


def raised(problem: Exception) -> str:
    """What a function of the user raised, and in which of its lines: the first that is not of this package."""
    inside = [one for one in extract_tb(problem.__traceback__) if _PACKAGE not in Path(one.filename).parents]
    where = f" ({Path(inside[0].filename).name}, line {inside[0].lineno})" if inside else ""
    return f"{type(problem).__name__}: {problem}{where}"


class BadData(PastaError):
    """A whole file, folder or setting that cannot be used."""


class UnreadableData(BadData, FileError):
    """A file that cannot be opened, or that is not text."""


class NoRows(BadData, WrongFormat):
    """A file of a kind in which rows are not read."""


class CheckpointError(PastaError):
    """A checkpoint that belongs to another run, or that cannot be read."""


class UnwritableCheckpoint(CheckpointError, FileError):
    """A checkpoint that the disk did not take. Those before it are kept."""


class Interrupted(PastaError):
    """Somebody stopped the run. It saved a checkpoint before it ended, and can go on."""


class LostProcess(PastaError):
    """Another process of the same run has ended. It says why itself."""


class TrainingStopped(PastaError):
    """The loss is not a number any more. The last good checkpoint is kept."""
