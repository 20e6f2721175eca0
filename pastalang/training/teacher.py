"""The teacher draws instead of the model: a branch that waits for a token comes in, the right token goes out.

It goes through the very guides that constrain the model, so whatever they force is never drawn and never taught.
"""

from __future__ import annotations

from pastalang.plan.plan import Choose, Repeat
from pastalang.runtime.chat import Encoder
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.mask import allows, tokens_of
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.decision import arms_of, closing_of, opening_of
from pastalang.runtime.scheduler.hole import OpenHole
from pastalang.training.answer import Answer, arm_for, spelled, stop_of
from pastalang.training.errors import BadRow


class Teacher:
    """For one run. Raises `BadRow` where the answer cannot be written as the plan asks."""

    def __init__(self, answer: Answer, tokens: Tokens, encoder: Encoder) -> None:
        self._answer = answer
        self._tokens = tokens
        self._encoder = encoder
        self._ways: dict[int, tuple[int, tuple[int, ...]]] = {}  # of a field: bytes behind it, tokens before it

    def token(self, branch: BranchState) -> int:
        if branch.hole is not None:
            return self._in_hole(branch.hole)
        assert branch.decision is not None, "a branch that draws has a hole or a decision"
        return self._in_decision(branch)

    # ── holes ────────────────────────────────────────────────────────────────────────────────────────────

    def _in_hole(self, hole: OpenHole) -> int:
        field = hole.field
        value = self._answer.at(field.path, field.items)
        text = spelled(value, hole.hole)
        target = (hole.lead + text + stop_of(hole.hole)).encode()
        token, allowed = self._next(hole, target), hole.allowed()
        if allows(allowed, token):
            return token
        written = len(self._tokens.canonical(text.encode()) or ())
        if written >= hole.hole.max_tokens:
            raise BadRow(
                f"`{field.path}` cannot be written as {_short(text)}: it takes {written} tokens, "
                f"and the limit is {hole.hole.max_tokens}"
            )
        other = self._longest(hole, target, allowed)
        if other is None:
            raise BadRow(f"`{field.path}` cannot be written as {_short(text)}")
        return other

    def _next(self, hole: OpenHole, target: bytes) -> int:
        """The token that the tokenizer itself would write next, the text behind the value in view."""
        spelling = self._tokens.vocabulary.spelling
        known = b"".join(spelling[token] or b"" for token in hole.field.tokens)
        if not target.startswith(known):
            raise BadRow(f"`{hole.field.path}` has to begin with {_short(known.decode('utf-8', 'replace'))}")
        rest = target[len(known) :]
        if not rest:
            return min(self._encoder.ends)
        left, way = self._ways.get(id(hole.field), (-1, ()))
        if left != len(rest):
            way = self._tokens.canonical(rest) or ()
        if not way:
            raise BadRow(f"`{hole.field.path}` cannot be spelled with the tokens of this model")
        self._ways[id(hole.field)] = (len(rest) - len(spelling[way[0]] or b""), way[1:])
        return way[0]

    def _longest(self, hole: OpenHole, target: bytes, allowed: TokenMask) -> int | None:
        """Of the tokens that are allowed, the one that writes most of what is left."""
        spelling = self._tokens.vocabulary.spelling
        rest = target[len(b"".join(spelling[token] or b"" for token in hole.field.tokens)) :]
        fitting = [token for token in tokens_of(allowed).tolist() if rest.startswith(spelling[token] or b"\xff")]
        return max(fitting, key=lambda token: len(spelling[token] or b""), default=None)

    # ── decisions ────────────────────────────────────────────────────────────────────────────────────────

    def _in_decision(self, branch: BranchState) -> int:
        assert branch.decision is not None
        tally = branch.decision.tally
        wanted = self._wanted(branch)
        depth = sum(tally.rides) + tally.draws
        return min(self._encoder.ends) if wanted is None or depth >= len(wanted) else wanted[depth]

    def _wanted(self, branch: BranchState) -> tuple[int, ...] | None:
        """The tokens of the option to take; None for the end of the turn."""
        frame = branch.frames[-1]
        if frame.repeat is not None and frame.index >= len(frame.segments):
            return self._item_or_end(branch, frame.repeat, frame.item + 1)
        choose = frame.segments[frame.index]
        assert isinstance(choose, Choose), "decisions are made by choices and repeats"
        arm = arm_for(self._answer.at(choose.field, branch.items_here()), choose.arms)
        if arm is None:
            raise BadRow(f"no way of writing `{choose.field}` begins like its value")
        return arms_of(choose, self._encoder)[arm].tokens

    def _item_or_end(self, branch: BranchState, repeat: Repeat, done: int) -> tuple[int, ...] | None:
        value = self._answer.at(repeat.field, branch.items_here()[:-1])
        if not isinstance(value, list) or not repeat.minimum <= len(value) <= repeat.maximum:
            raise BadRow(f"`{repeat.field}` has to be a list of {repeat.minimum} to {repeat.maximum} items")
        way = opening_of if done < len(value) else closing_of
        return way(repeat, done, self._encoder).tokens


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
