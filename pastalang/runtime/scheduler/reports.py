"""What branches report to the caller: values as they begin, grow and end."""

from __future__ import annotations

from pastalang.plan.branches import Arm, Repeat, Text
from pastalang.runtime.events import FieldDone, FieldStarted, TextDelta
from pastalang.runtime.scheduler.again import is_known
from pastalang.runtime.scheduler.state import BranchState
from pastalang.runtime.scheduler.transcript import Field


def report_start(branch: BranchState, field: Field) -> None:
    branch.request.events.report(FieldStarted(field.path, field.items))


def report_text(branch: BranchState, field: Field, text: str) -> None:
    if text:
        branch.request.events.report(TextDelta(field.path, field.items, text))
        field.reported += len(text)


def report_end(branch: BranchState, field: Field) -> None:
    """Text that could have become a tag is reported only now."""
    report_text(branch, field, field.text[field.reported :])
    branch.request.events.report(FieldDone(field.path, field.items, field.text, field.truncated))


def report_value(branch: BranchState, path: str, items: tuple[int, ...], text: str) -> None:
    """A value that was chosen and not decoded: the null of an optional object, an empty list."""
    if not is_known(branch):
        _report_whole(branch, FieldDone(path, items, text, truncated=False))


def _report_whole(branch: BranchState, done: FieldDone) -> None:
    branch.request.events.report(
        FieldStarted(done.field, done.items), TextDelta(done.field, done.items, done.text), done
    )


def report_repeated(branch: BranchState, field: Field) -> None:
    """A field that stays though the caller knows another value."""
    if not is_known(branch):
        _report_whole(branch, FieldDone(field.path, field.items, field.text, field.truncated))


def report_arm(branch: BranchState, field: str, arm: Arm) -> None:
    """An arm without a hole is a value of its own; the holes of other arms report themselves."""
    texts = [segment.text for segment in arm.segments if isinstance(segment, Text)]
    if len(texts) == len(arm.segments):
        report_value(branch, field, branch.cursor.items, arm.lead + "".join(texts))


def report_empty_list(branch: BranchState, repeat: Repeat, items: int) -> None:
    """A JSON list that ends before its first item."""
    if items == 0 and repeat.empty is not None:
        report_value(branch, repeat.field, branch.cursor.items, "[]")
