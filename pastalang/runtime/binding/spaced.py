"""Segments whose trailing white space moved into the value after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pastalang.plan.plan import Arm, Choose, Hole, Repeat, Segment, Text


@dataclass(frozen=True, slots=True)
class SpacedText(Text):
    """`text` is written, `fed` is what the model is fed of it, with what it was given before it."""

    fed: str = ""


@dataclass(frozen=True, slots=True)
class SpacedHole(Hole):
    """The model writes `lead` and then the value."""

    lead: str = ""


@dataclass(frozen=True, slots=True)
class SpacedArm(Arm):
    """`given` stands before the arm; `fed` is that and what is fed of its own lead."""

    fed: str = ""
    given: str = ""


@dataclass(frozen=True, slots=True)
class SpacedRepeat(Repeat):
    """`given` stands before the first item, or before what is written when there is none; `handed` over is the end of
    what ends the list."""

    given: str = ""
    handed: str = ""


def fed_text(segment: Text | Arm) -> str:
    if isinstance(segment, SpacedText | SpacedArm):
        return segment.fed
    return segment.text if isinstance(segment, Text) else segment.lead


def fed_end(repeat: Repeat, *, is_empty: bool) -> str | None:
    """What the model is fed where the list ends."""
    given, handed = (repeat.given, repeat.handed) if isinstance(repeat, SpacedRepeat) else ("", "")
    if is_empty and repeat.empty is not None:
        return (given + repeat.empty).removesuffix(handed)
    return None if repeat.stop is None else repeat.stop.removesuffix(handed)


def leading_space_of(segment: Segment) -> str:
    """The white space that a hole, a choice or a list writes before its own."""
    match segment:
        case SpacedHole(lead=lead):
            return lead
        case SpacedRepeat(given=given):
            return given
        case Choose(arms=(SpacedArm(given=given), *_)):
            return given
        case _:
            return ""


def without_leading_space(hole: Hole) -> Hole:
    return Hole(**fields_of(hole))


def fields_of(segment: Hole | Repeat) -> dict[str, Any]:
    """Of the segment as plans know it."""
    names = Hole.__dataclass_fields__ if isinstance(segment, Hole) else Repeat.__dataclass_fields__
    return {name: getattr(segment, name) for name in names}
