"""Which parts of an answer are decoded again for an objection, and the text that is forced before them.

"price": null        written by a choice or a list      its branch, from its beginning
"brand": "acme"      written by one hole                that hole
{"a": 1, "b": 2}     written by several holes           those that the validator reads, else all of them

The model sees the rejected value and the reason as JSON with a comment, a form that models know well:

    {                                       what the branch sees anyway
      "brand": "acme" // not accepted: a brand begins with a capital letter
      "brand":                              here decoding goes on

This text is data. It holds no control token, its length is bounded, it is one line, and it is not part of the answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from pastalang.plan.branches import Choose, Hole, Repeat
from pastalang.runtime.answer import Layout
from pastalang.runtime.repair.validation import Objection
from pastalang.runtime.scheduler.state import BranchState
from pastalang.runtime.scheduler.transcript import Field
from pastalang.values.json import Node, Place

Key: TypeAlias = tuple[str, tuple[int, ...]]
MAX_REASON: Final = 160  # characters
MAX_VALUE: Final = 80
_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*": ')


@dataclass(frozen=True, slots=True)
class Target:
    """What is decoded again. `name` and `items` identify it and stay the same in every attempt."""

    name: str
    items: tuple[int, ...]
    place: Place
    branch: BranchState
    field: Field | None

    @property
    def key(self) -> Key:
        return self.name, self.items


def targets_of(layout: Layout, tree: Node, objection: Objection) -> tuple[Target, ...]:
    """The targets for an objection. There are none if the text it objects to is fixed by the program."""
    node = tree.at(objection.path)
    read = [node.parts[key].place for key in objection.fields if key in node.parts]
    found = {target.key: target for place in read or [node.place] for target in _writers(layout, place)}
    return tuple(found.values())


def field_targets(layout: Layout) -> tuple[Target, ...]:
    """Every field that can be decoded again by itself."""
    return tuple(
        Target(field.path, field.items, place, branch, field)
        for branch, field, place in layout.fields
        if isinstance(branch, BranchState) and not field.is_thread
    )


def repair_text(text: str, place: Place, reason: str) -> str:
    """The text before a field that a validator objects to. `text` is the answer, `place` the place of the field."""
    return _forced_text(text, place, f"not accepted: {_on_one_line(reason, MAX_REASON)}")


def retry_text(text: str, place: Place) -> str:
    """The text before an unsure field. Without anything new in its prompt, a greedy model would repeat itself."""
    return _forced_text(text, place, "not sure, once more:")


def _writers(layout: Layout, place: Place) -> list[Target]:
    """The branch that wrote exactly this place; else the holes in it; else the innermost branch around it."""
    around = [
        Target(branch.name, branch.items, _without_key(layout, written), branch, None)
        for branch, written in layout.branches
        if isinstance(branch, BranchState) and _draws(branch) and written.contains(place)
    ]
    exact = [target for target in around if target.place == place]
    if exact and not any(written == place for _, _, written in layout.fields):
        return exact[:1]
    fields = [target for target in field_targets(layout) if target.place.touches(place)]
    if not fields and around:
        return [min(around, key=lambda target: target.place.end - target.place.start)]
    return fields


def _draws(branch: BranchState) -> bool:
    """Whether the branch decides anything itself. A thread is decoded again with the text that began it."""
    draws = (one for one in branch.spec.segments if isinstance(one, Hole | Choose | Repeat))
    return any(not (isinstance(one, Hole) and one.is_thread) for one in draws)


def _without_key(layout: Layout, place: Place) -> Place:
    """The place of the value alone: a branch that waits for others also writes its key."""
    key = _KEY.match(layout.answer.text, place.start, place.end)
    return Place(key.end() if key else place.start, place.end)


def _forced_text(text: str, place: Place, comment: str) -> str:
    key = text[text.rfind("\n", 0, place.start) + 1 : place.start]
    return f"{_on_one_line(text[place.start : place.end], MAX_VALUE)} // {comment}\n{key}"


def _on_one_line(text: str, limit: int) -> str:
    flat = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"
