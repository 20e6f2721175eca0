"""Values that are chosen and not decoded: the null of an optional object, an empty list. They come in as what the plan
has to write there, and are told like any field that was decoded."""

from __future__ import annotations

from pastalang.plan.plan import Arm, Choose, Repeat, Text
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.telling import tell_whole


def tell_arm(branch: BranchState, choose: Choose, arm: Arm) -> None:
    """An arm with holes in it is told by them."""
    texts = [segment.text for segment in arm.segments if isinstance(segment, Text)]
    if len(texts) == len(arm.segments):
        tell_whole(branch, choose.field, branch.items_here(), arm.lead + "".join(texts))


def tell_list(branch: BranchState, repeat: Repeat, items: int) -> None:
    """A JSON list that ends before its first item."""
    if items == 0 and repeat.empty is not None:
        tell_whole(branch, repeat.field, branch.items_here(), "[]")
