"""Make pasta-mini: train a tokenizer and a fresh model on listings and texts, then score the result.

tokenizer ── head start ── language: texts, and listings with their answers ── extraction in three modes
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from pastalang.plan.plan import Mode
from pastalang.runtime.models.loading import default_device
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.training.fine_tune import prepare_folder, save
from pastalang.training.lessons import Recorder
from pastalang.training.settings import Settings
from pastalang.training.trainer import Batches, ReportLine, train
from recipes.pasta_mini.batches import RowStream, language_batches
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.lessons import LIMITS, DrawLesson, Exam, exam_of
from recipes.pasta_mini.listings import as_text, made_up
from recipes.pasta_mini.model import PART, SIZE, fresh_model, train_tokenizer
from recipes.pasta_mini.real_listings import Mixer, Split

MODES = tuple(Mode)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    language_steps: int = 350
    extraction_steps: int = 3800
    listings: int = 8000  # of the language stage, made up and mixed
    rows: int = 8  # lines of a batch
    length: int = 400  # tokens of a line
    ahead: int = 16  # batches that are recorded together
    learning_rate: float = 6e-4
    vocabulary: int = SIZE
    hidden: int = 256
    layers: int = 6
    heads: int = 4
    seed: int = 0


def make_mini(
    real: Split, texts: Sequence[str], out: Path, sizes: Sizes, *, report: ReportLine, overwrite: bool
) -> None:
    """Write tokenizer, weights and `scores.json` to `out`. An interrupted run resumes from its last checkpoint."""
    prepare_folder(out, overwrite=overwrite)
    listings = _read(real, texts, sizes)
    tokenizer = train_tokenizer(listings, size=sizes.vocabulary)
    model = fresh_model(
        len(tokenizer), end=tokenizer.eos_token_id, seed=sizes.seed, hidden=sizes.hidden, layers=sizes.layers,
        heads=sizes.heads,
    ).to(default_device())  # fmt: skip
    report(f"{sum(weight.numel() for weight in model.parameters()) / 1e6:.2f} million weights")
    recorder = Recorder(tokenizer)
    exams = exams_of(recorder, real, length=sizes.length, report=report)
    part = tokenizer.convert_tokens_to_ids(PART)
    documents = [tokenizer.encode(text, add_special_tokens=False) for text in listings]
    language = language_batches(documents, rows=sizes.rows, length=sizes.length, separator=part, seed=sizes.seed)
    _train(model, "language", language, sizes.language_steps, out, sizes, report)
    stream = RowStream(
        DrawLesson(tokenizer, real.train),
        rows=sizes.rows,
        length=sizes.length,
        seed=sizes.seed,
        batches=sizes.ahead,
        ahead=True,
    )
    try:
        _train(
            model, "extraction", stream, sizes.extraction_steps, out, sizes, report,
            judge=lambda model: exams[0].report(model).reported.f1 / 100,
        )  # fmt: skip
    finally:
        stream.close()
    save(model.bfloat16(), tokenizer, TrainingNote(MODES, "", "", "", {"string": max(LIMITS)}), out)
    write_scores(model.float(), exams, sizes, out)
    report(f"saved to {out}")


def exams_of(recorder: Recorder, real: Split, *, length: int, report: ReportLine) -> tuple[Exam, Exam]:
    """The held-out real listings, and made-up ones whose values never occur in training."""
    unseen = made_up(200, seed=1, part=Part.TEST)
    return (
        exam_of(recorder, real.held_out, length=length, name="oa-mine, held out", report=report),
        exam_of(recorder, unseen, length=length, name="made up, unseen values", report=report),
    )


def write_scores(model: Any, exams: Sequence[Exam], sizes: Sizes, out: Path) -> None:
    scores = {exam.name: asdict(exam.report(model)) for exam in exams}
    (out / "scores.json").write_text(json.dumps({"sizes": asdict(sizes), "scores": scores}, indent=2) + "\n")


def _read(real: Split, texts: Sequence[str], sizes: Sizes) -> list[str]:
    """The texts of the language stage: those given, and listings with their answers, half of them made up."""
    mixer, random = Mixer(real.train), Random(f"read/{sizes.seed}")
    half = sizes.listings // 2
    mixed = islice(iter(lambda: mixer.draw(random), None), half)
    return [*texts, *map(as_text, made_up(half, seed=sizes.seed)), *map(as_text, mixed)]


def _train(
    model: Any,
    name: str,
    batches: Batches,
    steps: int,
    out: Path,
    sizes: Sizes,
    report: ReportLine,
    *,
    judge: Callable[[Any], float] | None = None,
) -> None:
    """Keep the last weights, whatever the judge says: its score is of the held-out part, and must not choose."""
    report(f"── {name}")
    settings = Settings(
        steps=steps, learning_rate=sizes.learning_rate, seed=sizes.seed, warmup_steps=min(50, max(1, steps // 5)),
        weight_decay=0.01, judge_every=250 if judge else 0, save_every=100,
    )  # fmt: skip
    train(model, batches, settings, out / "training" / name, fingerprint=str(asdict(sizes)), judge=judge, report=report)
