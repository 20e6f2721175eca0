"""What a training teaches, as far as the trainer has to know: which rows, which scores, and for whom the weights are.

The run folder, the loop, checkpoints and scores are the same for all methods, so a method is a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from pastalang.plan.plan import Hole, Mode, Plan
from pastalang.plan.serialise import fingerprint
from pastalang.plan.structure import walk
from pastalang.program.program import Program
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.training.data import Reading, Row, read_against
from pastalang.training.lessons import Recorder, planner
from pastalang.training.recording import TrainingRow
from pastalang.training.row_files import RowFile

RecordRow: TypeAlias = Callable[[Row], Sequence[TrainingRow]]  # every variant of a row; raises `BadRow`


class Method(Protocol):
    """Processes that record rows get a copy, so it has to be picklable."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> Mapping[str, str]:
        """What the method adds to the identity of a run."""
        ...

    def read(self, path: RowFile) -> Reading:
        """The rows of a file, checked."""
        ...

    def recorder(self, tokenizer: Any, window: int | None) -> RecordRow:
        """`window` is that of the model's sliding layers."""
        ...

    def exams(self) -> Mapping[str, Plan]:
        """The plans whose answers are scored, by name. Those of the weights' own modes come first."""
        ...

    @property
    def judged(self) -> Sequence[str]:
        """The exams whose mean says which weights are the best."""
        ...

    def note(self) -> TrainingNote:
        """What is written next to the weights."""
        ...


@dataclass(frozen=True)
class ParallelValues:
    """`hpd`: the values of a JSON answer, decoded in parallel. With several `modes`, a row is shown in each in turn."""

    program: Program
    modes: tuple[Mode, ...]
    template: str | None = None

    @property
    def name(self) -> str:
        return "hpd"

    @property
    def identity(self) -> Mapping[str, str]:
        programs = ", ".join(dict.fromkeys(fingerprint(self._plan(mode)).program for mode in self.modes))
        return {"method": self.name, "program": programs, "mode": ", ".join(mode.value for mode in self.modes)}

    def read(self, path: RowFile) -> Reading:
        return read_against(path, self._plan(self.modes[0]))

    def recorder(self, tokenizer: Any, window: int | None) -> RecordRow:
        recorder = Recorder(tokenizer, window=window)
        return lambda row: [recorder.row(row.lesson(self._plan), mode) for mode in self.modes]

    def exams(self) -> Mapping[str, Plan]:
        return {mode.value: self._plan(mode) for mode in sorted(Mode, key=lambda mode: mode not in self.modes)}

    @property
    def judged(self) -> Sequence[str]:
        return [mode.value for mode in self.modes]

    def note(self) -> TrainingNote:
        return note_of(self._plan(self.modes[0]), self.modes)

    @cached_property
    def _plan(self) -> Callable[[Mode], Plan]:
        return planner(self.program, self.template)

    def __getstate__(self) -> tuple[Program, tuple[Mode, ...], str | None]:
        return self.program, self.modes, self.template  # without the plans, which every process makes for itself

    def __setstate__(self, state: tuple[Program, tuple[Mode, ...], str | None]) -> None:
        for name, value in zip(("program", "modes", "template"), state, strict=True):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class OwnThreads:
    """`pasta`, `apar`: a text in which the model opens threads itself, as the program's `auto(...)` says."""

    program: Program
    template: str | None = None

    @property
    def name(self) -> str:
        assert self._plan.auto is not None, "the template has `auto(...)`"
        return self._plan.auto.value

    @property
    def identity(self) -> Mapping[str, str]:
        return {"method": self.name, "program": fingerprint(self._plan).program}

    def read(self, path: RowFile) -> Reading:
        return read_against(path, self._plan)

    def recorder(self, tokenizer: Any, window: int | None) -> RecordRow:
        recorder = Recorder(tokenizer, window=window)
        return lambda row: [recorder.row(row.lesson(lambda _: self._plan), Mode.STRICT)]

    def exams(self) -> Mapping[str, Plan]:
        return {self.name: self._plan}

    @property
    def judged(self) -> Sequence[str]:
        return [self.name]

    def note(self) -> TrainingNote:
        return note_of(self._plan, tuple(Mode))

    @cached_property
    def _plan(self) -> Plan:
        return planner(self.program, self.template)(Mode.STRICT)

    def __getstate__(self) -> tuple[Program, str | None]:
        return self.program, self.template

    def __setstate__(self, state: tuple[Program, str | None]) -> None:
        for name, value in zip(("program", "template"), state, strict=True):
            object.__setattr__(self, name, value)


def note_of(plan: Plan, modes: tuple[Mode, ...]) -> TrainingNote:
    holes = (segment for branch in plan.branches for _, segment in walk(branch.segments) if isinstance(segment, Hole))
    limits = {hole.field: hole.max_tokens for hole in holes if not hole.is_thread}
    name = fingerprint(plan)
    return TrainingNote(modes, plan.template, name.program, name.types, limits, threads=plan.auto)
