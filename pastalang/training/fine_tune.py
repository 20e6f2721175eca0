"""Fine-tune a model on rows of a program, and save it to a folder that the engine can load.

rows ── checked ── recorded ── batches ── train ── the best weights ── saved, and scored before and after
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pastalang.failures import PastaError
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.models.loading import default_device
from pastalang.runtime.models.probe_tokens import Kind
from pastalang.training.batches import PackedBatches, attend_in_blocks, check_flex, loss_of, too_long
from pastalang.training.data import FEWEST, Reading, Row, held_out
from pastalang.training.errors import BadData, BadRow, leave_out_or_refuse
from pastalang.training.evaluation import BATCH as EVALUATION_BATCH
from pastalang.training.evaluation import Evaluation, Score, accepted_by
from pastalang.training.memory import Forecast, NoForecast, Shape, forecast, give_back_freed_memory
from pastalang.training.method import Method, OnDone, Recording, Variants, record_rows
from pastalang.training.model_files import Base, Lora, read_base, save
from pastalang.training.probe_lines import table
from pastalang.training.probe_methods import ASKED, Masking, Masks
from pastalang.training.row_files import RowFile, fingerprint_of
from pastalang.training.run_folder import (
    ROWS,
    SCORES,
    WORK,
    Checkpoints,
    Metrics,
    Progress,
    ReportLine,
    Step,
    StepLines,
    check_folder,
    check_logs,
    fingerprint_of_weights,
    own_folder,
    put_weights,
    write_options,
)
from pastalang.training.settings import Attention, LogName, Precision, Settings
from pastalang.training.trainer import ALONE, Grader, OnStep, Processes, train
from pastalang.values.describe import counted

_BEFORE = "before.json"
_LARGE = 50_000_000  # weights; the memory of a smaller model is no question


@dataclass(frozen=True, slots=True)
class Job:
    """`epochs` takes the place of the settings' steps, `warmup` None that of their warm-up: a tenth, at most 100 steps.

    Without a `validation` file, a share of the rows is held out; with `needs_judge`, too few of them are refused.
    With `masking`, the weights also learn to predict. `options` are kept in `run.toml`.
    """

    method: Method
    model: str
    data: RowFile
    out: Path
    settings: Settings
    masking: Masking | None = None
    validation: RowFile | None = None
    held_out: float = 0.1
    epochs: float | None = None
    warmup: int | None = None
    rows: int = 8
    length: int | None = None
    lora: Lora | None = None
    keep_adapter: bool = False
    device: str | None = None
    attention: Attention = Attention.DENSE
    workers: int = 0
    skip_bad: bool = False
    needs_judge: bool = False
    overwrite: bool = False
    options: Mapping[str, Any] | None = None
    logs: tuple[LogName, ...] = ()


@dataclass(frozen=True, slots=True)
class Reporter:
    """Where a run reports. A `live` line replaces the one before it."""

    report: ReportLine = print
    live: ReportLine | None = None

    def progress_of(self, what: str, total: int) -> OnDone:
        live = self.live
        return (lambda _: None) if live is None else lambda done: live(f"{what}: {done:,} of {total:,}")


@dataclass(frozen=True, slots=True)
class Dataset:
    """What is trained on and what is validated with. `settings` are those of the job, with its epochs as steps.

    `asked`: rows that show what `masks` predict.
    """

    base: Base
    batches: PackedBatches
    validation_rows: tuple[Row, ...]
    asked: tuple[Row, ...]
    masks: Masks | None
    settings: Settings
    length: int
    summary: str


def fine_tune(
    job: Job, *, report: ReportLine = print, live: ReportLine | None = None, is_stopped: Callable[[], bool] = bool,
    processes: Processes = ALONE,
) -> Progress:  # fmt: skip
    """An interrupted run goes on. Raises `BadData`, `BadRows`, `CheckpointError`, `TrainingStopped`, `Interrupted`.

    With several `processes`, each of them calls this, with a device of its own. The first one reports.
    """
    reporter = Reporter(report, live) if processes.is_first else Reporter(lambda _: None)
    check_logs(job.logs)
    if job.lora is not None:
        job.lora.check()
    if job.attention is Attention.FLEX:
        check_flex(torch.device(job.device or default_device()))
    if processes.is_first:
        check_folder(job.out, overwrite=job.overwrite)
        if job.rows < processes.count:
            raise BadData(
                f"{processes.count} processes share the lines of a batch: pass --rows {processes.count}, or more"
            )
    with _no_folder_if_refused(job.out) if processes.is_first else nullcontext():
        dataset = processes.first_then_others(lambda: gather(job, reporter, cache=job.out / WORK / ROWS))
        precision = job.settings.precision
        reporter.report(dataset.summary)
        if needed := needed_memory(job, dataset, processes):
            reporter.report(str(needed))
            if needed.is_scarce:
                give_back_freed_memory()
        model = dataset.base.load(device=job.device, seed=job.settings.seed, lora=job.lora, precision=precision)
        if job.attention is Attention.FLEX:
            attend_in_blocks(model)
        if dataset.masks is not None:
            dataset.masks.put_into(model)
        identity = _identity(job, dataset, model)
    run = _Run(job, dataset, model, identity, reporter, processes)
    if not processes.is_first:
        return run.follow(is_stopped)
    with own_folder(job.out, overwrite=job.overwrite):
        return run.all(is_stopped)


def gather(job: Job, reporter: Reporter, *, cache: Path | None = None) -> Dataset:
    """Read, check and record the rows. Trains nothing, and needs no weights. Raises `BadRows` with all bad ones."""
    readings = [
        _accepted(job.method.read(path), job, reporter) for path in (job.data, job.validation) if path is not None
    ]
    base = read_base(job.model)
    recording = Recording(job.method, base.tokenizer, base.window)
    given, *others = [_recorded(reading, recording, job, base, reporter, cache) for reading in readings]
    chosen = held_out([row for row, _ in given], 0.0 if others else job.held_out)
    validation_rows = (
        tuple(row for row, _ in others[0]) if others else tuple(given[number][0] for number in sorted(chosen))
    )
    if not validation_rows and (job.needs_judge or job.settings.patience):
        raise BadData(
            f"--patience and --judge-every need rows for validation: pass --validation, or {FEWEST} rows and more as "
            "--data, of which a part is held out"
        )
    variants = [ways for number, (_, ways) in enumerate(given) if number not in chosen]
    length = job.length or _line_length(variants)
    masks = None if job.masking is None else Masks(job.masking, job.method, base, job.settings.seed)
    batches = PackedBatches(variants, rows=job.rows, length=length, seed=job.settings.seed, adding=masks)
    settings = _settings(job, batches)
    summary = _summary(variants, batches, settings, validation_rows)
    asked = validation_rows or tuple(row for row, _ in given[:ASKED])
    return Dataset(base, batches, validation_rows, asked, masks, settings, length, summary)


def _accepted(reading: Reading, job: Job, reporter: Reporter) -> Reading:
    if reading.left_out:
        reporter.report(reading.unused)
    leave_out_or_refuse(reading.problems, rows=reading.count, skip_bad=job.skip_bad, report=reporter.report)
    return reading


def _recorded(
    reading: Reading, recording: Recording, job: Job, base: Base, reporter: Reporter, cache: Path | None
) -> list[tuple[Row, Variants]]:
    """The rows that can be taught, with their recordings."""
    rows = reading.rows
    on_done = reporter.progress_of("recording rows", len(rows))
    found = record_rows(rows, recording, cache=cache, workers=job.workers, on_done=on_done)
    problems = [
        one if isinstance(one, BadRow) else _misfit(one, job.length, base.last_position) or _unfit(row)
        for row, one in zip(rows, found, strict=True)
    ]
    bad = [problem for problem in problems if problem is not None]
    leave_out_or_refuse(bad, rows=reading.count, skip_bad=job.skip_bad, report=reporter.report)
    pairs = zip(rows, found, problems, strict=True)
    return [(row, one) for row, one, problem in pairs if problem is None and not isinstance(one, BadRow)]


def _misfit(variants: Variants, length: int | None, last_position: int) -> BadRow | None:
    for row in variants:
        if length is not None and (problem := too_long(row, length)):
            return problem
        if int(row.positions.max()) > last_position:
            return BadRow(
                f"reaches position {row.positions.max()}, and the model's last is {last_position}", origin=row.origin
            )
    return None


def _unfit(row: Row) -> BadRow | None:
    """What is wrong with the further right values of the row."""
    try:
        accepted_by(row)
    except BadRow as problem:
        return problem
    return None


def _line_length(variants: Sequence[Variants]) -> int:
    """As long as the longest row, and long enough that a few short ones share a line."""
    longest = max((len(row) for ways in variants for row in ways), default=0)
    return max(256, -(-longest // 64) * 64)


def _settings(job: Job, batches: PackedBatches) -> Settings:
    steps = job.settings.steps
    if job.epochs is not None:
        steps = batches.steps_of(job.epochs, accumulation=job.settings.accumulation)
    return job.settings.lasting(steps, job.warmup)


def _summary(
    variants: Sequence[Variants], batches: PackedBatches, settings: Settings, validation_rows: Sequence[Row]
) -> str:
    lines, steps = batches.lines(0), batches.steps_of(1, accumulation=settings.accumulation)
    judged = f"{counted(len(validation_rows), 'row')} for validation" if validation_rows else "no rows for validation"
    return (
        f"{counted(len(variants), 'row')} = {counted(lines, 'line')} = {counted(steps, 'step')} an epoch; "
        f"{counted(settings.steps, 'step')} = {settings.steps / steps:.1f} epochs; {judged}"
    )


def needed_memory(job: Job, dataset: Dataset, processes: Processes = ALONE) -> Forecast | NoForecast | None:
    """What each process of the run will need. None: the model is too small for that to matter."""
    settings, base = job.settings, dataset.base
    make = partial(base.without_weights, job.lora, settings.precision)
    try:
        with torch.device("meta"):
            weights = sum(one.numel() for one in make().parameters())
        if weights < _LARGE:
            return None
        batches = dataset.batches
        rows, predicted = (-(-whole // processes.count) for whole in (job.rows, batches.most_predicted()))
        shape = Shape(rows, batches.widest(), predicted, base.window is not None)
        answered = base.cache_bytes(EVALUATION_BATCH * dataset.length) if dataset.validation_rows else 0
        device = torch.device(job.device or default_device())
        return forecast(make, shape, settings, device, more=answered, processes=processes.count)
    except PastaError:
        raise
    except Exception as problem:  # a model may look at values, which these tensors do not have
        return NoForecast(type(problem).__name__)


def _identity(job: Job, dataset: Dataset, model: Any) -> dict[str, str]:
    """Equal for two runs if one may go on with the other."""
    lora, held_out = job.lora, len(dataset.validation_rows)
    validation = fingerprint_of(job.validation) if job.validation else f"{held_out} held out" if held_out else "none"
    return {
        **(job.method.identity if job.masking is None else job.masking.identity(job.method)),
        "model": fingerprint_of_weights(model),
        "tokenizer": vocabulary_of(dataset.base.tokenizer).fingerprint,
        "data": fingerprint_of(job.data),
        "validation": validation,
        "rows": str(job.rows),
        "length": str(dataset.length),
        "attention": job.attention.value,
        "lora": "none" if lora is None else str(lora),
    }


@contextmanager
def _no_folder_if_refused(folder: Path) -> Iterator[None]:
    """What was not there before is not there after a refusal. A run that was interrupted keeps its recorded rows."""
    new = next((place for place in (folder, folder / WORK) if not place.exists()), None)
    try:
        yield
    except PastaError:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)
        raise


class _Run:
    """A run whose folder is made: training, saving, and the scores before and after."""

    def __init__(
        self,
        job: Job,
        dataset: Dataset,
        model: Any,
        identity: Mapping[str, str],
        reporter: Reporter,
        processes: Processes,
    ) -> None:
        self._job, self._dataset, self._model = job, dataset, model
        self._identity, self._reporter, self._processes = identity, reporter, processes
        self._work = job.out / WORK
        self._metrics = Metrics(self._work, job.logs, about=job.options)
        self._step = 0

    def all(self, is_stopped: Callable[[], bool]) -> Progress:
        evaluation = self._evaluation()
        found = Checkpoints(self._work, {**self._identity, **self._dataset.settings.identity}).latest()
        self._step = found.progress.step if found else 0
        write_options(self._job.out, self._job.options or {}, self._identity)
        self._metrics.begin_after(self._step if found else None)
        try:
            if evaluation is not None and found is None:
                self._write_before(evaluation.scores(self._model))
            judge = None if evaluation is None else partial(self._judge, evaluation)
            progress = self._train(
                judge, self._on_step(StepLines(self._reporter.report, self._reporter.live)), is_stopped
            )
            self._save(progress)
            self._reporter.report(f"saved to {self._job.out}")
            return progress
        finally:
            self._metrics.close()

    def follow(self, is_stopped: Callable[[], bool]) -> Progress:
        """For a process that is not the first: it trains, and keeps nothing. The first one's scores are taken."""
        return self._train((lambda _: 0.0) if self._dataset.validation_rows else None, lambda _: None, is_stopped)

    def _train(self, judge: Grader | None, on_step: OnStep, is_stopped: Callable[[], bool]) -> Progress:
        processes, batches, masks = self._processes, self._dataset.batches, self._dataset.masks
        return train(
            self._model, partial(batches.share, processes.rank, processes.count), self._dataset.settings, self._work,
            identity=self._identity, judge=judge, report=self._reporter.report, on_step=on_step, is_stopped=is_stopped,
            processes=processes, loss=loss_of if masks is None else masks.loss,
        )  # fmt: skip

    def _evaluation(self) -> Evaluation | None:
        rows = self._dataset.validation_rows
        return self._evaluation_of(rows) if rows else None

    def _evaluation_of(self, rows: Sequence[Row]) -> Evaluation:
        dataset = self._dataset
        return Evaluation(
            rows, self._job.method.evaluated_plans(), dataset.base.tokenizer, max(8192, 4 * dataset.length)
        )

    def _on_step(self, lines: StepLines) -> Callable[[Step], None]:
        def taken(step: Step) -> None:
            self._step = step.number
            self._metrics.step(step)
            lines(step)

        return taken

    def _judge(self, evaluation: Evaluation, model: Any) -> float:
        scores = evaluation.scores(model, self._job.method.judged)
        self._metrics.validation(self._step, {name: score.as_data() for name, score in scores.items()})
        self._reporter.report(
            f"step {self._step}: F1 " + ", ".join(f"{one.f1:.2f} {name}" for name, one in scores.items())
        )
        f1, masks = sum(score.f1 for score in scores.values()) / len(scores) / 100, self._dataset.masks
        return f1 if masks is None else masks.score(f1, model, evaluation, self._reporter.report)

    def _save(self, progress: Progress) -> None:
        """The best weights, in the type that the model came in; their scores are those of what is saved."""
        job, base = self._job, self._dataset.base
        best = Checkpoints(self._work, {}).best(progress)
        if best is not None:
            put_weights(self._model, best)
        adapter = job.out / "adapter" if job.keep_adapter else None
        saved = save(
            self._model, base.tokenizer, job.method.note(), job.out, dtype=base.dtype, adapter=adapter,
            besides=self._mask_token([job.out] if adapter is None else [job.out, adapter]),
        )  # fmt: skip
        evaluation = self._evaluation()
        if evaluation is not None:
            is_small = job.lora is not None and (job.lora.is_four_bit or job.settings.precision is Precision.BFLOAT16)
            self._report_scores(evaluation.scores(saved if is_small else saved.float()))

    def _mask_token(self, folders: Sequence[Path]) -> Callable[[Any], None] | None:
        """Take it out of the model, and say how good it is. Gives what saves it in the folders, for these weights."""
        masks = self._dataset.masks
        if masks is None:
            return None
        accuracy = masks.accuracy(self._model, self._evaluation_of(self._dataset.asked))
        for line in table(accuracy):
            self._reporter.report(line)
        token = masks.take_from(self._model, accuracy)

        def save_token(saved: Any) -> None:
            for folder in folders:
                token.save(folder, saved, Kind.SPACE)

        return save_token

    def _write_before(self, scores: Mapping[str, Score]) -> None:
        found = {name: score.as_data() for name, score in scores.items()}
        self._metrics.validation(0, found)
        (self._work / _BEFORE).write_text(json.dumps(found), encoding="utf-8")

    def _report_scores(self, after: Mapping[str, Score]) -> None:
        """A table of F1: before, after, for every evaluation, and for every field of the first one."""
        try:
            before = json.loads((self._work / _BEFORE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = {}
        found = {name: score.as_data() for name, score in after.items()}
        (self._job.out / SCORES).write_text(json.dumps({"before": before, "after": found}, indent=2) + "\n", "utf-8")
        first = next(iter(found))
        rows = [(name, before.get(name, {}).get("f1"), one["f1"]) for name, one in found.items()]
        known = before.get(first, {}).get("fields", {})
        rows += [(f"  {name} ({first})", known.get(name), f1) for name, f1 in found[first]["fields"].items()]
        width = max(len(name) for name, *_ in rows)
        self._reporter.report(f"{'F1':<{width}}  before   after")
        for name, old, new in rows:
            self._reporter.report(f"{name:<{width}}  {'' if old is None else f'{old:.2f}':>6}  {new:>6.2f}")
