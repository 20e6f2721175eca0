"""The note next to trained weights: the modes, the tags and the program that they were trained for.

Weights from elsewhere have no such note. They may be run in every mode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pastalang.plan.branches import Hole, Mode, Overrun
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program.types import AutoPolicy
from pastalang.runtime.errors import LoadError, WrongMode
from pastalang.runtime.models.source import file_beside

FILE = "pastalang.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class TrainingNote:
    """`limits` are the token limits of the fields. `program` and `types` are fingerprints of `plan.fingerprint`.

    `threads` are the tags of the text that they were trained to write. Weights that do not read schemas are confused by
    one in their prompt, so `extract` shows them none. `overrun` is where text went on after branches that it joined.
    With `keys_in_words` they read `Roast type` where a program has the key `roast_type`.
    """

    modes: tuple[Mode, ...]
    template: str
    program: str
    types: str
    limits: Mapping[str, int]
    reads_schemas: bool = True
    threads: AutoPolicy | None = None
    overrun: Overrun = Overrun.CONTINUE
    keys_in_words: bool = False

    def write(self, folder: Path) -> None:
        document = {"version": VERSION, **asdict(self), "modes": [mode.value for mode in self.modes]}
        document["threads"] = None if self.threads is None else self.threads.value
        document["overrun"] = self.overrun.value
        text = json.dumps(document, indent=2, ensure_ascii=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")


def read_note(folder: str | Path) -> TrainingNote | None:
    """The note in a folder, or None if it has none. Raises `LoadError` if the note cannot be read."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        if document.get("version", VERSION) != VERSION:
            raise ValueError(f"it is of version {document['version']}; version {VERSION} can be read")
        if not document["modes"]:
            raise ValueError("it names no mode")
        return TrainingNote(
            modes=tuple(Mode(mode) for mode in document["modes"]),
            template=str(document["template"]),
            program=str(document["program"]),
            types=str(document["types"]),
            limits={str(field): int(limit) for field, limit in document["limits"].items()},
            reads_schemas=document.get("reads_schemas", True) is True,
            threads=None if (threads := document.get("threads")) is None else AutoPolicy(threads),
            keys_in_words=document.get("keys_in_words", False) is True,
            overrun=Overrun(document.get("overrun", Overrun.CONTINUE.value)),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        reason = f"its key {problem} is missing" if isinstance(problem, KeyError) else problem
        raise LoadError(f"{path}, the note of what the weights were trained for, cannot be read: {reason}") from problem


def find_note(source: str | Path) -> TrainingNote | None:
    """The note next to weights in a folder or on the hub."""
    path = file_beside(source, FILE)
    return None if path is None else read_note(path.parent)


def check_mode(weights: str | Path | TrainingNote | None, mode: Mode) -> None:
    """Raises `WrongMode` if the weights were trained for other modes: values would see text that they never saw.

    `weights` is a folder or its note. With None nothing is known of the weights, and every mode is allowed.
    """
    known = read_note(weights) if isinstance(weights, str | Path) else weights
    if known is not None and mode not in known.modes:
        named = f" in {weights}" if isinstance(weights, str | Path) else ""
        raise WrongMode(
            f"the weights{named} were trained for {', '.join(one.value for one in known.modes)}, and this run asks "
            f"for {mode.value}; choose the mode {known.modes[0].value}, or set any_mode (`--any-mode`) to try it anyway"
        )


def check_threads(known: TrainingNote | None, plan: Plan) -> None:
    """Raises `WrongMode` if the weights write the tags of another policy than `plan`, whose text would show them."""
    if known is None or known.threads is None:
        return
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Hole) and segment.auto not in (None, known.threads):
            raise WrongMode(
                f"the weights were trained to write auto({known.threads.value}), and this program asks for "
                f"auto({segment.auto.value}), which would read their tags as text; ask for "
                f"auto({known.threads.value}), or set any_mode (`--any-mode`) to try it anyway"
            )


def check_overrun(known: TrainingNote | None, plan: Plan) -> None:
    """Raises `WrongMode` if the text after branches stands where the weights have never seen it stand.

    Branches that are closed at their reserve stand as those that go on do.
    """
    if known is None:
        return
    asked, trained = plan.branches[0].overrun, known.overrun
    if (asked is Overrun.PAPER) != (trained is Overrun.PAPER):
        raise WrongMode(
            f'the weights were trained with overrun="{trained.value}", and this plan has "{asked.value}"; choose '
            f"{trained.value} (`--overrun {trained.value}`), or set any_mode (`--any-mode`) to try it anyway"
        )
