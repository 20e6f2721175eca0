"""The dynamic sparse tree of parallel prompt decoding next to our budget, on the same predictions.

    python -m benchmarks.trees --model FOLDER --program FILE --data rows.jsonl [--fed 7,15,31,63]

The model answers the rows, greedily, and its prompt tokens predict after every token of the answers. The paper's tree
is replayed on these predictions; ours runs in the engine, without look-up, so it stops at the same tokens.

T_k     the candidates that are fed where k distances were predicted: `n_c` paths of ranks, those whose ranks are
        likeliest right together, by how often each rank was right at the end of training
R(T)    tokens of a pass in the long run, over the states k in the shares in which they follow one another
n_p     prompt tokens, in chains after candidates: begun with a whole chain after each, the one is taken away that costs
        R(T) least until so many are left. Of all `n_c` with n_c + n_p = n, the one with the largest R(T) is taken
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch

import pastalang
from benchmarks.ahead import Way, added, measure_together, rows_by_kind
from pastalang.plan.branches import Mode
from pastalang.runtime.models.loading import load_model
from pastalang.runtime.models.probe_tokens import Accuracy
from pastalang.training.probe_lines import Contexts, ProbeBatches, ahead_logits, lines_of
from pastalang.training.recording import IGNORED, Recorder, drawn_of, planner

Path_: TypeAlias = tuple[int, ...]  # the ranks of a candidate, from the first distance on; (): the token before all
_RANKS: Final = 8


@dataclass(frozen=True)
class Dynamic:
    """`paths[k]`: the candidates of T_k. `chains[k]`: how many prompt tokens follow each, and the token before all."""

    paths: tuple[tuple[Path_, ...], ...]
    chains: tuple[Mapping[Path_, int], ...]
    rate: float  # R(T)

    @property
    def fed(self) -> list[int]:
        return [len(paths) + sum(chains.values()) for paths, chains in zip(self.paths, self.chains, strict=True)]


def best_tree(accuracy: Accuracy, most: int) -> Dynamic:
    """The tree whose passes hold at most so many candidates and prompt tokens, and give most tokens."""
    right = [np.diff([0.0, *top[:_RANKS]]) for top in accuracy.top]
    found = [tree for count in range(most) if (tree := _tree(right, count, most - count)) is not None]
    return max(found, key=lambda tree: tree.rate)


def _tree(right: Sequence[Any], candidates: int, prompts: int) -> Dynamic | None:
    """With so many candidates in each T_k but the first, which has none, and so many prompt tokens in each."""
    distances = len(right)
    paths = tuple(_likeliest(right[:known], candidates) for known in range(distances + 1))
    lasts = [_lasts(right, some) for some in paths]
    expected = [1 + sum(_chance(right, path) for path in some) for some in paths]
    gains = np.diff(expected)
    chains = []
    for some, last in zip(paths, lasts, strict=True):
        room = prompts + candidates - len(some)
        kept = dict.fromkeys(((), *some), distances)
        while sum(kept.values()) > room:
            longest = [path for path, length in kept.items() if length]
            least = min(longest, key=lambda path: last[path] * gains[kept[path] - 1])
            kept[least] -= 1
        chains.append(kept)
    moves = np.zeros((distances + 1, distances + 1))
    for known, (last, kept) in enumerate(zip(lasts, chains, strict=True)):
        for path, chance in last.items():
            moves[known, kept[path]] += chance
    shares = np.full(distances + 1, 1 / (distances + 1))
    for _ in range(200):
        shares = shares @ moves
    return Dynamic(paths, tuple(chains), float(shares @ expected))


def _likeliest(right: Sequence[Any], count: int) -> tuple[Path_, ...]:
    every = [path for length in range(1, len(right) + 1) for path in product(range(_RANKS), repeat=length)]
    return tuple(sorted(every, key=lambda path: -_chance(right, path))[:count])


def _chance(right: Sequence[Any], path: Path_) -> float:
    return float(np.prod([right[distance][rank] for distance, rank in enumerate(path)]))


def _lasts(right: Sequence[Any], paths: Sequence[Path_]) -> dict[Path_, float]:
    """The chance of each candidate to be the last right one."""
    last = {path: _chance(right, path) for path in ((), *paths)}
    for path in sorted(paths, key=len):
        last[path[:-1]] -= _chance(right, path)
    return last


def replay(tree: Dynamic, ranks: Any) -> tuple[int, int, int]:
    """Tokens, passes and what these were fed. `ranks` (tokens, distances): the rank of the token that came true among
    those predicted when each token was drawn; -1 where it has none."""
    last, known, passes, fed = (
        0,
        len(tree.paths) - 1,
        1,
        tree.fed[0],
    )  # the first pass, over the prompt, draws the first
    while last < len(ranks) - 1:
        paths, chains = tree.paths[known], tree.chains[known]
        passes, fed = passes + 1, fed + tree.fed[known]
        path: Path_ = ()
        while len(path) < known and (longer := (*path, int(ranks[last][len(path)]))) in paths:
            path = longer
        last, known = last + len(path) + 1, chains[path]
    return len(ranks), passes, fed


@torch.no_grad()
def predicted_ranks(model: Any, program: Any, rows: Sequence[Mapping[str, Any]], results: Sequence[Any]) -> list[Any]:
    """Of each answer: after each of its tokens, the ranks of the tokens that came true."""
    recorder, plan, ahead = Recorder(model.tokenizer), planner(program, None)(Mode.STRICT), model.probe_tokens
    found = []
    for row, result in zip(rows, results, strict=True):
        recorded = recorder.again(plan, row, drawn_of(result), origin="")
        length = -(-len(recorded) // 8) * 8
        lines = lines_of([recorded], length=length, distances=ahead.distances)
        contexts = Contexts(model.weights, lines, length=length, most=1 << 30)
        vocabulary = int(model.weights.config.vocab_size)
        batches = ProbeBatches(
            lines, length=length, distances=ahead.distances, ensemble=ahead.ensemble, vocabulary=vocabulary, size=1,
            hosts=len(lines[0].hosts), seed=0,
        )  # fmt: skip
        drawing = [int(place) for place in np.flatnonzero(recorded.labels != IGNORED)]
        ranks = np.full((len(drawing), ahead.distances), -1)
        hosts = lines[0].hosts
        for first in range(0, len(hosts), 64):
            batch = batches.batch([(0, hosts[first : first + 64])]).to(model.weights.device)
            logits = ahead_logits(model.weights, ahead.rows.float(), batch, contexts)[0]
            chosen = logits.topk(_RANKS, dim=-1).indices == batch.drawn[0][..., None]
            rank = torch.where(chosen.any(dim=-1), chosen.long().argmax(dim=-1), -1).cpu().numpy()
            for host, some in zip(hosts[first : first + 64], rank, strict=True):
                ranks[drawing.index(host.places[0])] = some
        found.append(ranks)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--fed", default="7,15,31,63")
    parser.add_argument("--device")
    given = parser.parse_args()
    warnings.simplefilter("ignore", pastalang.TruncationWarning)
    program = pastalang.load(given.program)
    names = [one.name for one in program.only_template.inputs]
    kinds = rows_by_kind(given.data, names, given.documents)
    every = [row for rows in kinds.values() for row in rows]
    load: dict[str, Any] = {"adapter": None, "dtype": "float32", "device": given.device}
    engine = pastalang.Engine.load(given.model, cells=32768, **load)
    results = engine.batch(program, every)
    del engine
    model = load_model(given.model, packed=False, **load)
    assert model.probe_tokens is not None
    ranks = predicted_ranks(model, program, every, results)
    kind_of = [kind for kind, rows in kinds.items() for _ in rows]
    print("| text | fed at most | candidates | R(T) | the paper's tree | fed | our budget | fed |")
    print("|---|---|---|---|---|---|---|---|")
    for most in map(int, given.fed.split(",")):
        tree = best_tree(model.probe_tokens.accuracy, most)
        way = Way(f"probes, {most}", most, looks_up=False)
        totals = measure_together(
            way, {"model": given.model, "options": load | {"cells": 32768}}, program, every, len(every), mode="strict"
        )
        for kind in kinds:
            own = [number for number, one in enumerate(kind_of) if one == kind]
            tokens, passes, fed = np.sum([replay(tree, ranks[number]) for number in own], axis=0)
            ours = added([totals[number] for number in own]).counts
            print(
                f"| {kind} | {most} | {len(tree.paths[-1])} | {tree.rate:.2f} | {tokens / passes:.2f} "
                f"| {fed / passes:.1f} "
                f"| {ours['drawn'] / ours['passes']:.2f} | {ours['fed'] / ours['passes']:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
