"""The teacher: draws the tokens of the right answer where decoding samples.

A token is the one that the tokenizer would write, given the value and the text after it, if the guide allows it.
"""

from __future__ import annotations

from pastalang.plan.branches import THREAD, Arm, Form, Hole
from pastalang.plan.machine import Closing, Opening
from pastalang.program.types import AutoPolicy
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.masks import allows, tokens_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.scheduler.hole import Decision, OpenHole
from pastalang.runtime.scheduler.known_text import option_tokens
from pastalang.runtime.scheduler.state import BranchState
from pastalang.runtime.scheduler.transcript import Field
from pastalang.training.answer import Answer, arm_for, spelled, stop_of
from pastalang.training.errors import BadRow
from pastalang.training.thread_text import tags_apart
from pastalang.values.describe import counted


class Teacher:
    """Draws the right tokens of one run. Raises `BadRow` if the answer cannot be written as the plan asks."""

    def __init__(self, answer: Answer, tokens: Tokens, encoder: Encoder) -> None:
        self._answer = answer
        self._tokens = tokens
        self._encoder = encoder
        self._ways: dict[int, tuple[int, tuple[int, ...]]] = {}  # of a field: bytes left, tokens that write them
        self._tagged: dict[int, tuple[int, ...]] = {}  # of a field with tags: all its tokens

    def token(self, branch: BranchState) -> int:
        hole = branch.pending.hole
        if hole is None:
            return self._in_decision(branch)
        auto = None if is_thinking(branch) else branch.request.plan.auto
        return self._in_hole(hole) if auto is None else self._in_tagged_text(hole, auto)

    def first_of_null(self, branch: BranchState) -> int:
        """The token that null would begin with here: a space before it may be part of that token."""
        hole, decision = branch.pending.hole, branch.pending.decision
        if hole is not None:
            return self._encoder.text(f"{hole.lead}null")[0]
        options = () if decision is None else decision.draw.options
        arms = (option for option in options if isinstance(option, Arm) and option.lead.strip() == "null")
        tokens = next((found for arm in arms if (found := option_tokens(arm, self._encoder))), None)
        return (tokens or self._encoder.text("null"))[0]

    # ── holes ────────────────────────────────────────────────────────────────────────────────────────────

    def _in_hole(self, hole: OpenHole) -> int:
        field = hole.field
        is_thought = hole.hole.form is Form.THOUGHT
        value = self._answer.thought(field.items) if is_thought else self._answer.at(field.path, field.items)
        text = spelled(value, hole.hole)
        target = (hole.lead + text + stop_of(hole.hole)).encode()
        token, allowed = self._next(hole, target), hole.allowed()
        if allows(allowed, token):
            return token
        written = len(self._tokens.canonical(text.encode()) or ())
        if written >= hole.hole.max_tokens:
            raise BadRow(
                f"`{field.path}` cannot be written as {_short(text)}: it takes {counted(written, 'token')}, "
                f"and the limit is {hole.hole.max_tokens}"
            )
        other = self._longest(hole, target, allowed)
        if other is None:
            raise BadRow(f"`{field.path}` cannot be written as {_short(text)}")
        return other

    def _next(self, hole: OpenHole, target: bytes) -> int:
        """The token that the tokenizer would write next, given the value and the text that follows it."""
        spelling = self._tokens.vocabulary.spelling
        known = b"".join(spelling[token] or b"" for token in hole.field.decoding.tokens)
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
        """The allowed token that writes most of the remaining text."""
        spelling = self._tokens.vocabulary.spelling
        rest = target[len(b"".join(spelling[token] or b"" for token in hole.field.decoding.tokens)) :]
        fitting = [token for token in tokens_of(allowed).tolist() if rest.startswith(spelling[token] or b"\xff")]
        return max(fitting, key=lambda token: len(spelling[token] or b""), default=None)

    # ── texts with threads ───────────────────────────────────────────────────────────────────────────────

    def _in_tagged_text(self, hole: OpenHole, auto: AutoPolicy) -> int:
        field = hole.field
        if id(field) not in self._tagged:
            text = self._answer.at(field.path, field.items)
            assert isinstance(text, str)
            self._tagged[id(field)] = tokens_with_tags(text, auto, self._encoder, in_thread=field.path == THREAD)
        tokens = self._tagged[id(field)]
        if len(tokens) > hole.hole.max_tokens:
            raise BadRow(
                f"`{_name_of(field)}` takes {counted(len(tokens), 'token')} with its tags, and the limit is "
                f"{hole.hole.max_tokens}"
            )
        token = tokens[len(field.decoding.tokens)]
        if not allows(hole.allowed(), token):
            written = self._encoder.decode(tokens[: len(field.decoding.tokens) + 1])
            raise BadRow(f"`{_name_of(field)}` cannot be written with the tokens of this model, at ...{written[-40:]}")
        return token

    # ── decisions ────────────────────────────────────────────────────────────────────────────────────────

    def _in_decision(self, branch: BranchState) -> int:
        decision = branch.pending.decision
        assert decision is not None, "a branch that draws has a hole or a decision"
        wanted, depth = self._wanted(branch, decision), decision.depth
        return min(self._encoder.ends) if wanted is None or depth >= len(wanted) else wanted[depth]

    def _wanted(self, branch: BranchState, decision: Decision) -> tuple[int, ...] | None:
        """The tokens of the option to take; None for the end of the turn."""
        draw, items = decision.draw, branch.cursor.items
        assert not isinstance(draw.segment, Hole), "decisions are made by choices and repeats"
        value = self._answer.at(draw.segment.field, items)
        match draw.options:
            case (Opening(item=done) as opening, Closing(repeat=repeat) as closing):
                if not isinstance(value, list) or not repeat.minimum <= len(value) <= repeat.maximum:
                    raise BadRow(f"`{repeat.field}` has to be a list of {repeat.minimum} to {repeat.maximum} items")
                return option_tokens(opening if done < len(value) else closing, self._encoder)
            case arms:
                arm = arm_for(value, [arm for arm in arms if isinstance(arm, Arm)])
                if arm is None:
                    raise BadRow(f"no way of writing `{draw.segment.field}` begins like its value")
                return option_tokens(arms[arm], self._encoder)


def is_thinking(branch: BranchState) -> bool:
    hole = branch.pending.hole
    return hole is not None and hole.hole.form is Form.THOUGHT


def tokens_with_tags(text: str, auto: AutoPolicy, encoder: Encoder, *, in_thread: bool) -> tuple[int, ...]:
    """The tokens of a text with tags, or of a thread, and of what ends it. Tags are tokenized on their own."""
    if in_thread:
        closing = encoder.control("</async>") if auto is AutoPolicy.PASTA else (_end_of_turn(encoder),)
        return (*encoder.text(text), *closing)
    parts = tags_apart(text, auto)
    tokens = [encoder.control(part) if is_tag else encoder.text(part) for part, is_tag in parts if part]
    return (*(token for part in tokens for token in part), _end_of_turn(encoder))


def _end_of_turn(encoder: Encoder) -> int:
    own = encoder.tokenizer.eos_token_id
    return own if own in encoder.ends else min(encoder.ends)


def _name_of(field: Field) -> str:
    return f"thread {field.items[-1] + 1}" if field.path == THREAD else field.path


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
