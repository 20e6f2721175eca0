"""How a hole is filled, how a choice is made, and how one token is drawn.

The order of a draw:

allowed tokens ── repetition penalty ── temperature ── top_k ── top_p ── min_p ──> one token
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pastalang.plan.plan import Form, Hole, Plan
from pastalang.program.types import Sampling
from pastalang.runtime.binding.bound_plan import MakeGuide
from pastalang.runtime.binding.spaced import leading_space_of, without_leading_space
from pastalang.runtime.constraints.guide import GuideError, NoEndingFits, State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import RunError
from pastalang.runtime.sampling.rng import RandomKey
from pastalang.testing.slow.answer import Field, Place
from pastalang.testing.slow.branch import Instance
from pastalang.testing.slow.token import Logits
from pastalang.values.fit import find_mismatches

Floats = NDArray[np.float64]


def choose(
    logits: Floats, allowed: Collection[int] | None, sampling: Sampling, before: Collection[int], uniform: float
) -> tuple[int, float]:
    """The token, and how likely the model holds it among the allowed ones. `allowed` None: every token."""
    tokens = list(range(len(logits))) if allowed is None else sorted(allowed)
    scores = logits[tokens]
    column = _column(_penalised(scores, tokens, before, sampling), sampling, uniform)
    return tokens[column], float(scores[column] - scores.max() - math.log(np.exp(scores - scores.max()).sum()))


def _penalised(scores: Floats, tokens: list[int], before: Collection[int], sampling: Sampling) -> Floats:
    penalty = sampling.repetition_penalty or 1.0
    lowered = np.where(scores > 0, scores / penalty, scores * penalty)
    return np.where([token in before for token in tokens], lowered, scores)


def _column(scores: Floats, sampling: Sampling, uniform: float) -> int:
    if not sampling.temperature:
        return int(scores.argmax())
    chances = np.exp((scores - scores.max()) / sampling.temperature)
    chances /= chances.sum()
    order = list(range(len(chances)))
    if sampling.top_k is not None or sampling.top_p is not None:
        order.sort(key=lambda column: -chances[column])
        order = _nucleus(order[: sampling.top_k], chances, sampling.top_p)
    least = (sampling.min_p or 0.0) * chances[order].max()
    order = [column for column in order if chances[column] >= least]
    target = uniform * chances[order].sum()
    reached = np.cumsum(chances[order])
    return order[min(int((reached <= target).sum()), len(order) - 1)]


def _nucleus(order: list[int], chances: Floats, share: float | None) -> list[int]:
    """The likeliest ones, until they have this share of what is left."""
    if share is None:
        return order
    weights = chances[order] / chances[order].sum()
    before = np.cumsum(weights) - weights
    return [column for column, reached in zip(order, before, strict=True) if reached < share]


class Refused(Exception):
    """The run cannot go on. `code` is the word of the engine's error for it."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Given:
    """All that a run is a function of."""

    plan: Plan
    values: Mapping[str, Any]
    logits: Logits
    encoder: Encoder
    make_guide: MakeGuide
    seed: int
    base: Sampling


def draw(given: Given, branch: Instance, allowed: Collection[int] | None, sampling: Sampling) -> tuple[int, float]:
    """From the logits behind the last token, with the number that belongs to this draw of this branch.

    It takes place in the first pass in which all that the branch sees has been fed, and not before it is known that the
    branch stands here.
    """
    attempt = "" if branch.attempt == 1 else f"attempt {branch.attempt}"
    uniform = RandomKey(given.seed, branch.spec.name, branch.key, len(branch.asked), attempt).uniform()
    branch.asked.append(branch.path[-1])
    branch.pass_ = max(branch.pass_, *(1 + token.known for token in branch.path))
    before = {token.token for token in branch.own}
    return choose(given.logits(branch.path[-1]), allowed, sampling.over(given.base), before, uniform)


def fill(given: Given, branch: Instance, hole: Hole, place: Place, sources: Mapping[str, str]) -> Field:
    """What is forced is taken along; then one token is drawn, and so on to the end."""
    written = Field(hole, place, point=branch.points[-1])
    try:
        state = _begin(given, branch, hole, sources)
        _force(given, branch, state, written)
        while not state.is_finished:
            token, log_probability = draw(given, branch, _tokens(state, given), hole.sampling)
            _take(given, branch, state, written, token, log_probability)
            _force(given, branch, state, written)
        written.text, written.truncated = state.text, state.truncated
    except NoEndingFits as problem:
        _leave_out(given, branch, written, problem)
    except GuideError as problem:
        raise Refused("dead_end", str(problem)) from problem
    except RunError as problem:
        raise Refused(problem.code, str(problem)) from problem
    return written


def _begin(given: Given, branch: Instance, hole: Hole, sources: Mapping[str, str]) -> State:
    """White space before the value is drawn with it, or fed on its own where no value fits behind it."""
    try:
        return _state(given, branch, hole, sources, branch.room)
    except NoEndingFits:
        if not leading_space_of(hole):
            raise
    lead = given.encoder.text(leading_space_of(hole))
    room = None if branch.room is None else branch.room - len(lead)
    state = _state(given, branch, without_leading_space(hole), sources, room)
    branch.feed(lead)
    return state


def _state(given: Given, branch: Instance, hole: Hole, sources: Mapping[str, str], room: int | None) -> State:
    guide = given.make_guide(hole, given.plan, sources)
    return guide.start(max_tokens=hole.max_tokens if room is None else min(hole.max_tokens, room))


def _tokens(state: State, given: Given) -> list[int]:
    return [int(token) for token in tokens_of(state.allowed())]


def _take(given: Given, branch: Instance, state: State, written: Field, token: int, log_probability: float) -> None:
    """A token that ends the value from outside is not fed; what it adds to the value is spelled anew."""
    accepted = state.advance(token)
    written.note(token, log_probability)
    branch.feed([token] if accepted.kept else given.encoder.text(accepted.lead + accepted.text))


def _force(given: Given, branch: Instance, state: State, written: Field) -> None:
    while not state.is_finished and (forced := state.forced()):
        for token in forced:
            if not state.is_finished:
                _take(given, branch, state, written, token, 0.0)


def _leave_out(given: Given, branch: Instance, written: Field, problem: NoEndingFits) -> None:
    """Nothing of the type fits into the limit: the value is null, if it may be."""
    hole = written.hole
    if hole.form is not Form.JSON or find_mismatches(hole.type, None, dict(given.plan.types)):
        raise Refused("dead_end", str(problem)) from problem
    written.text, written.problem = "null", str(problem)
    for token in given.encoder.text(leading_space_of(hole) + "null"):
        written.note(token, 0.0)
    branch.feed(written.tokens)


def decide(given: Given, branch: Instance, options: Sequence[Sequence[int] | None], sampling: Sampling) -> int:
    """The number of the option that is taken. An option is its tokens; None is the end of the model's turn.

    What all that are left have in common is fed; else a token is drawn. Where one option is complete and another one
    goes on, any token may be drawn, and all but the longer one's next one end the choice.
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
            allowed = None if complete else spelled | (given.encoder.ends if ending else set())
            token, _ = draw(given, branch, allowed, sampling)
            left = [option for option in left if following[option] == token]
            if not left:
                return (ending if ending and token in given.encoder.ends else complete)[0]
        elif different[0] is None:
            return left[0]
        else:
            token = different[0]
        branch.feed([token])
        depth += 1


def _at(tokens: Sequence[int] | None, depth: int) -> int | None:
    return None if tokens is None or depth >= len(tokens) else tokens[depth]
