"""Training rows from a teacher's own answers: a model that decodes one value after another, or any function.

    rows ── inputs ── teacher ── does the answer fit, is it whole, is it sure? ── kept, or dropped with the reason

Rows are committed in chunks, as those of `pasta extract` are, so a run that is cut off goes on where it was.
"""

from __future__ import annotations

import json
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from pastalang.bulk.documents import Document
from pastalang.bulk.outputs import sync, write_text
from pastalang.bulk.run import ChunkWriter, Counts, Ledger, until
from pastalang.failures import PastaError
from pastalang.plan.plan import Plan
from pastalang.plan.serialise import fingerprint
from pastalang.runtime.call import IN_FLIGHT
from pastalang.runtime.result import Extraction
from pastalang.training.answer import answer_of
from pastalang.training.data import CATEGORY, THOUGHT, VALUE, Asked, Parts, read_asked
from pastalang.training.errors import BadRow, Interrupted
from pastalang.training.row_files import RowFile, exact_json, fingerprint_of
from pastalang.values.json import JsonValue, write_json
from pastalang.version import __version__

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine

Status: TypeAlias = Literal["kept", "unsure", "truncated", "invalid", "too_long", "error"]

CHUNK: Final = 64  # rows
_DROPPED: Final = "dropped.jsonl"  # in the folder of the run
_DIGITS: Final = 4  # of a confidence: the last ones of a float depend on what else was in the step


@dataclass(frozen=True, slots=True)
class Label:
    """An answer of a teacher. `confidence` is that of its least certain field; None if the teacher has none."""

    value: Any
    confidence: float | None = None
    thought: Any = None  # what was thought before it, in a template that lets the model think


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question: a label, or why there is none that could be used."""

    label: Label | None
    status: Status = "kept"
    problem: str | None = None
    tokens: tuple[int, int] = (0, 0)  # read, written
    passes: int = 0


@dataclass(frozen=True, slots=True)
class Labelled:
    """A row with the answer of its teacher. `problem` says why it is dropped."""

    asked: Asked
    answer: Answer

    @property
    def is_kept(self) -> bool:
        return self.answer.status == "kept"

    @property
    def row(self) -> dict[str, JsonValue]:
        """The row as training reads it; of one that is dropped, with what there is of its value."""
        label = self.answer.label
        found: dict[str, JsonValue] = {name: exact_json(value) for name, value in self.asked.inputs.items()}
        if label is not None:
            found[VALUE] = label.value
        if label is not None and label.thought is not None:
            found[THOUGHT] = label.thought
        return found if not self.asked.category else {**found, CATEGORY: self.asked.category}


class Teacher(Protocol):
    """Answers questions in their order. What goes wrong with one of them is its answer."""

    def answers(self, asked: Iterator[Asked]) -> Iterator[Answer]: ...


@dataclass(frozen=True, slots=True)
class ModelTeacher:
    """A model. The mode of `plan` says how it decodes; `options` are those of `Engine.run`."""

    engine: Engine
    plan: Plan
    options: Mapping[str, Any] = field(default_factory=dict)
    in_flight: int = IN_FLIGHT

    def answers(self, asked: Iterator[Asked]) -> Iterator[Answer]:
        options = {**self.options, "in_flight": self.in_flight, "return_errors": True, "on_truncated": "keep"}
        outcomes = self.engine.map(self.plan, (one.inputs for one in asked), **options)
        return (self._answer(Extraction.of(outcome)) for outcome in outcomes)

    def _answer(self, found: Extraction[Any]) -> Answer:
        status: Status = "kept" if found.status == "ok" else found.status
        if found.run is None:
            return Answer(None, status, found.problem)
        run = found.run
        thought = list(run.thinking) if run.is_stacked else run.thinking[0]
        label = Label(run.exact, round(found.confidence, _DIGITS), thought)
        tokens = (run.usage.input_tokens, run.usage.output_tokens)
        return Answer(label, status, found.problem, tokens, run.usage.forward_passes)


@dataclass(frozen=True, slots=True)
class FunctionTeacher:
    """Any function from the inputs of a row to its value or its `Label`. `in_flight` calls run in threads."""

    function: Callable[[dict[str, Any]], object]
    in_flight: int = 1

    def answers(self, asked: Iterator[Asked]) -> Iterator[Answer]:
        with ThreadPoolExecutor(self.in_flight) as pool:
            waiting: deque[Future[Answer]] = deque()
            for one in asked:
                waiting.append(pool.submit(self._answer, one))
                if len(waiting) >= self.in_flight:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _answer(self, asked: Asked) -> Answer:
        try:
            found = self.function(dict(asked.inputs))
            label = found if isinstance(found, Label) else Label(found)
            return Answer(Label(_exact(label.value), label.confidence, label.thought))
        except BadRow as problem:
            return Answer(None, "invalid", problem.reason)
        except Exception as problem:  # whatever a function of the user raises
            return Answer(None, "error", f"the teacher raised {type(problem).__name__}: {problem}")


def _exact(value: object) -> JsonValue:
    """A Pydantic model is its JSON."""
    return exact_json(value.model_dump(mode="json") if hasattr(value, "model_dump") else value)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────


def label_rows(
    rows: Iterable[Mapping[str, Any]], plan: Plan, teacher: Teacher, *, min_confidence: float = 0.0
) -> Iterator[Labelled]:
    """Rows of Python with the answers of a teacher, in order. `Labelled.row` is a row to train on.

    A row holds the inputs by name; a `value` in it is not looked at.
    """
    parts = Parts(plan)
    asked = (parts.asked_or_bad(f"row {number}", row) for number, row in enumerate(rows))
    return labelled(asked, plan, teacher, min_confidence)


def labelled(asked: Iterable[Asked | BadRow], plan: Plan, teacher: Teacher, least: float) -> Iterator[Labelled]:
    """Questions with the answers of a teacher, in order. `least` is the confidence of an answer that is kept."""
    waiting: deque[Asked | BadRow] = deque()

    def good() -> Iterator[Asked]:
        for one in asked:
            waiting.append(one)
            if isinstance(one, Asked):
                yield one

    for answer in teacher.answers(good()):
        while isinstance(one := waiting.popleft(), BadRow):
            yield _unread(one)
        yield Labelled(one, _judged(one, answer, plan, least))
    yield from (_unread(one) for one in waiting if isinstance(one, BadRow))


def _unread(problem: BadRow) -> Labelled:
    return Labelled(Asked(problem.origin, {}, {}), Answer(None, "error", problem.reason))


def _judged(asked: Asked, answer: Answer, plan: Plan, least: float) -> Answer:
    """The answer, dropped if training would refuse it or if its teacher is not sure of it."""
    label = answer.label
    if label is None or answer.status != "kept":
        return answer
    try:
        answer_of(plan, label.value, asked.bound, thought=label.thought)
    except BadRow as problem:
        return replace(answer, status="invalid", problem=problem.reason)
    if label.confidence is not None and label.confidence < least:
        return replace(answer, status="unsure", problem=f"its confidence is {label.confidence:.4g}, below {least:g}")
    return answer


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LabelJob:
    """`plan` has the types of the answers. The teacher is made when it is known that there is something to ask.

    `teacher_name` is made of all that its answers depend on.
    """

    plan: Plan
    rows: RowFile
    out: Path
    teacher_name: str
    teacher: Callable[[], Teacher]
    min_confidence: float = 0.0
    limit: int | None = None
    chunk: int = CHUNK

    @property
    def identity(self) -> dict[str, str]:
        """Everything that the rows depend on."""
        return {
            "program": fingerprint(self.plan).program,
            "teacher": self.teacher_name,
            "rows": fingerprint_of(self.rows),
            "min-confidence": f"{self.min_confidence:g}",
            "limit": "none" if self.limit is None else str(self.limit),
            "version": __version__,
        }

    @property
    def dropped(self) -> Path:
        """Where the rows are that are not kept, with the reasons."""
        return self.out.with_name(f"{self.out.name}.run") / _DROPPED


@dataclass
class LabelTotals(Counts):
    of: int = 0
    left_out: tuple[str, ...] = ()  # columns that are not used

    @property
    def kept(self) -> int:
        return self.statuses["kept"]

    def add(self, row: Labelled) -> None:
        self.count(row.answer.status, *row.answer.tokens, row.answer.passes)


def label_file(
    job: LabelJob, *, resume: bool = False, overwrite: bool = False,
    report: Callable[[LabelTotals], None] = lambda _: None, is_stopped: Callable[[], bool] = bool,
) -> LabelTotals:  # fmt: skip
    """Write the rows that are kept to `job.out`, and the others to `dropped.jsonl` in the folder `OUT.run`.

    Raises `BadData` for the rows, `RunRefused` for the output, `OSError` if it cannot be written, and `Interrupted`.
    """
    asked, left_out = read_asked(job.rows, job.plan)
    asked = asked[: job.limit]
    totals = LabelTotals(of=len(asked), left_out=left_out)
    with Ledger(job.out, job.identity, _TrainingRows()) as ledger:
        is_new = not ledger.folder.exists()
        ledger.open(resume=resume, overwrite=overwrite)
        totals.resume(ledger.chunks)
        if not ledger.is_complete:
            ledger.skip(map(_document, asked))
            try:
                _label(job, asked[totals.rows :], ledger, totals, report, is_stopped)
            except PastaError:
                if is_new and not ledger.rows:  # a teacher that was refused
                    shutil.rmtree(ledger.folder, ignore_errors=True)
                raise
            ledger.finish()
    return totals


def _label(
    job: LabelJob, asked: Sequence[Asked | BadRow], ledger: Ledger, totals: LabelTotals,
    report: Callable[[LabelTotals], None], is_stopped: Callable[[], bool],
) -> None:  # fmt: skip
    if not asked:
        return
    found = labelled(until(asked, is_stopped), job.plan, job.teacher(), job.min_confidence)
    report(totals)
    writer = ChunkWriter(ledger, totals, report, job.chunk, _part)
    for one, row in zip(asked, found, strict=False):
        writer.add(_document(one), row)
    writer.commit()
    if totals.rows < totals.of:
        raise Interrupted(f"stopped after {totals.rows:,} of {totals.of:,} rows")


def _document(one: Asked | BadRow) -> Document:
    """What the ledger compares when a run goes on."""
    if isinstance(one, BadRow):
        return Document({}, origin=one.origin, error=one)
    return Document({**one.inputs, CATEGORY: one.category}, origin=one.origin)


def _part(one: Labelled) -> dict[str, Any]:
    """A row in the folder of a run."""
    answer = one.answer
    about = {"status": answer.status, "problem": answer.problem, "origin": one.asked.origin}
    confidence = answer.label.confidence if answer.label is not None else None
    return {**about, "confidence": confidence, "row": write_json(one.row)}


class _TrainingRows:
    """Parts hold all rows. The output has those that are kept, as training reads them."""

    def misfit(self, value: object) -> str | None:
        return None

    def write(self, path: Path, rows: Sequence[dict[str, Any]]) -> None:
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    def join(self, path: Path, parts: Iterable[Path]) -> None:
        dropped = path.with_name(_DROPPED)
        with path.open("w", encoding="utf-8", newline="\n") as kept, dropped.open("w", encoding="utf-8") as others:
            for part in parts:
                for line in part.read_text(encoding="utf-8").split("\n")[:-1]:
                    _write(json.loads(line), kept, others)
            sync(kept)


def _write(one: dict[str, Any], kept: IO[str], others: IO[str]) -> None:
    row = one.pop("row")
    if one["status"] == "kept":
        kept.write(row + "\n")
        return
    about = json.dumps({name: value for name, value in one.items() if value is not None}, ensure_ascii=False)
    others.write(f'{about[:-1]}, "row": {row}}}\n')
