"""Documents through an engine, in order, and the row of the output that becomes of each.

Every document has exactly one row, in its place. A row is the same whatever runs next to it, except for the time that
it took.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pastalang import __version__
from pastalang.bulk.documents import Document, in_utf8
from pastalang.bulk.task import Task, parts_of
from pastalang.errors import PastaError
from pastalang.plan.plan import Mode
from pastalang.plan.serialise import fingerprint
from pastalang.runtime.answer_parts import FieldResult
from pastalang.runtime.errors import TooLong
from pastalang.runtime.models.choice import revision_of
from pastalang.runtime.models.source import OWN, Adapter, DTypeName
from pastalang.runtime.quotations import SourceSpan
from pastalang.runtime.result import Extraction, Result, Status
from pastalang.values.json import JsonValue, write_json
from pastalang.values.pydantic.from_core import json_of

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine

Row: TypeAlias = dict[str, Any]  # JSON values, exact numbers among them

STATUSES: Final[tuple[Status, ...]] = ("ok", "truncated", "invalid", "too_long", "error")
FAILED: Final = frozenset({"invalid", "too_long", "error"})  # no value that can be used
_DIGITS: Final = 4  # of a confidence: the last ones of a float depend on what else was in the step


@dataclass(frozen=True, slots=True)
class Origin:
    """What made a row: a part of its `_meta`."""

    model: str
    revision: str
    program: str  # a hash of its plan
    dtype: DTypeName | None = None  # what the model computes in; None: what suits the device
    adapter: Adapter = OWN

    @staticmethod
    def of(task: Task, model: str, *, dtype: DTypeName | None = None, adapter: Adapter = OWN) -> Origin:
        found = fingerprint(task.plan(Mode.STRICT))  # neither a comment nor the mode counts
        plan = hashlib.sha256(f"{found.types} {found.policy}".encode()).hexdigest()[:12]
        return Origin(model, revision_of(model, adapter), plan, dtype, adapter)


class Feed:
    """Makes inputs of documents, and pairs the outcomes with the documents again. Both are in the same order."""

    def __init__(self, task: Task, engine: Engine) -> None:
        self.engine = engine
        self._task = task
        self._constants = task.constants(engine)
        self._waiting: deque[Document] = deque()

    def inputs_of(self, document: Document) -> Mapping[str, Any] | PastaError:
        self._waiting.append(document)
        found = self._task.inputs_of(document)
        if not isinstance(found, dict):
            return found
        longest = max((len(value) for value in found.values() if isinstance(value, str)), default=0)
        if longest > self.engine.longest_text:  # tokenizing ten megabytes would hold up all others for minutes
            return TooLong(f"its text has {longest:,} characters, more than the model has positions for")
        return {**self._constants, **found}

    def extraction(self, outcome: Result[Any] | PastaError) -> tuple[Document, Extraction[Any]]:
        document = self._waiting.popleft()
        return document, Extraction.of(outcome, id=document.id)


def extractions_of(
    engine: Engine, task: Task, documents: Iterable[Document], *, in_flight: int
) -> Iterator[tuple[Document, Extraction[Any]]]:
    """The extraction of each document, in order. An error of a document is its own; none is raised."""
    feed = Feed(task, engine)
    options = {**task.options, "in_flight": in_flight, "return_errors": True, "model": task.type}
    return map(feed.extraction, engine.map(task.runnable, map(feed.inputs_of, documents), **options))


def row_of(document: Document, found: Extraction[Any], task: Task, origin: Origin) -> Row:
    """The row of a document: its value, its status, where the value comes from, and what it cost."""
    value, misfit = _value_of(found, task)
    problem = misfit or found.problem
    usage = found.usage
    return {
        "id": document.id,
        "value": value,
        "_status": "error" if misfit else found.status,
        "_error": problem and in_utf8(_placed(document, problem)),
        "_fields": [_field(one, document, task) for one in found.fields],
        "_meta": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "passes": usage.forward_passes,
            "milliseconds": round(usage.seconds * 1000),
            "attempts": 1 + max((one.attempts - 1 for one in found.fields), default=0),
            "model": origin.model,
            "revision": origin.revision,
            "program": origin.program,
            "version": __version__,
        },
    }


def without_value(row: Row, document: Document, misfit: str) -> Row:
    """The row, with the reason why its value cannot be written in place of the value."""
    return {**row, "value": None, "_status": "error", "_error": in_utf8(_placed(document, misfit))}


def _value_of(found: Extraction[Any], task: Task) -> tuple[JsonValue, str | None]:
    """The value in JSON, after the validators of the type; and what is wrong with what they made."""
    if found.run is None or found.error is not None:
        return None, None
    if task.type is None or found.run.problems:
        return found.run.exact, None
    try:
        value = json_of(found.value)
        write_json(value).encode()  # half of a surrogate pair has no bytes
        return value, None
    except UnicodeEncodeError:
        return None, "the validators of the type made a text with half of a surrogate pair, which UTF-8 does not have"
    except Exception as problem:  # `Undefined`, or anything that a property of the user's class raises
        return None, f"the validators of the type made a value that JSON does not have: {problem}"


def _placed(document: Document, problem: str) -> str:
    """The problem with the file and the row that it is in."""
    if not document.origin or problem.startswith(document.origin):
        return problem
    return f"{document.origin}: {problem}"


def _field(one: FieldResult, document: Document, task: Task) -> dict[str, Any]:
    found: dict[str, Any] = {
        "field": one.where,
        "confidence": round(one.confidence, _DIGITS),
        "truncated": one.truncated,
        "source": None,
        "start": None,
        "end": None,
    }
    if one.source is not None:
        place = place_of(one.source, document, task.columns.get(one.source.name, ()))
        found["source"], found["start"], found["end"] = place
    return found


def place_of(source: SourceSpan, document: Document, columns: Sequence[str]) -> tuple[str, int, int]:
    """The column that a quotation stands in, and where in it: `pages[1]` in a list of texts.

    The input as the program names it, if that is not made of columns or the quotation stands in none of them alone.
    """
    start, end = source.start, source.end
    if len(columns) == 1:
        return columns[0] + source.path.removeprefix(source.name), start, end
    at = 0
    for column, line in parts_of(document.record, columns):
        begin = at + len(column) + 2
        if begin <= start and end <= at + len(line):
            return column, start - begin, end - begin
        at += len(line) + 1
    return source.path, start, end
