"""What weights were trained for: a folder comes in, the modes and the program of its training go out.

Weights without such a note are as they came from elsewhere, and every mode may be tried with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pastalang.plan.plan import Mode
from pastalang.runtime.errors import LoadError

FILE = "pastalang.json"


@dataclass(frozen=True, slots=True)
class TrainedFor:
    """`limits` are the tokens that each field could take; the fingerprints are those of `plan.fingerprint`."""

    modes: tuple[Mode, ...]
    template: str
    program: str
    types: str
    limits: Mapping[str, int]

    def write(self, folder: Path) -> None:
        document = {"version": 1, **asdict(self), "modes": [mode.value for mode in self.modes]}
        text = json.dumps(document, indent=2, ensure_ascii=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")


def trained_for(folder: str | Path) -> TrainedFor | None:
    """None where nothing is noted. Raises `LoadError` where the note cannot be read."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return TrainedFor(
            modes=tuple(Mode(mode) for mode in document["modes"]),
            template=str(document["template"]),
            program=str(document["program"]),
            types=str(document["types"]),
            limits={str(field): int(limit) for field, limit in document["limits"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise LoadError(f"{path} says what the weights were trained for, and cannot be read: {problem}") from problem


def check_mode(folder: str | Path, mode: Mode) -> None:
    """Raises `LoadError` where the weights were trained for other modes: values would see what they never saw."""
    known = trained_for(folder)
    if known is not None and mode not in known.modes:
        modes = ", ".join(one.value for one in known.modes)
        raise LoadError(
            f"the weights in {folder} were trained for {modes}, and this run asks for {mode.value}; "
            f"choose --mode {known.modes[0].value}, or train for {mode.value}"
        )
