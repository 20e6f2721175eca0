"""Fill a hole, decide a choice, and draw one token.

A draw applies, in this order:

allowed tokens ── repetition penalty ── temperature ── top_k ── top_p ── min_p ──> one token
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pastalang import Plan, Sampling
from pastalang.plan.branches import Form, Hole
from pastalang.program import types as t
from pastalang.program.visit import arms_of
from pastalang.runtime.binding.bound_plan import MakeGuide
from pastalang.runtime.constraints.compile import is_plain
from pastalang.runtime.constraints.guide import Guide, GuideError, NoEndingFits, State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.sampling.rng import RandomKey
from pastalang.values.fit import find_mismatches
from pastalang.values.lengths import closed_texts
from tests.oracle.answer import Field, LoopItems
from tests.oracle.branch import BranchState
from tests.oracle.token import Logits

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Left:
    """What is possible after a token: these options, and `others`: values that are none. `token` if that is unknown."""

    options: frozenset[str]
    others: bool
    token: int | None = None


def sample(
    logits: Floats,
    allowed: Collection[int] | None,
    sampling: Sampling,
    penalised: Collection[int],
    key: RandomKey,
    left: Mapping[int, Left] | None = None,
) -> tuple[int, float]:
    """The sampled token, and its log-probability among the allowed ones. `allowed` None allows every token.

    In a choice, `left` is what each token leaves possible. Tokens that leave the same are drawn together, and have
    their probability together if only options are left.
    """
    tokens = list(range(len(logits))) if allowed is None else sorted(allowed)
    scores = logits[tokens]
    lowered, times = _with_penalty(scores, tokens, penalised, sampling), _times(key, tokens)
    chances = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    if left is None:
        column = _sampled_column(lowered, sampling, times)
        return tokens[column], math.log(chances[column])
    column = _sampled_option(lowered, [left[token] for token in tokens], sampling, times)
    taken = left[tokens[column]]
    alike = [at for at, token in enumerate(tokens) if left[token] == taken]
    is_token = taken.others or taken.token is not None or len(taken.options) > 1
    return tokens[column], math.log(chances[column] if is_token else min(1.0, chances[alike].sum()))


def _sampled_option(scores: Floats, left: Sequence[Left], sampling: Sampling, times: Floats) -> int:
    """The sampling applies to the groups of tokens by their probabilities, and then to the tokens of each group."""
    groups = [np.array([at for at, one in enumerate(left) if one == kind]) for kind in dict.fromkeys(left)]
    weights = _weights(np.log([np.exp(scores[group] - scores.max()).sum() for group in groups]), sampling)
    if not sampling.temperature:
        group = groups[int(weights.argmax())]
        return int(group[scores[group].argmax()])
    chances = np.zeros(len(scores))
    for group, weight in zip(groups, weights, strict=True):
        chances[group] = weight * _weights(scores[group], sampling)
    return _first(times, chances)


def _with_penalty(scores: Floats, tokens: list[int], penalised: Collection[int], sampling: Sampling) -> Floats:
    penalty = sampling.repetition_penalty or 1.0
    lowered = np.where(scores > 0, scores / penalty, scores * penalty)
    return np.where([token in penalised for token in tokens], lowered, scores)


_WORD = 2**32 - 1


def _times(key: RandomKey, tokens: Sequence[int]) -> Floats:
    """The random time of each token, exponentially distributed: the smallest in proportion to its chance wins."""
    first, second = key.words()
    return np.array([-math.log1p(-(_hash(token, first, second) + 0.5) / 2**32) for token in tokens])


def _hash(token: int, first: int, second: int) -> int:
    bits = (token * 2654435761 & _WORD) ^ first
    bits = ((bits ^ bits >> 16) * 2246822519 & _WORD) ^ second
    bits = (bits ^ bits >> 13) * 3266489917 & _WORD
    return bits ^ bits >> 16


def _sampled_column(scores: Floats, sampling: Sampling, times: Floats) -> int:
    return _first(times, _weights(scores, sampling)) if sampling.temperature else int(scores.argmax())


def _first(times: Floats, weights: Floats) -> int:
    return min(range(len(times)), key=lambda column: times[column] / weights[column] if weights[column] else math.inf)


def _weights(scores: Floats, sampling: Sampling) -> Floats:
    """In proportion to which columns are drawn, 0 for those that are left out; without a temperature, the scores."""
    if not sampling.temperature:
        return scores
    chances: Floats = np.exp((scores - scores.max()) / sampling.temperature)
    chances /= chances.sum()
    order = list(range(len(chances)))
    if sampling.top_k is not None or sampling.top_p is not None:
        order.sort(key=lambda column: -chances[column])
        order = _nucleus(order[: sampling.top_k], chances, sampling.top_p)
    least = (sampling.min_p or 0.0) * chances[order].max()
    kept = [column for column in order if chances[column] >= least]
    return np.where(np.isin(np.arange(len(chances)), kept), chances, 0.0)


def _nucleus(order: list[int], chances: Floats, share: float | None) -> list[int]:
    """The likeliest columns, until together they have this share of the probability."""
    if share is None:
        return order
    weights = chances[order] / chances[order].sum()
    before = np.cumsum(weights) - weights
    return [column for column, reached in zip(order, before, strict=True) if reached < share]


class Refused(Exception):
    """The run fails. `code` is that of the engine's error."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Request:
    """Everything that decides what a run gives."""

    plan: Plan
    values: Mapping[str, Any]
    logits: Logits
    encoder: Encoder
    make_guide: MakeGuide
    seed: int
    base_sampling: Sampling


def draw(
    request: Request,
    branch: BranchState,
    allowed: Collection[int] | None,
    sampling: Sampling,
    left: Mapping[int, Left] | None = None,
) -> tuple[int, float]:
    """Draw a token from the logits after the branch's last token, with the random key of this draw of this branch.

    The draw takes place in the first pass in which every token that the branch sees has been fed.
    """
    attempt = "" if branch.run == 1 else f"attempt {branch.run}"
    key = RandomKey(request.seed, branch.spec.name, branch.draw_items, len(branch.drawn_after), attempt)
    branch.drawn_after.append(branch.path[-1])
    branch.last_pass = max(branch.last_pass, *(1 + token.known for token in branch.path))
    penalised = {token.token for token in branch.tokens}
    return sample(request.logits(branch.path[-1]), allowed, sampling.over(request.base_sampling), penalised, key, left)


def fill(request: Request, branch: BranchState, hole: Hole, loops: LoopItems, sources: Mapping[str, str]) -> Field:
    """Accept the forced tokens, draw one token, and repeat to the end of the value."""
    field = Field(hole, loops)
    try:
        state, choice = _start_guide(request, branch, hole, sources)
        _force(request, branch, state, field)
        while not state.is_finished:
            tokens = _tokens(state, request)
            left = choice and {token: choice.left(state, field.tokens, token) for token in tokens}
            token, log_probability = draw(request, branch, tokens, hole.sampling, left)
            field.draws += 1
            _accept(request, branch, state, field, token, log_probability)
            _force(request, branch, state, field)
        field.text, field.truncated = state.text, state.truncated
    except NoEndingFits as problem:
        _fall_back_to_null(request, branch, field, problem)
    except GuideError as problem:
        raise Refused("dead_end", str(problem)) from problem
    return field


def _start_guide(
    request: Request, branch: BranchState, hole: Hole, sources: Mapping[str, str]
) -> tuple[State, Choice | None]:
    """The white space before a value is drawn with it, or is fed alone if the value does not fit otherwise."""
    try:
        return _state(request, branch, hole, sources, branch.budget), Choice.of(request, hole, sources)
    except NoEndingFits:
        if not hole.space:
            raise
    lead = request.encoder.text(hole.space)
    room = None if branch.budget is None else branch.budget - len(lead)
    bare = replace(hole, space="")
    state = _state(request, branch, bare, sources, room)
    branch.feed(lead)
    return state, Choice.of(request, bare, sources)


def _state(request: Request, branch: BranchState, hole: Hole, sources: Mapping[str, str], room: int | None) -> State:
    guide = request.make_guide(hole, request.plan, sources)
    return guide.start(max_tokens=hole.max_tokens if room is None else min(hole.max_tokens, room))


_PLENTY = 10_000  # tokens: no limit


@dataclass(frozen=True)
class Choice:
    """A value that is one of these options, or one of `others`."""

    options: tuple[str, ...]
    others: Guide | None

    @staticmethod
    def of(request: Request, hole: Hole, sources: Mapping[str, str]) -> Choice | None:
        """None if the type has no options, or is nested."""
        types = dict(request.plan.types)
        options = closed_texts(hole.type, types, quoted=hole.form is Form.JSON)
        if not options or not is_plain(hole.type, types):
            return None
        rest = [arm for arm in arms_of(hole.type, types) if not isinstance(arm, t.Boolean | t.Null | t.Literal)]
        try:
            others = request.make_guide(replace(hole, type=t.Union(tuple(rest))), request.plan, sources)
        except GuideError:  # there are none, or there is nothing to quote
            others = None
        return Choice(tuple(options), others)

    def left(self, state: State, before: Sequence[int], token: int) -> Left:
        """What is possible after a token, if the value has begun with the tokens `before`."""
        after = state.fork()
        after.advance(token)
        possible = frozenset(option for option in self.options if option.startswith(after.text))
        if after.is_finished:
            possible &= {after.text}
        others = self._has_others([*before, token])
        return Left(possible, others, None if possible or others else token)

    def _has_others(self, tokens: Sequence[int]) -> bool:
        if self.others is None:
            return False
        state = self.others.start(max_tokens=_PLENTY)
        try:
            for token in tokens:
                if state.is_finished:
                    return False
                state.advance(token)
        except ValueError:
            return False
        return True


def _tokens(state: State, request: Request) -> list[int]:
    return [int(token) for token in tokens_of(state.allowed())]


def _accept(
    request: Request, branch: BranchState, state: State, field: Field, token: int, log_probability: float
) -> None:
    """If a token also holds text after the value, it is not fed; the part inside the value is tokenized again."""
    accepted = state.advance(token)
    field.append(token, log_probability)
    branch.feed([token] if accepted.kept else request.encoder.text(accepted.lead + accepted.text))


def _force(request: Request, branch: BranchState, state: State, field: Field) -> None:
    while not state.is_finished and (forced := state.forced()):
        for token in forced:
            if not state.is_finished:
                _accept(request, branch, state, field, token, 0.0)


def _fall_back_to_null(request: Request, branch: BranchState, field: Field, problem: NoEndingFits) -> None:
    """No value of the type fits into the limit: write null, if the type allows it."""
    hole = field.hole
    if hole.form is not Form.JSON or find_mismatches(hole.type, None, dict(request.plan.types)):
        raise Refused("dead_end", str(problem)) from problem
    field.text, field.problem = "null", str(problem)
    for token in request.encoder.text(hole.space + "null"):
        field.append(token, 0.0)
    branch.feed(field.tokens)


def decide(request: Request, branch: BranchState, options: Sequence[Sequence[int] | None], sampling: Sampling) -> int:
    """Decide between options, and return the number of one. An option is its tokens; None is the end of the turn.

    A token that all remaining options share is fed; otherwise a token is drawn. If one option is complete and another
    one continues, any token may be drawn: the next token of the longer option chooses it, every other the complete one.
    """
    left = list(range(len(options)))
    depth = 0
    while True:
        following = {option: _at(options[option], depth) for option in left}
        [*different] = set(following.values())
        if len(different) > 1:
            complete = [option for option in left if options[option] is not None and following[option] is None]
            ending = [option for option in left if options[option] is None]
            spelled = {token for token in different if token is not None}
            allowed = None if complete else spelled | (request.encoder.ends if ending else set())
            token, _ = draw(request, branch, allowed, sampling)
            left = [option for option in left if following[option] == token]
            if not left:
                return (ending if ending and token in request.encoder.ends else complete)[0]
        elif different[0] is None:
            return left[0]
        else:
            token = different[0]
        branch.feed([token])
        depth += 1


def _at(tokens: Sequence[int] | None, depth: int) -> int | None:
    return None if tokens is None or depth >= len(tokens) else tokens[depth]
