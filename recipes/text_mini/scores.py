"""How well a model predicts held-out text, by kind: python -m recipes.text_mini.scores --model FOLDER --data FILE"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pastalang.errors import PastaError
from pastalang.training.batches import collate, loss_of
from pastalang.training.model_files import read_base
from recipes.text_mini.texts import Passage, Rows, read_passages

HEAD = ("| text | passages | tokens | bytes per token | loss | bits per byte |", "|---|---:|---:|---:|---:|---:|")
_ROOM = 4096  # tokens of a row that is scored, at most


@dataclass(frozen=True, slots=True)
class Score:
    """Of the rests of passages, each after its beginning. `nats`: of all tokens, the ends included."""

    kind: str
    passages: int
    tokens: int
    bytes: int
    nats: float

    @property
    def loss(self) -> float:
        return self.nats / self.tokens

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.bytes

    def as_line(self) -> str:
        return (
            f"| {self.kind} | {self.passages} | {self.tokens:,} | {self.bytes / self.tokens:.2f} | {self.loss:.3f} "
            f"| {self.bits_per_byte:.3f} |"
        )


@torch.no_grad()
def scores_of(model: Any, tokenizer: Any, passages: Sequence[Passage]) -> list[Score]:
    """A score of each kind."""
    model.eval()
    kinds = list(dict.fromkeys(one.kind for one in passages))
    return [_score(kind, model, tokenizer, [one for one in passages if one.kind == kind]) for kind in kinds]


def _score(kind: str, model: Any, tokenizer: Any, passages: Sequence[Passage]) -> Score:
    rows, device = Rows(tokenizer, _ROOM), next(model.parameters()).device
    tokens, nats = 0, 0.0
    for passage in passages:
        row = rows.row(passage, is_exam=True)
        batch = collate([[row]], len(row)).to(device)
        tokens += batch.predicted
        nats += float(loss_of(model, batch)) * batch.predicted
    return Score(kind, len(passages), tokens, sum(len(one.rest.encode()) for one in passages), nats)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.text_mini.scores", description=__doc__)
    parser.add_argument("--model", required=True, help="any model with the tokenizer of this recipe")
    parser.add_argument("--data", type=Path, required=True, help="held-out.jsonl of the recipe")
    given = parser.parse_args()
    try:
        base, passages = read_base(given.model), read_passages(given.data)
        scores = scores_of(base.load(device="cpu", seed=0, lora=None), base.tokenizer, passages)
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    print("\n".join([*HEAD, *(score.as_line() for score in scores)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
