"""`pasta label PROGRAM ROWS -o OUT`: training rows from a model's own answers, or from those of a function."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pastalang.cli.bulk_progress import duration
from pastalang.cli.exit_codes import EXIT_FINE, EXIT_PROBLEMS, EXIT_STOPPED, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.import_model import find_model
from pastalang.cli.long_runs import ctrl_c_asked, screen
from pastalang.cli.model_source import chosen_model, load_engine, refuse_adapter, refuse_hub, refuse_model
from pastalang.cli.options import (
    AdapterName,
    AnyMode,
    AsJson,
    Cells,
    ColumnMap,
    Device,
    Temperature,
    TemplateName,
    TopK,
    TopP,
    adapter_of,
    columns_of,
    sampling_of,
)  # fmt: skip
from pastalang.cli.output import echo, echo_document, echo_error, reason_of, refuse_unwritable
from pastalang.cli.plan_source import choose_template, read_program
from pastalang.cli.process import exits_with_code
from pastalang.cli.standard_input import refuse_second, rows_of
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Mode, Plan
from pastalang.runtime.call import IN_FLIGHT
from pastalang.runtime.models.choice import is_folder, revision_of
from pastalang.runtime.models.source import Adapter
from pastalang.values.describe import counted

if TYPE_CHECKING:
    from pastalang.training.labels import LabelJob, LabelTotals, Teacher

_EVERY: Final = 30.0  # seconds between two lines, where lines stay


@exits_with_code
def command(
    program: Annotated[Path, typer.Argument(help="The program whose answers are wanted.")],
    rows: Annotated[Path, typer.Argument(help="Rows with the inputs by name. JSON, CSV, Parquet, a data set.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of training rows: .jsonl.")],
    model: Annotated[
        str | None,
        typer.Option(help="The model that answers: a folder, or a name on the Hugging Face hub. See pasta models."),
    ] = None,
    adapter: AdapterName = None,
    teacher: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="A function from the inputs to the value, in place of a model."),
    ] = None,
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Drop a row if the probability of any of its fields is lower.")
    ] = 0.0,
    map: ColumnMap = None,
    template: TemplateName = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Read only so many rows.")] = None,
    mode: Annotated[
        Mode, typer.Option(help="How the model decodes: sequential writes one value after another.")
    ] = Mode.SEQUENTIAL,
    any_mode: AnyMode = False,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    seed: Annotated[int, typer.Option(help="The same seed samples the same tokens.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run, if there is one.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output and begin again.")] = False,
    chunk: Annotated[int, typer.Option(min=1, help="The rows that are committed together.")] = 64,
    in_flight: Annotated[
        int | None, typer.Option(min=1, help="Rows that are answered at once. Default: 16, of a function 1.")
    ] = None,
    device: Device = None,
    cells: Cells = 8192,
    as_json: AsJson = False,
) -> None:
    sampling, columns = sampling_of(temperature, top_p, top_k), columns_of(map)
    _check_usage(program, rows, output, model, teacher, resume=resume, overwrite=overwrite)
    checked = read_program(program)
    chosen = choose_template(checked, template)
    plan = build_plan(chosen, checked, mode=mode)
    if plan.auto is not None:
        raise Refused(f"the template {chosen.name} places its own branches, and has no fields to label", EXIT_USAGE)
    if teacher is None:
        name = chosen_model(model).name
        options = {"any_mode": any_mode, "sampling": sampling, "seed": seed}
        job = _job_of_model(name, plan, options, in_flight or IN_FLIGHT, device, cells, adapter_of(adapter))
    else:
        job = _job_of_function(teacher, in_flight or 1)

    from pastalang.training.labels import LabelJob

    named, made = job
    found = LabelJob(plan, rows_of(rows, columns), output, named, made, min_confidence, limit, chunk)
    totals = _label(found, resume=resume, overwrite=overwrite)
    if totals.left_out:
        echo_error(f"columns that are not used: {', '.join(totals.left_out)}")
    summary = _summary(found, totals)
    if as_json:
        echo_document(json.dumps(summary, ensure_ascii=False))
        raise typer.Exit(EXIT_FINE if totals.kept else EXIT_PROBLEMS)
    echo(_as_text(summary))
    if not totals.kept:
        raise Refused(f"no row was kept: {_why(found)}", EXIT_PROBLEMS)


def _check_usage(
    program: Path, rows: Path, output: Path, model: str | None, teacher: str | None, *, resume: bool, overwrite: bool
) -> None:
    refuse_second(program, rows)
    if model is not None and teacher is not None:
        raise Refused("--model and --teacher both say who answers: pass one of them", EXIT_USAGE)
    if resume and overwrite:
        raise Refused("--resume goes on with a run and --overwrite begins again: pass one of them", EXIT_USAGE)
    if output.suffix not in (".jsonl", ".ndjson"):
        raise Refused(f"training rows are written to a file that ends in .jsonl, not to {output}", EXIT_USAGE)
    refuse_unwritable(output, program, rows)


def _job_of_model(
    model: str, plan: Plan, options: Mapping[str, Any], in_flight: int, device: str | None, cells: int, adapter: Adapter
) -> tuple[str, Callable[[], Teacher]]:
    """The name of the teacher, and how it is loaded."""
    refuse_model(model)
    refuse_adapter(model, adapter)
    refuse_hub(model)
    load_now = partial(load_engine, model, device=device, cells=cells, adapter=adapter)
    engine = None if is_folder(model) else load_now()  # the hub decides its version

    def load() -> Teacher:
        from pastalang.training.labels import ModelTeacher

        return ModelTeacher(engine or load_now(), plan, options, in_flight)

    given = ", ".join(f"{name} {value}" for name, value in options.items() if value not in (None, False))
    return f"{model}, revision {revision_of(model, adapter)}, {plan.mode.value}, {given}", load


def _job_of_function(teacher: str, in_flight: int) -> tuple[str, Callable[[], Teacher]]:
    module, colon, name = teacher.rpartition(":")
    if not colon:
        raise Refused(f"--teacher takes a function, written module:function, not {teacher}", EXIT_USAGE)
    function = find_model(module, name)
    if not callable(function):
        raise Refused(f"{teacher} is not a function", EXIT_USAGE)

    from pastalang.training.labels import FunctionTeacher

    return teacher, partial(FunctionTeacher, function, in_flight)


def _label(job: LabelJob, *, resume: bool, overwrite: bool) -> LabelTotals:
    from pastalang.bulk.run import RunRefused
    from pastalang.training.errors import Interrupted
    from pastalang.training.labels import label_file

    try:
        with ctrl_c_asked("the rows that are being answered") as is_stopped:
            return label_file(job, resume=resume, overwrite=overwrite, report=_Progress(), is_stopped=is_stopped)
    except RunRefused as refused:
        raise Refused(str(refused), EXIT_USAGE) from refused
    except Interrupted as stopped:
        raise Refused(f"{stopped}; to go on, give the same command with --resume", EXIT_STOPPED) from stopped
    except OSError as problem:
        place = problem.filename or job.out
        raise Refused(f"{place} could not be written: {reason_of(problem)}", EXIT_UNREADABLE) from problem


class _Progress:
    """A live line on a terminal, and elsewhere a line now and then."""

    def __init__(self) -> None:
        self._report, self._live = screen()
        self._shown = time.monotonic()

    def __call__(self, totals: LabelTotals) -> None:
        rate = (totals.rows - totals.resumed) / max(totals.seconds, 1e-9)
        parts = [f"{totals.rows:,} of {totals.of:,} rows", f"{totals.kept:,} kept", f"{rate:.1f}/s"]
        if rate:
            parts.append(f"{duration((totals.of - totals.rows) / rate)} left")
        if self._live is not None:
            self._live("" if totals.rows == totals.of else ", ".join(parts))
        elif time.monotonic() - self._shown >= _EVERY:
            self._shown = time.monotonic()
            echo_error(", ".join(parts))


def _summary(job: LabelJob, totals: LabelTotals) -> dict[str, Any]:
    return {
        "output": str(job.out),
        "rows": totals.rows,
        "kept": totals.kept,
        "dropped": {status: count for status, count in totals.statuses.most_common() if status != "kept"},
        "reasons": str(job.dropped),
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "seconds": round(totals.seconds, 1),
        "resumed": totals.resumed,
    }


def _as_text(summary: Mapping[str, Any]) -> str:
    dropped = summary["rows"] - summary["kept"]
    reasons = ", ".join(f"{count:,} {status}" for status, count in summary["dropped"].items())
    lines = [
        ("rows", f"{counted(summary['rows'], 'row')}, {summary['kept']:,} kept in {summary['output']}"),
        ("dropped", f"{dropped:,}: {reasons}; see {summary['reasons']}" if dropped else "0"),
        ("tokens", f"{summary['input_tokens']:,} read, {summary['output_tokens']:,} written"),
        ("time", duration(summary["seconds"])),
    ]
    if summary["resumed"]:
        lines.append(("resumed", f"after {summary['resumed']:,} rows of an earlier run"))
    return "\n".join(f"{name:<16} {value}" for name, value in lines)


def _why(job: LabelJob) -> str:
    """What is wrong with the first row that was dropped."""
    with job.dropped.open(encoding="utf-8") as stream:
        first = json.loads(next(stream))
    return f"{first['origin']}: {first['problem']}"
