"""What a caller is told of the fields of a branch: what begins, grows and ends comes in, events go out."""

from __future__ import annotations

from collections.abc import Iterable

from pastalang.runtime.events import FieldDone, FieldStarted, TextDelta
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.transcript import Field


def tell_start(branch: BranchState, field: Field) -> None:
    branch.request.events.append(FieldStarted(field.path, field.items))


def tell_text(branch: BranchState, field: Field, text: str) -> None:
    if text:
        branch.request.events.append(TextDelta(field.path, field.items, text))
        field.told += len(text)


def tell_end(branch: BranchState, field: Field) -> None:
    """What could have become a tag until the end was not told before."""
    tell_text(branch, field, field.text[field.told :])
    _tell_done(branch, FieldDone(field.path, field.items, field.text, field.truncated))


def tell_whole(branch: BranchState, path: str, items: tuple[int, ...], text: str) -> None:
    branch.request.events += [FieldStarted(path, items), TextDelta(path, items, text)]
    _tell_done(branch, FieldDone(path, items, text, truncated=False))


def tell_again(branch: BranchState, fields: Iterable[FieldDone]) -> None:
    """Of values that stand in the answer again."""
    for done in fields:
        branch.request.events += [
            FieldStarted(done.field, done.items), TextDelta(done.field, done.items, done.text), done
        ]  # fmt: skip


def _tell_done(branch: BranchState, done: FieldDone) -> None:
    branch.request.events.append(done)
    branch.told.append(done)
