"""An answer that is not complete: its text and its fields, as far as they are certain, in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pastalang.plan.branches import Form, Hole
from pastalang.program.types import String
from pastalang.runtime.answer import LayoutBuilder, documents_of
from pastalang.runtime.result import Answer
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.scheduler.transcript import (
    Author,
    Field,
    Written,
    WrittenBranch,
    WrittenField,
    WrittenLoop,
    WrittenText,
)
from pastalang.values.absent import absent_in, without_cuts
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
    plan, text = request.plan, "".join(parts)
    if plan.output is None:
        return text
    if any(one.each for one in plan.inputs) and may_leave_out(plan.output, dict(plan.types)):
        return ""  # where one document ends and the next begins is known at the end
    return without_cuts(text, absent_in(text, plan.output, dict(plan.types), is_whole=False))


def answers_so_far(request: RequestState) -> tuple[tuple[Answer, ...], bool]:
    """The answers of a request that was stopped, and whether documents were stacked. They have the text that was
    certain then and its fields, and no value; documents that nobody can have read yet are left out."""
    documents, is_stacked = documents_of(request)
    found: list[Answer] = []
    for document in documents:
        page, is_whole = _CertainLayout(request, document), False
        if request.reviewer is None:
            with suppress(_Open):
                page.write_branch(document, {})
                is_whole = True
        answer = Answer(None, page.text, tuple(page.fields), tuple(page.stretches), page.thinking, sources=page.sources)
        found.append(replace(answer, truncations=tuple(page.truncations)))
        if not is_whole:
            break
    return tuple(found), is_stacked


class _CertainLayout(LayoutBuilder):
    """Lays out what is certain of an answer. Raises `_Open` where that ends."""

    def write_branch(self, branch: Author, into: dict[str, Any]) -> None:
        super().write_branch(branch, into)
        if not branch.has_ended:
            raise _Open

    def write_field(self, field: Field, branch: Author, into: dict[str, Any]) -> None:
        assert isinstance(branch, BranchState)
        text, is_whole = _certain(field, branch)
        if text or is_whole:
            super().write_field(replace(field, text=text), branch, into)
        if not is_whole:
            raise _Open


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
    text, is_whole = _certain(field, branch)
    yield text
    if not is_whole:
        raise _Open


def _certain(field: Field, branch: BranchState) -> tuple[str, bool]:
    """What stays of the text of a value, and whether that is all of it. A value that its limit may still turn into null
    is certain only at its end, as is a text with threads."""
    may_change = field.on_truncated not in (None, "keep")
    if field.is_auto or (field.is_done and field.truncated and may_change):
        return "", False
    if field.is_done:
        return field.text, True
    hole = branch.pending.hole
    if hole is None or hole.field is not field or may_change:
        return "", False
    return _beginning(hole.state.text, hole.hole), False


def _beginning(text: str, hole: Hole) -> str:
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
