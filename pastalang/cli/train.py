"""`pasta train`: fine-tune a model on the right answers of a program, and save it to a folder."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pastalang.cli.exit_codes import EXIT_STOPPED, EXIT_UNREADABLE, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.long_runs import ctrl_c_asked, screen
from pastalang.cli.model_source import refuse_device, refuse_hub, refuse_model
from pastalang.cli.options import ColumnMap, Device, OverrunPolicy, TemplateName, columns_of
from pastalang.cli.output import echo, echo_error
from pastalang.cli.plan_source import choose_template, read_program
from pastalang.cli.process import exits_with_code
from pastalang.cli.standard_input import refuse_second, rows_of
from pastalang.cli.train_bonbon import PreferenceOptions, train_bonbon
from pastalang.cli.train_methods import (
    RATES,
    MethodName,
    is_typed,
    refuse_method,
    refuse_mode,
    refuse_options_of_others,
    refuse_processes,
)
from pastalang.cli.train_ppd import train_ppd
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.plan.plan import Overrun
from pastalang.program.program import AutoBody
from pastalang.training.settings import Attention, Decay, Form, LogName, Precision, Preference, Settings, TrainingMode

if TYPE_CHECKING:
    from pastalang.training.fine_tune import Job

_NOT_REPEATED = ("out", "overwrite", "check", "config", "workers")  # what `run.toml` leaves to its user


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options of a file the defaults of this command."""
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        reason = (getattr(problem, "strerror", None) or "it is not UTF-8 text").lower()
        raise typer.BadParameter(f"{path} could not be read: {reason}") from problem
    except tomllib.TOMLDecodeError as problem:
        raise typer.BadParameter(f"{path} is not TOML: {problem}") from problem
    known = {parameter.name for parameter in context.command.params}
    options = {name.replace("-", "_"): value for name, value in found.items() if not isinstance(value, dict)}
    options.pop("pastalang", None)
    for name in options:
        if name not in known:
            meant = did_you_mean(name, (one for one in known if one))
            hint = f"; did you mean {meant.replace('_', '-')}?" if meant else ""
            raise typer.BadParameter(f"{path}: there is no option {name.replace('_', '-')}{hint}")
    context.default_map = {**(context.default_map or {}), **options}
    return path


@exits_with_code
def command(
    context: typer.Context,
    method: Annotated[
        MethodName,
        typer.Argument(
            help="hpd: decode the values of a JSON answer in parallel. pasta, apar: open threads in auto(...). "
            "bonbon: prefer the best of sampled answers with threads. ppd: prompt tokens, for fewer passes. "
            "space: as hpd, pasta or apar, and the weights learn to foretell tokens, for fewer passes."
        ),
    ],
    model: Annotated[str, typer.Option(help="The model to start with: a folder, or a name on the Hugging Face hub.")],
    program: Annotated[Path, typer.Option(help="The program to train for.")],
    data: Annotated[
        Path,
        typer.Option(help="Rows: the inputs by name, and the right answer as `value`. JSON, CSV, Parquet, a data set."),
    ],
    out: Annotated[
        Path, typer.Option(help="The folder for the trained model. An interrupted run in it is gone on with.")
    ],
    config: Annotated[
        Path | None,
        typer.Option(help="Take options from this file, as run.toml has them.", callback=_read_config, is_eager=True),
    ] = None,
    map: ColumnMap = None,
    mode: Annotated[
        TrainingMode, typer.Option(help="How the model will decode. mixture: in all three modes.")
    ] = TrainingMode.STRICT,
    overrun: OverrunPolicy = Overrun.CONTINUE,
    validation: Annotated[
        Path | None, typer.Option(help="Rows to validate with: the weights with the best F1 are kept.")
    ] = None,
    hold_out: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Without --validation: the share of the rows that is held out.")
    ] = 0.1,
    template: TemplateName = None,
    steps: Annotated[int | None, typer.Option(min=1, help="The number of weight updates. Default: 1000.")] = None,
    epochs: Annotated[
        float | None, typer.Option(help="How often every row is shown, in place of --steps; may be a fraction.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="The lines of a batch; short rows share a line.")] = 8,
    length: Annotated[
        int | None, typer.Option(min=16, help="The tokens of a line. Default: enough for the longest row.")
    ] = None,
    accumulation: Annotated[int, typer.Option(min=1, help="The batches of one update.")] = 1,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="The peak, after warm-up and before decay. Default: 0.0001, bonbon 0.00001, ppd 0.01."),
    ] = None,
    warm_up: Annotated[
        int | None, typer.Option(min=0, help="Steps of warm-up. Default: a tenth of all, at most 100.")
    ] = None,
    decay: Annotated[Decay, typer.Option(help="How the learning rate falls after the warm-up.")] = Decay.COSINE,
    final_rate: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of the learning rate that is left at the end.")
    ] = 0.05,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="Of matrices, not of norms and biases.")] = 0.1,
    clip: Annotated[float, typer.Option(min=0.0, help="The largest norm of a gradient. 0: any.")] = 1.0,
    precision: Annotated[
        Precision | None,
        typer.Option(
            help="Of the weights: mixed multiplies float32 ones in bfloat16, bfloat16 keeps float32 copies. "
            "Default: mixed; float32 on a processor that cannot multiply in bfloat16."
        ),
    ] = None,
    checkpointing: Annotated[
        bool,
        typer.Option("--checkpointing", help="Keep few activations and compute them again: less memory, more time."),
    ] = False,
    attention: Annotated[
        Attention,
        typer.Option(help="dense: masks of all pairs of tokens. flex: FlexAttention, for long lines on GPUs."),
    ] = Attention.DENSE,
    judge_every: Annotated[
        int | None, typer.Option(min=1, help="Steps between two validations. Default: 100. The last step always is.")
    ] = None,
    patience: Annotated[
        int, typer.Option(min=0, help="Validations without a better F1 before training stops. 0: never.")
    ] = 0,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between two checkpoints.")] = 250,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0,
    lora: Annotated[
        int | None, typer.Option(min=1, help="Train LoRA adapters of this rank, and merge them at the end.")
    ] = None,
    lora_alpha: Annotated[float | None, typer.Option(min=0.0, help="Default: twice the rank.")] = None,
    lora_dropout: Annotated[float, typer.Option(min=0.0, max=0.99, help="Of what goes into the adapters.")] = 0.0,
    lora_targets: Annotated[
        str | None, typer.Option(help="The modules with adapters: q_proj,v_proj. Default: all linear ones.")
    ] = None,
    load_in_4bit: Annotated[
        bool,
        typer.Option("--load-in-4bit", help="With --lora: keep the frozen weights in 4 bits (QLoRA)."),
    ] = False,
    keep_adapter: Annotated[
        bool, typer.Option("--keep-adapter", help="Write the adapters to OUT/adapter, too.")
    ] = False,
    log: Annotated[
        list[LogName] | None, typer.Option(help="Send the numbers of the run there, too. May be repeated.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes that record rows. 0: chosen by the number of rows.")
    ] = 0,
    check: Annotated[bool, typer.Option("--check", help="Check and record the rows, and train nothing.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used.")] = False,
    samples: Annotated[
        int | None, typer.Option(min=1, help="bonbon, ppd: the model's answers to each row. Default: 10, for ppd 1.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, max=100.0, help="ppd: of these answers. Default: as the program says.")
    ] = None,
    distances: Annotated[int, typer.Option(min=1, max=8, help="ppd, space: how many tokens are foretold.")] = 3,
    ensemble: Annotated[int, typer.Option(min=1, max=100, help="ppd: prompt tokens for each of them, averaged.")] = 1,
    plain: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="space: the share of rows that are shown without masks.")
    ] = 0.5,
    cuts: Annotated[int, typer.Option(min=1, help="space: groups of masks in each of the other rows.")] = 4,
    quality: Annotated[
        float, typer.Option(min=0.0, help="bonbon: how much quality counts next to speed; inf: quality alone.")
    ] = 2.0,
    score: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="bonbon: counts what is right. Default: the F1 of words."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="bonbon: compares answers, in place of --score."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="bonbon: answers without threads. Speed and --judge compare with them."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=99, help="bonbon: rounds one after another, in folders of their own in --out.")
    ] = 1,
    reference: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="bonbon: margins move from this model's. Default: that of --model."),
    ] = None,
    sampled: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="bonbon: take the answers that this other round sampled.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(min=0.0, help="bonbon: the margin to aim at. Default: that of --samples.")
    ] = None,
    alpha: Annotated[float, typer.Option(min=0.0, max=1.0, help="bonbon: the weight of imitation.")] = 0.005,
    form: Annotated[Form, typer.Option(help="bonbon: how the margin of a pair costs.")] = Form.SQUARED,
    device: Device = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew in --out, even if it is not empty.")
    ] = False,
) -> None:
    _refuse_numbers(learning_rate, epochs)
    if steps is not None and epochs is not None:
        raise Refused("--steps and --epochs both say how long to train: pass one of them", EXIT_USAGE)
    if lora is None and load_in_4bit:
        raise Refused("--load-in-4bit needs --lora RANK: weights in 4 bits are frozen", EXIT_USAGE)
    if lora is None and (lora_alpha is not None or lora_dropout or lora_targets or keep_adapter):
        raise Refused("--lora-alpha, --lora-dropout, --lora-targets and --keep-adapter need --lora RANK", EXIT_USAGE)
    if validation is None and not hold_out and (patience or judge_every):
        raise Refused("--patience and --judge-every need --validation, or a --hold-out above 0", EXIT_USAGE)
    refuse_second(program, data, validation)
    processes = _processes()
    if processes > 1:
        refuse_processes(method, program, data, validation)
    columns = columns_of(map)
    checked = read_program(program)
    chosen = choose_template(checked, template)
    refuse_method(method, chosen)
    refuse_mode(method, chosen, mode, is_chosen=is_typed(context, "mode"))
    refuse_options_of_others(context, method)
    if not check:
        _refuse_output(out, model, overwrite=overwrite)
    refuse_model(model)
    refuse_hub(model)
    with ctrl_c_exits_at_once():
        refuse_device(device)
        from pastalang.training.fine_tune import Job
        from pastalang.training.method import Method, OwnThreads, ParallelValues
        from pastalang.training.model_files import Lora
        from pastalang.training.probe_methods import Masking, SemiAutoregressive

    if precision is None:
        precision = _usual_precision(device, is_said=method is not MethodName.PPD and not check)
    rate = learning_rate or RATES.get(method, 1e-4)
    settings = Settings(
        steps=steps or 1000, learning_rate=rate, final_share=final_rate, decay=decay, clip_norm=clip,
        weight_decay=weight_decay, accumulation=accumulation, judge_every=judge_every or 100, patience=patience,
        save_every=save_every, seed=seed, precision=precision, checkpointing=checkpointing,
    )  # fmt: skip
    adapters = None
    if lora is not None:
        names = tuple(name.strip() for name in (lora_targets or "").split(",") if name.strip())
        adapters = Lora(lora, lora_alpha, lora_dropout, names, load_in_4bit)
    if method is MethodName.BONBON:
        if samples == 1:
            raise Refused("--samples 1 leaves nothing to prefer: bonbon takes 2 and more", EXIT_USAGE)
        if margin is not None and not (math.isfinite(margin) and (margin or form is Form.SQUARED)):
            above = "" if form is Form.SQUARED else " above 0"
            raise Refused(f"--margin takes a number{above}, not {margin:g}", EXIT_USAGE)
        preferring = PreferenceOptions(
            Preference(samples or 10, quality, alpha, margin, form), rounds, score, judge, baseline, reference, sampled
        )
        train_bonbon(
            preferring, replace(settings, steps=steps or 0), checked, template, model, rows_of(data, columns), out,
            max(1, rows // 2), warm_up, device, overrun=overrun, lora=adapters, keep_adapter=keep_adapter,
            overwrite=overwrite, given=_options(context),
        )  # fmt: skip
        return
    if method is MethodName.PPD:
        foretelling = replace(
            settings, weight_decay=0.0, precision=Precision.FLOAT32, warmup_steps=warm_up or 0, judge_every=100,
        )  # fmt: skip
        train_ppd(
            foretelling, checked, template, mode, model, rows_of(data, columns), out, device, distances=distances,
            ensemble=ensemble, temperature=temperature, samples=samples or 1, rows=rows, length=length,
            overwrite=overwrite, options=_options(context), logs=tuple(log or ()),
        )  # fmt: skip
        return
    taught: Method = ParallelValues(checked, mode.modes, template, overrun)
    if isinstance(chosen.messages[-1].body, AutoBody):
        taught = OwnThreads(checked, template, overrun)
    if method is MethodName.SPACE:
        taught = SemiAutoregressive(taught, Masking(distances, plain, cuts))
    job = Job(
        taught, model, rows_of(data, columns), out, settings,
        validation=None if validation is None else rows_of(validation, columns), held_out=hold_out, epochs=epochs,
        warmup=warm_up, rows=rows, length=length, lora=adapters, keep_adapter=keep_adapter, device=device,
        attention=attention,
        workers=workers, skip_bad=skip_bad, needs_judge=judge_every is not None, overwrite=overwrite,
        options=_options(context), logs=tuple(log or ()),
    )  # fmt: skip
    if not check:
        _train(job)
    elif processes == 1 or os.environ.get("RANK") == "0":
        _check(job)


def _usual_precision(device: str | None, *, is_said: bool) -> Precision:
    """The precision where none is asked for."""
    from pastalang.training.trainer import usual_precision

    precision = usual_precision(device)
    if precision is Precision.FLOAT32 and is_said and os.environ.get("RANK", "0") == "0":
        echo_error("note: precision float32, because this processor cannot multiply in bfloat16")
    return precision


def _processes() -> int:
    """How many processes a launcher such as torchrun has started for this command."""
    found = os.environ.get("WORLD_SIZE", "1")
    if not found.isdecimal() or int(found) < 1:
        raise Refused(f"WORLD_SIZE says how many processes train together: a number, not {found}", EXIT_USAGE)
    return int(found)


def _check(job: Job) -> None:
    from pastalang.training.fine_tune import Reporter, gather, needed_memory

    show, live = screen()
    dataset = gather(job, Reporter(show, live))
    echo(dataset.summary)
    if needed := needed_memory(job, dataset):
        echo(str(needed))
    echo("all rows can be trained on; nothing was trained")


def _train(job: Job) -> None:
    from pastalang.training.errors import Interrupted, LostProcess, TrainingStopped
    from pastalang.training.fine_tune import fine_tune
    from pastalang.training.trainer import all_processes

    show, live = screen()
    with all_processes(job.device) as (processes, device):
        try:
            with ctrl_c_asked(is_once=processes.count > 1, is_shown=processes.is_first) as is_stopped:
                own = replace(job, device=device)
                fine_tune(own, report=show, live=live, is_stopped=is_stopped, processes=processes)
        except (Interrupted, LostProcess, TrainingStopped) as stopped:
            if not processes.is_first:  # which says it
                return
            if not isinstance(stopped, Interrupted):
                raise
            advice = "give the same command again to go on"
            raise Refused(f"{stopped} in {job.out}: {advice}", EXIT_STOPPED) from stopped


def _options(context: typer.Context) -> dict[str, Any]:
    """The options of this call by name, for `run.toml`. Paths are absolute."""
    found: dict[str, Any] = {}
    for name, value in context.params.items():
        if name in _NOT_REPEATED or value is None or value is False:
            continue
        if (isinstance(value, Path) and str(value) != "-") or (name == "model" and Path(value).is_dir()):
            value = Path(value).absolute()
        found[name.replace("_", "-")] = value.value if isinstance(value, Enum) else value
    return found


def _refuse_numbers(learning_rate: float | None, epochs: float | None) -> None:
    for name, value in (("--learning-rate", learning_rate), ("--epochs", epochs)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise Refused(f"{name} has to be a number above 0, not {value:g}", EXIT_USAGE)


def _refuse_output(out: Path, model: str, *, overwrite: bool) -> None:
    """Raises `Refused` if the folder cannot be made. It is made later, when the data is known to be good."""
    if overwrite and out.is_dir() and Path(model).is_dir() and out.samefile(model):
        raise Refused(f"{out} holds the model to train: write to another folder", EXIT_USAGE)
    nearest = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise Refused(f"{out} cannot be written: {nearest} is not a folder", EXIT_UNREADABLE)
    if not os.access(nearest, os.W_OK):
        raise Refused(f"{out} cannot be written: permission denied", EXIT_UNREADABLE)
