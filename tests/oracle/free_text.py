"""Free text: thoughts, and text in which the model begins branches itself.

A thought is any text that the model writes before its answer. It ends after `</think>`, at its limit, or with the turn
of the model; if the model did not write `</think>`, it is fed. The answer sees the thought but does not contain it.

In tagged text the model begins branches, called threads, with these tags. Anything else is text, and a thread cannot
begin another one.

    <promise topic="food" tokens="40"/>   begins a thread; the text continues 40 positions later          (pasta)
    <sync/>                               waits for all threads so far before its last token is fed       (pasta)
    </async>                              ends a thread, in the thread                                    (pasta)
    [Fork]                                begins a thread that no other branch sees                       (apar)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

from pastalang.limits import MAX_TAG_CHARS, MAX_THREAD_ROOMS, MAX_THREADS
from pastalang.plan.branches import Address, Form, Hole
from pastalang.program.types import AutoPolicy, String
from pastalang.runtime.constraints.guide import State
from pastalang.runtime.constraints.masks import tokens_of
from tests.oracle.answer import Field, Loop, LoopItems, Thought, Thread
from tests.oracle.branch import BranchState
from tests.oracle.holes import Request, draw
from tests.oracle.run import Run

_ANY_TEXT = String(stop=("\x00\x00",), may_be_empty=True)  # with a stop that never occurs, line ends are text
_PROMISE = r'<promise(?P<attributes>(?:[ \t]+[a-z]+="[^"<>\n]*")*)[ \t]*/>'
_TAGS = {  # of the text, and of a thread
    AutoPolicy.PASTA: (re.compile(rf"(?P<wait><sync/>)|{_PROMISE}"), re.compile("(?P<end></async>)")),
    AutoPolicy.APAR: (re.compile(r"(?P<fork>\[Fork\])"), re.compile("(?!)")),
}
_TAG_STARTS = {AutoPolicy.PASTA: (("<promise", "<sync"), ("</async",)), AutoPolicy.APAR: (("[Fork]",), ())}
_THREAD_ENDS = {AutoPolicy.PASTA: "</async>", AutoPolicy.APAR: ""}


@dataclass(frozen=True)
class Tag:
    """A tag after `before` characters of the text without tags. A tag that begins a thread has a `topic`."""

    kind: str
    before: int
    topic: str = ""
    reserve: int = 0  # positions


def write_tagged_text(
    run: Run, branch: BranchState, hole: Hole, loops: LoopItems, address: Address
) -> Generator[Callable[[], bool], None, Field]:
    request, policy, in_thread = run.request, hole.auto, hole.threads is None
    assert policy is not None
    pattern = _TAGS[policy][in_thread]
    control = _control_tokens(_TAG_STARTS[policy][in_thread], request)
    state = _any_text(request, hole)
    field = Field(hole, loops)
    threads: list[BranchState] = []
    room_left = MAX_THREAD_ROOMS * hole.max_tokens
    raw, tags, is_over, is_closed = "", list[Tag](), False, False
    while not is_over:
        allowed = {*map(int, tokens_of(state.allowed())), *control}
        token, log_probability = branch.repeated_or(lambda now=allowed: draw(request, branch, now, hole.sampling))
        field.append(token, log_probability)
        field.draws += 1
        is_kept = True
        if token in control:
            raw += control[token]
        else:
            accepted = state.advance(token)
            raw, is_kept, is_over = raw + accepted.text, accepted.kept, accepted.finished
        text, found = _read(raw, pattern)
        new, tags = found[len(tags) :], found
        is_closed = any(tag.kind == "end" for tag in tags)
        is_over = is_over or is_closed or len(field.tokens) >= hole.max_tokens
        if any(tag.kind == "wait" for tag in new):
            yield lambda: all(thread.has_ended for thread in threads)
            branch.join([thread for thread in threads if thread not in branch.sees])
        branch.feed([token] if is_kept else ())
        for tag in new:
            if tag.kind == "begin" and len(threads) < MAX_THREADS:
                reserve = min(tag.reserve, hole.max_tokens, room_left)
                room_left -= reserve
                loop: Loop = (branch.spec.id, address)
                threads.append(run.start_thread(branch, hole, {**loops, loop: len(threads)}, reserve))
                field.threads.append(Thread(tag.topic, tag.before, threads[-1]))
    if in_thread and not is_closed:
        branch.feed(request.encoder.control(_THREAD_ENDS[policy]))
    field.text = text[: tags[0].before] if is_closed else text
    field.truncated = not is_closed and (len(field.tokens) >= hole.max_tokens or state.truncated)
    return field


def _any_text(request: Request, hole: Hole) -> State:
    """A guide that allows any text, also text that looks like the markup of the plan."""
    plain = replace(hole, type=_ANY_TEXT, form=Form.TEXT, follow="")
    return request.make_guide(plain, replace(request.plan, branches=()), {}).start(max_tokens=hole.max_tokens)


def _read(raw: str, pattern: re.Pattern[str]) -> tuple[str, list[Tag]]:
    """The text without its tags, and the tags."""
    text, tags, done = "", list[Tag](), 0
    for match in pattern.finditer(raw):
        tag = _tag_of(match)
        if tag is not None:
            text += raw[done : match.start()]
            tags.append(replace(tag, before=len(text)))
            done = match.end()
    return text + raw[done:], tags


def _tag_of(match: re.Match[str]) -> Tag | None:
    kind = match.lastgroup
    if kind != "attributes":
        return Tag("begin" if kind == "fork" else str(kind), 0)
    pairs: Sequence[tuple[str, str]] = re.findall(r'([a-z]+)="([^"]*)"', match["attributes"])
    known = dict(pairs)
    reserve = known.get("tokens", "0")
    is_exact = len(match[0]) <= MAX_TAG_CHARS and len(known) == len(pairs) and known.keys() <= {"topic", "tokens"}
    if not is_exact or not re.fullmatch("[0-9]+", reserve):
        return None
    return Tag("begin", 0, known.get("topic", ""), int(reserve))


def _control_tokens(starts: tuple[str, ...], request: Request) -> dict[int, str]:
    """The control tokens whose text begins with one of `starts`, with their texts."""
    added = request.encoder.tokenizer.added_tokens_decoder
    known = {id: str(token.content) for id, token in added.items() if id not in request.encoder.ends}
    return {id: text for id, text in known.items() if text.strip().startswith(starts)}


_THOUGHT_END = "</think>"


def think(request: Request, branch: BranchState, hole: Hole) -> Thought:
    text, drawn = "", 0
    state = _any_text(request, hole)
    ends = _control_tokens(("</think",), request)
    is_over = False
    while not is_over:
        allowed = {*map(int, tokens_of(state.allowed())), *ends}
        token, _ = draw(request, branch, allowed, hole.sampling)
        drawn += 1
        if token in ends:
            text += ends[token]
            branch.feed([token])
        else:
            accepted = state.advance(token)
            text += accepted.text
            branch.feed([token] if accepted.kept else ())
            is_over = accepted.finished
        is_over = is_over or _THOUGHT_END in text or drawn >= hole.max_tokens
    if _THOUGHT_END not in text:
        branch.feed(request.encoder.control(f"\n{_THOUGHT_END}"))
    return Thought(text.partition(_THOUGHT_END)[0])
