"""Values that are chosen and not decoded: the null of an optional object, an empty list. They come in as what the plan
has to write there, and are told like any field that was decoded."""

from __future__ import annotations

from pastalang.plan.plan import Arm, Choose, Repeat, Text
from pastalang.runtime.events import FieldDone, FieldStarted, TextDelta
from pastalang.runtime.scheduler.branch import BranchState


def tell_arm(branch: BranchState, choose: Choose, arm: Arm) -> None:
    """An arm with holes in it is told by them."""
    texts = [segment.text for segment in arm.segments if isinstance(segment, Text)]
    if len(texts) == len(arm.segments):
        _tell(branch, choose.field, arm.lead + "".join(texts))


def tell_list(branch: BranchState, repeat: Repeat, items: int) -> None:
    """A JSON list that ends before its first item."""
    if items == 0 and repeat.empty is not None:
        _tell(branch, repeat.field, "[]")


def _tell(branch: BranchState, field: str, text: str) -> None:
    items = branch.items_here()
    started, done = FieldStarted(field, items), FieldDone(field, items, text, truncated=False)
    branch.request.events += [started, TextDelta(field, items, text), done]
