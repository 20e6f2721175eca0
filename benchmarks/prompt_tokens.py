"""What prompt tokens gain from distillation and from ensembles, on the same answers and in as many steps.

    python -m benchmarks.prompt_tokens --model smollm2 --program FILE --data rows.jsonl [--steps 80 --ensemble 1 5]

The model answers the rows, greedily. Prompt tokens are then trained for each way from the same embeddings, on the same
places in the same order, once against what the model said there (its distribution, as `pasta train ppd` does it) and
once against the token that was drawn alone. One answer in four is held out; all ways predict from its same places.
Differences are from one prompt token for each distance with drawn tokens; brackets hold 95 % of 2,000 draws of the
held-out lines.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

import pastalang
from benchmarks.ahead import rows_by_kind
from benchmarks.hpd import clock
from pastalang.plan.branches import Mode
from pastalang.runtime.models.loading import load_model
from pastalang.training.probe_lines import (
    Contexts,
    ProbeBatch,
    ProbeBatches,
    ProbeLine,
    Probing,
    ahead_logits,
    distillation,
    lines_of,
)
from pastalang.training.recording import IGNORED, Recorder, drawn_of, planner

_DECAY: Final = 0.8  # a distance counts so much of the one before it, as in `pasta train ppd`
_RATE: Final = 0.01  # falls to nothing as a cosine
_TOP: Final = 5
_DRAWS: Final = 2000


class Trial:
    """The answers of a model as lines, of which some train and the others judge."""

    def __init__(self, model: Any, rows: Sequence[Any], *, length: int, distances: int) -> None:
        self.model = model.eval().requires_grad_(False)
        self.length = max(length, *(len(row) for row in rows))
        self.distances = distances
        held = [row for number, row in enumerate(rows) if number % 4 == 0]
        taught = [row for number, row in enumerate(rows) if number % 4]
        self.taught, self.held = (
            [line for row in some for line in lines_of([row], length=self.length, distances=distances)]
            for some in (taught, held)
        )
        self._contexts, self._judged = (
            Contexts(self.model, lines, length=self.length, most=8 << 30) for lines in (self.taught, self.held)
        )

    def train(self, *, ensemble: int, is_hard: bool, steps: int, size: int, hosts: int) -> Probing:
        """From the embeddings of drawn tokens, of which the first are the same for every ensemble."""
        drawn = [token for line in self.taught for host in line.hosts for token in host.drawn if token != IGNORED]
        chosen = np.random.default_rng(0).choice(drawn, size=(ensemble, self.distances)).T
        probing = Probing(self.model.get_input_embeddings()(torch.from_numpy(chosen)).float().clone())
        batches = self._batches(self.taught, ensemble, size, hosts)
        optimizer = torch.optim.AdamW(probing.parameters(), lr=_RATE, weight_decay=0.0)
        falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for number in range(steps):
            batch = batches(number)
            loss = (
                self._of_drawn(probing, batch)
                if is_hard
                else distillation(self.model, probing.rows, batch, self._contexts, decay=_DECAY)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            falling.step()
        return probing

    def _of_drawn(self, probing: Probing, batch: ProbeBatch) -> torch.Tensor:
        logits = ahead_logits(self.model, probing.rows, batch, self._contexts).float()
        where = batch.places >= 0
        weights = _DECAY ** where.nonzero(as_tuple=True)[2].to(logits.dtype)
        return (cross_entropy(logits[where], batch.drawn[where], reduction="none") * weights).sum() / weights.sum()

    @torch.no_grad()
    def ranks(self, probing: Probing, hosts: int) -> list[NDArray[np.int64]]:
        """Of each held-out line, (hosts, distances): the rank of the token that was drawn, `_TOP` if it has none, and
        -1 where none was drawn."""
        ensemble = probing.rows.shape[1]
        batches = self._batches(self.held, ensemble, 1, hosts)
        found = []
        for number, line in enumerate(self.held):
            batch = batches.batch([(number, line.hosts[:: max(1, len(line.hosts) // hosts)][:hosts])])
            logits = ahead_logits(self.model, probing.rows, batch, self._judged)[0]
            is_drawn = logits.topk(_TOP, dim=-1).indices == batch.drawn[0][..., None]
            rank = torch.where(is_drawn.any(dim=-1), is_drawn.long().argmax(dim=-1), _TOP)
            found.append(torch.where(batch.drawn[0] == IGNORED, -1, rank).numpy())
        return found

    def _batches(self, lines: Sequence[ProbeLine], ensemble: int, size: int, hosts: int) -> ProbeBatches:
        return ProbeBatches(
            lines, length=self.length, distances=self.distances, ensemble=ensemble,
            vocabulary=int(self.model.config.vocab_size), size=size, hosts=hosts, seed=0,
        )  # fmt: skip


def right(ranks: Sequence[NDArray[np.int64]], distance: int, top: int) -> NDArray[np.int64]:
    """(lines, 2): how many of the predictions at this distance are right, and how many there are."""
    some = [one[:, distance][one[:, distance] >= 0] for one in ranks]
    return np.array([(int((one < top).sum()), len(one)) for one in some])


def share(counts: NDArray[np.int64]) -> float:
    right, all = counts.sum(axis=0)
    return float(right / max(1, all))


def gain(counts: NDArray[np.int64], others: NDArray[np.int64]) -> tuple[float, float, float]:
    """How much larger the first share is, with its interval."""
    drawn = np.random.default_rng(0).integers(0, len(counts), (_DRAWS, len(counts)))
    shares = [some[drawn].sum(axis=1) for some in (counts, others)]
    draws = shares[0][:, 0] / shares[0][:, 1] - shares[1][:, 0] / shares[1][:, 1]
    low, high = np.percentile(draws, (2.5, 97.5))
    return share(counts) - share(others), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="rows with the inputs, and a `category` if you like")
    parser.add_argument("--documents", type=int, default=30, help="of each category")
    parser.add_argument("--ensemble", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--distances", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--rows", type=int, default=4, help="lines of a step")
    parser.add_argument("--hosts", type=int, default=8, help="places of a line in a step")
    parser.add_argument("--judged", type=int, default=48, help="places of a held-out line")
    parser.add_argument("--mode", type=Mode, default=Mode.STRICT, choices=list(Mode))
    parser.add_argument("--dtype", default="float32")
    given = parser.parse_args()
    warnings.simplefilter("ignore", pastalang.TruncationWarning)
    program = pastalang.load(given.program)
    names = [one.name for one in program.only_template.inputs]
    inputs = [row for rows in rows_by_kind(given.data, names, given.documents).values() for row in rows]
    engine = pastalang.Engine.load(given.model, adapter=None, dtype=given.dtype, cells=1 << 15)
    results = [
        one for at in range(0, len(inputs), 16) for one in engine.batch(program, inputs[at : at + 16], mode=given.mode)
    ]
    del engine
    base = load_model(given.model, adapter=None, dtype=given.dtype, packed=False)
    recorder, plan = Recorder(base.tokenizer), planner(program)(given.mode)
    rows = [recorder.again(plan, one, drawn_of(result), origin="") for one, result in zip(inputs, results, strict=True)]
    trial = Trial(base.weights, rows, length=8, distances=given.distances)
    print(f"{len(trial.taught)} answers to learn from, {len(trial.held)} held out; {clock.machine()}")
    print(f"| prompt tokens | learn from | {' | '.join(f'@{at} top {top}' for at in (1, 2) for top in (1, _TOP))} "
          "| @1 top 1, gained | seconds |\n|---:|---|---:|---:|---:|---:|---:|---:|")  # fmt: skip
    first = None
    for ensemble in given.ensemble:
        for is_hard in (True, False):
            began = clock.now()
            probing = trial.train(
                ensemble=ensemble, is_hard=is_hard, steps=given.steps, size=given.rows, hosts=given.hosts
            )
            seconds = clock.now() - began
            ranks = trial.ranks(probing, given.judged)
            shares = [share(right(ranks, at, top)) for at in (0, 1) for top in (1, _TOP)]
            counts = right(ranks, 0, 1)
            first = counts if first is None else first
            points, low, high = gain(counts, first)
            print(
                f"| {ensemble} | {'drawn tokens' if is_hard else 'distributions'} "
                f"| {' | '.join(f'{one:.3f}' for one in shares)} | {points:+.3f} ({low:+.3f} … {high:+.3f}) "
                f"| {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
