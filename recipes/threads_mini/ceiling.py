"""What each policy gains if the model makes no mistake: python -m recipes.threads_mini.ceiling --out FOLDER

The right answers are replayed through the scheduler, with a teacher in place of the sampler. Nothing is computed, so
this takes a second for each table and needs no trained model.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pastalang.plan.build import build_plan
from pastalang.program.types import Drafts, Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.tagged_text import TaggedTextGuides
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.drafts.drafter import EngineDrafter
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.sampling.sampler import Sample
from pastalang.runtime.scheduler.scheduler import Scheduler
from pastalang.runtime.scheduler.state import RequestState
from pastalang.training.data import Row, read_checked
from pastalang.training.recording import CELLS, FAR, Teacher
from recipes.threads_mini.answers import Policy
from recipes.threads_mini.model import make_tokenizer
from recipes.threads_mini.recipe import Sizes, program_of, write_exams

DRAFTS: Final = 8  # guesses of a branch in a pass, at most
_REPORTED = (Policy.LINEAR, Policy.PASTA, Policy.APAR)
_COLUMNS = ("passes", "drafted", "peak_cells", "cells", "attended")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one right answer. `cells` are those that were taken in all, `attended` the mean over drawn tokens. All but
    `drafted`, which are the passes with drafts, are without drafts."""

    passes: int
    drafted: int
    drawn: int
    peak_cells: int
    cells: int
    attended: float


class Replay:
    """Replays the right answers of one policy."""

    def __init__(self, policy: Policy, tokenizer: Any) -> None:
        program, encoder = program_of(policy), Encoder(tokenizer)
        self._vocabulary = vocabulary_of(tokenizer, ends=encoder.ends, encode=encoder.text)
        self._tokens = Tokens(self._vocabulary)
        guides = TaggedTextGuides(self._tokens, encoder, GuideCache(self._tokens))
        self.plan = build_plan(program.only_template, program)
        self._encoder, self._bound = encoder, BoundPlan(self.plan, encoder, guides)

    def cost(self, row: Row) -> Cost:
        request, fed = self._replayed(row, "off")
        with_drafts, _ = self._replayed(row, DRAFTS)
        counts, drawn = request.counts, sum(len(branch.record.drawn) for branch in request.branches)
        return Cost(
            counts.last_draw, with_drafts.counts.last_draw, drawn, counts.peak_cells, fed, counts.attended / drawn
        )  # fmt: skip

    def _replayed(self, row: Row, drafts: Drafts) -> tuple[RequestState, int]:
        """The answer, and how many tokens were fed. Guesses come from this row alone."""
        teacher = Teacher(row.answer, self._tokens, self._encoder)
        drafter = EngineDrafter(self._vocabulary, clock=lambda: 0.0)
        scheduler = Scheduler(cells=CELLS, max_position=FAR, drafter=drafter)
        request = RequestState(self._bound, row.inputs, number=0, base=Sampling(drafts=drafts))
        scheduler.submit(request)
        fed = 0
        while not request.is_over:
            step = scheduler.schedule()
            if step is not None:
                fed += len(step.batch)
                pending = scheduler.commit()
                while pending:
                    pending = scheduler.accept([(one, Sample(teacher.token(one.branch), 0.0)) for one in pending])
            scheduler.end_step()
        return request, fed


def table_of(folder: Path, tokenizer: Any) -> Iterator[str]:
    """A line for each policy and number of ships."""
    yield "| policy | tables | speed-up | passes | with drafts | peak cells | nothing released | attended tokens |"
    yield "|---|---|---|---|---|---|---|---|"
    plain: dict[str, list[Cost]] = {}
    for policy in _REPORTED:
        replay = Replay(policy, tokenizer)
        found: dict[str, list[Cost]] = {}
        for row in read_checked(folder / f"test-{policy.value}.jsonl", replay.plan):
            found.setdefault(row.category, []).append(replay.cost(row))
        plain = plain or found
        for category in sorted(found):
            yield _line(policy, category, found[category], plain[category])


def _line(policy: Policy, category: str, costs: Sequence[Cost], plain: Sequence[Cost]) -> str:
    speed = math.exp(_mean([math.log(one.drawn / cost.passes) for cost, one in zip(costs, plain, strict=True)]))
    means = [[getattr(cost, name) for cost in costs] for name in _COLUMNS]
    numbers = " | ".join(f"{_mean(values):.1f}" for values in means)
    return f"| {policy.value}, {category} | {len(costs)} | {speed:.2f}x | {numbers} |"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.threads_mini.ceiling", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the tables are, or will be")
    parser.add_argument("--exam", type=int, default=Sizes().exam, help="how many tables")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    write_exams(given.out, tokenizer, Sizes(exam=given.exam))
    for line in table_of(given.out, tokenizer):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
