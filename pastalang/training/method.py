"""What a training teaches: which rows, which scores, and for whom the weights are; and the rows as they are recorded.

The run folder, the loop, checkpoints and scores are the same for all methods, so a method is a page.

Rows are recorded once, in several processes if there are many. A chunk that was recorded before is read from the run's
folder: its name is made of all that the recording depends on. Rows from there have no `taught`, which training does
not need.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from zipfile import BadZipFile

import numpy as np

from pastalang.plan.branches import Hole, Mode, Overrun
from pastalang.plan.plan import Plan
from pastalang.plan.serialise import fingerprint
from pastalang.plan.structure import walk
from pastalang.program.program import Program
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.training.data import Reading, Row, read_against
from pastalang.training.errors import BadRow
from pastalang.training.recording import Recorder, TrainingRow, planner
from pastalang.training.row_files import RowFile
from pastalang.values.json import JsonValue, spell_json
from pastalang.version import __version__

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

    def evaluated_plans(self) -> Mapping[str, Plan]:
        """The plans whose answers are scored, by name. Those of the weights' own modes come first."""
        ...

    @property
    def judged(self) -> Sequence[str]:
        """The evaluations whose mean says which weights are the best."""
        ...

    def note(self) -> TrainingNote:
        """What is written next to the weights."""
        ...


@dataclass(frozen=True)
class _Sent:
    """Processes get the fields, and make for themselves what is made of them."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class ParallelValues(_Sent):
    """`hpd`: the values of a JSON answer, decoded in parallel. With several `modes`, a row is shown in each in turn."""

    program: Program
    modes: tuple[Mode, ...]
    template: str | None = None
    overrun: Overrun = Overrun.CONTINUE

    @property
    def name(self) -> str:
        return "hpd"

    @property
    def identity(self) -> Mapping[str, str]:
        programs = ", ".join(dict.fromkeys(fingerprint(self._plan(mode)).program for mode in self.modes))
        modes = ", ".join(mode.value for mode in self.modes)
        return {"method": self.name, "program": programs, "mode": modes, "overrun": self.overrun.value}

    def read(self, path: RowFile) -> Reading:
        return read_against(path, self._plan(self.modes[0]))

    def recorder(self, tokenizer: Any, window: int | None) -> RecordRow:
        recorder = Recorder(tokenizer, window=window)
        return lambda row: [recorder.row(row.lesson(self._plan), mode) for mode in self.modes]

    def evaluated_plans(self) -> Mapping[str, Plan]:
        return {mode.value: self._plan(mode) for mode in sorted(Mode, key=lambda mode: mode not in self.modes)}

    @property
    def judged(self) -> Sequence[str]:
        return [mode.value for mode in self.modes]

    def note(self) -> TrainingNote:
        return note_of(self._plan(self.modes[0]), self.modes)

    @cached_property
    def _plan(self) -> Callable[[Mode], Plan]:
        return planner(self.program, self.template, self.overrun)


@dataclass(frozen=True)
class OwnThreads(_Sent):
    """`pasta`, `apar`: a text in which the model opens threads itself, as the program's `auto(...)` says."""

    program: Program
    template: str | None = None
    overrun: Overrun = Overrun.CONTINUE

    @property
    def name(self) -> str:
        assert self._plan.auto is not None, "the template has `auto(...)`"
        return self._plan.auto.value

    @property
    def identity(self) -> Mapping[str, str]:
        return {"method": self.name, "program": fingerprint(self._plan).program, "overrun": self.overrun.value}

    def read(self, path: RowFile) -> Reading:
        return read_against(path, self._plan)

    def recorder(self, tokenizer: Any, window: int | None) -> RecordRow:
        recorder = Recorder(tokenizer, window=window)
        return lambda row: [recorder.row(row.lesson(lambda _: self._plan), Mode.STRICT)]

    def evaluated_plans(self) -> Mapping[str, Plan]:
        return {self.name: self._plan}

    @property
    def judged(self) -> Sequence[str]:
        return [self.name]

    def note(self) -> TrainingNote:
        return note_of(self._plan, tuple(Mode))

    @cached_property
    def _plan(self) -> Plan:
        return planner(self.program, self.template, self.overrun)(Mode.STRICT)


def note_of(plan: Plan, modes: tuple[Mode, ...]) -> TrainingNote:
    holes = (segment for branch in plan.branches for _, segment in walk(branch.segments) if isinstance(segment, Hole))
    limits = {hole.field: hole.max_tokens for hole in holes if not hole.is_thread}
    name = fingerprint(plan)
    overrun = plan.branches[0].overrun
    return TrainingNote(modes, plan.template, name.program, name.types, limits, threads=plan.auto, overrun=overrun)


# ── recorded rows ────────────────────────────────────────────────────────────────────────────────────────────


Variants: TypeAlias = Sequence[TrainingRow]  # the recordings of one row
OnDone: TypeAlias = Callable[[int], None]  # is called with the number of rows that are done

CHUNK: Final = 64  # rows
_FORMAT: Final = 1  # of a chunk on disk, and of what is recorded
_WORTH_PROCESSES: Final = 1_000  # rows; a process takes seconds to start


@dataclass(frozen=True)
class Recording(_Sent):
    """How rows are recorded."""

    method: Method
    tokenizer: Any
    window: int | None

    @cached_property
    def record(self) -> RecordRow:
        return self.method.recorder(self.tokenizer, self.window)

    @cached_property
    def name(self) -> str:
        """Of all that a recording depends on besides its row."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        spelling = backend.to_str() if backend is not None else json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        parts = [__version__, _FORMAT, self.window, dict(self.method.identity), self.tokenizer.chat_template, spelling]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def chunk(self, rows: Sequence[Row]) -> list[Variants | BadRow]:
        return [self._variants(row) for row in rows]

    def _variants(self, row: Row) -> Variants | BadRow:
        try:
            return self.record(row)
        except BadRow as problem:
            return problem


def record_rows(
    rows: Sequence[Row], recording: Recording, *, cache: Path | None = None, workers: int = 0,
    on_done: OnDone = lambda _: None,
) -> list[Variants | BadRow]:  # fmt: skip
    """Every row's recordings, or why it has none. `workers`: processes; 0 chooses by the number of rows."""
    chunks = [rows[first : first + CHUNK] for first in range(0, len(rows), CHUNK)]
    files = [None if cache is None else cache / f"{_key(chunk, recording)}.npz" for chunk in chunks]
    found = [None if file is None else _read(file, chunk) for file, chunk in zip(files, chunks, strict=True)]
    missing = [number for number, known in enumerate(found) if known is None]
    done = sum(len(chunks[number]) for number, known in enumerate(found) if known is not None)
    on_done(done)
    fresh = _recorded([chunks[number] for number in missing], recording, workers)
    for number, recorded in zip(missing, fresh, strict=True):
        found[number] = recorded
        _write(files[number], recorded)
        done += len(recorded)
        on_done(done)
    return [one for known in found for one in known or ()]


def _recorded(chunks: Sequence[Sequence[Row]], recording: Recording, workers: int) -> Iterator[list[Variants | BadRow]]:
    count = min(workers or _workers_for(sum(map(len, chunks))), len(chunks))
    if count <= 1:
        yield from map(recording.chunk, chunks)
        return
    context = get_context("spawn")  # a forked process would inherit the threads of torch
    with ProcessPoolExecutor(count, mp_context=context, initializer=_start, initargs=(recording,)) as pool:
        try:
            yield from pool.map(_chunk, chunks)
        finally:
            pool.shutdown(cancel_futures=True)


def _workers_for(rows: int) -> int:
    return min(8, os.cpu_count() or 1) if rows >= _WORTH_PROCESSES else 1


_here: list[Recording] = []  # of a process that records


def _start(recording: Recording) -> None:
    import torch

    torch.set_num_threads(1)
    _here[:] = [recording]


def _chunk(rows: Sequence[Row]) -> list[Variants | BadRow]:
    return _here[0].chunk(rows)


# ── on disk ──────────────────────────────────────────────────────────────────────────────────────────────


def _key(chunk: Sequence[Row], recording: Recording) -> str:
    found = hashlib.sha256(recording.name.encode())
    for row in chunk:
        inputs: dict[str, JsonValue] = {"inputs": json.dumps(dict(row.inputs), default=repr), "thought": row.thought}
        found.update(spell_json(inputs | {"value": row.value}).encode() + b"\n")
    return found.hexdigest()[:32]


def _write(file: Path | None, recorded: Sequence[Variants | BadRow]) -> None:
    if file is None:
        return
    good = [row for one in recorded if not isinstance(one, BadRow) for row in one]
    lines = [
        {"bad": one.reason} if isinstance(one, BadRow) else {"rows": [_about(row) for row in one]} for one in recorded
    ]
    arrays = {name: _joined([getattr(row, name).reshape(-1) for row in good]) for name in _NUMBERS}
    arrays["sees"] = _joined([row.sees.reshape(-1) for row in good])
    arrays["near"] = _joined([row.sees_near.reshape(-1) for row in good if row.sees_near is not None])
    partial = file.with_suffix(".partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as stream:
            np.savez_compressed(
                stream, allow_pickle=False, lines=np.frombuffer(json.dumps(lines).encode(), np.uint8), **arrays
            )
        partial.replace(file)
    except OSError:  # without the cache, rows are recorded again
        partial.unlink(missing_ok=True)


_NUMBERS: Final = ("tokens", "positions", "labels")


def _about(row: TrainingRow) -> list[Any]:
    return [len(row), row.mode.value, row.passes, row.sees_near is not None]


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)


def _read(file: Path, chunk: Sequence[Row]) -> list[Variants | BadRow] | None:
    """The recordings in a file, None if it does not exist or cannot be read."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in ("lines", *_NUMBERS, "sees", "near")}
        lines = json.loads(arrays.pop("lines").tobytes())
        return _rebuilt(lines, chunk, arrays)
    except (OSError, ValueError, KeyError, IndexError, TypeError, BadZipFile):
        return None


def _rebuilt(lines: Sequence[Any], chunk: Sequence[Row], arrays: dict[str, Any]) -> list[Variants | BadRow]:
    places = dict.fromkeys(arrays, 0)

    def take(name: str, count: int) -> Any:
        places[name] += count
        part = arrays[name][places[name] - count : places[name]]
        if len(part) != count:
            raise ValueError(f"{name} is too short")
        return part

    def row_of(about: Sequence[Any], origin: str) -> TrainingRow:
        length, mode, passes, is_windowed = about
        bits = -(-length // 8)
        tokens, positions, labels = (take(name, length) for name in _NUMBERS)
        sees = take("sees", length * bits).reshape(length, bits)
        near = take("near", length * bits).reshape(length, bits) if is_windowed else None
        return TrainingRow(tokens, positions, labels, sees, (), Mode(mode), passes, origin, near)

    found: list[Variants | BadRow] = []
    for line, row in zip(lines, chunk, strict=True):
        bad = line.get("bad")
        found.append(BadRow(bad, origin=row.origin) if bad else [row_of(about, row.origin) for about in line["rows"]])
    return found
