"""The text of an answer that is still being written, as far as it is certain, in reading order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pastalang.plan.plan import Form
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.transcript import (
    Field,
    Written,
    WrittenBranch,
    WrittenField,
    WrittenLoop,
    WrittenText,
)


class _Open(Exception):
    """What follows is not written yet."""


def text_so_far(request: RequestState) -> str:
    """The beginning of the answer's text that no later step changes. It only grows, up to the whole text.

    Values that are decoded in parallel arrive in any order; this gives what a reader can have read. Nothing of a
    request whose values may be decoded again is certain before its end.
    """
    if request.reviewer is not None or not request.branches:
        return ""
    parts: list[str] = []
    try:
        for part in _branch(request.root):
            parts.append(part)
    except _Open:
        pass
    return "".join(parts)


def _branch(branch: BranchState) -> Iterator[str]:
    yield from _all(branch.written)
    if not branch.has_ended:
        raise _Open


def _all(written: Iterable[Written]) -> Iterator[str]:
    for one in written:
        match one:
            case WrittenText(text=text, in_answer=True):
                yield text
            case WrittenField(field=field) if field.form is not Form.THOUGHT:
                yield from _field(field)
            case WrittenBranch(branch=forked):
                yield from _branch(forked)
            case WrittenLoop(items=items):
                for item in items:
                    yield from _all(item)
            case _:
                pass


def _field(field: Field) -> Iterator[str]:
    """A value that its limit may still turn into null is certain only at its end, as is a text with threads."""
    if field.is_done and not field.is_auto:
        if field.truncated and field.on_truncated is not None and field.on_truncated != "keep":
            raise _Open
        yield field.text
        return
    if not field.is_auto and field.on_truncated in (None, "keep"):
        yield field.text[: field.reported]
    raise _Open
