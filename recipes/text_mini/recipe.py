"""Train a small model on text that is easy to predict, by kinds, so that ways of predicting can be judged on it.

documents ── tokenizer ── passages ── head start ── training ── scores of held-out passages and a card
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoTokenizer

from pastalang.plan.branches import Mode
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.training.batches import PackedBatches
from pastalang.training.errors import BadData
from pastalang.training.model_files import save
from pastalang.training.run_folder import RESUME, Checkpoint, ReportLine, put_weights, read_checkpoint, step_of
from pastalang.training.settings import Settings
from pastalang.training.trainer import train, usual_precision
from recipes.pasta_mini.model import fresh_model
from recipes.pasta_mini.run_log import RunLog
from recipes.pasta_mini.tokenizer import train_tokenizer, twins_of
from recipes.text_mini.card import Made, write_card
from recipes.text_mini.scores import HEAD, scores_of
from recipes.text_mini.texts import Passage, Rows, Texts, limit_of, passages_of, program_for, some_of

SAVE_EVERY: int = 100  # steps
_SPELLED: Final = 1_500_000  # characters of each kind that the tokenizer learns from
_OF_THE_MODEL: Final = ("steps", "rows", "length", "vocabulary", "hidden", "layers", "heads", "seed")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    steps: int = 4900
    rows: int = 8  # lines of a batch
    length: int = 512  # tokens of a line
    learning_rate: float = 5e-4  # a larger one forgets the head start
    average: float = 0.998
    vocabulary: int = 8192
    hidden: int = 320
    layers: int = 5
    heads: int = 5
    examples: int = 400  # passages of each kind, to train with what predicts
    exam: int = 100  # held-out passages of each kind
    threads: int = 1  # of the processor
    seed: int = 0


def make_text_model(texts: Sequence[Texts], out: Path, sizes: Sizes, made: Made, *, report: ReportLine) -> None:
    """Write `model`, its program, and rows to `out`. An interrupted run resumes with the same call."""
    torch.set_num_threads(sizes.threads)
    run = _Run(texts, out, sizes, report)
    run.train()
    run.write(sizes.steps, made)


def write_model_so_far(texts: Sequence[Texts], out: Path, sizes: Sizes, made: Made, *, report: ReportLine) -> None:
    """The same from the last checkpoint, without training. The run may be going on meanwhile."""
    torch.set_num_threads(sizes.threads)
    found = _last_checkpoint(out / "training")
    run = _Run(texts, out, sizes, report)
    put_weights(run.model, found.tensors("average" if sizes.average else "weights"))
    run.write(found.progress.step, made)


class _Run:
    def __init__(self, texts: Sequence[Texts], out: Path, sizes: Sizes, report: ReportLine) -> None:
        self._out, self._sizes = out, sizes
        self._log = RunLog(out / "training", report)
        self._tokenizer = _tokenizer(texts, out / "training" / "tokenizer", sizes)
        self._learned = {one.kind: self._passages(one, is_held_out=False) for one in texts}
        held_out = {one.kind: self._passages(one, is_held_out=True) for one in texts}
        self._exam = [one for found in held_out.values() for one in some_of(found, sizes.exam)]
        rows = Rows(self._tokenizer, sizes.length)
        self._rows = {kind: [rows.row(one) for one in found] for kind, found in self._learned.items()}
        self._tokens = {kind: sum(map(len, found)) for kind, found in self._rows.items()}
        for kind, tokens in self._tokens.items():
            log = f"{len(self._learned[kind]):,} passages, {tokens:,} tokens; {len(held_out[kind]):,} passages held out"
            self._log(f"{kind}: {log}")
        self.model = fresh_model(
            len(self._tokenizer), end=self._tokenizer.eos_token_id, seed=sizes.seed, hidden=sizes.hidden,
            layers=sizes.layers, heads=sizes.heads, twins=twins_of(self._tokenizer),
        )  # fmt: skip
        self._log(f"{sum(weight.numel() for weight in self.model.parameters()) / 1e6:.2f} million weights")
        self._write_rows()

    def train(self) -> None:
        sizes = self._sizes
        variants = [[row] for found in self._rows.values() for row in found]
        batches = PackedBatches(variants, rows=sizes.rows, length=sizes.length, seed=sizes.seed)
        settings = Settings(
            steps=sizes.steps, learning_rate=sizes.learning_rate, warmup_steps=min(100, max(1, sizes.steps // 5)),
            weight_decay=0.05, precision=usual_precision("cpu"), average=sizes.average, save_every=SAVE_EVERY,
            seed=sizes.seed,
        )  # fmt: skip
        shown = zlib.crc32(b"".join(row.tokens.tobytes() for [row] in variants))
        identity = {name: str(value) for name, value in asdict(sizes).items() if name in _OF_THE_MODEL}
        train(
            self.model, batches, settings, self._out / "training", identity={**identity, "texts": f"{shown:08x}"},
            report=self._log,
        )  # fmt: skip

    def write(self, step: int, made: Made) -> None:
        """Weights, scores and card. Weights that are written again have the same note, and the card says the step."""
        folder = self._out / "model"
        folder.mkdir(parents=True, exist_ok=True)
        note = TrainingNote(tuple(Mode), "", "", "", {"rest": limit_of(self._sizes.length)}, reads_schemas=False)
        save(self.model, self._tokenizer, note, folder)
        scores = scores_of(self.model, self._tokenizer, self._exam)
        for line in (*HEAD, *(score.as_line() for score in scores)):
            self._log(line)
        found = {
            "step": step, "hours": round(self._log.hours, 2), "sizes": asdict(self._sizes), "tokens": self._tokens,
            "scores": [asdict(score) for score in scores],
        }  # fmt: skip
        (folder / "scores.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        self._log(f"saved to {write_card(folder, made).parent}")

    def _passages(self, texts: Texts, *, is_held_out: bool) -> list[Passage]:
        documents = texts.held_out if is_held_out else texts.learned
        found = list(passages_of(documents, texts.kind, self._tokenizer, self._sizes.length))
        if not found:
            raise BadData(f"{texts.kind}: no document has a passage that fits into {self._sizes.length} tokens")
        return found

    def _write_rows(self) -> None:
        examples = [one for found in self._learned.values() for one in some_of(found, self._sizes.examples)]
        for name, passages in (("rows.jsonl", examples), ("held-out.jsonl", self._exam)):
            (self._out / name).write_text("".join(one.as_line() for one in passages), encoding="utf-8")
        (self._out / "write.pasta").write_text(program_for(self._sizes.length), encoding="utf-8")


def _tokenizer(texts: Sequence[Texts], folder: Path, sizes: Sizes) -> Any:
    """The one of the run that is resumed, or a new one. It has seen no text that is held out."""
    if not folder.exists():
        learned = ("\n".join(f"{one.beginning}\n{one.text}" for one in kind.learned)[:_SPELLED] for kind in texts)
        train_tokenizer(learned, size=sizes.vocabulary).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def _last_checkpoint(folder: Path) -> Checkpoint:
    """Only reads: a run that is going on keeps its files. Raises `BadData` if there is none yet."""
    places = [place for place in (folder / RESUME).glob("step-*") if not place.suffix]
    for place in sorted(places, key=step_of, reverse=True):
        found = read_checkpoint(place)
        if isinstance(found, Checkpoint):
            return found
    raise BadData(f"{folder} holds no checkpoint yet: begin the training, or wait for its first {SAVE_EVERY} steps")
