"""`pasta train hpd`: a model, a program and rows of right answers come in, a folder with trained weights goes out."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused, ends_at_once
from pastalang.cli.model_source import look_for_hub, refuse_device, refuse_folder
from pastalang.cli.output import say
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import read_all, refused_findings
from pastalang.compiler import check_reading
from pastalang.program.program import Program
from pastalang.training.settings import TrainingMode


class Method(StrEnum):
    HPD = "hpd"


@exits_with_code
def command(
    method: Annotated[Method, typer.Argument(help="hpd: the values of a JSON answer, side by side.")],
    model: Annotated[str, typer.Option(help="A folder with a model, or its name on the hub.")],
    program: Annotated[Path, typer.Option(help="The program whose answers are taught.")],
    data: Annotated[Path, typer.Option(help="JSON lines: the inputs by name, and the right answer as `value`.")],
    out: Annotated[Path, typer.Option(help="The folder for the trained model.")],
    mode: Annotated[
        TrainingMode, typer.Option(help="How the model will decode; mixture: all three.")
    ] = TrainingMode.STRICT,
    validation: Annotated[Path | None, typer.Option(help="Rows that are not trained on; the best F1 is kept.")] = None,
    template: Annotated[str | None, typer.Option(help="Which template, where the program has several.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Updates of the weights.")] = 1000,
    rows: Annotated[int, typer.Option(min=1, help="Lines of a batch.")] = 8,
    length: Annotated[int | None, typer.Option(min=16, help="Tokens of a line; left out: the longest row.")] = None,
    accumulation: Annotated[int, typer.Option(min=1, help="Batches of one update.")] = 1,
    learning_rate: Annotated[float, typer.Option(min=0.0, help="The highest; it warms up and falls.")] = 1e-4,
    judge_every: Annotated[int, typer.Option(min=1, help="Steps between two looks at the validation rows.")] = 100,
    patience: Annotated[int, typer.Option(min=0, help="Looks without a better F1 before it stops; 0: never.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Two runs with one seed do the same.")] = 0,
    lora: Annotated[
        int | None, typer.Option(min=1, help="Train adapters of this rank only, merged at the end.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; left out: the best there is.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
) -> None:
    checked = _read_program(program)
    _refuse_template(checked, template)
    _refuse_folder(out, model, overwrite=overwrite)
    refuse_folder(model)
    look_for_hub(model)
    with ends_at_once():
        refuse_device(device)
        from pastalang.training.fine_tune import Job, fine_tune
        from pastalang.training.settings import Settings

    settings = Settings(
        steps=steps, learning_rate=learning_rate, warmup_steps=min(100, max(1, steps // 10)),
        accumulation=accumulation, judge_every=judge_every if validation else 0, patience=patience, seed=seed,
    )  # fmt: skip
    job = Job(
        checked, model, data, out, mode.modes, settings, validation=validation, template=template, rows=rows,
        length=length, lora=lora, device=device, overwrite=overwrite,
    )  # fmt: skip
    fine_tune(job, tell=say)


def _read_program(path: Path) -> Program:
    given = next(read_all([path]), None)
    if given is None:
        raise Refused(f"{path} holds no program", EXIT_UNREADABLE)
    if not given.reading.was_opened:
        raise refused_findings(given.reading.diagnostics, EXIT_UNREADABLE)
    program, findings = check_reading(given.reading, path=given.path)
    if program is None:
        raise refused_findings(findings, EXIT_PROBLEMS)
    return program


def _refuse_template(program: Program, template: str | None) -> None:
    name, names = program.source.name, ", ".join(program.templates)
    if not program.templates:
        raise Refused(f"{name} declares no template", EXIT_PROBLEMS)
    if template is None and len(program.templates) != 1:
        advice = f"choose one with --template: {names}"
        raise Refused(f"{name} declares {len(program.templates)} templates; {advice}", EXIT_USAGE)
    if template is not None and template not in program.templates:
        raise Refused(f"{name} has no template {template!r}; it declares: {names}", EXIT_USAGE)


def _refuse_folder(out: Path, model: str, *, overwrite: bool) -> None:
    """The folder is made as soon as anything is known to be trained; that it can be is known beforehand."""
    if overwrite and out.is_dir() and Path(model).is_dir() and out.samefile(model):
        raise Refused(f"{out} holds the model that is trained: write to another folder", EXIT_USAGE)
    around = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not around.is_dir():
        raise Refused(f"{out} cannot be written: {around} is no folder", EXIT_UNREADABLE)
    if not os.access(around, os.W_OK):
        raise Refused(f"{out} cannot be written: permission denied", EXIT_UNREADABLE)
