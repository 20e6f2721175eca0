"""`pasta train hpd`: fine-tune a model on the right answers of a program, and save it to a folder."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.model_source import refuse_device, refuse_hub, refuse_model
from pastalang.cli.options import Device, TemplateName
from pastalang.cli.output import echo
from pastalang.cli.plan_source import choose_template, read_program
from pastalang.cli.process import exits_with_code
from pastalang.cli.standard_input import refuse_second, rows_of
from pastalang.training.settings import TrainingMode


class Method(StrEnum):
    HPD = "hpd"


@exits_with_code
def command(
    method: Annotated[Method, typer.Argument(help="hpd: decode the values of a JSON answer in parallel.")],
    model: Annotated[str, typer.Option(help="The model to start with: a folder, or a name on the Hugging Face hub.")],
    program: Annotated[Path, typer.Option(help="The program to train for.")],
    data: Annotated[Path, typer.Option(help="JSON lines: the inputs by name, and the right answer as `value`.")],
    out: Annotated[Path, typer.Option(help="The folder for the trained model. An interrupted run in it is resumed.")],
    mode: Annotated[
        TrainingMode, typer.Option(help="How the model will decode. mixture: in all three modes.")
    ] = TrainingMode.STRICT,
    validation: Annotated[
        Path | None, typer.Option(help="Rows to validate with: the weights with the best F1 are kept.")
    ] = None,
    template: TemplateName = None,
    steps: Annotated[int, typer.Option(min=1, help="The number of weight updates.")] = 1000,
    rows: Annotated[int, typer.Option(min=1, help="The lines of a batch; short rows share a line.")] = 8,
    length: Annotated[
        int | None, typer.Option(min=16, help="The tokens of a line. Default: enough for the longest row.")
    ] = None,
    accumulation: Annotated[int, typer.Option(min=1, help="The batches of one update.")] = 1,
    learning_rate: Annotated[
        float, typer.Option(min=0.0, help="The peak learning rate, after warm-up and before decay.")
    ] = 1e-4,
    judge_every: Annotated[int, typer.Option(min=1, help="Steps between two validations.")] = 100,
    patience: Annotated[
        int, typer.Option(min=0, help="Validations without a better F1 before training stops. 0: never.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0,
    lora: Annotated[
        int | None, typer.Option(min=1, help="Train LoRA adapters of this rank, and merge them at the end.")
    ] = None,
    device: Device = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write to --out even if it is not empty.")] = False,
) -> None:
    refuse_second(program, data, validation)
    checked = read_program(program)
    choose_template(checked, template)
    _refuse_output(out, model, overwrite=overwrite)
    refuse_model(model)
    refuse_hub(model)
    with ctrl_c_exits_at_once():
        refuse_device(device)
        from pastalang.training.fine_tune import Job, fine_tune
        from pastalang.training.settings import Settings

    settings = Settings(
        steps=steps, learning_rate=learning_rate, warmup_steps=min(100, max(1, steps // 10)),
        accumulation=accumulation, judge_every=judge_every if validation else 0, patience=patience, seed=seed,
    )  # fmt: skip
    job = Job(
        checked, model, rows_of(data), out, mode.modes, settings,
        validation=None if validation is None else rows_of(validation), template=template, rows=rows,
        length=length, lora=lora, device=device, overwrite=overwrite,
    )  # fmt: skip
    fine_tune(job, report=echo)


def _refuse_output(out: Path, model: str, *, overwrite: bool) -> None:
    """Raises `Refused` if the folder cannot be made. It is made later, when the data is known to be good."""
    if overwrite and out.is_dir() and Path(model).is_dir() and out.samefile(model):
        raise Refused(f"{out} holds the model to train: write to another folder", EXIT_USAGE)
    nearest = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise Refused(f"{out} cannot be written: {nearest} is not a folder", EXIT_UNREADABLE)
    if not os.access(nearest, os.W_OK):
        raise Refused(f"{out} cannot be written: permission denied", EXIT_UNREADABLE)
