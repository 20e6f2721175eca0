"""The answer of a finished run: its text in reading order and its typed value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pastalang.plan.branches import Form, Value
from pastalang.plan.plan import Plan
from pastalang.runtime.answer_parts import FieldResult, Stretch, Truncation
from pastalang.runtime.doubtful import goes_round, repeats_where_cut
from pastalang.runtime.errors import NotTheType
from pastalang.runtime.quotations import SourceSpan, last_name, spans_of, texts_of
from pastalang.runtime.result import Answer
from pastalang.runtime.scheduler.scope import sources_of
from pastalang.runtime.scheduler.transcript import (
    Author,
    AuthorsRun,
    Details,
    Field,
    Written,
    WrittenBranch,
    WrittenField,
    WrittenLoop,
    WrittenText,
    WrittenValue,
)
from pastalang.values.absent import Cut, absent_in, moved, without_cuts
from pastalang.values.describe import counted
from pastalang.values.fit import find_mismatches, read, to_plain, to_python, without_absent
from pastalang.values.json import JsonValue, NotJson, Place, json_at, parse_json, spell_json
from pastalang.values.paths import WHOLE, Mismatch, is_inside, path_text, place_of


@dataclass(frozen=True, slots=True)
class Layout:
    """An answer with the places of its parts: which field and which branch wrote which part of its text.

    `written` is a JSON answer with its numbers as they are written: 25.0 is a decimal, also for an integer type.
    """

    answer: Answer
    written: JsonValue
    fields: tuple[tuple[Author, Field, Place], ...]
    branches: tuple[tuple[Author, Place], ...]
    mismatches: tuple[Mismatch, ...] = ()  # why the answer is no value of its type


def answers_of(
    request: AuthorsRun, layouts: Sequence[Layout] | None = None, *, may_be_wrong: bool = False
) -> tuple[tuple[Answer, ...], bool]:
    """The answers, and whether documents were stacked. Raises `NotTheType`, unless answers may be wrong. `layouts` are
    those of the answers, if they are known."""
    documents, is_stacked = documents_of(request)
    layouts = [layout_of(document) for document in documents] if layouts is None else layouts
    wrong = [mismatch for layout in layouts for mismatch in layout.mismatches]
    if wrong and not may_be_wrong:
        raise NotTheType(
            f"the answer does not fit its type: {wrong[0].reason}",
            plan=request.plan,
            field=path_text("[]" if isinstance(step, int) else step for step in wrong[0].path) or WHOLE,
            items=tuple(step for step in wrong[0].path if isinstance(step, int)),
        )
    return tuple(layout.answer for layout in layouts), is_stacked


def documents_of(request: AuthorsRun) -> tuple[tuple[Author, ...], bool]:
    """The branch that each answer began with, and whether they are stacked documents."""
    written = request.root.written
    stack = next((one for one in written if isinstance(one, WrittenLoop) and one.stacked), None)
    if stack is None:
        return (request.root,), False
    return tuple(one.branch for [one] in stack.items if isinstance(one, WrittenBranch)), True


def layout_of(document: Author) -> Layout:
    """The answer that began with this branch, as it is now."""
    request = document.request
    page = LayoutBuilder(request, document)
    page.write(document.written, document, page.values)
    text = page.text
    page.read_values(text)
    value, exact = _split(page.values)
    mismatches: tuple[Mismatch, ...] = ()
    if (output := request.plan.output) is not None:
        types = dict(request.plan.types)
        reading = read(text, output, types, sources=sources_of(document, document.items))
        mismatches, exact = reading.mismatches, reading.value if reading.fits else _as_json(text)
        value = to_python(output, exact, types) if reading.fits else to_plain(exact)
    answer = Answer(
        value, text, tuple(page.fields), tuple(page.stretches), page.thinking, exact, page.sources,
        tuple(page.truncations),
    )  # fmt: skip
    written = None if output is None else _as_json(text)
    if output is not None and not mismatches:
        written = without_absent(output, written, types)
    return Layout(answer, written, tuple(page.written_fields), tuple(page.written_branches), mismatches)


def as_callers_see_it(answer: Answer, plan: Plan, *, is_whole: bool = True) -> Answer:
    """The answer, or the beginning of one, without the keys that are left out. A field that is one has the text null,
    and stands nowhere."""
    types = dict(plan.types)
    cuts = [] if plan.output is None else absent_in(answer.text, plan.output, types, is_whole=is_whole)
    if not cuts:
        return answer
    assert plan.output is not None
    stretches, at = [], 0
    for one in answer.stretches:
        if left := without_cuts(one.text, cuts, at):
            stretches.append(replace(one, text=left))
        at += len(one.text)
    text = without_cuts(answer.text, cuts)
    fields = tuple(_moved(field, text, cuts) for field in answer.fields)
    exact = without_absent(plan.output, answer.exact, types)
    return replace(answer, text=text, fields=fields, stretches=tuple(stretches), exact=exact)


def _moved(field: FieldResult, text: str, cuts: list[Cut]) -> FieldResult:
    start, end = (moved(place, cuts) for place in field.span)
    is_left_out = start == end
    return replace(field, span=(start, end), text=field.text if is_left_out else text[start:end])


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of a field in Python and in JSON."""

    value: Any
    exact: JsonValue


def _split(values: Any) -> tuple[Any, JsonValue]:
    """Split a tree of values into one of Python values and one of JSON values."""
    match values:
        case _Value(value=value, exact=exact):
            return value, exact
        case dict():
            parts = {key: _split(part) for key, part in values.items()}
            return {key: value for key, (value, _) in parts.items()}, {key: exact for key, (_, exact) in parts.items()}
        case list():
            pairs = [_split(part) for part in values]
            return [value for value, _ in pairs], [exact for _, exact in pairs]
        case _:
            return values, values


@dataclass(frozen=True, slots=True)
class _BegunValue:
    """A value that begins at `start`, and where it belongs."""

    value: Value
    items: tuple[int, ...]
    branch: Author
    into: dict[str, Any]
    start: int


class LayoutBuilder:
    """Lays out one answer."""

    def __init__(self, request: AuthorsRun, document: Author) -> None:
        self.stretches: list[Stretch] = []
        self.fields: list[FieldResult] = []
        self.values: dict[str, Any] = {}
        self.thinking: str | None = None
        self.sources: dict[str, str] = {}
        self.truncations: list[Truncation] = []
        self.written_fields: list[tuple[Author, Field, Place]] = []
        self.written_branches: list[tuple[Author, Place]] = []
        self._request = request
        self._document = document
        self._begun: list[_BegunValue] = []
        self._length = 0
        self._types = dict(request.plan.types)

    @property
    def text(self) -> str:
        return "".join(stretch.text for stretch in self.stretches)

    def write(self, written: Iterable[Written], branch: Author, into: dict[str, Any]) -> None:
        for one in written:
            match one:
                case WrittenText(text=text, in_answer=in_answer):
                    if in_answer:
                        self._text(text, branch, is_forced=True)
                case WrittenValue(value=value, items=numbers):
                    self._begun.append(_BegunValue(value, numbers, branch, into, self._length))
                    into[last_name(value.field)] = None  # its place among the others
                case WrittenField(field=field) if field.form is Form.THOUGHT:
                    self.thinking = field.text
                case WrittenField(field=field):
                    self.write_field(field, branch, into)
                case WrittenBranch(branch=forked):
                    self.write_branch(forked, into)
                case WrittenLoop(name=name, items=items):
                    before, starts = len(self.truncations), list[int]()
                    values: list[dict[str, Any]] = []
                    if not self._is_part(name):
                        into[last_name(name)] = values
                    for item in items:
                        values.append({})
                        starts.append(len(self.stretches))
                        self.write(item, branch, values[-1])
                    self.truncations[before:before] = self._truncation_of(one, starts)

    def write_branch(self, branch: Author, into: dict[str, Any]) -> None:
        start = self._length
        self.write(branch.written, branch, into)
        self.written_branches.append((branch, Place(start, self._length)))

    def _text(self, text: str, branch: Author, *, is_forced: bool) -> None:
        if text:
            self.stretches.append(Stretch(text, branch.number, is_forced))
            self._length += len(text)

    def _truncation_of(self, loop: WrittenLoop, starts: list[int]) -> Iterator[Truncation]:
        """A list that is as long as the planner lets it be may have been longer. Its items begin at these stretches."""
        repeat = loop.repeat
        if repeat is None or not repeat.has_default_maximum or len(loop.items) < repeat.maximum:
            return
        became = repeat.sampling.on_truncated or self._request.base.on_truncated
        became = "raise" if became == "null" else became
        where = place_of(loop.name, loop.place)
        stretches = (self.stretches[first:end] for first, end in pairwise([*starts, len(self.stretches)]))
        items = ["".join(one.text for one in item).lstrip("[, \n") for item in stretches]
        yield Truncation(loop.name, where, repeat.maximum, "item", became, goes_round(items))

    def _becomes_null(self, field: Field, written: JsonValue) -> bool:
        """Notes that the field was cut. Says whether its value is null instead; a type without null is an error."""
        became = field.on_truncated
        is_nullable = field.form is Form.JSON and not find_mismatches(field.type, None, self._types)
        if became == "null" and not is_nullable:
            became = "raise"
        where = place_of(field.path, field.items)
        circles = repeats_where_cut(written)
        self.truncations.append(Truncation(field.path, where, field.decoding.limit, "token", became, circles))
        return became == "null"

    def write_field(self, field: Field, branch: Author, into: dict[str, Any]) -> None:
        start, before, first = self._length, len(self.fields), len(self.stretches)
        problem = field.problem
        is_cut = field.truncated and self._becomes_null(field, self._value(field, branch).exact)
        if field.is_auto:
            value = self._text_with_threads(field, branch, into)
        elif is_cut:
            self._text("null", branch, is_forced=False)
            value = _Value(None, None)
            problem = f"cut at its limit of {counted(field.decoding.limit, 'token')}, as {field.text}"
        else:
            self._text(field.text, branch, is_forced=False)
            value = self._value(field, branch)
        text, place = "".join(stretch.text for stretch in self.stretches[first:]), Place(start, self._length)
        if field.is_auto and field.form is Form.JSON and not field.is_thread:
            text, place = f'"{text}"', Place(start - 1, self._length + 1)  # known text has its quotes
        self.written_fields.append((branch, field, place))
        decoding, details = field.decoding, field.decoding.details
        self.fields.insert(
            before,
            FieldResult(
                field.path,
                field.items,
                text,
                value.value,
                tuple(decoding.tokens),
                tuple(decoding.log_probabilities),
                field.truncated,
                (place.start, place.end),
                self._request.decoded[field.path, field.items],
                problem,
                None if details is None else tuple(details.masked_probability),
                None if details is None else _options(details),
                self._quotations(field, branch, value.exact),
                field.draws_averaged(dict(self._request.plan.types)),
            ),
        )
        if not self._is_part(field.path):
            into[last_name(field.path)] = value

    def _is_part(self, name: str) -> bool:
        """Whether it is a part of a value that has been begun."""
        return any(is_inside(name, begun.value.field) for begun in self._begun)

    def read_values(self, text: str) -> None:
        """Read the values that several segments have written, from the whole text."""
        for begun in self._begun:
            type, sources = begun.value.type, sources_of(begun.branch, begun.items)
            written = json_at(text, begun.start)
            reading = read(written, type, self._types, sources=sources)
            exact = reading.value if reading.fits else _as_json(written)
            python = to_python(type, exact, self._types) if reading.fits else to_plain(exact)
            exact = without_absent(type, exact, self._types) if reading.fits else exact
            begun.into[last_name(begun.value.field)] = _Value(python, exact)

    def _text_with_threads(self, field: Field, branch: Author, into: dict[str, Any]) -> _Value:
        """The text of each thread replaces its tag. In JSON all of it is escaped."""
        escape = _escaped if field.form is Form.JSON else str
        threads, done = [], 0
        for thread in field.threads.begun if field.threads is not None else ():
            self._text(escape(field.text[done : thread.at]), branch, is_forced=False)
            done = thread.at
            self.write_branch(thread.branch, {})
            threads.append({"topic": thread.topic, "text": thread.text})
        self._text(escape(field.text[done:]), branch, is_forced=False)
        if self._request.plan.auto is not None and not field.is_thread:
            into["threads"] = threads
        return _Value(field.whole_text, field.whole_text)

    def _quotations(self, field: Field, branch: Author, value: JsonValue) -> tuple[SourceSpan, ...]:
        hole = self._request.tokens.quoting.get(field.path)
        if hole is None:
            return ()
        sources = texts_of(hole, self._request.values, field.items, sources_of(branch, field.items))
        self.sources |= {source.path: source.text for found in sources.values() for source in found}
        return tuple(spans_of(field.type, value, self._types, sources))

    def _value(self, field: Field, branch: Author) -> _Value:
        is_json = field.form is Form.JSON
        sources = sources_of(branch, field.items)
        reading = read(field.text, field.type, self._types, quoted=is_json, sources=sources)
        if reading.fits:
            exact = without_absent(field.type, reading.value, self._types)
            return _Value(to_python(field.type, reading.value, self._types), exact)
        value = _as_json(field.text) if is_json else field.text
        return _Value(to_plain(value), value)


def _escaped(text: str) -> str:
    """The text as it stands between the quotes of a JSON string."""
    return spell_json(text)[1:-1]


def _options(details: Details) -> tuple[tuple[str, float], ...] | None:
    """The options, likeliest first; None if the type is not a closed choice."""
    options = details.weights.options()
    return tuple(sorted(options.items(), key=lambda option: (-option[1], option[0]))) or None


def _as_json(text: str) -> JsonValue:
    try:
        return parse_json(text)
    except NotJson:
        return None
