"""From a request that is over to what its caller gets: a result with what it cost, or an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pastalang.errors import PastaError
from pastalang.plan.passes import passes_taken
from pastalang.runtime.answer import answers_of, realised_of
from pastalang.runtime.chat import Encoder
from pastalang.runtime.decode.auto import THREAD
from pastalang.runtime.errors import RunError
from pastalang.runtime.recorded import trace_of
from pastalang.runtime.repair.review import Review
from pastalang.runtime.result import Invalid, Result, Usage
from pastalang.runtime.scheduler.request import RequestState
from pastalang.runtime.scheduler.threads import passes_of
from pastalang.runtime.scheduler.transcript import Threads, WrittenField


def outcome_of(request: RequestState, encoder: Encoder, *, chunk: int | None) -> Result | PastaError:
    """`chunk`: how many tokens of a branch a step could take, where that was limited."""
    if request.error is not None:
        return request.error
    try:
        answers, is_stacked = answers_of(request)
        usage = _usage(request, encoder, chunk)
    except RunError as problem:
        return problem
    review = request.reviewer if isinstance(request.reviewer, Review) else None
    if review is not None and review.models:
        answers = tuple(replace(one, value=value) for one, value in zip(answers, review.models, strict=True))
    problems = () if review is None else review.problems
    result = Result(answers, is_stacked, usage, trace_of(request), problems)
    if review is not None and problems and not review.policy.keep_invalid:
        return Invalid(problems, plan=request.plan, result=result)
    return result


def _usage(request: RequestState, encoder: Encoder, chunk: int | None) -> Usage:
    drawn = sum(len(branch.drawn) for branch in request.branches)
    draft = request.draft or request.stand
    critical_path = _critical_path(request, chunk)
    is_forecast = not request.was_held_back and (chunk is None or request.plan.auto is None)
    if is_forecast and draft.last_draw != critical_path:
        # Our mistake: it ends this request with a typed error, and leaves its batch mates alone.
        raise RunError(
            f"internal error: {draft.last_draw} passes were taken, and the plan asks for {critical_path}",
            plan=request.plan,
        )
    answer = sum(len(encoder.text(one.text)) for one in _forced_answer(request))
    return Usage(
        input_tokens=_input_tokens(request),
        reused_tokens=request.reused_tokens,
        output_tokens=drawn,
        forced_tokens=answer,
        forward_passes=request.forward_passes,
        critical_path=critical_path,
        theoretical_speedup=(draft.drawn + answer) / max(critical_path, 1),
        peak_cells=request.peak_cells,
        attended_tokens=request.attended / max(drawn, 1),
        seconds=request.ended_at - request.started_at,
        repair_passes=request.forward_passes - draft.forward_passes,
        repair_tokens=drawn - draft.drawn,
        attempts=request.reviewer.attempts if isinstance(request.reviewer, Review) else 0,
    )


def _critical_path(request: RequestState, chunk: int | None) -> int:
    """What the plan asks for; where the model placed the branches, what those ask for."""
    if request.plan.auto is None:
        return passes_taken(request.plan, realised_of(request, chunk=chunk))
    texts = [
        (branch, written.field.threads or Threads())
        for branch in request.branches
        for written in branch.written
        if isinstance(written, WrittenField) and written.field.path != THREAD
    ]
    return max(passes_of(branch, threads) for branch, threads in texts)


def _input_tokens(request: RequestState) -> int:
    """What stands before the model's own turn; of stacked documents, what they share is counted once."""
    root = request.root
    shared = root.prompt or root.start + len(root.tokens)
    return shared + sum(branch.prompt for branch in request.branches if branch is not root)


def _forced_answer(request: RequestState) -> list[Any]:
    """The forced pieces of the model's own turn."""
    answers, _ = answers_of(request)
    return [stretch for answer in answers for stretch in answer.stretches if stretch.is_forced]
