"""Text that is known: a segment comes in at the place of a branch, its tokens go out, and it is noted as written."""

from __future__ import annotations

from typing import Any

from pastalang.plan.plan import InputText, ItemNumber, Text
from pastalang.runtime.inputs import part_of, text_of
from pastalang.runtime.leads import fed_text
from pastalang.runtime.prompt import Encoder
from pastalang.runtime.scheduler.branch import BranchState, Frame
from pastalang.runtime.scheduler.transcript import WrittenText


def text_tokens(branch: BranchState, frame: Frame, segment: Text | InputText | ItemNumber) -> tuple[int, ...]:
    """Note a forced text and give its tokens."""
    encoder: Encoder = branch.request.tokens.encoder
    if isinstance(segment, Text) and not segment.shown:
        return encoder.control(segment.text)
    text = _forced_text(branch, segment)
    frame.written.append(WrittenText(text))
    return encoder.text(fed_text(segment) if isinstance(segment, Text) else text)


def _forced_text(branch: BranchState, segment: Text | InputText | ItemNumber) -> str:
    match segment:
        case Text(text=text):
            return text
        case InputText(path=(name, *rest)):
            return text_of(part_of(_named(branch, name), tuple(rest)))
        case ItemNumber():
            return str(_innermost_item(branch) + 1)
        case _:
            raise AssertionError(f"{segment} has no text")


def _named(branch: BranchState, name: str) -> Any:
    for frame in reversed(branch.frames):
        if frame.repeat is not None and frame.elements is not None and frame.repeat.item == name:
            return frame.elements[frame.item]
    return branch.names[name] if name in branch.names else branch.request.values[name]


def _innermost_item(branch: BranchState) -> int:
    return branch.items_here()[-1]
