"""Make pasta-mini: train a tokenizer and a fresh model on listings and documents, then score the result.

tokenizer ── meanings ── head start ── extraction in three modes ── scores
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from transformers import AutoTokenizer

from pastalang.plan.branches import Mode
from pastalang.runtime.models.loading import default_device
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.training.errors import BadData
from pastalang.training.model_files import save
from pastalang.training.recording import Recorder
from pastalang.training.run_folder import ReportLine, own_folder
from pastalang.training.settings import Settings
from pastalang.training.trainer import ALONE, Processes, train, usual_precision
from pastalang.values.json import spell_json
from recipes.pasta_mini.batches import RowStream
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import draw_document, draw_form
from recipes.pasta_mini.lessons import LIMITS, DrawRows, Exam, document_lessons, exam_of, lessons_of, matched
from recipes.pasta_mini.listings import Listing, as_text, made_up
from recipes.pasta_mini.losses import TunedLoss
from recipes.pasta_mini.meanings import Meanings, learn_meanings, unlearned_meanings
from recipes.pasta_mini.model import fresh_model, put_weights_of
from recipes.pasta_mini.real_listings import Mixer, Split
from recipes.pasta_mini.run_log import RunLog
from recipes.pasta_mini.tokenizer import SIZE, train_tokenizer, twins_of, writing_of

MODES = tuple(Mode)
_PROSE = 150_000  # characters of the texts that the tokenizer learns from: the others are closer to what it will read


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    steps: int = 12_000
    listings: int = 9000  # that the tokenizer learns from, made up and mixed
    documents: int = 6000  # that the tokenizer learns from
    meanings: int = 8500  # batches of documents that meanings of words are learned from
    rows: int = 6  # lines of a batch
    length: int = 640  # tokens of a line
    ahead: int = 16  # batches that are recorded together
    recorders: int = 1  # processes that record rows
    learning_rate: float = 8e-4
    warmup: int = 100  # steps
    average: float = 0.998
    save_every: int = 100  # steps
    dropout: float = 0.0  # of the embeddings: it hides what copying matches
    vocabulary: int = SIZE
    hidden: int = 320
    inner: int = 800  # between the two matrices of a feed-forward part
    layers: int = 5
    heads: int = 5
    exam: int = 200  # made-up listings, and as many documents, that it is scored on
    all_titles: int = 0  # 1: the held-out titles are learned, too, so their scores mean nothing
    seed: int = 0


def make_mini(
    real: Split,
    texts: Sequence[str],
    out: Path,
    sizes: Sizes,
    *,
    report: ReportLine,
    overwrite: bool,
    start: Path | None = None,
    processes: Processes = ALONE,
) -> None:
    """Write tokenizer, weights and `scores.json` to `out`. An interrupted run resumes from its last checkpoint.

    With `start`, it goes on from the weights in that folder, with their tokenizer, instead of fresh ones. With several
    `processes`, each of them calls this. The first one reports and writes.
    """
    if sizes.rows % processes.count:
        raise BadData(f"{processes.count} processes cannot share the {sizes.rows} lines of a batch")
    if start is not None and texts:
        raise BadData(f"the weights in {start} have their tokenizer, so texts for another one would not be read")
    begun = {} if start is None else {"start": _weights_in(start)}
    with ExitStack() as held:
        processes.from_first(lambda: held.enter_context(own_folder(out, overwrite=overwrite)))
        log = RunLog(out / "training", report, processes.count) if processes.is_first else _unheard
        learned = (*real.train, *real.held_out) if sizes.all_titles else real.train
        if start is None:
            tokenizer, model = _fresh(texts, learned, out / "training", sizes, log, processes)
        else:
            tokenizer = AutoTokenizer.from_pretrained(start)
            model = _model(tokenizer, unlearned_meanings(len(tokenizer)), sizes)
            put_weights_of(start, model)
        model.to(default_device())
        log(f"{sum(weight.numel() for weight in model.parameters()) / 1e6:.2f} million weights")
        exams = exams_of(Recorder(tokenizer), real, sizes, report=log) if processes.is_first else ()
        _train(model, tokenizer, DrawRows(tokenizer, learned), exams, out, sizes, log, processes, begun)
        if not isinstance(log, RunLog):
            return
        note = TrainingNote(MODES, "", "", "", {"string": max(LIMITS)}, keys_in_words=True)
        save(model.bfloat16(), tokenizer, note, out)
        write_scores(model.float(), exams, sizes, out, hours=log.hours + (0 if start is None else _hours_of(start)))
        log(f"saved to {out}")


def _unheard(line: str) -> None:
    """What a process says that is not the first."""


def _fresh(
    texts: Sequence[str], learned: Sequence[Listing], folder: Path, sizes: Sizes, log: ReportLine, processes: Processes
) -> tuple[Any, Any]:
    read = [*_read(learned, sizes)]
    tokenizer = processes.first_then_others(lambda: _tokenizer(texts, read, folder / "tokenizer", sizes))
    meanings = processes.first_then_others(lambda: _meanings(tokenizer, folder, sizes, log))
    return tokenizer, _model(tokenizer, meanings, sizes)


def _model(tokenizer: Any, meanings: Meanings, sizes: Sizes) -> Any:
    return fresh_model(
        len(tokenizer), end=tokenizer.eos_token_id, seed=sizes.seed, hidden=sizes.hidden, layers=sizes.layers,
        heads=sizes.heads, inner=sizes.inner, twins=twins_of(tokenizer), finding=(writing_of(tokenizer), meanings),
    )  # fmt: skip


def exams_of(recorder: Recorder, real: Split, sizes: Sizes, *, report: ReportLine) -> tuple[Exam, ...]:
    """Held-out titles; made-up listings and documents whose values, names and layouts never occur in training."""
    unseen = lessons_of(made_up(sizes.exam, seed=1, part=Part.TEST), seed=0, origin="made up", quoted=1.0)
    titles = lessons_of(real.held_out, seed=0, origin="oa-mine", quoted=1.0)
    length = 2 * sizes.length
    documents = document_lessons(sizes.exam, seed=1, part=Part.TEST)
    return (
        exam_of(recorder, titles, length=length, name="oa-mine, held out", report=report),
        exam_of(recorder, unseen, length=length, name="made up, unseen values", report=report),
        exam_of(recorder, documents, length=length, name="documents, unseen layouts and names", report=report),
    )


def write_scores(model: Any, exams: Sequence[Exam], sizes: Sizes, out: Path, *, hours: float) -> None:
    scores = {exam.name: asdict(exam.report(model)) for exam in exams}
    found = {"sizes": asdict(sizes), "hours": round(hours, 2), "scores": scores}
    (out / "scores.json").write_text(json.dumps(found, indent=2) + "\n")


def _weights_in(folder: Path) -> str:
    """A number that is another one for other weights. Raises `BadData` if the folder is none of this recipe."""
    missing = [name for name in ("model.safetensors", "config.json", "tokenizer.json") if not (folder / name).is_file()]
    if missing:
        raise BadData(f"{folder} holds no weights to go on from: there is no {missing[0]} in it")
    return f"{zlib.crc32((folder / 'model.safetensors').read_bytes()):08x}"


def _hours_of(folder: Path) -> float:
    scores = folder / "scores.json"
    return float(json.loads(scores.read_text()).get("hours", 0)) if scores.exists() else 0.0


def _read(listings: Sequence[Any], sizes: Sizes) -> Iterator[str]:
    """Listings and documents, each followed by its answer. Most of the listings are mixed from real ones."""
    mixer, random = Mixer(listings), Random(f"read/{sizes.seed}")
    invented = sizes.listings // 9
    yield from map(as_text, made_up(invented, seed=sizes.seed))
    yield from (as_text(mixer.draw(random)) for _ in range(sizes.listings - invented))
    yield from islice(_documents(random), sizes.documents)


def _documents(random: Random) -> Iterator[str]:
    """What a program prompts with, a document, and its answer."""
    while True:
        form = draw_form(random, Part.TRAIN)
        for _ in range(3):
            document = draw_document(form, random, Part.TRAIN)
            yield f"{form.prompt}\n{document.text}\n{spell_json(dict(document.value))}"


def _tokenizer(texts: Sequence[str], read: Sequence[str], folder: Path, sizes: Sizes) -> Any:
    """The one of the run that is resumed, or a new one."""
    if not folder.exists():
        some = [text[: _PROSE // max(1, len(texts))] for text in texts]
        train_tokenizer([*some, *read], size=sizes.vocabulary).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def _meanings(tokenizer: Any, folder: Path, sizes: Sizes, report: ReportLine) -> Meanings:
    """Those of the run that is resumed, or new ones."""
    file = folder / "meanings.safetensors"
    if not file.exists():
        learn_meanings(tokenizer, batches=sizes.meanings, seed=sizes.seed, report=report).save(file)
    return Meanings.load(file)


def _train(
    model: Any,
    tokenizer: Any,
    draw: DrawRows,
    exams: Sequence[Exam],
    out: Path,
    sizes: Sizes,
    report: ReportLine,
    processes: Processes,
    begun: Mapping[str, str],
) -> None:
    """Keep the last weights, whatever the exams say: the first one is of the held-out part, and must not choose."""
    settings = Settings(
        steps=sizes.steps, learning_rate=sizes.learning_rate, seed=sizes.seed, weight_decay=0.0,
        warmup_steps=min(sizes.warmup, max(1, sizes.steps // 5)), judge_every=1000, average=sizes.average,
        precision=usual_precision(None), save_every=sizes.save_every,
    )  # fmt: skip
    spelling = zlib.crc32(tokenizer.backend_tokenizer.to_str().encode())
    identity = {"sizes": str(asdict(sizes)), "tokenizer": f"{spelling:08x}", "processes": str(processes.count), **begun}

    def judge(model: Any) -> float:
        reports = [exam.report(model) for exam in exams]
        for exam, found in zip(exams, reports, strict=True):
            unseen = f"F1 {found.reported.f1:.1f}, fields {matched(found.strict):.1f} %"
            report(f"{exam.name}: {unseen}, invented {found.strict.hallucination_rate:.1f} %")
        return reports[0].reported.f1 / 100

    stream = RowStream(
        draw, rows=sizes.rows, length=sizes.length, seed=sizes.seed, batches=sizes.ahead, ahead=sizes.recorders,
        processes=processes,
    )  # fmt: skip
    try:
        train(
            model, stream, settings, out / "training" / "extraction", identity=identity, judge=judge,
            loss=TunedLoss(writing_of(tokenizer).asks, sizes.dropout), report=report, processes=processes,
        )  # fmt: skip
    finally:
        stream.close()
