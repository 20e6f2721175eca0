"""Text of no type: what a model writes for itself before its answer, and text in which it begins branches itself.

A thought may be any text. It is over after `</think>`, at its limit, or where the model ends its turn; where the
model did not write the end itself, it is fed. The answer sees all of it and holds none of it.

    <promise topic="food" tokens="40"/>   a thread begins; the text goes on 40 positions further      (pasta)
    <sync/>                               its last token is fed when all threads so far have ended    (pasta)
    </async>                              ends a thread, in the thread                                (pasta)
    [Fork]                                a thread begins, which nobody ever sees                     (apar)

What is not exactly one of these is text. Threads begin no threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pastalang.plan.plan import Branch, BranchId, Form, Hole, Release, Text
from pastalang.program.program import AutoPolicy
from pastalang.program.types import String
from pastalang.runtime.constraints.guide import State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.testing.slow.answer import Field, Loop, Place, Thought, Thread
from pastalang.testing.slow.branch import Instance
from pastalang.testing.slow.holes import Given, draw
from pastalang.testing.slow.run import Run

THREAD = "thread[]"
_MOST = 64
_LONGEST = 200
_ANY_TEXT = String(stop=("\x00\x00",))  # a stop that does not come, so that line ends are text, too
_PROMISE = r'<promise(?P<attributes>(?:[ \t]+[a-z]+="[^"<>\n]*")*)[ \t]*/>'
_TAGS = {  # in the text, and in a thread
    AutoPolicy.PASTA: (re.compile(rf"(?P<wait><sync/>)|{_PROMISE}"), re.compile("(?P<end></async>)")),
    AutoPolicy.APAR: (re.compile(r"(?P<fork>\[Fork\])"), re.compile("(?!)")),
}
_BEGINNINGS = {AutoPolicy.PASTA: (("<promise", "<sync"), ("</async",)), AutoPolicy.APAR: (("[Fork]",), ())}
_AROUND = {AutoPolicy.PASTA: ("<async>", "</async>"), AutoPolicy.APAR: ("[Child]", "")}


@dataclass(frozen=True)
class Tag:
    """`before`: how much of the text, without tags, stands before it; `topic` and `room` are of one that begins."""

    kind: str
    before: int
    topic: str = ""
    room: int = 0


def write_freely(run: Run, branch: Instance, hole: Hole, place: Place) -> Iterator[Callable[[], bool]]:
    given, policy = run.given, run.given.plan.auto
    assert policy is not None
    in_thread = hole.field == THREAD
    pattern = _TAGS[policy][in_thread]
    standing = _tokens_that_stand_for(_BEGINNINGS[policy][in_thread], given)
    state = _any_text(given, hole)
    written = Field(hole, place)
    branch.page_now.append(written)
    threads: list[Instance] = []
    raw, tags, is_over, is_closed = "", list[Tag](), False, False
    while not is_over:
        allowed = {*map(int, tokens_of(state.allowed())), *standing}
        token, log_probability = draw(given, branch, allowed, hole.sampling)
        written.note(token, log_probability)
        is_kept = True
        if token in standing:
            raw += standing[token]
        else:
            accepted = state.advance(token)
            raw, is_kept, is_over = raw + accepted.text, accepted.kept, accepted.finished
        text, found = _read(raw, pattern)
        new, tags = found[len(tags) :], found
        is_closed = any(tag.kind == "end" for tag in tags)
        is_over = is_over or is_closed or len(written.tokens) >= hole.max_tokens
        if any(tag.kind == "wait" for tag in new):
            yield lambda: all(thread.has_ended for thread in threads)
            branch.join([thread for thread in threads if thread not in branch.sees])
        branch.feed([token] if is_kept else ())
        for tag in new:
            if tag.kind == "begin" and len(threads) < _MOST:
                threads.append(_begin(run, branch, hole, place, len(threads), min(tag.room, hole.max_tokens)))
                written.threads.append(Thread(tag.topic, tag.before, threads[-1]))
    if in_thread and not is_closed:
        branch.feed(given.encoder.control(_AROUND[policy][1]))
    written.text = text[: tags[0].before] if is_closed else text
    written.truncated = not is_closed and (len(written.tokens) >= hole.max_tokens or state.truncated)
    branch.fields.append(written)


def _any_text(given: Given, hole: Hole) -> State:
    free = replace(given.plan, branches=())  # the text may look like anything
    guide = given.make_guide(replace(hole, type=_ANY_TEXT, form=Form.TEXT, follow=""), free, {})
    return guide.start(max_tokens=hole.max_tokens)


def _begin(run: Run, branch: Instance, hole: Hole, place: Place, number: int, room: int) -> Instance:
    plan, policy = run.given.plan, run.given.plan.auto
    assert policy is not None
    opening = Text(_AROUND[policy][0], shown=False)
    spec = Branch(
        BranchId(len(plan.branches)), THREAD, branch.spec.id, (opening, replace(hole, field=THREAD)), (), 0,
        branch.spec.overrun, Release.NEVER,
    )  # fmt: skip
    loop: Loop = (branch.spec.id, (-1,))
    child = Instance(
        spec, {**place, loop: number}, (*branch.key, number), branch.path, branch.position, branch.names,
        (*branch.sees, branch), branch.pass_,
    )  # fmt: skip
    run.add(child)
    branch.leave(room)
    return child


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
    room = known.get("tokens", "0")
    is_exact = len(match[0]) <= _LONGEST and len(known) == len(pairs) and known.keys() <= {"topic", "tokens"}
    return Tag("begin", 0, known.get("topic", ""), int(room)) if is_exact and re.fullmatch("[0-9]{1,6}", room) else None


def _tokens_that_stand_for(beginnings: tuple[str, ...], given: Given) -> dict[int, str]:
    """Control tokens that are a tag, or begin one, by their text."""
    added = given.encoder.tokenizer.added_tokens_decoder
    known = {id: str(token.content) for id, token in added.items() if id not in given.encoder.ends}
    return {id: text for id, text in known.items() if beginnings and text.strip().startswith(beginnings)}


_END = "</think>"
_ANY_THOUGHT = String(stop=("\x00\x00",))  # a stop that does not come, so that line ends are text, too


def think(given: Given, branch: Instance, hole: Hole) -> Thought:
    text, drawn = "", 0
    plain = replace(hole, type=_ANY_THOUGHT, form=Form.TEXT, follow="")
    free = replace(given.plan, branches=())  # a thought may look like the tags of a plan
    state = given.make_guide(plain, free, {}).start(max_tokens=hole.max_tokens)
    ends = _tokens_for_the_end(given)
    is_over = False
    while not is_over:
        allowed = {*map(int, tokens_of(state.allowed())), *ends}
        token, _ = draw(given, branch, allowed, hole.sampling)
        drawn += 1
        if token in ends:
            text += ends[token]
            branch.feed([token])
        else:
            accepted = state.advance(token)
            text += accepted.text
            branch.feed([token] if accepted.kept else ())
            is_over = accepted.finished
        is_over = is_over or _END in text or drawn >= hole.max_tokens
    if _END not in text:
        branch.feed(given.encoder.control(f"\n{_END}"))
    return Thought(text.partition(_END)[0].strip())


def _tokens_for_the_end(given: Given) -> dict[int, str]:
    """Control tokens that are the end of a thought, or begin it, by their text."""
    added = given.encoder.tokenizer.added_tokens_decoder
    known = {id: str(token.content) for id, token in added.items() if id not in given.encoder.ends}
    return {id: text for id, text in known.items() if text.strip().startswith("</think")}
