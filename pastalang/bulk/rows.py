"""Documents through an engine, in order, and the row of the output that becomes of each.

task            what is asked of every document: a program, the type of its values, and the texts that it reads
rows            every document has exactly one, in its place; the same whatever runs next to it, except for its time
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Final, TypeAlias

from pastalang.bulk.documents import BadDocument, Columns, Document, Id, Record, in_utf8
from pastalang.failures import InputError, PastaError
from pastalang.hosts.errors import ServerLost, Unsupported
from pastalang.hosts.opening import AnyEngine
from pastalang.plan.branches import Mode
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.plan.serialise import fingerprint
from pastalang.program.program import Input, JsonBody, Program
from pastalang.program.types import Object
from pastalang.runtime.answer_parts import FieldResult
from pastalang.runtime.call import template_of
from pastalang.runtime.errors import BadInputs, RunError, TooLong
from pastalang.runtime.long_document import LongDocument, WindowPlan
from pastalang.runtime.models.choice import revision_of
from pastalang.runtime.models.source import OWN, Adapter, DTypeName
from pastalang.runtime.question import Question, question_about
from pastalang.runtime.quotations import SourceSpan
from pastalang.runtime.result import Extraction, Result, Status, Window
from pastalang.runtime.windows import Windowing
from pastalang.values.json import JsonValue, write_json
from pastalang.values.pydantic.from_core import json_of
from pastalang.version import __version__

_TEXT: Final = "text"  # the input of the program of a type


@dataclass(frozen=True, slots=True)
class Task:
    """`columns` names, for each input of the program, the columns that it is made of.

    `type` validates the answers; None leaves them as the program types them. `constants` are inputs that are the same
    for all documents, and `options` those of `Engine.run`. `max_tokens` limits the texts whose types set no limit.
    A row with a field below `min_confidence` keeps its value and is "unsure". With `windowing`, the text of a document
    is read in windows.
    """

    program: Program
    type: Any
    inputs: tuple[Input, ...]
    columns: Mapping[str, tuple[str, ...]]
    id: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    question: Question | None = None  # for a task made from a type
    template: str | None = None
    max_tokens: int | None = None
    min_confidence: float = 0.0
    windowing: Windowing | None = None
    _plans: dict[Mode, Plan] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def read(self) -> Columns:
        """The columns that documents are read for."""
        needed = {one.name for one in self.inputs if one.default is None}
        parts = [(name, name in needed, columns) for name, columns in self.columns.items()]
        return Columns(
            tuple(column for _, is_needed, columns in parts if is_needed for column in columns),
            tuple(column for _, is_needed, columns in parts if not is_needed for column in columns),
            self.id,
        )

    @property
    def is_stacked(self) -> bool:
        return any(one.each for one in self.inputs)

    def plan(self, mode: Mode | None = None) -> Plan:
        """The plan in the mode of the task, or in another one. Raises `PlanError`."""
        mode = mode or Mode(self.mode)
        if mode not in self._plans:
            template = template_of(self.program, self.template)
            self._plans[mode] = build_plan(template, self.program, mode=mode, max_tokens=self.max_tokens)
        return self._plans[mode]

    @property
    def runnable(self) -> Program | Plan:
        """What an engine runs, the same object each time. Raises `PlanError`."""
        return self.program if self.max_tokens is None else self.plan()

    @property
    def mode(self) -> str:
        return Mode(self.options.get("mode", Mode.STRICT)).value

    @property
    def settings(self) -> dict[str, Any]:
        """The options of its runs, and what else a row depends on that is set."""
        own = {"max_tokens": self.max_tokens, "min_confidence": self.min_confidence or None}
        windows = {} if self.windowing is None else asdict(self.windowing)
        return {**self.options, **windows, **{name: value for name, value in own.items() if value is not None}}

    def windows(self, engine: AnyEngine) -> WindowPlan | None:
        """How documents are read in windows. Raises `BadInputs` for a program that does not read one text."""
        if self.windowing is None:
            return None
        texts = [one.name for one in self.inputs if one.default is None and one.is_text]
        if len(texts) != 1:
            names = ", ".join(f"`{name}`" for name in texts) or "none"
            raise BadInputs(f"windows are parts of one text, and the program has {names} that documents must give")
        return engine.windows_of(self.plan(), self.windowing, input=texts[0], type=self.type, options=self.options)

    def constants(self, engine: AnyEngine) -> Mapping[str, Any]:
        """The inputs that are the same for all documents."""
        if self.question is None:
            return {}
        return {name: value for name, value in self.question.inputs_for(engine.trained_for).items() if name != _TEXT}

    def inputs_of(self, document: Document) -> dict[str, Any] | InputError | RunError:
        """The inputs of a document by name, or why it has none."""
        if document.error is not None:
            assert isinstance(document.error, InputError | RunError)
            return document.error
        try:
            found = dict(self._bound(document.record))
        except BadDocument as problem:
            return BadDocument(f"{document.origin}: {problem}" if document.origin else str(problem))
        texts = [value for value in found.values() if isinstance(value, str)]
        if texts and not any(text.strip() for text in texts):
            return BadDocument(f"{document.origin}: the text is empty" if document.origin else "the text is empty")
        return found

    def _bound(self, record: Record) -> Iterator[tuple[str, Any]]:
        declared = {one.name: one for one in self.inputs}
        for name, columns in self.columns.items():
            one = declared[name]
            if len(columns) > 1:
                yield name, "\n".join(text for _, text in parts_of(record, columns))
            elif (value := record.get(columns[0])) is not None:
                yield name, _text(columns[0], value) if one.is_text else _value(columns[0], value)
            elif one.default is None:
                has_it = columns[0] in record
                raise BadDocument(f"`{columns[0]}` is null" if has_it else f"it has no `{columns[0]}`")


def object_of(task: Task) -> Object | None:
    """The type of the values, if they are objects."""
    body = template_of(task.program, task.template).messages[-1].body
    is_one = isinstance(body, JsonBody) and isinstance(body.type, Object) and not task.is_stacked
    return body.type if is_one else None  # type: ignore[union-attr,return-value]


def task_of_type(
    type: Any, *, text: Sequence[str] = (_TEXT,), id: str | None = None, options: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
) -> Task:  # fmt: skip
    """The task of `extract`. Several text columns are one text, a line for each, with the name of the column.

    Raises what `extract` raises for a type or an option that is wrong.
    """
    if not text:
        raise BadInputs("name at least one text column")
    question = question_about(type, {**(options or {}), "details": True})  # as for a call that returns an `Extraction`
    run = {name: value for name, value in question.options.items() if name != "details"}
    inputs = tuple(one for one in question.program.only_template.inputs if one.name == _TEXT)
    return Task(
        question.program, question.type, inputs, {_TEXT: tuple(text)}, id, run, question, max_tokens=max_tokens,
        windowing=question.windowing,
    )  # fmt: skip


def task_of_program(
    program: Program,
    *,
    text: Sequence[str] = (),
    id: str | None = None,
    template: str | None = None,
    options: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
) -> Task:
    """The task of a program: an input is the column of its name, or the one that `text` gives as `input=column`.

    A single column without an input belongs to the only input that has no default. Raises `BadInputs`.
    """
    inputs = template_of(program, template).inputs
    names = [one.name for one in inputs]
    columns = {name: (name,) for name in names}
    needed = [one.name for one in inputs if one.default is None]
    for given in text:
        name, is_named, column = given.partition("=")
        if not is_named:
            if len(needed) != 1 or len(text) != 1:
                raise BadInputs(
                    f"say which input is which column, such as `{(needed or names or ['title'])[0]}={given}`"
                )
            name, column = needed[0], given
        if name not in names:
            raise BadInputs(f"the program has no input `{name}`; it has {', '.join(f'`{one}`' for one in names)}")
        columns[name] = (column,)
    run = {**(options or {}), **({} if template is None else {"template": template})}
    return Task(program, None, inputs, columns, id, run, template=template, max_tokens=max_tokens)


def parts_of(record: Record, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The columns that a text is made of, each with its line of that text. Empty ones are left out."""
    for column in columns:
        if record.get(column) is not None and (text := _text(column, record[column])).strip():
            yield column, f"{column}: {text}"


def _text(column: str, value: object) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise BadDocument(f"`{column}` is not UTF-8 text") from None
    if not isinstance(value, str):
        shown = str(value).lower() if isinstance(value, bool) else f"{value!r:.40}"
        raise BadDocument(f"`{column}` is not a text, but {shown}")
    try:
        value.encode()
    except UnicodeEncodeError as problem:
        half = ascii(value[problem.start])[1:-1]
        raise BadDocument(f"`{column}` is not a text: {half} is half of a surrogate pair") from None
    return value


def _value(column: str, value: object) -> object:
    """An input that is not a text. In a table, which holds only texts, it is written as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise BadDocument(f"`{column}` is not JSON: {value!r:.40}") from None


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────


Row: TypeAlias = dict[str, Any]  # JSON values, exact numbers among them

STATUSES: Final[tuple[Status, ...]] = ("ok", "unsure", "truncated", "invalid", "too_long", "error")
FAILED: Final = frozenset({"invalid", "too_long", "error"})  # no value that can be used
_DIGITS: Final = 4  # of a confidence: the last ones of a float depend on what else was in the step
_NOWHERE: Final[dict[str, Any]] = {"source": None, "start": None, "end": None}


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

    def __init__(self, task: Task, engine: AnyEngine, *, in_flight: int) -> None:
        check_server(engine, task)
        self.engine = engine
        self._task = task
        self._windows = task.windows(engine)
        self._constants = task.constants(engine)
        self._waiting: deque[_Waiting] = deque()
        given = task.options if self._windows is None else self._windows.options(task.options)
        self.options: dict[str, Any] = {"model": task.type, **given, "in_flight": in_flight, "return_errors": True}

    def inputs_of(self, document: Document) -> Iterator[Mapping[str, Any] | PastaError]:
        """The inputs of a document, or of each of its windows."""
        found = self._task.inputs_of(document)
        if self._windows is not None and isinstance(found, dict):
            yield from self._parts_of(document, found, self._windows)
            return
        self._waiting.append(_Waiting(document))
        yield self._whole(found) if isinstance(found, dict) else found

    def _whole(self, found: Mapping[str, Any]) -> Mapping[str, Any] | PastaError:
        longest = max((len(value) for value in found.values() if isinstance(value, str)), default=0)
        if longest > self.engine.longest_text:  # tokenizing ten megabytes would hold up all others for minutes
            return TooLong(f"its text has {longest:,} characters, more than the model has positions for")
        return {**self._constants, **found}

    def _parts_of(
        self, document: Document, found: Mapping[str, Any], windows: WindowPlan
    ) -> Iterator[Mapping[str, Any]]:
        waiting = _Waiting(document, windows.document(found[windows.input], id=document.id), is_last=False)
        parts = waiting.long.parts() if waiting.long is not None else iter(())
        part = next(parts, None)
        while part is not None:
            inputs = {**self._constants, **found, windows.input: part}
            part = next(parts, None)
            self._waiting.append(replace(waiting, is_last=part is None))
            yield inputs

    def extraction(self, outcome: Result[Any] | PastaError) -> tuple[Document, Extraction[Any]] | None:
        """The extraction of a document; None if it has more windows."""
        waiting = self._waiting.popleft()
        if waiting.long is None:
            return waiting.document, Extraction.of(outcome, id=waiting.document.id)
        waiting.long.add(outcome)
        return (waiting.document, waiting.long.extraction()) if waiting.is_last else None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A document whose outcome is awaited, or the next one of its windows."""

    document: Document
    long: LongDocument | None = None
    is_last: bool = True


def check_server(engine: AnyEngine, task: Task) -> None:
    """Raises `Unsupported` for options of the task that a server which takes chats only would leave out."""
    if getattr(engine, "takes_chats_only", False) and (task.min_confidence or task.max_tokens is not None):
        name = "a least confidence" if task.min_confidence else "a limit in tokens"
        raise Unsupported(
            f"this server takes chats only, whose values have no confidence and no limit: {name} needs a server that "
            "takes raw prompts (vLLM, SGLang, llama.cpp) or a model in this process"
        )


def extractions_of(
    engine: AnyEngine, task: Task, documents: Iterable[Document], *, in_flight: int
) -> Iterator[tuple[Document, Extraction[Any]]]:
    """The extraction of each document, in order. An error of a document is its own; none is raised.

    Raises `Unsupported` at once for what cannot be asked for any of them.
    """
    feed = Feed(task, engine, in_flight=in_flight)
    inputs = chain.from_iterable(map(feed.inputs_of, documents))
    pairs = map(feed.extraction, engine.map(task.runnable, inputs, **feed.options))
    return (pair for pair in pairs if pair is not None)


def rows_of(
    engine: AnyEngine, task: Task, origin: Origin, documents: Iterable[Document], *, in_flight: int
) -> Iterator[tuple[Document, Row]]:
    """The row of each document, in order. Raises `ServerLost` in place of the rows from there on, which would all have
    the same error."""
    for document, found in extractions_of(engine, task, documents, in_flight=in_flight):
        if isinstance(found.error, ServerLost):
            raise found.error
        yield document, row_of(document, found, task, origin)


def row_of(document: Document, found: Extraction[Any], task: Task, origin: Origin) -> Row:
    """The row of a document: its value, its status, where the value comes from, and what it cost; and for the summary
    of the run, which is not written, what a limit has cut."""
    value, misfit = value_of(found, task)
    doubt = _doubt(found, task.min_confidence) if found.status == "ok" else None
    problem = misfit or found.problem or doubt
    usage = found.usage
    return {
        "id": document.id,
        "value": value,
        "_status": "error" if misfit else "unsure" if doubt else found.status,
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
            **({"windows": [_window(one) for one in found.windows]} if found.windows else {}),
        },
        "_truncations": [] if found.run is None else [(one.where, one.repeats) for one in found.run.truncations],
    }


def _window(one: Window) -> dict[str, Any]:
    return {"start": one.start, "end": one.end, "status": one.status, "error": one.problem and in_utf8(one.problem)}


def _doubt(found: Extraction[Any], least: float) -> str | None:
    """Which field is less certain than asked for; None if there is none."""
    field = min(found.fields, key=lambda one: one.confidence, default=None)
    if field is None or field.confidence >= least:
        return None
    return f"the confidence of `{field.where}` is {field.confidence:.{_DIGITS}f}, below {least:g}"


def text_of_id(id: Id | None) -> str | None:
    return None if id is None else str(id)


def without_value(row: Row, document: Document, misfit: str) -> Row:
    """The row, with the reason why its value cannot be written in place of the value."""
    return {**row, "value": None, "_status": "error", "_error": in_utf8(_placed(document, misfit))}


def value_of(found: Extraction[Any], task: Task) -> tuple[JsonValue, str | None]:
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
    places = [_place(place_of(span, document, task.columns.get(span.name, ()))) for span in one.sources]
    return {
        "field": one.where,
        "confidence": round(one.confidence, _DIGITS),
        "truncated": one.truncated,
        **(places[0] if places else _NOWHERE),
        **({"sources": places} if len(places) > 1 else {}),
    }


def _place(place: tuple[str, int, int]) -> dict[str, Any]:
    return dict(zip(_NOWHERE, place, strict=True))


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
