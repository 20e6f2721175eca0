"""The answer of a run: text, fields and values in reading order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from pastalang import Plan
from pastalang.plan.branches import Address, BranchId, Form, Hole, Value
from pastalang.values.fit import read, to_python
from pastalang.values.json import JsonValue, parse_json
from pastalang.values.json import Place as Span
from pastalang.values.paths import Mismatch

Loop: TypeAlias = tuple[BranchId, Address]  # a repeat or a fan-out, by its branch and its address
LoopItems: TypeAlias = Mapping[Loop, int]  # of every loop around a field or a branch, outermost first: which item


def same_items(one: LoopItems, other: LoopItems) -> bool:
    """Whether both are in the same item of every loop that they share."""
    return all(other[loop] == item for loop, item in one.items() if loop in other)


@dataclass(eq=False)
class Field:
    """The value of a hole. Forced tokens have a log-probability of 0.

    `threads` are the branches that the model began in its text. `draws` are the tokens that were drawn.
    """

    hole: Hole
    loops: LoopItems
    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    text: str = ""
    truncated: bool = False
    attempts: int = 1
    problem: str | None = None
    threads: list[Thread] = field(default_factory=list)
    draws: int = 0

    @property
    def items(self) -> tuple[int, ...]:
        return tuple(self.loops.values())

    def append(self, token: int, log_probability: float) -> None:
        self.tokens.append(token)
        self.log_probabilities.append(log_probability)


class Author(Protocol):
    """A branch as the answer sees it."""

    written: list[Written]


@dataclass(frozen=True, eq=False)
class WrittenBranch:
    """The text of another branch, which may still grow."""

    author: Author


@dataclass(frozen=True, eq=False)
class Thread:
    """A branch that the model began itself, after `at` characters of the text."""

    topic: str
    at: int
    author: Author


@dataclass(eq=False)
class WrittenLoop:
    """The items of a loop. If it is `stacked`, each item is an answer of its own."""

    name: str
    items: list[list[Written]] = field(default_factory=list)
    stacked: bool = False


@dataclass(frozen=True, eq=False)
class Thought:
    """Text that the model wrote before its answer. It is not part of the answer."""

    text: str


@dataclass(frozen=True, eq=False)
class BegunValue:
    """Here begins a value in JSON, within running text."""

    value: Value


Written: TypeAlias = "str | BegunValue | Field | WrittenBranch | WrittenLoop | Thought"
Values: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    text: str
    value: Any
    fields: tuple[Field, ...]
    thinking: str | None = None


@dataclass
class Layout:
    """An answer laid out: which field and which branch wrote which part of its text. `written` is its JSON value."""

    plan: Plan
    text: str = ""
    fields: list[tuple[Field, Span]] = field(default_factory=list)
    branches: list[tuple[Author, Span]] = field(default_factory=list)  # inner ones first
    thinking: str | None = None
    value: Any = None
    written: JsonValue = None
    mismatches: tuple[Mismatch, ...] = ()  # why the answer is no value of its type

    writers: Mapping[int, Author] = field(default_factory=dict)  # of the fields, by identity
    begun: list[tuple[str, int, Values]] = field(default_factory=list)  # a name, where it begins, and its place

    def is_part(self, name: str) -> bool:
        """Whether a name is that of a value that was begun, or of a part of it."""
        return any(name == one or name.startswith((f"{one}.", f"{one}[", f"{one}(")) for one, _, _ in self.begun)

    @property
    def answer(self) -> Answer:
        return Answer(self.text, self.value, tuple(map(self._shown, self.fields)), self.thinking)

    def _shown(self, place: tuple[Field, Span]) -> Field:
        """A field as it is in the answer: with the text of its threads, and in JSON escaped and in quotes."""
        field, span = place
        return field if field.hole.auto is None else replace(field, text=self.text[span.start : span.end])


def layouts_of(plan: Plan, root: Author) -> tuple[Layout, ...]:
    """One layout, or one for each stacked document."""
    return tuple(_layout(plan, document) for document in _documents(root))


def layout_of(plan: Plan, root: Author, document: int) -> Layout:
    """The layout of one document of a stack. Others may be half written."""
    return _layout(plan, _documents(root)[document])


def _documents(root: Author) -> list[Sequence[Written]]:
    written = root.written
    stack = next((one for one in written if isinstance(one, WrittenLoop) and one.stacked), None)
    return [written] if stack is None else [one.author.written for one in _authors(stack)]


def _authors(stack: WrittenLoop) -> Iterator[WrittenBranch]:
    for [document] in stack.items:
        assert isinstance(document, WrittenBranch)
        yield document


def _layout(plan: Plan, written: Sequence[Written]) -> Layout:
    layout = Layout(plan)
    layout.value = _read(layout, written)
    _read_values(layout)
    if plan.output is not None:
        types = dict(plan.types)
        reading = read(layout.text, plan.output, types)
        layout.mismatches = reading.mismatches
        layout.written = parse_json(layout.text)
        layout.value = to_python(plan.output, reading.value, types) if reading.fits else json.loads(layout.text)
    return layout


def _read(layout: Layout, written: Iterable[Written], named: Values | None = None) -> Values:
    """Values by the last part of their names; a loop is a list of such values."""
    named = {} if named is None else named
    for one in written:
        match one:
            case str():
                layout.text += one
            case Thought(text=text):
                layout.thinking = text
            case BegunValue(value=value):
                begun = (value.field, len(layout.text), named)
                layout.begun.append(begun)
                named[_last(value.field)] = value.type
            case Field():
                _read_field(layout, one, named)
            case WrittenBranch(author=author):
                _read_branch(layout, author, named)
            case WrittenLoop(name=name, items=items):
                inner_values = [_read(layout, inner) for inner in items]
                if not layout.is_part(name):
                    named[_last(name)] = inner_values
    return named


def _read_values(layout: Layout) -> None:
    """Every value that was begun, from the text after its beginning: the longest part that is JSON."""
    types = dict(layout.plan.types)
    for name, start, named in layout.begun:
        type, rest = named[_last(name)], layout.text[start:].lstrip()
        written = rest[: json.JSONDecoder().raw_decode(rest)[1]]
        reading = read(written, type, types)
        fits = reading.fits
        named[_last(name)] = to_python(type, reading.value, types) if fits else json.loads(written)


def _read_branch(layout: Layout, author: Author, named: Values) -> None:
    start = len(layout.text)
    _read(layout, author.written, named)
    layout.branches.append((author, Span(start, len(layout.text))))


def _read_field(layout: Layout, field: Field, named: Values) -> None:
    """A thread is read where it began. The text of a field with threads includes theirs."""
    start, before, done = len(layout.text), len(layout.fields), 0
    is_quoted = field.hole.auto is not None and field.hole.form is Form.JSON
    if layout.plan.auto is not None and not field.hole.is_thread:
        named["threads"] = [{"topic": thread.topic, "text": _text_of(thread)} for thread in field.threads]
    for thread in field.threads:
        layout.text += _spelled(field.text[done : thread.at], is_quoted)
        done = thread.at
        _read_branch(layout, thread.author, {})
    layout.text += _spelled(field.text[done:], is_quoted)
    value = whole_text(field) if field.hole.auto is not None else _value(layout.plan, field)
    quotes = is_quoted and not field.hole.is_thread  # they are known text around it
    span = Span(start - quotes, len(layout.text) + quotes)
    layout.fields.insert(before, (field, span))
    if not layout.is_part(field.hole.field):
        named[_last(field.hole.field)] = value


def whole_text(field: Field) -> str:
    """The text of a field with those of its threads where their tags stood."""
    text, left = "", field.text
    for thread in reversed(field.threads):
        text, left = _text_of(thread) + left[thread.at :] + text, left[: thread.at]
    return left + text


def _text_of(thread: Thread) -> str:
    return "".join(one.text for one in thread.author.written if isinstance(one, Field))


def _spelled(text: str, is_quoted: bool) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1] if is_quoted else text


def _value(plan: Plan, field: Field) -> Any:
    """The typed value. A value that was cut and no longer fits its type is given as plain JSON or text."""
    is_json, types = field.hole.form is Form.JSON, dict(plan.types)
    reading = read(field.text, field.hole.type, types, quoted=is_json)
    if reading.fits:
        return to_python(field.hole.type, reading.value, types)
    try:
        return json.loads(field.text) if is_json else field.text
    except ValueError:
        return None


def _last(path: str) -> str:
    return path.rsplit(".", 1)[-1].removesuffix("[]")
