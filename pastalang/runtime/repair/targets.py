"""Which parts of an answer are decoded again, and the text that is forced before each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from pastalang.runtime.answer import Layout
from pastalang.runtime.repair.validation import Objection
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.checkpoint import Checkpoint
from pastalang.runtime.scheduler.transcript import Field
from pastalang.values.json import Node, Place

Key: TypeAlias = tuple[str, tuple[int, ...]]
_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*": ')


@dataclass(frozen=True, slots=True)
class Target:
    """`name` and `items` tell it from all others, and stay the same from attempt to attempt."""

    name: str
    items: tuple[int, ...]
    place: Place
    point: Checkpoint
    field: Field | None

    @property
    def key(self) -> Key:
        return self.name, self.items


def targets_of(sheet: Layout, tree: Node, objection: Objection) -> tuple[Target, ...]:
    """Nobody, where all of it is known text."""
    node = tree.at(objection.path)
    read = [node.parts[key].place for key in objection.fields if key in node.parts]
    found = {target.key: target for place in read or [node.place] for target in _writers(sheet, place)}
    return tuple(found.values())


def field_targets(sheet: Layout) -> tuple[Target, ...]:
    return tuple(_of_field(field, place) for field, place in sheet.fields if field.checkpoint is not None)


def _writers(sheet: Layout, place: Place) -> list[Target]:
    """The branch that wrote exactly this, or the innermost that a part of it is; else the holes in it."""
    around = [
        (branch, _without_key(sheet, written))
        for branch, written in sheet.branches
        if branch.first_checkpoint is not None and written.contains(place)
    ]
    exact = [one for one in around if one[1] == place]
    if exact and not any(written == place for _, written in sheet.fields):
        return [_of_branch(*exact[0])]
    fields = [target for target in field_targets(sheet) if target.place.touches(place)]
    if not fields and around:
        return [_of_branch(*min(around, key=lambda one: one[1].end - one[1].start))]
    return fields


def _without_key(sheet: Layout, place: Place) -> Place:
    """A branch that waits for others writes its key itself."""
    key = _KEY.match(sheet.answer.text, place.start, place.end)
    return Place(key.end() if key else place.start, place.end)


def _of_branch(branch: BranchState, place: Place) -> Target:
    assert branch.first_checkpoint is not None, f"`{branch.name}` has nothing to decode again"
    return Target(branch.name, branch.items, place, branch.first_checkpoint, None)


def _of_field(field: Field, place: Place) -> Target:
    assert field.checkpoint is not None, f"`{field.path}` was decoded without a checkpoint"
    return Target(field.path, field.items, place, field.checkpoint, field)


MAX_REASON: Final = 160
MAX_VALUE: Final = 80


def repair_text(text: str, place: Place, reason: str) -> str:
    return _lead(text, place, f"not accepted: {_on_one_line(reason, MAX_REASON)}")


def retry_text(text: str, place: Place) -> str:
    """A greedy model that is told nothing new would say the same again, so it is told that it was unsure."""
    return _lead(text, place, "not sure, once more:")


def _lead(text: str, place: Place, comment: str) -> str:
    key = text[text.rfind("\n", 0, place.start) + 1 : place.start]
    return f"{_on_one_line(text[place.start : place.end], MAX_VALUE)} // {comment}\n{key}"


def _on_one_line(text: str, limit: int) -> str:
    flat = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"
