"""What a name means at the current place of a branch: an input, an element of a loop, a visible field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pastalang.plan.branches import Each, Form, Repeat
from pastalang.runtime.errors import BadList
from pastalang.runtime.quotations import last_name
from pastalang.runtime.scheduler.transcript import (
    Author,
    Field,
    Written,
    WrittenField,
    WrittenLoop,
)
from pastalang.source import Span
from pastalang.values.describe import counted
from pastalang.values.fit import read, to_plain
from pastalang.values.quotes import quotable_texts
from pastalang.values.text import value_at


def sources_of(branch: Author, items: tuple[int, ...]) -> dict[str, str]:
    """The texts that a `verbatim` value may copy from: inputs, elements of enclosing loops, fields of these items.

    Empty if no value of the plan quotes.
    """
    if not branch.request.tokens.quoting:
        return {}
    sources = {**branch.request.texts, **quotable_texts(names_here(branch))}
    for field in _fields_before(branch):
        if field.items == items[: len(field.items)] and not field.is_thread:
            sources.setdefault(last_name(field.path), field.whole_text)
    return sources


def names_here(branch: Author) -> dict[str, Any]:
    """The elements of enclosing loops by name: of fan-outs around the branch, and of lists it goes over itself."""
    names = dict(branch.names)
    for around, frame in zip(branch.lists, branch.cursor.lists, strict=True):
        if around.elements is not None:
            names[around.repeat.item] = around.elements[frame.item]
    return names


def named_here(branch: Author, name: str) -> Any:
    """What a name of an input or of an element stands for."""
    names = names_here(branch)
    return names[name] if name in names else branch.request.values[name]


def elements_of(branch: Author, loop: Each | Repeat) -> tuple[Any, ...]:
    """The elements that a fan-out or a list goes over. Raises `BadList` if there is no list, or too long a one."""
    over, maximum, span = loop.over, loop.maximum, loop.span
    assert over is not None
    value = _from_hole(branch, over, span) if loop.over_hole else _from_inputs(branch, over)
    if not isinstance(value, list | tuple):
        raise BadList(f"`{over}` is not a list", plan=branch.request.plan, field=over, span=span)
    if len(value) > maximum:
        raise BadList(
            f"`{over}` has {counted(len(value), 'item')}, and at most {maximum} are possible",
            plan=branch.request.plan, field=over, span=span,
        )  # fmt: skip
    return tuple(value)


def _from_inputs(branch: Author, over: str) -> Any:
    name, *rest = over.split(".")
    return value_at(named_here(branch, name), tuple(rest))


def _from_hole(branch: Author, over: str, span: Span) -> Any:
    plan = branch.request.plan
    for field in _fields_before(branch):
        if over == field.path or over.startswith(field.path + "."):
            reading = read(field.text, field.type, dict(plan.types), quoted=field.form is Form.JSON)
            if not reading.fits:
                raise BadList(
                    f"the list `{field.path}` could not be read: {reading.mismatches[0].reason}",
                    plan=plan, field=field.path, span=span,
                )  # fmt: skip
            rest = over[len(field.path) + 1 :]
            return value_at(to_plain(reading.value), tuple(rest.split(".")) if rest else ())
    raise BadList(f"nothing was written for `{over}`", plan=plan, field=over, span=span)


def _fields_before(branch: Author) -> Iterator[Field]:
    """Finished fields, the nearest first: of this item, of this branch, of branches that it sees."""
    for around in reversed(branch.lists):
        if around.items:
            yield from _finished(around.items[-1])
    yield from _finished(branch.written)
    for seen in reversed(branch.view):
        yield from _finished(seen.branch.written)


def _finished(written: Iterable[Written]) -> Iterator[Field]:
    for one in reversed(list(written)):
        match one:
            case WrittenField(field=field) if field.is_done:
                yield field
            case WrittenLoop(items=items):
                for item in reversed(items):
                    yield from _finished(item)
            case _:
                pass
