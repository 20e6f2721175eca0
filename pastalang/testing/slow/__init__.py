"""The slow decoder: what a run *is*, without a scheduler, a memory, a step or a cache. The oracle of the runtime.

A plan, inputs, a seed, a sampling and a model come in; text, values, tokens and log-probabilities go out. Branches
are written one at a time, each from its beginning as far as it can go; for every token the model is asked anew, with
everything that the token sees. Guides, tokenizers and the numbers of draws are those of the runtime: they are what
a run is given, not how it is executed.

    token     what a token sees: paths               holes      how a hole is filled, how a choice is made
    branch    fork, feed, join: paths, positions     segments   the meaning of each segment
    run       who there is, and who waits for whom   answer     text, fields and values in reading order
    logits    a forward pass per token               free_text  thoughts, and tags that the model writes
    repair    what is decoded again
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pastalang.plan.plan import Plan
from pastalang.program.types import Sampling
from pastalang.runtime.binding.bound_plan import MakeGuide
from pastalang.runtime.binding.whitespace import move_whitespace
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import Problem, ValidatorFailed
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.repair.policy import Policy
from pastalang.testing.slow.answer import Answer, Field, sheets_of
from pastalang.testing.slow.holes import Given, Refused
from pastalang.testing.slow.logits import logits_of, scored
from pastalang.testing.slow.repair import Repair
from pastalang.testing.slow.run import Cost, Run
from pastalang.testing.slow.segments import write_all
from pastalang.testing.slow.token import Logits, Token

__all__ = ["Answer", "Cost", "Decoded", "Field", "Logits", "Refused", "Token", "decode", "logits_of", "scored"]


@dataclass(frozen=True)
class Decoded:
    """The answer, or one per stacked document. `first` is what it had cost when it was first complete, `cost` what it
    cost in the end. `problems`: what is still objected to; `is_refused`: and that is why there is no answer."""

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
    """`policy`: what is asked of the finished answer. Raises `Refused` where a run ends with an error."""
    bound = move_whitespace(plan, encoder)  # where the tokenizer asks for it, a hole writes the white space before it
    given = Given(bound, bind_inputs(plan, inputs), logits, encoder, make_guide, seed, sampling or Sampling())
    run = Run(given)
    write_all(run)
    first = run.cost
    if policy is None:
        return Decoded(_answers_of(run), first, first)
    repair = Repair(run, policy)
    try:
        while repair.begins_round():
            write_all(run)
    except ValidatorFailed as problem:
        raise Refused(problem.code, str(problem)) from problem
    answers = _answers_of(run)
    if repair.models:
        answers = tuple(replace(one, value=model) for one, model in zip(answers, repair.models, strict=True))
    is_refused = bool(repair.problems) and not policy.keep_invalid
    return Decoded(answers, first, run.cost, repair.attempts, repair.problems, is_refused)


def _answers_of(run: Run) -> tuple[Answer, ...]:
    run.count_attempts()
    return tuple(sheet.answer for sheet in sheets_of(run.given.plan, run.branches[0]))
