"""What has been written, in reading order: entries of branches come in, text, fields and values go out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pastalang.plan.plan import Form, Hole, Plan
from pastalang.testing.slow.place import Place
from pastalang.values.read import read, to_python


@dataclass(eq=False)
class Field:
    """A value. `tokens` are the drawn and the forced ones, these with a log-probability of 0."""

    hole: Hole
    place: Place
    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    text: str = ""
    truncated: bool = False
    is_done: bool = False

    @property
    def items(self) -> tuple[int, ...]:
        return tuple(self.place.values())

    def note(self, token: int, log_probability: float) -> None:
        self.tokens.append(token)
        self.log_probabilities.append(log_probability)


@dataclass(eq=False)
class Of:
    """The text of another branch stands here; its page grows while it is written."""

    page: list[Entry]


@dataclass(eq=False)
class Items:
    """`stacked`: each item is an answer of its own."""

    name: str
    pages: list[list[Entry]] = field(default_factory=list)
    stacked: bool = False


@dataclass(eq=False)
class Thought:
    """What the model wrote for itself: no part of the answer."""

    text: str


Entry: TypeAlias = "str | Field | Of | Items | Thought"


@dataclass(frozen=True)
class Answer:
    text: str
    value: Any
    fields: tuple[Field, ...]
    thinking: str | None = None


def answers_of(plan: Plan, root: Sequence[Entry]) -> tuple[Answer, ...]:
    """One, or one for each of stacked documents."""
    stack = next((entry for entry in root if isinstance(entry, Items) and entry.stacked), None)
    pages = [root] if stack is None else stack.pages
    return tuple(_answer(plan, page) for page in pages)


def _answer(plan: Plan, page: Sequence[Entry]) -> Answer:
    text, fields, named = _read(plan, page)
    thinking = next((entry.text for entry in page if isinstance(entry, Thought)), None)
    if plan.output is None:
        return Answer(text, named, tuple(fields), thinking)
    types = dict(plan.types)
    reading = read(text, plan.output, types)
    assert reading.fits, reading.misfits
    return Answer(text, to_python(plan.output, reading.value, types), tuple(fields), thinking)


def _read(plan: Plan, page: Sequence[Entry]) -> tuple[str, list[Field], dict[str, Any]]:
    """Text, fields, and values by the last part of their names; loops are lists of such."""
    text, fields, named = "", list[Field](), dict[str, Any]()
    for entry in page:
        match entry:
            case str():
                text += entry
            case Field():
                text += entry.text
                fields.append(entry)
                named[_last(entry.hole.field)] = _value(plan, entry)
            case Of(page=inner):
                inner_text, inner_fields, inner_named = _read(plan, inner)
                text, fields, named = text + inner_text, fields + inner_fields, {**named, **inner_named}
            case Items(name=name, pages=pages):
                read_items = [_read(plan, inner) for inner in pages]
                text += "".join(inner_text for inner_text, _, _ in read_items)
                fields += [one for _, inner_fields, _ in read_items for one in inner_fields]
                named[_last(name)] = [inner_named for _, _, inner_named in read_items]
    return text, fields, named


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
