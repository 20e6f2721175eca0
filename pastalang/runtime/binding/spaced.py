"""Segments whose white space was moved: what the answer holds, and what the model is fed instead.

Many tokenizers write a space together with the word after it. Where that is so, binding a plan moves the space from the
end of a literal into the segment after the literal. These segments say what was moved; see `binding.whitespace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pastalang.plan.branches import Arm, Choose, Form, Hole, Repeat, Segment, Text


@dataclass(frozen=True, slots=True)
class SpacedText(Text):
    """The answer holds `text`; the model is fed `fed`, which has a space moved in, out, or both."""

    fed: str = ""


@dataclass(frozen=True, slots=True)
class SpacedHole(Hole):
    """The model writes `leading_space` and then the value."""

    leading_space: str = ""


@dataclass(frozen=True, slots=True)
class SpacedArm(Arm):
    """`fed` is what the model is fed for the arm's `lead`, and begins with `leading_space`."""

    fed: str = ""
    leading_space: str = ""


@dataclass(frozen=True, slots=True)
class SpacedRepeat(Repeat):
    """A list with space moved in or out.

    `leading_space` comes before the first item, or before `empty`. `trailing_space` is the end of `stop` and `empty`
    that moved on to the segment after the list.
    """

    leading_space: str = ""
    trailing_space: str = ""


def fed_text(segment: Text | Arm) -> str:
    """What the model is fed for a text, or for the lead of an arm."""
    if isinstance(segment, SpacedText | SpacedArm):
        return segment.fed
    return segment.text if isinstance(segment, Text) else segment.lead


def fed_end(repeat: Repeat, *, is_empty: bool) -> str | None:
    """What the model is fed where the list ends. None if only the end of the turn ends it."""
    leading, trailing = (repeat.leading_space, repeat.trailing_space) if isinstance(repeat, SpacedRepeat) else ("", "")
    if is_empty and repeat.empty is not None:
        return (leading + repeat.empty).removesuffix(trailing)
    return None if repeat.stop is None else repeat.stop.removesuffix(trailing)


def leading_space_of(segment: Segment) -> str:
    """The white space that moved into a hole, a choice or a list."""
    match segment:
        case SpacedHole(leading_space=space) | SpacedRepeat(leading_space=space):
            return space
        case Choose(arms=(SpacedArm(leading_space=space), *_)):
            return space
        case _:
            return ""


def opening_quote(segment: Segment) -> str:
    """The quote that stands before a hole which writes the text of a JSON string without its quotes."""
    return '"' if isinstance(segment, Hole) and segment.auto is not None and segment.form is Form.JSON else ""


def without_leading_space(hole: Hole) -> Hole:
    return Hole(**plain_fields(hole))


def plain_fields(segment: Hole | Repeat) -> dict[str, Any]:
    """The fields of a segment as the plan has it, without those that this module adds."""
    names = Hole.__dataclass_fields__ if isinstance(segment, Hole) else Repeat.__dataclass_fields__
    return {name: getattr(segment, name) for name in names}
