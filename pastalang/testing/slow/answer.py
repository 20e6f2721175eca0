"""The answer: text, fields and values in reading order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from pastalang.plan.plan import Address, BranchId, Form, Hole, Plan
from pastalang.values.json import JsonValue
from pastalang.values.json import Place as Span
from pastalang.values.read import read, to_python

Loop: TypeAlias = tuple[BranchId, Address]  # a repeat or a fan-out: the branch that it stands in, and where
Place: TypeAlias = Mapping[Loop, int]  # the loops around something, outermost first, each with its item


def agree(one: Place, other: Place) -> bool:
    """The same item of every loop that both stand in."""
    return all(other[loop] == item for loop, item in one.items() if loop in other)


@dataclass(eq=False)
class Field:
    """A value. `tokens` are the drawn and the forced ones, these with a log-probability of 0. `point`: where its
    branch can be taken up to write it once more. `threads`: those that were begun in its text."""

    hole: Hole
    place: Place
    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    text: str = ""
    truncated: bool = False
    attempts: int = 1
    problem: str | None = None
    point: Any = None
    threads: list[Thread] = field(default_factory=list)

    @property
    def items(self) -> tuple[int, ...]:
        return tuple(self.place.values())

    def note(self, token: int, log_probability: float) -> None:
        self.tokens.append(token)
        self.log_probabilities.append(log_probability)


class Author(Protocol):
    """Who writes a page; `latest` is who stands for it in the answer, mostly itself."""

    page: list[Entry]

    @property
    def latest(self) -> Author: ...


@dataclass(frozen=True, eq=False)
class Of:
    """The text of another branch stands here; its page grows while it is written."""

    author: Author


@dataclass(frozen=True, eq=False)
class Thread:
    """A branch that the model began itself, and how much of the text stands before it."""

    topic: str
    at: int
    author: Author


@dataclass(eq=False)
class Items:
    """`stacked`: each item is an answer of its own."""

    name: str
    pages: list[list[Entry]] = field(default_factory=list)
    stacked: bool = False


@dataclass(frozen=True, eq=False)
class Thought:
    """What the model wrote for itself: no part of the answer."""

    text: str


Entry: TypeAlias = "str | Field | Of | Items | Thought"
Named: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    text: str
    value: Any
    fields: tuple[Field, ...]
    thinking: str | None = None


@dataclass
class Sheet:
    """An answer as it is read: who wrote which characters of its text. `exact` is its value as the text says it."""

    plan: Plan
    text: str = ""
    fields: list[tuple[Field, Span]] = field(default_factory=list)
    branches: list[tuple[Author, Span]] = field(default_factory=list)  # inner ones first
    thinking: str | None = None
    value: Any = None
    exact: JsonValue = None

    @property
    def answer(self) -> Answer:
        return Answer(self.text, self.value, tuple(one for one, _ in self.fields), self.thinking)


def sheets_of(plan: Plan, root: Author) -> tuple[Sheet, ...]:
    """One, or one for each of stacked documents."""
    page = root.latest.page
    stack = next((entry for entry in page if isinstance(entry, Items) and entry.stacked), None)
    documents = [page] if stack is None else [one.author.latest.page for one in _authors(stack)]
    return tuple(_sheet(plan, document) for document in documents)


def _authors(stack: Items) -> Iterator[Of]:
    for [document] in stack.pages:
        assert isinstance(document, Of)
        yield document


def _sheet(plan: Plan, page: Sequence[Entry]) -> Sheet:
    sheet = Sheet(plan)
    sheet.value = _read(sheet, page)
    if plan.output is not None:
        types = dict(plan.types)
        reading = read(sheet.text, plan.output, types)
        assert reading.fits, reading.mismatches
        sheet.exact, sheet.value = reading.value, to_python(plan.output, reading.value, types)
    return sheet


def _read(sheet: Sheet, page: Iterable[Entry]) -> Named:
    """Values by the last part of their names; loops are lists of such."""
    named: Named = {}
    for entry in page:
        match entry:
            case str():
                sheet.text += entry
            case Thought(text=text):
                sheet.thinking = text
            case Field():
                _read_field(sheet, entry, named)
            case Of(author=author):
                named |= _read_branch(sheet, author.latest)
            case Items(name=name, pages=pages):
                named[_last(name)] = [_read(sheet, inner) for inner in pages]
    return named


def _read_branch(sheet: Sheet, author: Author) -> Named:
    start = len(sheet.text)
    named = _read(sheet, author.page)
    sheet.branches.append((author, Span(start, len(sheet.text))))
    return named


def _read_field(sheet: Sheet, written: Field, named: Named) -> None:
    """Each thread stands where it was begun; a text with threads is what is read all in all."""
    start, before, done = len(sheet.text), len(sheet.fields), 0
    for thread in written.threads:
        sheet.text += written.text[done : thread.at]
        done = thread.at
        [text] = _read_branch(sheet, thread.author.latest).values()
        named.setdefault("threads", []).append({"topic": thread.topic, "text": text})
    sheet.text += written.text[done:]
    if written.threads:
        written = replace(written, text=sheet.text[start:])
    sheet.fields.insert(before, (written, Span(start, len(sheet.text))))
    named[_last(written.hole.field)] = written.text if written.threads else _value(sheet.plan, written)


def _value(plan: Plan, written: Field) -> Any:
    """The typed value; what was cut and fits its type no more is given as it stands."""
    is_json, types = written.hole.form is Form.JSON, dict(plan.types)
    reading = read(written.text, written.hole.type, types, quoted=is_json)
    if reading.fits:
        return to_python(written.hole.type, reading.value, types)
    try:
        return json.loads(written.text) if is_json else written.text
    except ValueError:
        return None


def _last(path: str) -> str:
    return path.rsplit(".", 1)[-1].removesuffix("[]")
