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

from pastalang.failures import PastaError
from pastalang.plan.branches import THREAD, Mode
from pastalang.plan.plan import Plan
from pastalang.program.types import AutoPolicy, Sampling
from pastalang.runtime.constraints.tagged_text import Begin, Reading, reader_of
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.loading import default_device
from pastalang.runtime.result import Result
from pastalang.training.answer import read_thread_text, tags_apart
from pastalang.training.batches import Batch, collate, logits_of
from pastalang.training.data import Row
from pastalang.training.errors import BadData, BadRow, BadRows
from pastalang.training.method import OwnThreads
from pastalang.training.metrics import report_on_texts
from pastalang.training.model_files import Lora, read_base, save
from pastalang.training.recording import IGNORED, Lesson, Recorder, TrainingRow
from pastalang.training.row_files import RowFile, fingerprint_of
from pastalang.training.run_folder import (
    ADAPTER,
    WORK,
    Progress,
    ReportLine,
    Stand,
    check_folder,
    kept_lines,
    own_folder,
    stand_of,
    write_options,
)
from pastalang.training.settings import Form, Preference, Settings
from pastalang.training.thread_eval import Judge, Score, parts_of, verdict_for, win_loss_ratio
from pastalang.training.trainer import train

_TOGETHER: Final = 8  # rows that are sampled together, and kept together
_TOGETHER_ON_GPU: Final = 32  # where a pass takes about as long with hundreds of requests
_CELLS, _CELLS_ON_GPU = 1 << 13, 1 << 16
_NOT_OF_SAMPLES: Final = frozenset(("quality_weight", "alpha", "target", "form", "lora", "pairs", "reference"))


@dataclass(frozen=True, slots=True)
class Sampled:
    """One answer, with its threads in place, as rows have it."""

    value: str
    speed: float
    quality: float


@dataclass(frozen=True, slots=True)
class Pair:
    row: Row
    best: Sampled
    worst: Sampled


@dataclass(frozen=True, slots=True)
class Quality:
    """How good an answer is: how a `judge` compares it with other answers, the share that a `score` counts as right, or
    the F1 of its words. `name` tells two ways apart.
    """

    score: Score | None = None
    judge: Judge | None = None
    name: str = "F1 of words"

    def of(self, row: Row, text: str, others: Sequence[str]) -> float:
        """`others` are the answers that a judge compares with."""
        if self.judge is not None:
            return win_loss_ratio([verdict_for(self.judge, row, text, other) for other in others])
        if self.score is not None:
            counts = parts_of(self.score, row, text).values()
            return sum(part for part, _ in counts) / max(1, sum(whole for _, whole in counts))
        [right] = row.answer.plain_texts
        return report_on_texts([(right, text)], truncated=0).reported.f1 / 100

    def shown(self, quality: float) -> str:
        return f"{100 * quality:.1f}%" if self.judge is None else f"{quality:.2f} wins a loss"


# ── sampling ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Sampler:
    """Samples answers to each row and measures them.

    `baseline` are answers without threads to the same rows: the speed-up is against their length, or against that of
    the right answer where there is none.
    """

    engine: Engine
    plan: Plan
    rows: Sequence[Row]
    preference: Preference
    quality: Quality
    seed: int
    baseline: Sequence[str | None] | None = None

    def answers(self, kept: Path, on_done: Callable[[int], None] = lambda _: None) -> list[list[Sampled]]:
        """Answers to each row, without those that failed. They are kept in a file and taken from there."""
        lines = kept_lines(
            kept, len(self.rows), lambda first: [[asdict(one) for one in row] for row in self._some(first)], on_done
        )
        return [[Sampled(**one) for one in line] for line in lines]

    def _some(self, first: int) -> list[list[Sampled]]:
        """Of the next rows. Every sample of every row has a seed of its own."""
        rows, count = self.rows[first : first + together_on(self.engine)], self.preference.samples
        start = (self.seed * 1_000_003 + first) * count
        inputs = [row.inputs for row in rows for _ in range(count)]
        results = iter(
            self.engine.batch(
                self.plan, inputs, seeds=range(start, start + len(inputs)), any_mode=True,
                sampling=Sampling(temperature=self.preference.temperature), on_truncated="keep",
            )
        )  # fmt: skip
        sampled = [
            [self._measured(number, result) for result in islice(results, count)]
            for number in range(first, first + len(rows))
        ]
        return [[one for one in each if one is not None] for each in sampled]

    def _measured(self, number: int, result: Result | PastaError) -> Sampled | None:
        """None if the answer failed, was cut, or cannot be written as a row."""
        assert self.plan.auto is not None
        if isinstance(result, PastaError) or any(field.truncated for field in result.fields):
            return None
        encoder, row = self.engine.encoder, self.rows[number]
        value = tagged_text(encoder, self.plan.auto, result)
        try:
            if read_thread_text(value, self.plan.auto).plain != result.text:
                return None
        except BadRow:
            return None
        [right] = row.answer.plain_texts
        plain = None if self.baseline is None else self.baseline[number]
        others = [right] if plain is None else [plain, right]
        speed = (len(encoder.text(others[0])) + 1) / max(1, result.usage.critical_path)
        return Sampled(value, speed, self.quality.of(row, result.text, others))


def together_on(engine: Engine) -> int:
    return _TOGETHER if engine.model.device.type == "cpu" else _TOGETHER_ON_GPU


def baseline_answers(
    engine: Engine, plan: Plan, rows: Sequence[Row], kept: Path, on_done: Callable[[int], None] = lambda _: None
) -> list[str | None]:
    """The likeliest answer to each row of a model that writes no threads; None where there is none. Kept as samples."""

    def more(first: int) -> list[str | None]:
        results = engine.batch(
            plan, [row.inputs for row in rows[first : first + together_on(engine)]], any_mode=True,
            sampling=Sampling(temperature=0.0), on_truncated="keep",
        )  # fmt: skip
        return [None if isinstance(result, PastaError) else result.text for result in results]

    return kept_lines(kept, len(rows), more, on_done)


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


def _can_be_taught(recorder: Recorder, plan: Plan, row: Row, one: Sampled) -> bool:
    """A row takes the tokens that the tokenizer writes, which may be others than were sampled, and too many."""
    try:
        recorder.row(_lesson(plan, row, one), Mode.STRICT)
    except BadRow:
        return False
    return True


def _lesson(plan: Plan, row: Row, one: Sampled) -> Lesson:
    return Lesson(lambda _: plan, row.inputs, one.value, row.origin)


def _recorded(recorder: Recorder, plan: Plan, pair: Pair, one: Sampled, number: str) -> TrainingRow:
    row = recorder.row(_lesson(plan, pair.row, one), Mode.STRICT)
    return replace(row, origin=f"{pair.row.origin} {'best' if one is pair.best else 'worst'} {number}")


@dataclass(frozen=True, slots=True)
class BonbonLoss:
    """`reference` are the log-probabilities of the model that the round began with, by the origins of the lines."""

    reference: Mapping[str, float]
    preference: Preference

    def __call__(self, model: Any, batch: Batch) -> Tensor:
        found = log_probabilities(model, batch)
        before = torch.tensor([self.reference[name] for name in batch.origins], dtype=found.dtype, device=found.device)
        moved, preference = found - before, self.preference
        margin = moved[0::2] - moved[1::2]
        if preference.form is Form.SQUARED:
            costs = (margin - preference.margin).square()
        else:
            costs = -logsigmoid(preference.beta * margin)
        return (preference.alpha * -found[0::2] + (1 - preference.alpha) * costs).mean()


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


def summary_of(
    pairs: Sequence[Pair], answers: Sequence[Sequence[Sampled]], quality: Quality, report: ReportLine
) -> None:
    every = [one for sampled in answers for one in sampled]
    for name, some in (("all", every), ("best", [p.best for p in pairs]), ("worst", [p.worst for p in pairs])):
        if not some:
            continue
        speed = sum(one.speed for one in some) / len(some)
        shown = quality.shown(sum(one.quality for one in some) / len(some))
        report(f"{name:<5}  {len(some):>6,} answers  speed-up {speed:.2f}x  quality {shown}")


# ── a round ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Round:
    """One round. `settings.steps` 0: every pair once. `pairs` share a batch.
    `warmup`: steps; None: a tenth of all, at most 100.

    `baseline`: a model that answers without threads, whose answers the sampled ones are measured against.
    `reference`: the model whose margin is moved; None: the model that the round begins with.
    `sampled`: the folder of another round of the same model, whose answers are taken. A model that is gone on from by
    an adapter, `lora.start`, is the model with it; so is the reference with `reference_adapter`.
    """

    method: OwnThreads
    model: str
    data: RowFile
    out: Path
    preference: Preference
    settings: Settings
    quality: Quality = Quality()
    baseline: str | None = None
    reference: str | None = None
    reference_adapter: Path | None = None
    sampled: Path | None = None
    pairs: int = 4
    warmup: int | None = None
    lora: Lora | None = None
    keep_adapter: bool = False
    device: str | None = None
    overwrite: bool = False
    options: Mapping[str, Any] | None = None

    @property
    def adapter(self) -> Path | None:
        """That the round begins with."""
        return None if self.lora is None else self.lora.start

    def numbered(self, number: int) -> Round:
        """This round as one of several. An adapter is gone on from as an adapter."""
        one = replace(
            self, out=self.out / f"round-{number}", reference=self.reference or self.model,
            reference_adapter=self.reference_adapter if self.reference else self.adapter,
        )  # fmt: skip
        before = self.out / f"round-{number - 1}"
        if self.lora is not None and self.adapter is not None:
            start = self.adapter if number == 1 else before / ADAPTER
            one = replace(one, lora=replace(self.lora, start=start), keep_adapter=True)
        elif number > 1:
            one = replace(one, model=str(before))
        return one if number == 1 else replace(one, sampled=None)


def train_rounds(
    round: Round, count: int, *, report: ReportLine = print, on_done: Callable[[int], None] = lambda _: None,
    is_stopped: Callable[[], bool] = bool,
) -> None:  # fmt: skip
    """Rounds that begin with the model of the one before, in folders of their own. Interrupted ones go on.

    The reference of all of them is the first model.
    """
    for number in range(1, count + 1):
        one = round.numbered(number)
        if number < count and not round.overwrite and stand_of(one.out) is Stand.FINISHED_RUN:
            report(f"{one.out} is finished")
            continue
        report(f"round {number} of {count}")
        train_round(one, report=report, on_done=on_done, is_stopped=is_stopped)


def train_round(
    round: Round, *, report: ReportLine = print, on_done: Callable[[int], None] = lambda _: None,
    is_stopped: Callable[[], bool] = bool,
) -> Progress:  # fmt: skip
    """Sample, pair, train, save. An interrupted round goes on. Raises `BadData`, `BadRows`, `Interrupted` and more."""
    check_folder(round.out, overwrite=round.overwrite)
    [plan], reading = round.method.evaluated_plans().values(), round.method.read(round.data)
    if reading.problems:
        raise BadRows(reading.problems, rows=reading.count)
    base = read_base(round.model)
    identity = _identity(round)
    kept = _sampled_before(round, identity)
    with own_folder(round.out, overwrite=round.overwrite):
        work, settings = round.out / WORK, round.settings
        write_options(round.out, round.options or {}, identity)
        if kept is not None and not (work / kept.name).exists():
            copyfile(kept, work / kept.name)
        answers = _sampled(round, plan, reading.rows, work / _samples_name(identity, settings.seed), on_done)
        recorder = Recorder(base.tokenizer, window=base.window)
        answers = [
            [one for one in each if _can_be_taught(recorder, plan, row, one)]
            for row, each in zip(reading.rows, answers, strict=True)
        ]
        pairs = pairs_of(reading.rows, answers, round.preference)
        usable, sampled = sum(map(len, answers)), len(answers) * round.preference.samples
        report(f"{usable:,} of {sampled:,} answers can be used: they are whole, fit a row, and their tags act")
        if not usable:
            raise BadData(
                f"no answer of {round.model} can be used: all are cut by a limit, fit no row, or have tags that do not "
                "act; raise `max`, or train it first with rows that have threads"
            )
        summary_of(pairs, answers, round.quality, report)
        batches = PairBatches(pairs, recorder, plan, size=round.pairs, seed=settings.seed)
        model = base.load(device=round.device, seed=settings.seed, lora=round.lora, precision=settings.precision)
        loss = BonbonLoss(_reference(round, model, batches), round.preference)
        steps = settings.steps or -(-len(pairs) // round.pairs)
        settings = settings.lasting(steps, round.warmup, at_most=settings.warmup_steps)
        progress = train(
            model, batches, settings, work, identity=identity, loss=loss, report=report, is_stopped=is_stopped
        )
        margin = _margin(model, batches, loss.reference)
        report(f"margin of the pairs: {margin:.2f}, aimed at {round.preference.margin:.2f}")
        adapter = round.out / ADAPTER if round.keep_adapter else None
        save(model, base.tokenizer, round.method.note(), round.out, dtype=base.dtype, adapter=adapter)
        report(f"saved to {round.out}")
        return progress


def _sampled(
    round: Round, plan: Plan, rows: Sequence[Row], kept: Path, on_done: Callable[[int], None]
) -> list[list[Sampled]]:
    plain: list[str | None] | None = None
    is_processor = (round.device or default_device()) == "cpu"
    cells = _CELLS if is_processor else _CELLS_ON_GPU
    if round.baseline is not None:
        engine = Engine.load(round.baseline, device=round.device, cells=cells)
        plain = baseline_answers(engine, plan, rows, kept.with_name(kept.name.replace("samples", "baseline")), on_done)
    adapter = None if round.adapter is None else str(round.adapter)
    engine = Engine.load(round.model, device=round.device, cells=cells, adapter=adapter)
    sampler = Sampler(engine, plan, rows, round.preference, round.quality, round.settings.seed, plain)
    return sampler.answers(kept, on_done)


def _reference(round: Round, model: Any, batches: PairBatches) -> dict[str, float]:
    """The log-probabilities that the margin is measured from."""
    if round.reference is None:
        return reference_of(model, batches)
    base, own = read_base(round.reference), read_base(round.model)
    if vocabulary_of(base.tokenizer).fingerprint != vocabulary_of(own.tokenizer).fingerprint:
        raise BadData(f"{round.reference} has other tokens than {round.model}, so it cannot be its reference")
    settings = round.settings
    start = round.reference_adapter
    lora = None if start is None else Lora.going_on(start, dropout=0.0, is_four_bit=False)
    reference = base.load(device=round.device, seed=settings.seed, lora=lora, precision=settings.precision)
    return reference_of(reference, batches)


def _identity(round: Round) -> dict[str, str]:
    preference = {name: str(getattr(round.preference, name)) for name in Preference.__dataclass_fields__}
    adapters = {} if round.lora is None else {"lora": str(round.lora)}
    if round.adapter is not None:
        adapters["adapter"] = _fingerprint_of(str(round.adapter))
    return {
        **round.method.identity, **preference, **adapters, "method": "bonbon", "model": _fingerprint_of(round.model),
        "data": fingerprint_of(round.data), "pairs": str(round.pairs), "score": round.quality.name,
        "baseline": "none" if round.baseline is None else _fingerprint_of(round.baseline),
        "reference": "none" if round.reference is None else _fingerprint_of(round.reference),
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
            f"{round.sampled} holds no answers of this model to these rows: its model, rows, program, seed, score, "
            "baseline and number of samples must be those of this round"
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
