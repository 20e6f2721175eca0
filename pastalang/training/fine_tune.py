"""Fine-tune a model on rows of a program, and save it to a folder that the engine can load."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pastalang.plan.plan import Hole, Mode, Plan
from pastalang.plan.serialise import fingerprint
from pastalang.plan.structure import walk
from pastalang.program.program import Program
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.models.compatibility import check_config
from pastalang.runtime.models.loading import as_load_error, default_device
from pastalang.runtime.models.source import check_source, shipped_folder
from pastalang.runtime.models.training_note import FILE, TrainingNote
from pastalang.source import Source
from pastalang.training.batches import packed_batches
from pastalang.training.checkpoints import Checkpoints, Progress, fingerprint_of_weights, put_weights
from pastalang.training.data import fingerprint_of, read_lessons
from pastalang.training.errors import BadData, BadRow
from pastalang.training.lessons import Lesson, Recorder
from pastalang.training.recording import TrainingRow
from pastalang.training.run_folder import WORK, check_folder, prepare_folder
from pastalang.training.settings import Settings
from pastalang.training.teacher_forced_eval import score_rows
from pastalang.training.trainer import ReportLine, train
from pastalang.values.describe import counted


@dataclass(frozen=True, slots=True)
class Job:
    """With several `modes`, a row is shown in another one in every epoch. `lora`: its rank; None trains all weights."""

    program: Program
    model: str
    data: Path | Source
    out: Path
    modes: tuple[Mode, ...]
    settings: Settings
    validation: Path | Source | None = None
    template: str | None = None
    rows: int = 8
    length: int | None = None
    lora: int | None = None
    device: str | None = None
    overwrite: bool = False


def fine_tune(job: Job, *, report: ReportLine = print) -> Progress:
    """Raises `BadData`, `BadRow`, `CheckpointError`, `TrainingStopped`. An interrupted run is resumed."""
    check_folder(job.out, overwrite=job.overwrite)
    lessons = read_lessons(job.data, job.program, template=job.template)
    validation = read_lessons(job.validation, job.program, template=job.template) if job.validation else []
    model, tokenizer = _load(job)
    recorder = Recorder(tokenizer)
    variants = recorder.rows(lessons, job.modes)
    checked = [row for ways in recorder.rows(validation, job.modes[:1]) for row in ways]
    check_positions([row for ways in variants for row in ways] + checked, model)
    length = job.length or _line_length(variants)
    report(
        f"{counted(len(lessons), 'row')}, modes: {', '.join(mode.value for mode in job.modes)}; "
        f"lines of {length} tokens"
    )
    batches = packed_batches(variants, rows=job.rows, length=length, seed=job.settings.seed)
    prepare_folder(job.out, overwrite=job.overwrite)
    work, identity = job.out / WORK, _identity(job, lessons[0], tokenizer, model, length)
    progress = train(
        model, batches, job.settings, work, identity=identity,
        judge=judge_of(checked, validation) if checked else None, report=report,
    )  # fmt: skip
    best = Checkpoints(work, {}).best(progress)
    if best is not None:
        put_weights(model, best)
    save(model, tokenizer, note_of(lessons[0].plan(job.modes[0]), job.modes), job.out)
    report(f"saved to {job.out}")
    return progress


def judge_of(rows: Sequence[TrainingRow], lessons: Sequence[Lesson]) -> Callable[[Any], float]:
    """The F1 of the validation rows, between 0 and 1."""
    categories = [lesson.category for lesson in lessons]
    return lambda model: score_rows(model, rows, categories=categories).reported.f1 / 100


def check_positions(rows: Sequence[TrainingRow], model: Any) -> None:
    """Raises `BadRow` for the first row that is longer than the model's positions."""
    last = int(model.config.get_text_config().max_position_embeddings) - 1
    for row in rows:
        if int(row.positions.max()) > last:
            raise BadRow(f"reaches position {row.positions.max()}, and the model's last is {last}", origin=row.origin)


def note_of(plan: Plan, modes: tuple[Mode, ...]) -> TrainingNote:
    holes = (segment for branch in plan.branches for _, segment in walk(branch.segments) if isinstance(segment, Hole))
    limits = {hole.field: hole.max_tokens for hole in holes}
    name = fingerprint(plan)
    return TrainingNote(modes, plan.template, name.program, name.types, limits)


def save(model: Any, tokenizer: Any, note: TrainingNote, folder: Path) -> None:
    """Save whole weights; LoRA adapters are merged."""
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    (folder / FILE).unlink(missing_ok=True)  # written last: its presence says that the folder is complete
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    note.write(folder)


def _load(job: Job) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    check_source(str(job.model))
    place = shipped_folder(job.model) or job.model
    with as_load_error(job.model):
        check_config(AutoConfig.from_pretrained(place))
        tokenizer = AutoTokenizer.from_pretrained(place)
        model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
    model = model.to(job.device or default_device())
    torch.manual_seed(job.settings.seed)
    return (model if job.lora is None else _with_lora(model, job.lora)), tokenizer


def _with_lora(model: Any, rank: int) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as problem:
        raise BadData("--lora needs the package peft: pip install 'pastalang[lora]'") from problem
    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))


def _line_length(variants: Sequence[Sequence[TrainingRow]]) -> int:
    """As long as the longest row, and long enough that a few short ones share a line."""
    longest = max(len(row) for ways in variants for row in ways)
    return max(256, -(-longest // 64) * 64)


def _identity(job: Job, lesson: Lesson, tokenizer: Any, model: Any, length: int) -> dict[str, str]:
    """Equal for two runs if one may go on with the other."""
    plans = "\n".join(str(fingerprint(lesson.plan(mode))) for mode in job.modes)
    return {
        "program": hashlib.sha256(plans.encode()).hexdigest()[:16],
        "mode": ", ".join(mode.value for mode in job.modes),
        "model": fingerprint_of_weights(model),
        "tokenizer": vocabulary_of(tokenizer).fingerprint,
        "data": fingerprint_of(job.data),
        "validation": fingerprint_of(job.validation) if job.validation else "none",
        "rows": str(job.rows),
        "length": str(length),
        "lora": str(job.lora),
    }
