"""The slow decoder: what a run *is*, without a scheduler, a memory, a step or a cache. The oracle of the runtime.

A plan, inputs, a seed, a sampling and a model come in; text, values, tokens and log-probabilities go out. Branches
are written one at a time, each from its beginning as far as it can go; for every token the model is asked anew, with
everything that the token sees. Guides, tokenizers and the numbers of draws are those of the runtime: they are what
a run is given, not how it is executed.

    token     what a token sees: paths               holes     how a hole is filled, how a choice is made
    branch    fork, feed, join: paths, positions     segments  the meaning of each segment
    run       who there is, and who waits for whom   page      text, fields and values in reading order
    draws     from logits to a token                 logits    a forward pass per token
    thought   what is written before the answer      plainly   models written out
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pastalang.plan.plan import Plan
from pastalang.program.types import Sampling
from pastalang.runtime.handing import with_leads
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.prompt import Encoder
from pastalang.runtime.tokens import MakeGuide
from pastalang.testing.slow.holes import Given, Refused
from pastalang.testing.slow.logits import logits_of, scored
from pastalang.testing.slow.page import Answer, Field, answers_of
from pastalang.testing.slow.run import Run
from pastalang.testing.slow.segments import Writer, write
from pastalang.testing.slow.token import Logits, Token

__all__ = ["Answer", "Field", "Logits", "Refused", "Token", "decode", "logits_of", "scored"]


def decode(
    plan: Plan,
    inputs: Mapping[str, Any],
    *,
    logits: Logits,
    encoder: Encoder,
    make_guide: MakeGuide,
    seed: int = 0,
    sampling: Sampling | None = None,
) -> tuple[Answer, ...]:
    """The answer, or one per stacked document. Raises `Refused` where a run ends with an error."""
    bound = with_leads(plan, encoder)  # where the tokenizer asks for it, a hole writes the white space before it
    given = Given(bound, bind_inputs(plan, inputs), logits, encoder, make_guide, seed, sampling or Sampling())
    run = Run(given)
    writers: list[Writer] = []
    begun = 0
    while begun < len(run.branches) or writers:
        writers += [Writer(write(run, branch)) for branch in run.branches[begun:]]
        begun = len(run.branches)
        ready = [writer for writer in writers if writer.may_go_on()]
        assert ready, "everybody waits for somebody"
        for writer in ready:
            writer.go_on()
        writers = [writer for writer in writers if not writer.is_done]
    return answers_of(plan, run.branches[0].page)
