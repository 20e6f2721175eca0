"""`pasta train`: fine-tune a model on the right answers of a program, and save it to a folder."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pastalang.cli.exit_codes import EXIT_STOPPED, EXIT_UNREADABLE, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.models import refuse_device, refuse_missing
from pastalang.cli.options import ColumnMap, Device, OverrunPolicy, TemplateName, columns_of, is_typed, refuse_both
from pastalang.cli.output import echo, echo_error
from pastalang.cli.process import command, ctrl_c_asked, screen
from pastalang.cli.sources import (
    choose_template,
    function_named,
    is_standard_input,
    read_program,
    refuse_second,
    rows_of,
)
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.failures import PastaError
from pastalang.plan.branches import Mode, Overrun
from pastalang.program.program import AutoBody, Program, Template
from pastalang.runtime.models.source import adapter_folder
from pastalang.training.settings import Attention, Decay, Form, LogName, Precision, Preference, Settings, TrainingMode

if TYPE_CHECKING:
    from pastalang.training.bonbon import Round
    from pastalang.training.fine_tune import Job
    from pastalang.training.method import Method
    from pastalang.training.model_files import Lora
    from pastalang.training.row_files import RowFile


_HEAVY = ("fine_tune", "method", "model_files", "probe_methods")
_MODELS = ("model", "adapter", "baseline", "reference")  # names, or folders
_NOT_REPEATED = ("out", "overwrite", "check", "config", "workers")  # what `run.toml` leaves to its user


class MethodName(StrEnum):
    HPD = "hpd"
    PASTA = "pasta"
    APAR = "apar"
    BONBON = "bonbon"
    PPD = "ppd"
    SPACE = "space"


RATES = {MethodName.BONBON: 1e-5, MethodName.PPD: 1e-2}  # of others 0.0001
_THREADS = (MethodName.PASTA, MethodName.APAR)
_FINE_TUNED = (MethodName.HPD, *_THREADS, MethodName.SPACE)
_PROBES = (MethodName.PPD, MethodName.SPACE)
_ONLY_FOR = {
    "mode": (MethodName.HPD, *_PROBES),
    "overrun": (*_FINE_TUNED, MethodName.BONBON),
    "samples": (MethodName.BONBON, MethodName.PPD),
    "log": (*_FINE_TUNED, MethodName.PPD),
    "length": (*_FINE_TUNED, MethodName.PPD),
    "distances": _PROBES,
    **dict.fromkeys(("plain", "cuts"), (MethodName.SPACE,)),
    **dict.fromkeys(
        ("quality", "score", "judge", "baseline", "reference", "rounds", "sampled", "margin", "alpha", "form"),
        (MethodName.BONBON,),
    ),
    **dict.fromkeys(("ensemble", "temperature"), (MethodName.PPD,)),
    **dict.fromkeys(
        (
            "precision", "checkpointing", "accumulation", "lora", "lora_alpha", "lora_dropout", "lora_targets",
            "keep_adapter", "adapter",
        ),
        (*_FINE_TUNED, MethodName.BONBON),
    ),
    **dict.fromkeys(
        (
            "validation", "hold_out", "epochs", "judge_every", "patience", "load_in_4bit", "attention",
            "workers", "check", "skip_bad",
        ),
        _FINE_TUNED,
    ),
}  # fmt: skip


def refuse_method(method: MethodName, template: Template) -> None:
    """Raises `Refused` if the template does not decode as the method teaches."""
    body = template.messages[-1].body
    policy = body.policy.value if isinstance(body, AutoBody) else None
    if method is MethodName.HPD and policy is not None:
        raise Refused(
            f"`{template.name}` lets the model open threads with auto({policy}): use `pasta train {policy}`", EXIT_USAGE
        )
    if method is MethodName.BONBON and policy is None:
        raise Refused(f"`{template.name}` is not one text of auto(...): bonbon is for answers with threads", EXIT_USAGE)
    if method is MethodName.BONBON and template.messages[-1].thought is not None:
        raise Refused(
            f"`{template.name}` thinks before its answer: bonbon is for answers without a thought", EXIT_USAGE
        )
    if method is MethodName.BONBON and any(input.each for input in template.inputs):
        raise Refused(f"`{template.name}` answers several documents: bonbon is for one answer to a prompt", EXIT_USAGE)
    if method in _THREADS and policy != method.value:
        instead = f"has auto({policy})" if policy else "is not one text of auto(...)"
        other = f"use `pasta train {policy}`" if policy else "for values without threads use `pasta train hpd`"
        advice = f"write `assistant auto({method.value}, max=400)`, or {other}"
        raise Refused(f"`{template.name}` {instead}: {advice}", EXIT_USAGE)


def refuse_mode(method: MethodName, template: Template, mode: TrainingMode, *, is_chosen: bool) -> None:
    """Raises `Refused` for a mode in which nothing is predicted."""
    if method not in _PROBES:
        return
    if mode is TrainingMode.LOCKSTEP or (mode is TrainingMode.MIXTURE and method is MethodName.PPD):
        taken = "strict or sequential" if method is MethodName.PPD else "strict, sequential or mixture"
        why = f"it takes {taken}, and values in lock-step are never guessed"
        raise Refused(f"--mode {mode.value} is not for {method.value}: {why}", EXIT_USAGE)
    if is_chosen and method is MethodName.SPACE and isinstance(template.messages[-1].body, AutoBody):
        raise Refused(f"`{template.name}` has auto(...), which is decoded in one way: leave out --mode", EXIT_USAGE)


def refuse_processes(method: MethodName, *files: Path | None) -> None:
    """Raises `Refused` for what only one process can do."""
    if method in (MethodName.BONBON, MethodName.PPD):
        raise Refused(f"{method.value} trains in one process: start it without a launcher", EXIT_USAGE)
    if any(map(is_standard_input, files)):
        raise Refused("several processes cannot read one standard input: name a file in place of `-`", EXIT_USAGE)


def refuse_options_of_others(context: typer.Context, method: MethodName) -> None:
    """Raises `Refused` for an option that the method would not respect."""
    for option, methods in _ONLY_FOR.items():
        if method not in methods and is_typed(context, option):
            *names, last = (one.value for one in methods)
            known = f"{', '.join(names)} and {last}" if names else last
            raise Refused(f"--{option.replace('_', '-')} is for {known}, not for {method.value}", EXIT_USAGE)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """The arguments and options of `pasta train`."""

    context: typer.Context
    method: Annotated[
        MethodName,
        typer.Argument(
            help="hpd: decode the values of a JSON answer in parallel. pasta, apar: open threads in auto(...). "
            "bonbon: prefer the best of sampled answers with threads. ppd: prompt tokens, for fewer passes. "
            "space: as hpd, pasta or apar, and the weights learn to predict tokens, for fewer passes."
        ),
    ]
    model: Annotated[str, typer.Option(help="The model to start with: a folder, or a name on the Hugging Face hub.")]
    program: Annotated[Path, typer.Option(help="The program to train for.")]
    data: Annotated[
        Path,
        typer.Option(help="Rows: the inputs by name, and the right answer as `value`. JSON, CSV, Parquet, a data set."),
    ]
    out: Annotated[
        Path, typer.Option(help="Output folder for the trained model. An interrupted run in it is continued.")
    ]
    config: Annotated[
        Path | None,
        typer.Option(
            help="Read options from this file, in the format of run.toml.", callback=_read_config, is_eager=True
        ),
    ] = None
    map: ColumnMap = None
    mode: Annotated[TrainingMode, typer.Option(help="The decoding mode to train for. mixture: all three modes.")] = (
        TrainingMode.STRICT
    )
    overrun: OverrunPolicy = Overrun.CONTINUE
    validation: Annotated[Path | None, typer.Option(help="Validation rows; the weights with the best F1 are kept.")] = (
        None
    )
    hold_out: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Without --validation: the share of rows to hold out.")
    ] = 0.1
    template: TemplateName = None
    steps: Annotated[int | None, typer.Option(min=1, help="The number of weight updates. Default: 1000.")] = None
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the rows, instead of --steps; may be a fraction.")
    ] = None
    rows: Annotated[int, typer.Option(min=1, help="Sequences per batch; short rows share a sequence.")] = 8
    length: Annotated[
        int | None, typer.Option(min=16, help="Tokens per sequence. Default: enough for the longest row.")
    ] = None
    accumulation: Annotated[int, typer.Option(min=1, help="Batches per weight update.")] = 1
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Peak learning rate. Default: 0.0001; 0.00001 for bonbon, 0.01 for ppd."),
    ] = None
    warm_up: Annotated[
        int | None, typer.Option(min=0, help="Warm-up steps. Default: a tenth of all steps, at most 100.")
    ] = None
    decay: Annotated[Decay, typer.Option(help="How the learning rate falls after the warm-up.")] = Decay.COSINE
    final_rate: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Final learning rate, as a share of the peak.")
    ] = 0.05
    weight_decay: Annotated[
        float, typer.Option(min=0.0, help="Weight decay of matrices; norms and biases have none.")
    ] = 0.1
    clip: Annotated[float, typer.Option(min=0.0, help="Maximum gradient norm. 0: no clipping.")] = 1.0
    precision: Annotated[
        Precision | None,
        typer.Option(
            help="Of the weights: mixed multiplies float32 ones in bfloat16, bfloat16 keeps float32 copies. "
            "Default: mixed; float32 on a processor that cannot multiply in bfloat16."
        ),
    ] = None
    checkpointing: Annotated[
        bool,
        typer.Option("--checkpointing", help="Gradient checkpointing: less memory, more time."),
    ] = False
    attention: Annotated[
        Attention,
        typer.Option(help="dense: a mask for all pairs of tokens. flex: FlexAttention, for long sequences on GPUs."),
    ] = Attention.DENSE
    judge_every: Annotated[
        int | None,
        typer.Option(min=1, help="Steps between validations. Default: 100. The last step is always validated."),
    ] = None
    patience: Annotated[
        int, typer.Option(min=0, help="Stop after this many validations without a better F1. 0: never.")
    ] = 0
    save_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 250
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0
    lora: Annotated[
        int | None, typer.Option(min=1, help="Train LoRA adapters of this rank, and merge them at the end.")
    ] = None
    lora_alpha: Annotated[float | None, typer.Option(min=0.0, help="LoRA alpha. Default: twice the rank.")] = None
    lora_dropout: Annotated[float, typer.Option(min=0.0, max=0.99, help="LoRA dropout.")] = 0.0
    lora_targets: Annotated[
        str | None, typer.Option(help="Modules with adapters, such as q_proj,v_proj. Default: all linear layers.")
    ] = None
    adapter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Go on from this LoRA adapter, a name or a folder, in place of --lora."),
    ] = None
    load_in_4bit: Annotated[
        bool,
        typer.Option("--load-in-4bit", help="With --lora: keep the frozen weights in 4 bits (QLoRA)."),
    ] = False
    keep_adapter: Annotated[bool, typer.Option("--keep-adapter", help="Also write the adapters to OUT/adapter.")] = (
        False
    )
    log: Annotated[list[LogName] | None, typer.Option(help="Also log to this service. May be repeated.")] = None
    workers: Annotated[
        int, typer.Option(min=0, help="Processes that prepare rows. 0: chosen by the number of rows.")
    ] = 0
    check: Annotated[bool, typer.Option("--check", help="Check and prepare the rows, but do not train.")] = False
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unusable rows.")] = False
    samples: Annotated[
        int | None, typer.Option(min=1, help="bonbon, ppd: sampled answers per row. Default: 10; 1 for ppd.")
    ] = None
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, max=100.0, help="ppd: the temperature of these answers. Default: that of the program."),
    ] = None
    distances: Annotated[int, typer.Option(min=1, max=8, help="ppd, space: how many tokens to predict ahead.")] = 3
    ensemble: Annotated[
        int, typer.Option(min=1, max=100, help="ppd: prompt tokens per predicted token; their results are averaged.")
    ] = 1
    plain: Annotated[float, typer.Option(min=0.0, max=1.0, help="space: the share of rows shown without masks.")] = 0.5
    cuts: Annotated[int, typer.Option(min=1, help="space: groups of masks in each of the other rows.")] = 4
    quality: Annotated[
        float, typer.Option(min=0.0, help="bonbon: the weight of quality against speed; inf: quality alone.")
    ] = 2.0
    score: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="bonbon: scores an answer. Default: the F1 of words."),
    ] = None
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="bonbon: compares two answers, instead of --score."),
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="bonbon: a model that answers without threads, to compare with."),
    ] = None
    rounds: Annotated[
        int, typer.Option(min=1, max=99, help="bonbon: rounds one after another, in folders of their own in --out.")
    ] = 1
    reference: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="bonbon: the reference model for margins. Default: that of --model."),
    ] = None
    sampled: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="bonbon: reuse the answers sampled by this earlier round.")
    ] = None
    margin: Annotated[
        float | None, typer.Option(min=0.0, help="bonbon: the target margin. Default: that of --samples.")
    ] = None
    alpha: Annotated[float, typer.Option(min=0.0, max=1.0, help="bonbon: the weight of the imitation loss.")] = 0.005
    form: Annotated[Form, typer.Option(help="bonbon: the form of the margin loss.")] = Form.SQUARED
    device: Device = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start again in --out, even if it is not empty.")] = (
        False
    )

    @property
    def columns(self) -> dict[str, str]:
        return columns_of(self.map)

    @property
    def data_rows(self) -> RowFile:
        return rows_of(self.data, self.columns)

    @property
    def lora_settings(self) -> Lora | None:
        from pastalang.training.model_files import Lora

        if self.adapter is not None:
            return self._going_on(self.adapter)
        if self.lora is None:
            return None
        names = tuple(name.strip() for name in (self.lora_targets or "").split(",") if name.strip())
        return Lora(self.lora, self.lora_alpha, self.lora_dropout, names, self.load_in_4bit)

    def _going_on(self, adapter: str) -> Lora:
        from pastalang.training.model_files import Lora

        try:
            folder = adapter_folder(self.model, adapter)
            assert folder is not None
            return Lora.going_on(folder, dropout=self.lora_dropout, is_four_bit=self.load_in_4bit)
        except PastaError as problem:
            raise Refused(f"--adapter: {problem}", EXIT_UNREADABLE) from problem

    @property
    def repeated(self) -> dict[str, Any]:
        """The options of this call by name, for `run.toml`."""
        return _options(self.context)


@command(TrainSettings)
def train_command(given: TrainSettings) -> None:
    _check_usage(given)
    processes = _processes()
    if processes > 1:
        refuse_processes(given.method, given.program, given.data, given.validation)
    columns_of(given.map)
    program = read_program(given.program)
    chosen = choose_template(program, given.template)
    _check_method(given, chosen)
    if not given.check:
        _refuse_output(given.out, given.model, overwrite=given.overwrite)
    refuse_missing(given.model)
    with ctrl_c_exits_at_once():
        refuse_device(given.device)
        for name in _HEAVY:
            import_module(f"pastalang.training.{name}")
    _start(given, program, chosen, processes)


def _check_usage(given: TrainSettings) -> None:
    _refuse_numbers(given.learning_rate, given.epochs)
    refuse_both("--steps and --epochs both say how long to train", given.steps, given.epochs)
    _check_lora(given)
    if given.validation is None and not given.hold_out and (given.patience or given.judge_every):
        raise Refused("--patience and --judge-every need --validation, or a --hold-out above 0", EXIT_USAGE)
    refuse_second(given.program, given.data, given.validation)


def _check_lora(given: TrainSettings) -> None:
    of_shape = (given.lora is not None, given.lora_alpha is not None, given.lora_targets)
    if given.adapter is not None and any(of_shape):
        raise Refused("--adapter has its rank: leave out --lora, --lora-alpha and --lora-targets", EXIT_USAGE)
    if given.lora is None and given.adapter is None:
        if given.load_in_4bit:
            raise Refused("--load-in-4bit needs --lora RANK: weights in 4 bits are frozen", EXIT_USAGE)
        if any((*of_shape, given.lora_dropout, given.keep_adapter)):
            raise Refused(
                "--lora-alpha, --lora-dropout, --lora-targets and --keep-adapter need --lora RANK", EXIT_USAGE
            )


def _check_method(given: TrainSettings, chosen: Template) -> None:
    refuse_method(given.method, chosen)
    refuse_mode(given.method, chosen, given.mode, is_chosen=is_typed(given.context, "mode"))
    refuse_options_of_others(given.context, given.method)


def _start(given: TrainSettings, program: Program, chosen: Template, processes: int) -> None:
    settings = _settings_of(given)
    match given.method:
        case MethodName.BONBON:
            _check_preference(given)
            train_bonbon(given, replace(settings, steps=given.steps or 0), program)
        case MethodName.PPD:
            train_ppd(given, settings, program)
        case _:
            job = _job_of(given, settings, program, chosen)
            if not given.check:
                _train(job)
            elif processes == 1 or os.environ.get("RANK") == "0":
                _check(job)


def _settings_of(given: TrainSettings) -> Settings:
    is_said = given.method is not MethodName.PPD and not given.check
    return Settings(
        steps=given.steps or 1000, learning_rate=given.learning_rate or RATES.get(given.method, 1e-4),
        final_share=given.final_rate, decay=given.decay, clip_norm=given.clip, weight_decay=given.weight_decay,
        accumulation=given.accumulation, judge_every=given.judge_every or 100, patience=given.patience,
        save_every=given.save_every, seed=given.seed, checkpointing=given.checkpointing,
        precision=_usual_precision(given.device, is_said=is_said) if given.precision is None else given.precision,
    )  # fmt: skip


def _check_preference(given: TrainSettings) -> None:
    if given.samples == 1:
        raise Refused("--samples 1 leaves nothing to prefer: bonbon takes 2 and more", EXIT_USAGE)
    margin, is_squared = given.margin, given.form is Form.SQUARED
    if margin is not None and not (math.isfinite(margin) and (margin or is_squared)):
        raise Refused(f"--margin takes a number{'' if is_squared else ' above 0'}, not {margin:g}", EXIT_USAGE)


def _job_of(given: TrainSettings, settings: Settings, program: Program, chosen: Template) -> Job:
    from pastalang.training.fine_tune import Job
    from pastalang.training.probe_methods import Masking

    is_masked = given.method is MethodName.SPACE
    masking = Masking(given.distances, given.plain, given.cuts) if is_masked else None
    validation = None if given.validation is None else rows_of(given.validation, given.columns)
    return Job(
        _taught(given, program, chosen), given.model, given.data_rows, given.out, settings, masking=masking,
        validation=validation, held_out=given.hold_out, epochs=given.epochs, warmup=given.warm_up, rows=given.rows,
        length=given.length, lora=given.lora_settings, keep_adapter=given.keep_adapter, device=given.device,
        attention=given.attention, workers=given.workers, skip_bad=given.skip_bad,
        needs_judge=given.judge_every is not None, overwrite=given.overwrite, options=given.repeated,
        logs=tuple(given.log or ()),
    )  # fmt: skip


def _taught(given: TrainSettings, program: Program, chosen: Template) -> Method:
    from pastalang.training.method import OwnThreads, ParallelValues

    if isinstance(chosen.messages[-1].body, AutoBody):
        return OwnThreads(program, given.template, given.overrun)
    return ParallelValues(program, given.mode.modes, given.template, given.overrun)


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
        asked = ctrl_c_asked(is_once=processes.count > 1, is_shown=processes.is_first)
        first_says_it = nullcontext() if processes.is_first else suppress(Interrupted, LostProcess, TrainingStopped)
        with _going_on_later(job.out), first_says_it, asked as is_stopped:
            own = replace(job, device=device)
            fine_tune(own, report=show, live=live, is_stopped=is_stopped, processes=processes)


@contextmanager
def _going_on_later(out: Path) -> Iterator[None]:
    """A run that was stopped has a checkpoint."""
    from pastalang.training.errors import Interrupted

    try:
        yield
    except Interrupted as stopped:
        raise Refused(f"{stopped} in {out}: give the same command again to go on", EXIT_STOPPED) from stopped


def _options(context: typer.Context) -> dict[str, Any]:
    """The options of this call by name, for `run.toml`. Paths are absolute."""
    found: dict[str, Any] = {}
    for name, value in context.params.items():
        if name in _NOT_REPEATED or value is None or value is False:
            continue
        if (isinstance(value, Path) and str(value) != "-") or (name in _MODELS and Path(value).is_dir()):
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


def train_bonbon(given: TrainSettings, settings: Settings, program: Program) -> None:
    """A preference round for a model that opens threads, or several. An interrupted one goes on. Raises `Refused`."""
    round = _round_of(given, settings, program)
    from pastalang.training.bonbon import train_round, train_rounds

    show, live = screen()

    def on_done(done: int) -> None:
        if live is not None:
            live(f"sampling: {done:,} rows")

    with _going_on_later(given.out), ctrl_c_asked() as is_stopped:
        if given.rounds == 1:
            train_round(round, report=show, is_stopped=is_stopped, on_done=on_done)
        else:
            train_rounds(round, given.rounds, report=show, is_stopped=is_stopped, on_done=on_done)


def _round_of(given: TrainSettings, settings: Settings, program: Program) -> Round:
    refuse_both("--score and --judge both say how good an answer is", given.score, given.judge)
    score = None if given.score is None else function_named("--score", given.score)
    judge = None if given.judge is None else function_named("--judge", given.judge)
    for other in (given.baseline, given.reference):
        if other is not None:
            refuse_missing(other)
    from pastalang.training.bonbon import Quality, Round
    from pastalang.training.method import OwnThreads

    preference = Preference(given.samples or 10, given.quality, given.alpha, given.margin, given.form)
    return Round(
        OwnThreads(program, given.template, given.overrun), given.model, given.data_rows, given.out, preference,
        settings, quality=Quality(score, judge, given.score or given.judge or "F1 of words"),
        baseline=given.baseline, reference=given.reference, sampled=given.sampled, pairs=max(1, given.rows // 2),
        warmup=given.warm_up, lora=given.lora_settings, keep_adapter=given.keep_adapter, device=given.device,
        overwrite=given.overwrite, options=given.repeated,
    )  # fmt: skip


def train_ppd(given: TrainSettings, settings: Settings, program: Program) -> None:
    """Prompt tokens that predict what a model says next. An interrupted run goes on. Raises `Refused`."""
    from pastalang.training.probe_methods import PromptJob, PromptTraining, train_prompt_tokens

    training = PromptTraining(
        given.distances, given.ensemble, temperature=given.temperature, samples=given.samples or 1
    )  # fmt: skip
    predicting = replace(
        settings, weight_decay=0.0, precision=Precision.FLOAT32, warmup_steps=given.warm_up or 0, judge_every=100
    )
    job = PromptJob(
        program, given.model, given.data_rows, given.out, training, predicting, template=given.template,
        mode=Mode(given.mode.value), rows=given.rows, length=given.length or 512, device=given.device,
        overwrite=given.overwrite, options=given.repeated, logs=tuple(given.log or ()),
    )  # fmt: skip
    show, live = screen()
    with _going_on_later(given.out), ctrl_c_asked() as is_stopped:
        train_prompt_tokens(job, report=show, live=live, is_stopped=is_stopped)
