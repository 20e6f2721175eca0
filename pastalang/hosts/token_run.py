"""Runs a plan on a server whose tokens are known: each token is checked as in this process.

    the server      writes ahead, greedily, under a constraint that it understands, and says which tokens were likeliest
    this process    takes from these, place by place, the likeliest token that the guide of the value allows

So limits, quotations, types that a server's grammar cannot say, and the token with which a value ends are those of a
model in this process. Where the two agree, a value takes one request; another one for each place at which they do not.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pastalang.hosts.branches import HostBranch, Kept, PlanRun, Prompt, longest_lead
from pastalang.hosts.constraints import Constraint, lead_constraint, rest_of
from pastalang.hosts.servers import Ask, Drawn, Reply, Tokens
from pastalang.plan.branches import Choose, Form, Hole, Repeat
from pastalang.plan.machine import Draw
from pastalang.plan.plan import Plan
from pastalang.program.types import Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints import tokens as known
from pastalang.runtime.constraints.compile import prepare_vocabulary
from pastalang.runtime.constraints.guide import NoEndingFits, State, TokenMask
from pastalang.runtime.constraints.masks import allows, tokens_of
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.plan_cache import PlanCache
from pastalang.runtime.scheduler.hole import Decision, OpenHole, field_errors
from pastalang.runtime.scheduler.transcript import Field, FieldDecoding
from pastalang.values.fit import find_mismatches, read

_BLIND: Final = 8  # tokens that a server writes ahead where no constraint holds it
_SHOWN: Final = 40  # characters
_HALF: Final = "\ufffd"  # where a token ends inside of a character
_REFUSED: Final = 8  # likeliest tokens that do not fit, one after another, where a server names no others


class KnownTokens:
    """The tokens of a server's model. Plans are bound to them once."""

    def __init__(self, tokenizer: Any) -> None:
        self.encoder = Encoder(tokenizer)
        vocabulary = vocabulary_of(tokenizer, ends=self.encoder.ends, encode=self.encoder.text)
        self._tokens = known.Tokens(vocabulary)
        prepare_vocabulary(self._tokens)
        self._plans = PlanCache(self.encoder, GuideCache(self._tokens))
        self._lock = threading.Lock()  # calls for asyncio come from any thread

    def bound(self, plan: Plan) -> BoundPlan:
        """Raises what is wrong with the plan for this tokenizer."""
        with self._lock:
            return self._plans.bound(plan)


class TokenRun(PlanRun):
    """One run of a plan. Values that are drawn at random are drawn by the server, and checked when they are whole."""

    def __init__(self, tokens: BoundPlan, values: Mapping[str, Any], **rest: Any) -> None:
        super().__init__(tokens.plan, values, bound=tokens.bound, **rest)
        self._known_tokens = tokens
        self._encoder = tokens.encoder

    def _show(self, branch: HostBranch, text: str, *, is_control: bool = False) -> None:
        encode = self._encoder.control if is_control else self._encoder.text
        branch.path.own.write(text, encode(text))

    def _prompt(self, branch: HostBranch) -> Prompt:
        return branch.path.tokens

    def _behind(self, prompt: Prompt, space: str) -> Prompt:
        assert isinstance(prompt, tuple)
        return (*prompt, *self._encoder.text(space))

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────

    async def _asked_value(self, branch: HostBranch, hole: Hole, prompt: Prompt, sources: Mapping[str, str]) -> Kept:
        if self._is_greedy(hole.sampling) and not self._memory.rejected[hole.field, branch.cursor.items]:
            found = await self._guided_value(branch, hole, prompt, sources)
            is_json = hole.form is Form.JSON
            if read(found.text, hole.type, self._types, quoted=is_json, sources=sources).fits:
                return found
        found = await super()._asked_value(branch, hole, prompt, sources)
        return replace(found, tokens=self._encoder.text(hole.space + found.text))

    async def _guided_value(self, branch: HostBranch, hole: Hole, prompt: Prompt, sources: Mapping[str, str]) -> Kept:
        """A value of which each token fits. Some schemas can only be checked when it is whole."""
        assert isinstance(prompt, tuple)
        with field_errors(hole, self.plan, branch.cursor.items):
            try:
                state, lead = self._guided(hole, sources)
            except NoEndingFits:
                if hole.form is not Form.JSON or find_mismatches(hole.type, None, self._types):
                    raise
                return Kept("null", None, False, self._encoder.text(hole.space + "null"))
            return await self._written(branch, hole, (*prompt, *lead), lead, state)

    def _is_greedy(self, sampling: Sampling) -> bool:
        drawn = sampling.over(self.base)
        return not drawn.temperature and drawn.repetition_penalty is None

    def _guided(self, hole: Hole, sources: Mapping[str, str]) -> tuple[State, Tokens]:
        """The guide of a value, and white space to feed before it; see `start_guide` of `runtime.scheduler.fields`."""
        make = self._known_tokens.make_guide
        try:
            return make(hole, self.plan, sources).start(max_tokens=hole.max_tokens), ()
        except NoEndingFits:
            if not hole.space:
                raise
        bare = make(replace(hole, space=""), self.plan, sources)
        return bare.start(max_tokens=hole.max_tokens), self._encoder.text(hole.space)

    async def _written(self, branch: HostBranch, hole: Hole, prompt: Tokens, lead: Tokens, state: State) -> Kept:
        items = branch.cursor.items
        field = Field(
            hole.field, hole.type, hole.form, hole.span, branch.name, items, FieldDecoding(hole.max_tokens)
        )  # fmt: skip
        opened = OpenHole(hole, field, state, self._encoder)
        ahead = self._ahead(branch, hole, self._constraint(hole), prompt)
        ahead.feed(opened.start().feed, begun=self._encoder.decode(lead))
        while not opened.is_finished:
            token, score = await ahead.next(opened.allowed(), most=state.remaining)
            fill = opened.take(token, score)
            ahead.feed(fill.feed)
        opened.close()
        scores = [score for score in field.decoding.log_probabilities if not math.isnan(score)]
        return Kept(field.text, math.fsum(scores), field.truncated, (*lead, *ahead.written))

    async def _asked_choice(
        self, branch: HostBranch, draw: Draw, segment: Choose | Repeat, leads: Sequence[str | None]
    ) -> int:
        if not self._is_greedy(segment.sampling):
            return await super()._asked_choice(branch, draw, segment, leads)
        decision = Decision(draw, self._encoder)
        ahead = self._ahead(branch, segment, lead_constraint(leads), branch.path.tokens)
        taken = decision.start()
        ahead.feed(taken.feed)
        while taken.option is None:
            allowed = decision.allowed()
            mask = None if allowed is None else self._known_tokens.mask(allowed)
            token, _ = await ahead.next(mask, most=longest_lead(leads))
            taken = decision.take(token)
            ahead.feed(taken.feed)
        return taken.option

    def _ahead(
        self, branch: HostBranch, segment: Hole | Choose | Repeat, constraint: Constraint | None, prompt: Tokens
    ) -> _Ahead:
        async def ask(one: Ask) -> Reply:
            return await self._ask(branch, one, segment)

        return _Ahead(
            ask, self._encoder, self._server.likeliest, self._server.widths(self._encoder.size), prompt, constraint,
            lambda reason: self._error(reason, branch, segment),
        )  # fmt: skip


@dataclass(slots=True)
class _Place:
    """What fits at one place."""

    mask: TokenMask | None  # None: every token

    def allows(self, token: int) -> bool:
        return self.mask is None or (token < 32 * len(self.mask) and allows(self.mask, token))

    def best(self, drawn: Drawn) -> tuple[int, float] | None:
        """The likeliest token that fits. None if no token that is known to be likely does."""
        found = next((pair for pair in drawn.likeliest if self.allows(pair[0])), None)
        if found is None and self.allows(drawn.token):
            return drawn.token, drawn.log_probability  # the constraint of the server allows no other one before it
        return found


class _Ahead:
    """The tokens of one value that are written, and those that the server has written ahead."""

    def __init__(
        self, ask: Callable[[Ask], Awaitable[Reply]], encoder: Encoder, likeliest: int, widths: tuple[int, ...],
        prompt: Tokens, constraint: Constraint | None, error: Callable[[str], Exception],
    ) -> None:  # fmt: skip
        self._ask = ask
        self._encoder = encoder
        self._likeliest = likeliest
        self._widths = widths
        self._prompt = prompt
        self._constraint = constraint
        self._error = error
        self._begun = ""
        self.written: list[int] = []
        self._drawn: deque[Drawn] = deque()
        self._last: int | None = None  # the token that was drawn and is not written yet

    def feed(self, tokens: Sequence[int], begun: str = "") -> None:
        """These tokens are written now. What the server wrote ahead is kept as far as it agrees."""
        self._begun += begun
        self.written += tokens
        rest = tokens[1:] if tokens and tokens[0] == self._last else tokens
        self._last = None
        for token in rest:
            if self._drawn and self._drawn[0].token == token:
                self._drawn.popleft()
            else:
                self._drawn.clear()

    async def next(self, mask: TokenMask | None, *, most: int) -> tuple[int, float]:
        """The next token and its log-probability. At most so many more fit into the limit."""
        place = _Place(mask)
        if not self._drawn:
            self._drawn.extend(self._checked(await self._ask(self._request(most))))
        found = None
        if self._drawn:
            first = self._drawn.popleft()
            found = place.best(first)
            if found is None or found[0] != first.token:
                self._drawn.clear()
        if found is None:
            found = await self._wanted(place)
        self._last = found[0]
        return found

    def _checked(self, reply: Reply) -> tuple[Drawn, ...]:
        """Raises `HostError` if this process spells the server's tokens in another way.

        What a server writes behind the end of a turn is not compared: some of them leave its token out of the text.
        """
        ids = [one.token for one in reply.drawn]
        end = next((place for place, token in enumerate(ids) if token in self._encoder.ends), None)
        text = self._encoder.decode([token for token in ids[:end] if token < self._encoder.size])
        written = reply.text.strip()
        agrees = written in text if end is None else written.startswith(text.strip())
        if reply.drawn and _HALF not in text and not agrees:
            raise self._error(
                "the tokenizer is not that of the server's model: the server has written "
                f"{reply.text[:_SHOWN]!r} where it reads {text[:_SHOWN]!r}"
            )
        return reply.drawn

    def _request(self, most: int) -> Ask:
        text = self._begun + self._encoder.decode(self.written)
        rest = None if self._constraint is None or _HALF in text else rest_of(self._constraint, text)
        most = min(most, _BLIND) if rest is None else most
        return Ask((*self._prompt, *self.written), rest, most, Sampling(), 0, self._likeliest)

    async def _wanted(self, place: _Place) -> tuple[int, float]:
        """The likeliest token that fits, which is none of those that the server has named."""
        never: list[int] = []
        among = () if place.mask is None else tuple(map(int, tokens_of(place.mask)))
        for width in [*self._widths, *[self._widths[-1]] * _REFUSED]:
            prompt = (*self._prompt, *self.written)
            [*drawn] = (await self._ask(Ask(prompt, None, 1, Sampling(), 0, width, among, tuple(never)))).drawn
            if drawn and (found := place.best(drawn[0])) is not None:
                return found
            if drawn and drawn[0].likeliest and width == self._widths[-1]:
                break  # it has named as many as it can
            never += [one.token for one in drawn[:1] if not one.likeliest]
        raise self._error("the server names no token that fits the type")
