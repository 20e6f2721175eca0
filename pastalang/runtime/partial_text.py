"""The text of an answer that is still being written, as far as it is certain, in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pastalang.plan.branches import Form, Hole
from pastalang.program.types import String
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.scheduler.transcript import (
    Field,
    Written,
    WrittenBranch,
    WrittenField,
    WrittenLoop,
    WrittenText,
)
from pastalang.values.absent import certain_text
from pastalang.values.fit import may_leave_out

_HALF_ESCAPE = r"\\(?:u[0-9a-fA-F]{0,3})?"
_OPEN_ESCAPE = re.compile(rf"(?:\\u[dD][89abAB][0-9a-fA-F]{{2}})?(?:{_HALF_ESCAPE})?\Z")


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
    plan = request.plan
    if plan.output is None:
        return "".join(parts)
    if any(one.each for one in plan.inputs) and may_leave_out(plan.output, dict(plan.types)):
        return ""  # where one document ends and the next begins is known at the end
    return certain_text("".join(parts), plan.output, dict(plan.types))


def _branch(branch: BranchState) -> Iterator[str]:
    yield from _all(branch.written, branch)
    if not branch.has_ended:
        raise _Open


def _all(written: Iterable[Written], branch: BranchState) -> Iterator[str]:
    for one in written:
        match one:
            case WrittenText(text=text, in_answer=True):
                yield text
            case WrittenField(field=field) if field.form is not Form.THOUGHT:
                yield from _field(field, branch)
            case WrittenBranch(branch=BranchState() as forked):
                yield from _branch(forked)
            case WrittenLoop(items=items):
                for item in items:
                    yield from _all(item, branch)
            case _:
                pass


def _field(field: Field, branch: BranchState) -> Iterator[str]:
    """A value that its limit may still turn into null is certain only at its end, as is a text with threads."""
    if field.is_done and not field.is_auto:
        if field.truncated and field.on_truncated is not None and field.on_truncated != "keep":
            raise _Open
        yield field.text
        return
    hole = branch.pending.hole
    if hole is not None and hole.field is field and not field.is_auto and field.on_truncated in (None, "keep"):
        yield _certain(hole.state.text, hole.hole)
    raise _Open


def _certain(text: str, hole: Hole) -> str:
    """What stays of the text of a value that is being written, whatever follows.

    A string goes on where it is. The beginning of a stop text may be removed, and a limit may cut an escape sequence.
    Any other value is certain only when it is whole: 1 may become 12.
    """
    if hole.form is Form.JSON:
        return _OPEN_ESCAPE.sub("", text) if text.startswith('"') else ""
    if not isinstance(hole.type, String):
        return ""
    begun = (size for stop in hole.type.stop or () for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return text[: len(text) - max(begun, default=0)]
