"""Preference rounds: of several answers to each prompt, the best is made likelier and the worst less likely.

prompts ── n answers sampled ── scored ── best and worst of each ── trained ── a model to sample from in the next round

The score of an answer is its theoretical speed-up plus `quality_weight` times its quality, so the weight sweeps the
trade-off. The loss is that of BoNBoN alignment: imitate the best answer, and move the margin between the two towards
what choosing the best of n implies. Log-probabilities are those of decoding with threads: rows are recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from shutil import copyfile
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pastalang.errors import PastaError
from pastalang.plan.plan import THREAD, Mode, Plan
from pastalang.program.types import AutoPolicy, Sampling
from pastalang.runtime.constraints.tagged_text import Begin, Reading, reader_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.runtime.result import Result
from pastalang.training.batches import Batch, collate
from pastalang.training.checkpoints import Progress
from pastalang.training.data import Row
from pastalang.training.errors import BadData, BadRow, BadRows
from pastalang.training.forward import logits_of
from pastalang.training.lessons import Lesson, Recorder
from pastalang.training.method import OwnThreads
from pastalang.training.metrics import report_on_texts
from pastalang.training.model_files import Lora, read_base, save
from pastalang.training.preference import Form, Preference
from pastalang.training.recording import IGNORED, TrainingRow
from pastalang.training.row_files import RowFile, fingerprint_of
from pastalang.training.run_folder import WORK, check_folder, prepare_folder, write_options
from pastalang.training.run_log import ReportLine
from pastalang.training.settings import Settings
from pastalang.training.thread_eval import Score, parts_of
from pastalang.training.thread_text import read_thread_text, tags_apart
from pastalang.training.trainer import train

_TOGETHER = 8  # rows that are sampled together, and kept together
_NOT_OF_SAMPLES: Final = frozenset(("quality_weight", "alpha", "target", "form", "lora", "pairs"))


@dataclass(frozen=True, slots=True)
class Sampled:
    """One answer, with its threads in place, as rows have it. `quality` is between 0 and 1."""

    value: str
    speed: float
    quality: float


@dataclass(frozen=True, slots=True)
class Pair:
    row: Row
    best: Sampled
    worst: Sampled


# ── sampling ─────────────────────────────────────────────────────────────────────────────────────────────


def sample_answers(
    engine: Engine, plan: Plan, rows: Sequence[Row], preference: Preference, *, score: Score | None, kept: Path,
    seed: int, on_done: Callable[[int], None] = lambda _: None,
) -> list[list[Sampled]]:  # fmt: skip
    """Answers to each row, without those that failed. They are kept in a file, row by row, and taken from there."""
    found = _kept_before(kept)[: len(rows)]
    with kept.open("a", encoding="utf-8") as file:
        while len(found) < len(rows):
            some = rows[len(found) : len(found) + _TOGETHER]
            new = _answers(engine, plan, some, preference, score, seed=(seed, len(found)))
            file.write("".join(json.dumps([asdict(one) for one in sampled]) + "\n" for sampled in new))
            file.flush()
            found += new
            on_done(len(found))
    return found


def _kept_before(kept: Path) -> list[list[Sampled]]:
    """The answers in a file, which loses its last line if a run was killed while it wrote it."""
    if not kept.exists():
        return []
    text = kept.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        kept.write_text(whole, encoding="utf-8")
    return [[Sampled(**one) for one in json.loads(line)] for line in whole.splitlines()]


def _answers(
    engine: Engine, plan: Plan, rows: Sequence[Row], preference: Preference, score: Score | None,
    *, seed: tuple[int, int],
) -> list[list[Sampled]]:  # fmt: skip
    """Every sample of every row has a seed of its own. `seed`: of the round, and how many rows came before."""
    round, first = seed
    start = (round * 1_000_003 + first) * preference.samples
    inputs = [row.inputs for row in rows for _ in range(preference.samples)]
    results = iter(
        engine.batch(
            plan, inputs, seeds=range(start, start + len(inputs)), any_mode=True,
            sampling=Sampling(temperature=preference.temperature), on_truncated="keep",
        )
    )  # fmt: skip
    sampled = [
        [_sampled(engine.encoder, plan, row, result, score) for result in islice(results, preference.samples)]
        for row in rows
    ]
    return [[one for one in each if one is not None] for each in sampled]


def _sampled(
    encoder: Encoder, plan: Plan, row: Row, result: Result | PastaError, score: Score | None
) -> Sampled | None:
    """None if the answer failed, was cut, or cannot be written as a row."""
    assert plan.auto is not None
    if isinstance(result, PastaError) or any(field.truncated for field in result.fields):
        return None
    value = tagged_text(encoder, plan.auto, result)
    try:
        if read_thread_text(value, plan.auto).plain != result.text:
            return None
    except BadRow:
        return None
    [right] = row.answer.plain_texts
    if score is None:
        quality = report_on_texts([(right, result.text)], truncated=0).reported.f1 / 100
    else:
        counts = parts_of(score, row, result.text).values()
        quality = sum(part for part, _ in counts) / max(1, sum(whole for _, whole in counts))
    return Sampled(value, (len(encoder.text(right)) + 1) / max(1, result.usage.critical_path), quality)


def tagged_text(encoder: Encoder, policy: AutoPolicy, result: Result) -> str:
    """The answer as rows have it: with its tags, and each thread after the tag that began it."""
    main = next(field for field in result.fields if field.path != THREAD)
    raw = encoder.decode([token for token in main.tokens if token not in encoder.ends])
    threads = iter(result.value["threads"])
    opening, closing = ("<async>", "</async>") if policy is AutoPolicy.PASTA else ("[Child]", "[/Child]")
    written = ""
    for part, is_tag in tags_apart(raw, policy):
        written += part
        if is_tag and _begins(part, policy) and (thread := next(threads, None)) is not None:
            written += f"{opening}{thread['text']}{closing}"
    return written


def _begins(tag: str, policy: AutoPolicy) -> bool:
    found = reader_of(policy, in_thread=False).read(Reading(), tag).found
    return any(isinstance(one, Begin) for _, one in found)


def pairs_of(rows: Sequence[Row], answers: Sequence[Sequence[Sampled]], preference: Preference) -> list[Pair]:
    """The best and the worst answer to each row. Rows whose answers are all equally good have none."""
    pairs = []
    for row, sampled in zip(rows, answers, strict=True):
        ranked = sorted(sampled, key=lambda one: preference.score(one.speed, one.quality))
        if ranked and preference.score(ranked[0].speed, ranked[0].quality) < preference.score(
            ranked[-1].speed, ranked[-1].quality
        ):
            pairs.append(Pair(row, ranked[-1], ranked[0]))
    return pairs


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────


class PairBatches:
    """Batches by number: the lines of a batch are the best and the worst answer of each pair in turn."""

    def __init__(self, pairs: Sequence[Pair], recorder: Recorder, plan: Plan, *, size: int, seed: int) -> None:
        if not pairs:
            raise BadData(
                "all usable answers to each row are equally good: there is nothing to prefer; more --samples may differ"
            )
        self._size, self._seed = min(size, len(pairs)), seed
        self._lines = [
            [_recorded(recorder, plan, pair, one, f"{number}") for one in (pair.best, pair.worst)]
            for number, pair in enumerate(pairs)
        ]

    @property
    def lines(self) -> list[TrainingRow]:
        return [line for pair in self._lines for line in pair]

    def __call__(self, number: int) -> Batch:
        chosen = [self._pair(number * self._size + one) for one in range(self._size)]
        rows = [row for pair in chosen for row in pair]
        return collate([[row] for row in rows], max(map(len, rows)))

    def _pair(self, number: int) -> list[TrainingRow]:
        epoch, place = divmod(number, len(self._lines))
        order = np.random.default_rng((self._seed, epoch)).permutation(len(self._lines))
        return self._lines[int(order[place])]


def _recorded(recorder: Recorder, plan: Plan, pair: Pair, one: Sampled, number: str) -> TrainingRow:
    row = recorder.row(Lesson(lambda _: plan, pair.row.inputs, one.value, pair.row.origin), Mode.STRICT)
    return replace(row, origin=f"{pair.row.origin} {'best' if one is pair.best else 'worst'} {number}")


@dataclass(frozen=True, slots=True)
class BonbonLoss:
    """`reference` are the log-probabilities of the model that the round began with, by the origins of the lines."""

    reference: Mapping[str, float]
    preference: Preference

    def __call__(self, model: Any, batch: Batch) -> Tensor:
        found = log_probabilities(model, batch)
        before = torch.tensor([self.reference[name] for name in batch.origins], dtype=found.dtype, device=found.device)
        lengths = (batch.labels != IGNORED).sum(dim=1)[0::2]
        moved = found - before
        margin, target = moved[0::2] - moved[1::2], self.preference.margin
        if self.preference.form is Form.SQUARED:
            costs = (margin - target).square()
        else:
            costs = -logsigmoid(margin / target)
        alpha = self.preference.alpha
        imitation = -found[0::2] / lengths
        return (alpha * imitation + (1 - alpha) * costs).mean()


def log_probabilities(model: Any, batch: Batch) -> Tensor:
    """Of the labels of each line together, in float32 whatever surrounds the call."""
    where = batch.labels != IGNORED
    with torch.autocast(batch.tokens.device.type, enabled=False):
        logits = logits_of(model, batch, where=where).float()
    chosen = torch.log_softmax(logits, dim=-1).gather(1, batch.labels[where][:, None])[:, 0]
    lines = where.nonzero()[:, 0]
    return torch.zeros(len(batch.tokens), dtype=chosen.dtype, device=chosen.device).index_add(0, lines, chosen)


def reference_of(model: Any, batches: PairBatches) -> dict[str, float]:
    """The log-probability of every line, by its origin. Leaves the model as it was."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    with torch.no_grad():
        found = {
            line.origin: float(log_probabilities(model, collate([[line]], len(line)).to(device))[0])
            for line in batches.lines
        }
    model.train(was_training)
    return found


def summary_of(pairs: Sequence[Pair], answers: Sequence[Sequence[Sampled]], report: ReportLine) -> None:
    every = [one for sampled in answers for one in sampled]
    for name, some in (("all", every), ("best", [p.best for p in pairs]), ("worst", [p.worst for p in pairs])):
        if not some:
            continue
        speed = sum(one.speed for one in some) / len(some)
        quality = sum(one.quality for one in some) / len(some)
        report(f"{name:<5}  {len(some):>6,} answers  speed-up {speed:.2f}x  quality {100 * quality:.1f} %")


# ── a round ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Round:
    """One round. `settings.steps` 0: every pair once. `pairs` share a batch; `score_name` tells two scores apart.
    `warmup`: steps; None: a tenth of all, at most 100.

    `sampled`: the folder of another round of the same model, whose answers are taken.
    """

    method: OwnThreads
    model: str
    data: RowFile
    out: Path
    preference: Preference
    settings: Settings
    pairs: int = 4
    warmup: int | None = None
    score: Score | None = None
    score_name: str = "F1 of words"
    sampled: Path | None = None
    lora: Lora | None = None
    keep_adapter: bool = False
    device: str | None = None
    cells: int = 8192
    overwrite: bool = False
    options: Mapping[str, Any] | None = None


def train_round(
    round: Round, *, report: ReportLine = print, on_done: Callable[[int], None] = lambda _: None,
    is_stopped: Callable[[], bool] = bool,
) -> Progress:  # fmt: skip
    """Sample, pair, train, save. An interrupted round goes on. Raises `BadData`, `BadRows`, `Interrupted` and more."""
    check_folder(round.out, overwrite=round.overwrite)
    [plan], reading = round.method.exams().values(), round.method.read(round.data)
    if reading.problems:
        raise BadRows(reading.problems, rows=reading.count)
    base = read_base(round.model)
    identity = _identity(round)
    kept = _sampled_before(round, identity)
    prepare_folder(round.out, overwrite=round.overwrite)
    work, settings = round.out / WORK, round.settings
    write_options(round.out, round.options or {}, identity)
    if kept is not None and not (work / kept.name).exists():
        copyfile(kept, work / kept.name)
    answers = sample_answers(
        Engine.load(round.model, device=round.device, cells=round.cells), plan, reading.rows, round.preference,
        score=round.score, kept=work / _samples_name(identity, settings.seed), seed=settings.seed, on_done=on_done,
    )  # fmt: skip
    pairs = pairs_of(reading.rows, answers, round.preference)
    usable, sampled = sum(map(len, answers)), len(answers) * round.preference.samples
    report(f"{usable:,} of {sampled:,} answers can be used: they are whole, and their tags act")
    if not usable:
        raise BadData(
            f"no answer of {round.model} can be used: all are cut by a limit, or have tags that do not act; "
            "raise `max`, or train it first with rows that have threads"
        )
    summary_of(pairs, answers, report)
    model = base.load(device=round.device, seed=settings.seed, lora=round.lora, precision=settings.precision)
    batches = PairBatches(
        pairs, Recorder(base.tokenizer, window=base.window), plan, size=round.pairs, seed=settings.seed
    )
    loss = BonbonLoss(reference_of(model, batches), round.preference)
    steps = settings.steps or -(-len(pairs) // round.pairs)
    warmup = min(settings.warmup_steps, max(1, steps // 10)) if round.warmup is None else round.warmup
    progress = train(
        model, batches, replace(settings, steps=steps, warmup_steps=warmup), work, identity=identity, loss=loss,
        report=report, is_stopped=is_stopped,
    )  # fmt: skip
    report(
        f"margin of the pairs: {_margin(model, batches, loss.reference):.2f}, aimed at {round.preference.margin:.2f}"
    )
    adapter = round.out / "adapter" if round.keep_adapter else None
    save(model, base.tokenizer, round.method.note(), round.out, dtype=base.dtype, adapter=adapter)
    report(f"saved to {round.out}")
    return progress


def _identity(round: Round) -> dict[str, str]:
    preference = {name: str(getattr(round.preference, name)) for name in Preference.__dataclass_fields__}
    adapters = {} if round.lora is None else {"lora": str(round.lora)}
    return {
        **round.method.identity, **preference, **adapters, "method": "bonbon", "model": _fingerprint_of(round.model),
        "data": fingerprint_of(round.data), "pairs": str(round.pairs), "score": round.score_name,
    }  # fmt: skip


def _samples_name(identity: Mapping[str, str], seed: int) -> str:
    """Of the file with the answers: the same for rounds that differ in what they prefer and how they train."""
    depends_on = {name: value for name, value in identity.items() if name not in _NOT_OF_SAMPLES}
    text = json.dumps({**depends_on, "seed": str(seed)}, sort_keys=True)
    return f"samples-{sha256(text.encode()).hexdigest()[:12]}.jsonl"


def _sampled_before(round: Round, identity: Mapping[str, str]) -> Path | None:
    """The answers that another round has sampled, if they are asked for."""
    if round.sampled is None:
        return None
    found = round.sampled / WORK / _samples_name(identity, round.settings.seed)
    if not found.is_file():
        raise BadData(
            f"{round.sampled} holds no answers of this model to these rows: its model, rows, program, seed, score and "
            "number of samples must be those of this round"
        )
    return found


def _fingerprint_of(model: str) -> str:
    """The name of a model; of a folder, its weights."""
    files = sorted(Path(model).glob("*.safetensors")) if Path(model).is_dir() else []
    digest = sha256(model.encode() if not files else b"")
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _margin(model: Any, batches: PairBatches, reference: Mapping[str, float]) -> float:
    """The mean over all pairs: how much further apart the model puts the best and the worst than it did before."""
    now = reference_of(model, batches)
    moved = [now[line.origin] - reference[line.origin] for line in batches.lines]
    margins = [best - worst for best, worst in zip(moved[0::2], moved[1::2], strict=True)]
    return sum(margins) / len(margins)
