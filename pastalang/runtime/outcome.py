"""The outcome of a request that is over: its result with cost and trace, or its error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

from pastalang.failures import PastaError
from pastalang.plan.simulate import simulate
from pastalang.runtime.answer import answers_of, as_callers_see_it
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import RunError
from pastalang.runtime.partial_text import answers_so_far
from pastalang.runtime.repair.review import Review
from pastalang.runtime.result import Answer, Invalid, Result, Truncated, Usage
from pastalang.runtime.scheduler.state import BranchState, FirstAnswerStats, RequestState, TokenSequence
from pastalang.runtime.trace import ROOT_LANE, DraftedTokens, ForcedTokens, JoinedLanes, Lane, SampledToken, Trace

_BY_PASS = attrgetter("forward_pass")


def outcome_of(
    request: RequestState, encoder: Encoder, *, chunk: int | None, check_passes: bool
) -> Result | PastaError:
    """A request that was stopped has the result of what it had written, without a value. `chunk` is the limit on the
    tokens of one branch in one step.

    `check_passes` simulates the plan and compares the passes; so do requests with `details`. It costs a fifth of what
    the engine itself takes for a long answer.
    """
    if request.error is not None:
        return request.error
    is_whole = not request.schedule.is_stopped
    try:
        review = request.reviewer if is_whole and isinstance(request.reviewer, Review) else None
        problems, known = ((), None) if review is None else (review.problems, review.layouts)
        answers, is_stacked = (
            answers_of(request, known, may_be_wrong=bool(problems)) if is_whole else answers_so_far(request)
        )
        usage = _usage(request, answers, encoder, chunk, check_passes=check_passes or request.options.details)
    except RunError as problem:
        return problem
    if review is not None:
        pairs = zip(answers, review.models, strict=True)
        answers = tuple(one if model is None else replace(one, value=model) for one, model in pairs)
    answers = tuple(as_callers_see_it(one, request.plan, is_whole=is_whole) for one in answers)
    result = Result(answers, is_stacked, usage, trace_of(request), problems, _prompt_of(request))
    if review is not None and problems and not review.policy.keep_invalid:
        return Invalid(problems, plan=request.plan, result=result)
    refused = [one for one in result.truncations if one.became == "raise"]
    return Truncated(refused, plan=request.plan, result=result) if refused else result


def _usage(
    request: RequestState, answers: tuple[Answer, ...], encoder: Encoder, chunk: int | None, *, check_passes: bool
) -> Usage:
    counts, review = request.counts, request.reviewer if isinstance(request.reviewer, Review) else None
    first, now = counts.first_answer or request.stats, request.stats
    critical_path = _critical_path(request, first, chunk, check=check_passes)
    forced = sum(
        len(encoder.text(stretch.text)) for answer in answers for stretch in answer.stretches if stretch.is_forced
    )
    input_tokens = _input_tokens(request)
    return Usage(
        input_tokens=input_tokens,
        reused_tokens=counts.reused_tokens,
        output_tokens=now.drawn,
        forced_tokens=_undrawn_tokens(request) - input_tokens,
        forward_passes=counts.forward_passes,
        critical_path=critical_path,
        theoretical_speedup=(first.drawn + forced) / max(critical_path, 1),
        peak_cells=counts.peak_cells,
        attended_tokens=counts.attended / max(now.drawn, 1),
        seconds=request.schedule.seconds,
        repair_passes=counts.forward_passes - first.forward_passes,
        repair_tokens=now.drawn - first.drawn,
        drafted_tokens=counts.drafted,
        confirmed_tokens=sum(len(branch.record.confirmed) for branch in request.branches),
        attempts=0 if review is None else review.attempts,
        given_up=0 if review is None else review.given_up,
    )


def _critical_path(request: RequestState, first: FirstAnswerStats, chunk: int | None, *, check: bool) -> int:
    """The passes that the plan asks for. A run that nothing delayed has taken exactly these."""
    if not request.counts.was_held_back and not check:
        return first.last_draw
    planned = simulate(request.plan, request.run_log(chunk=chunk)).passes
    if not request.counts.was_held_back and first.last_draw != planned:
        raise RunError(
            f"internal error: the run took {first.last_draw} passes, and its plan asks for {planned}", plan=request.plan
        )
    return planned


def _input_tokens(request: RequestState) -> int:
    """The tokens before the model's turn, as far as they were fed: a stack of no documents needs none of them. What
    stacked documents share is counted once."""
    first, *others = request.first_run
    prompt = first.sequence.prompt or first.sequence.start + len(first.sequence.tokens)
    shared = min(prompt, _kept_tokens(request) + first.memory.fed)
    return shared + sum(min(one.sequence.prompt, one.memory.fed) for one in others)


def _prompt_of(request: RequestState) -> str:
    """The text before the model's turn."""
    decode = request.tokens.encoder.decode
    first, *others = (branch.sequence for branch in request.first_run)
    shared = decode([*_kept(first), *first.tokens][: first.prompt or None])
    return shared + "".join(decode(one.tokens[: one.prompt]) for one in others if one.prompt)


def _kept(sequence: TokenSequence) -> list[int]:
    """Its beginning, if the prefix cache holds it."""
    return [token for seen in sequence.own_before for token in seen.branch.sequence.tokens[: seen.length]]


def _kept_tokens(request: RequestState) -> int:
    """How many tokens of its beginning the prefix cache holds. A new beginning is fed in the first pass."""
    counts = request.counts
    return counts.kept_tokens if counts.forward_passes else counts.reused_tokens


def _undrawn_tokens(request: RequestState) -> int:
    """The tokens that were fed without being drawn, those of the prompt included, whoever fed them."""
    undrawn = _kept_tokens(request)
    for branch in request.branches:
        fed = branch.memory.fed
        undrawn += fed - sum(one.index is not None and one.index < fed for one in branch.record.drawn)
    return undrawn


def trace_of(request: RequestState) -> Trace:
    """Of the runs that repeat the first one, what was fed or drawn in them."""
    first = set(request.first_run)
    branches = [one for one in request.branches if one in first or one.memory.fed or one.record.drawn]
    return Trace(
        passes=request.counts.last_draw,
        lanes=tuple(_lane(branch) for branch in branches),
        fed=tuple(sorted((*_prompt(request), *(fed for one in branches for fed in _fed(one))), key=_BY_PASS)),
        drawn=tuple(sorted((drew for branch in branches for drew in _drawn(branch)), key=_BY_PASS)),
        joins=tuple(sorted((join for branch in branches for join in _joins(branch)), key=_BY_PASS)),
        drafts=tuple(
            sorted((DraftedTokens(one.number, *draft) for one in branches for draft in one.record.drafts), key=_BY_PASS)
        ),
    )


def _lane(branch: BranchState) -> Lane:
    record = branch.record
    passes = [*(run[2] for run in record.runs[:1]), *(drawn.forward_pass for drawn in record.drawn[:1])]
    sees: dict[int, int] = {}
    for seen in branch.sequence.view:
        lane = max(seen.branch.number, ROOT_LANE)  # a kept prompt counts as the root's
        if lane != branch.number:
            sees[lane] = sees.get(lane, 0) + seen.length
    parent = None if branch.parent is None else branch.parent.number
    return Lane(branch.number, branch.name, branch.items, parent, min(passes, default=None), tuple(sees.items()))


def _prompt(request: RequestState) -> Iterator[ForcedTokens]:
    """The beginning of the root that the prefix cache holds: tokens of earlier requests, and new ones."""
    if not request.branches:
        return
    tokens = _kept(request.branches[0].sequence)[: _kept_tokens(request)]
    decode = request.tokens.encoder.decode
    reused = min(request.counts.reused_tokens, len(tokens))
    for part, start, was_kept in ((tokens[:reused], 0, True), (tokens[reused:], reused, False)):
        if part:
            yield ForcedTokens(ROOT_LANE, 1, decode(part), len(part), start, was_kept)


def _fed(branch: BranchState) -> Iterator[ForcedTokens]:
    """Runs of forced tokens, cut at each sampled token."""
    sequence, drawn = branch.sequence, {one.index for one in branch.record.drawn}
    decode = branch.request.tokens.encoder.decode
    for first, count, forward_pass in branch.record.runs:
        start = first
        for index in range(first, first + count + 1):
            if index < first + count and index not in drawn:
                continue
            if index > start:
                tokens = sequence.tokens[start:index]
                yield ForcedTokens(branch.number, forward_pass, decode(tokens), len(tokens), sequence.positions[start])
            start = index + 1


def _drawn(branch: BranchState) -> Iterator[SampledToken]:
    """A token that was not fed, or waited for threads when the run was stopped, stands where the next one would."""
    sequence = branch.sequence
    for one in branch.record.drawn:
        index = len(sequence.tokens) if one.index is None else one.index
        position = sequence.positions[index] if index < len(sequence.tokens) else sequence.position
        yield SampledToken(branch.number, one.forward_pass, one.text, one.token, one.log_probability, position)


def _joins(branch: BranchState) -> Iterator[JoinedLanes]:
    for since, index, joined in branch.record.joins:
        passes = [run[2] for run in branch.record.runs if run[0] + run[1] > index]
        if passes:
            yield JoinedLanes(branch.number, tuple(one.number for one in joined), since, passes[0])
