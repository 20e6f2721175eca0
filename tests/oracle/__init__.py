"""The slow decoder: a second implementation of decoding that defines what the runtime has to give.

It has no scheduler, no memory, no steps and no caches. It writes one branch at a time, each as far as it can go, and
asks the model for the logits of every token with exactly what that token sees. It shares with the runtime what a run is
given (guides, tokenizers, the random numbers of draws), not how a run is executed.

    token     a token and the path of tokens that it sees     segments   the meaning of each kind of segment
    branch    fork, feed, join: paths and positions           free_text  thoughts, and text in which branches begin
    run       all branches, and which of them must wait       repair     decoding again from a checkpoint
    holes     how holes are filled and choices are made       answer     text, fields and values in reading order
    logits    a forward pass per token
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pastalang import Plan, Problem, Sampling, ValidatorFailed
from pastalang.plan.build import with_history
from pastalang.runtime.binding.bound_plan import BoundPlan, MakeGuide
from pastalang.runtime.binding.whitespace import move_whitespace
from pastalang.runtime.call import Options
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.inputs import bind_inputs, roles_of
from pastalang.runtime.repair.validation import Policy, policy_for
from tests.oracle.answer import Answer, Field, layouts_of
from tests.oracle.holes import Refused, Request
from tests.oracle.logits import logits_from, logits_of
from tests.oracle.repair import Repair
from tests.oracle.run import Cost, Run
from tests.oracle.segments import write_all
from tests.oracle.token import Logits, Token

__all__ = ["Answer", "Cost", "Decoded", "Field", "Logits", "Refused", "Token", "decode", "logits_from", "logits_of"]


@dataclass(frozen=True)
class Decoded:
    """The answer, or one for each stacked document.

    `first` is the cost up to the first complete answer, and `cost` includes repairs. `problems` are the objections that
    remain; with `is_refused`, the run fails because of them.
    """

    answers: tuple[Answer, ...]
    first: Cost
    cost: Cost
    attempts: int = 0
    problems: tuple[Problem, ...] = ()
    is_refused: bool = False


def decode(
    plan: Plan,
    inputs: Mapping[str, Any],
    *,
    logits: Logits,
    encoder: Encoder,
    make_guide: MakeGuide,
    seed: int = 0,
    sampling: Sampling | None = None,
    policy: Policy | None = None,
) -> Decoded:
    """Decode a plan. `policy` validates and repairs the answer. Raises `Refused` if the run ends with an error."""
    values = bind_inputs(plan, inputs)
    if plan.history is not None:
        plan = with_history(plan, roles_of(values[plan.history.name]))
    bound = move_whitespace(plan, encoder)  # if the tokenizer needs it, a hole writes the white space before its value
    request = Request(bound, values, logits, encoder, make_guide, seed, sampling or Sampling())
    run = Run(request)
    write_all(run)
    first = run.cost
    if policy is None:
        policy = policy_for(plan, Options(), has_checks=BoundPlan(plan, encoder, make_guide).has_checks)
    if policy is None:
        return Decoded(_answers_of(run), first, first)
    repair = Repair(run, policy)
    try:
        while repair.starts_round():
            write_all(run)
    except ValidatorFailed as problem:
        raise Refused(problem.code, str(problem)) from problem
    answers = _answers_of(run)
    pairs = zip(answers, repair.models, strict=True)
    answers = tuple(one if model is None else replace(one, value=model) for one, model in pairs)
    is_refused = bool(repair.problems) and not policy.keep_invalid
    return Decoded(answers, first, run.cost, repair.attempts, repair.problems, is_refused)


def _answers_of(run: Run) -> tuple[Answer, ...]:
    run.count_attempts()
    return tuple(layout.answer for layout in layouts_of(run.request.plan, run.branches[0]))
