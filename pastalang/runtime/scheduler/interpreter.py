"""The interpreter: a branch goes through its segments until it needs logits or has to wait."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, assert_never

from pastalang.plan.plan import (
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    ItemNumber,
    Join,
    Place,
    Repeat,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.positions import after_each, after_fork
from pastalang.plan.run_log import Drew
from pastalang.program.program import Role
from pastalang.runtime.binding.spaced import fed_text
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.scheduler.branch import BranchState, Frame, Stage
from pastalang.runtime.scheduler.choices import begin_value, next_item, open_choice, open_repeat, take_in_decision
from pastalang.runtime.scheduler.fields import go_on_with_tags, open_hole, take_in_hole
from pastalang.runtime.scheduler.hole import OpenHole
from pastalang.runtime.scheduler.joins import join, joined_by, skip_to, start_branch
from pastalang.runtime.scheduler.scope import elements_of, names_here
from pastalang.runtime.scheduler.threads import try_to_see
from pastalang.runtime.scheduler.transcript import (
    WrittenBranch,
    WrittenLoop,
    WrittenText,
)
from pastalang.values.text import message_texts


def text_tokens(branch: BranchState, frame: Frame, segment: Text | InputText | ItemNumber) -> tuple[int, ...]:
    """Add a forced text to the transcript. Gives its tokens."""
    encoder: Encoder = branch.request.tokens.encoder
    match segment:
        case Text(text=text, shown=False):
            return encoder.control(text)
        case Text(text=text, begins=value):
            begin_value(branch, frame, value)
            frame.written.append(WrittenText(text))
            return encoder.text(fed_text(segment))
        case InputText(piece=piece):
            texts = message_texts([piece], partial(_named, branch))
        case ItemNumber():
            texts = [str(_innermost_item(branch) + 1)]
        case _:
            assert_never(segment)
    frame.written.append(WrittenText("".join(texts)))
    return tuple(token for text in texts for token in encoder.text(text))


def _named(branch: BranchState, name: str) -> Any:
    for frame in reversed(branch.frames):
        if frame.repeat is not None and frame.elements is not None and frame.repeat.item == name:
            return frame.elements[frame.item]
    return branch.names[name] if name in branch.names else branch.request.values[name]


def _innermost_item(branch: BranchState) -> int:
    return branch.items_here()[-1]


def fork(branch: BranchState, frame: Frame, segment: Fork) -> None:
    spec = branch.request.plan.branch(segment.branch)
    at = after_fork(branch.position, spec.reserve)
    here = branch.items_here()
    draw_items = (*branch.draw_items, *here[len(branch.items) :])
    child = start_branch(branch, segment.branch, here, at.child, names=names_here(branch), draw_items=draw_items)
    skip_to(branch, at.parent)
    if segment.branch not in branch.request.tokens.placed:
        frame.written.append(WrittenBranch(child))


def fan_out(branch: BranchState, frame: Frame, each: Each) -> None:
    request = branch.request
    elements = elements_of(branch, each.over, over_hole=each.over_hole, maximum=each.maximum, span=each.span)
    spec = request.plan.branch(each.branch)
    at = after_each(branch.position, spec.reserve, len(elements), stacked=each.stacked)
    here = branch.items_here()
    draw_items = (*branch.draw_items, *here[len(branch.items) :])
    names = names_here(branch)
    items: list[list[Any]] = []
    for number, (element, position) in enumerate(zip(elements, at.children, strict=True)):
        child = start_branch(
            branch, each.branch, (*here, number), position, names={**names, each.name: element},
            draw_items=draw_items if each.stacked else (*draw_items, number),
        )  # fmt: skip
        items.append([WrittenBranch(child)])
    skip_to(branch, at.parent)
    frame.written.append(WrittenLoop(each.name, items, stacked=each.stacked))


def advance(branch: BranchState) -> None:
    """Advance a branch until it needs a sample, has to wait, or has ended; and all branches that it forks."""
    started = [branch]
    while started:
        one = started.pop()
        if not one.frames and one.stage is Stage.WALKING:
            one.frames.append(Frame(one.spec.segments, one.written))
        before = len(one.request.branches)
        while one.stage is Stage.WALKING:
            _step(one)
        started.extend(reversed(one.request.branches[before:]))


def try_join(branch: BranchState) -> bool:
    """Advance a waiting branch if all branches that it joins have ended. Says whether it did."""
    if branch.hole is not None:
        return _try_to_see(branch, branch.hole)
    frame = branch.frames[-1]
    waited = frame.segments[frame.index]
    assert isinstance(waited, Join)
    joined = joined_by(branch, waited, (*frame.address, frame.index))
    if joined is None:
        return False
    branch.request.joining.remove(branch)
    join(branch, joined)
    frame.index += 1
    branch.stage = Stage.WALKING
    advance(branch)
    return True


def _try_to_see(branch: BranchState, hole: OpenHole) -> bool:
    seen = try_to_see(branch)
    if seen is None:
        return False
    _all_walk_on(branch, go_on_with_tags(branch, hole, *seen))
    return True


_DREW = Drew()  # a run has thousands of them


def accept_token(branch: BranchState, token: int, log_probability: float, forward_pass: int) -> None:
    """Hand a sampled token to the hole or the decision that waits for it, and advance."""
    branch.request.drawing -= 1
    branch.request.last_draw = forward_pass
    branch.draws += 1
    branch.log.append(_DREW)
    begun: list[BranchState] = []
    if branch.hole is not None:
        begun = take_in_hole(branch, branch.hole, token, log_probability, forward_pass)
    else:
        assert branch.decision is not None
        take_in_decision(branch, branch.decision, token, log_probability, forward_pass)
    _all_walk_on(branch, begun)


def _all_walk_on(branch: BranchState, begun: Iterable[BranchState]) -> None:
    for thread in begun:
        advance(thread)
    if branch.stage is Stage.WALKING:
        advance(branch)


# ── one segment ──────────────────────────────────────────────────────────────────────────────────────────


def _step(branch: BranchState) -> None:
    frame = branch.frames[-1]
    if frame.index < len(frame.segments):
        _segment(branch, frame, frame.segments[frame.index])
    elif frame.repeat is not None:
        next_item(branch, frame, frame.repeat)
    else:
        branch.frames.pop()
        if branch.frames:
            branch.frames[-1].index += 1
        else:
            branch.stage = Stage.ENDED


def _segment(branch: BranchState, frame: Frame, segment: Segment) -> None:
    match segment:
        case TurnStart(role=role, index=index):
            opening = branch.request.tokens.turns[index].opening
            in_answer = role is Role.ASSISTANT and index == len(branch.request.tokens.turns) - 1
            if in_answer:
                _begin_answer(branch)
            branch.append(branch.request.tokens.encoder.control(opening))
            if in_answer:
                kept = branch.start - branch.skip if branch.parent is None else 0  # of its prompt, in the prefix cache
                branch.prompt = len(branch.tokens) + kept
        case TurnEnd(index=index):
            branch.append(branch.request.tokens.encoder.control(branch.request.tokens.turns[index].closing))
        case Text() | InputText() | ItemNumber():
            branch.append(text_tokens(branch, frame, segment))
        case Hole():
            open_hole(branch, frame, segment)
            return
        case Fork():
            fork(branch, frame, segment)
        case Place(branch=id):
            [placed] = branch.request.instances(id, branch.items_here())
            frame.written.append(WrittenBranch(placed))
        case Join():
            if not _try_to_join(branch, frame, segment):
                return
        case Choose():
            open_choice(branch, segment)
            return
        case Repeat():
            open_repeat(branch, frame, segment)
            return
        case Each():
            fan_out(branch, frame, segment)
        case _:
            assert_never(segment)
    frame.index += 1


def _begin_answer(branch: BranchState) -> None:
    """Text before the model's turn is not part of the answer."""
    branch.written[:] = [
        written if isinstance(written, WrittenLoop) else WrittenText(written.text, in_answer=False)
        for written in branch.written
        if isinstance(written, WrittenText | WrittenLoop)
    ]


# ── joins ────────────────────────────────────────────────────────────────────────────────────────────────


def _try_to_join(branch: BranchState, frame: Frame, waited: Join) -> bool:
    joined = joined_by(branch, waited, (*frame.address, frame.index))
    branch.joining_since = branch.request.last_draw
    if joined is None:
        branch.stage = Stage.JOINING
        branch.request.joining.append(branch)
        return False
    join(branch, joined)
    return True
