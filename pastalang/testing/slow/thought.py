"""What a model writes for itself before its answer: a branch comes in, the tokens of the thought are the effect.

Any text may be written. It is over behind `</think>`, at its limit, or where the model ends its turn; where the model
did not write the end itself, it is fed. The answer sees all of it and holds none of it.
"""

from __future__ import annotations

from dataclasses import replace

from pastalang.plan.plan import Form, Hole
from pastalang.program.types import String
from pastalang.runtime.decode.mask import tokens_of
from pastalang.testing.slow.answer import Thought
from pastalang.testing.slow.branch import Instance
from pastalang.testing.slow.holes import Given, draw

_END = "</think>"
_ANY_TEXT = String(stop=("\x00\x00",))  # a stop that does not come, so that line ends are text, too


def think(given: Given, branch: Instance, hole: Hole) -> Thought:
    text, drawn = "", 0
    plain = replace(hole, type=_ANY_TEXT, form=Form.TEXT, follow="")
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
