"""The commands that write and measure training rows: `pasta label`, `pasta data` and `pasta independence`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from pastalang.cli.exit_codes import (
    EXIT_FINE,
    EXIT_PROBLEMS,
    EXIT_STOPPED,
    EXIT_UNREADABLE,
    EXIT_USAGE,
    Refused,
    ctrl_c_exits_at_once,
)
from pastalang.cli.extract import duration
from pastalang.cli.models import chosen_model, load_engine, load_tokenizer, refuse_device, refuse_missing
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
    refuse_both,
    sampling_of,
)
from pastalang.cli.output import echo, echo_document, echo_error, named_lines, reason_of, refuse_unwritable, write_file
from pastalang.cli.process import command, ctrl_c_asked, screen
from pastalang.cli.sources import (
    build,
    choose_template,
    function_named,
    read_plan,
    read_program,
    refuse_second,
    rows_of,
)
from pastalang.plan.branches import Hole, Mode
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program.program import AutoBody, JsonBody, Program, Template
from pastalang.runtime.call import IN_FLIGHT
from pastalang.runtime.models.choice import is_folder, revision_of
from pastalang.values.describe import counted, pace

if TYPE_CHECKING:
    from pastalang.training.data import Asked, Row
    from pastalang.training.independence import FieldLosses, Lost
    from pastalang.training.labels import LabelJob, LabelTotals, Teacher
    from pastalang.training.thread_data import Annotator, Rejected, Statistics, Tagged


_EVERY: Final = 30.0  # seconds between two lines, where lines stay


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSettings:
    """The arguments and options of `pasta label`."""

    program: Annotated[Path, typer.Argument(help="The program to answer with.")]
    rows: Annotated[Path, typer.Argument(help="Rows with the inputs by name: JSON, CSV, Parquet or a data set.")]
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file for the training rows: .jsonl.")]
    model: Annotated[
        str | None,
        typer.Option(help="The model that answers: a folder, or a name on the Hugging Face hub. See pasta models."),
    ] = None
    adapter: AdapterName = None
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="A labelling function, from the inputs to the value, instead of a model."
        ),
    ] = None
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Drop a row if the confidence of any of its fields is lower.")
    ] = 0.0
    map: ColumnMap = None
    template: TemplateName = None
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most this many rows.")] = None
    mode: Annotated[Mode, typer.Option(help="How the model decodes: sequential writes one value after another.")] = (
        Mode.SEQUENTIAL
    )
    any_mode: AnyMode = False
    temperature: Temperature = None
    top_p: TopP = None
    top_k: TopK = None
    seed: Annotated[int, typer.Option(help="The same seed samples the same tokens.")] = 0
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run, if there is one.")] = False
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output and start again.")] = False
    chunk: Annotated[int, typer.Option(min=1, help="Rows per commit.")] = 64
    in_flight: Annotated[
        int | None, typer.Option(min=1, help="Rows to answer at the same time. Default: 16; 1 with a function.")
    ] = None
    device: Device = None
    cells: Cells = 8192
    as_json: AsJson = False

    @property
    def options(self) -> dict[str, Any]:
        """Those of a run."""
        return {"any_mode": self.any_mode, "sampling": sampling_of(self), "seed": self.seed}


@command(LabelSettings)
def label_command(settings: LabelSettings) -> None:
    _check_usage(settings)
    job = _label_job(settings)
    totals = _label(job, resume=settings.resume, overwrite=settings.overwrite)
    if totals.left_out:
        echo_error(f"columns that are not used: {', '.join(totals.left_out)}")
    summary = _summary(job, totals)
    if settings.as_json:
        echo_document(json.dumps(summary, ensure_ascii=False))
        raise typer.Exit(EXIT_FINE if totals.kept else EXIT_PROBLEMS)
    echo(_label_text(summary))
    if not totals.kept:
        raise Refused(f"no row was kept: {_why(job)}", EXIT_PROBLEMS)


def _check_usage(settings: LabelSettings) -> None:
    sampling_of(settings)
    columns_of(settings.map)
    output = settings.output
    refuse_second(settings.program, settings.rows)
    refuse_both("--model and --teacher both say who answers", settings.model, settings.teacher)
    refuse_both("--resume goes on with a run and --overwrite begins again", settings.resume, settings.overwrite)
    if output.suffix not in (".jsonl", ".ndjson"):
        raise Refused(f"training rows are written to a file that ends in .jsonl, not to {output}", EXIT_USAGE)
    refuse_unwritable(output, settings.program, settings.rows)


def _label_job(settings: LabelSettings) -> LabelJob:
    checked = read_program(settings.program)
    chosen = choose_template(checked, settings.template)
    plan = build_plan(chosen, checked, mode=settings.mode)
    if plan.auto is not None:
        raise Refused(f"the template {chosen.name} places its own branches, and has no fields to label", EXIT_USAGE)
    if settings.teacher is None:
        name, load = _job_of_model(settings, plan)
    else:
        from pastalang.training.labels import FunctionTeacher

        name, function = settings.teacher, function_named("--teacher", settings.teacher)
        load = partial(FunctionTeacher, function, settings.in_flight or 1)
    from pastalang.training.labels import LabelJob

    rows = rows_of(settings.rows, columns_of(settings.map))
    return LabelJob(plan, rows, settings.output, name, load, settings.min_confidence, settings.limit, settings.chunk)


def _job_of_model(settings: LabelSettings, plan: Plan) -> tuple[str, Callable[[], Teacher]]:
    """The name of the teacher, and how it is loaded."""
    model, adapter, options = chosen_model(settings.model).name, adapter_of(settings.adapter), settings.options
    refuse_missing(model, adapter)
    load_now = partial(load_engine, model, device=settings.device, cells=settings.cells, adapter=adapter)
    engine = None if is_folder(model) else load_now()  # the hub decides its version

    def load() -> Teacher:
        from pastalang.training.labels import ModelTeacher

        return ModelTeacher(engine or load_now(), plan, options, settings.in_flight or IN_FLIGHT)

    given = ", ".join(f"{name} {value}" for name, value in options.items() if value not in (None, False))
    return f"{model}, revision {revision_of(model, adapter)}, {plan.mode.value}, {given}", load


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
        parts = [f"{totals.rows:,} of {totals.of:,} rows", f"{totals.kept:,} kept", pace(rate)]
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


def _label_text(summary: Mapping[str, Any]) -> str:
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
    return named_lines(lines)


def _why(job: LabelJob) -> str:
    """What is wrong with the first row that was dropped."""
    with job.dropped.open(encoding="utf-8") as stream:
        first = json.loads(next(stream))
    return f"{first['origin']}: {first['problem']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    """The arguments and options of `pasta data`."""

    kind: Annotated[
        Literal["threads"], typer.Argument(help="threads: mark parts that could be written at the same time.")
    ]
    program: Annotated[Path, typer.Option(help="The program with assistant auto(...) that the rows are for.")]
    data: Annotated[Path, typer.Option(help="JSON lines: the inputs by name, and the answer without tags as `value`.")]
    out: Annotated[Path, typer.Option(help="Write the rows with threads to this file.")]
    model: Annotated[
        str | None,
        typer.Option(help="The model whose tokenizer counts tokens; its weights are loaded only for --independence."),
    ] = None
    rejected: Annotated[
        Path | None, typer.Option(help="Write rows that get no threads to this file, with the reasons.")
    ] = None
    least: Annotated[
        int | None, typer.Option(min=1, help="Minimum tokens per thread. Default: 20 for pasta, 10 for apar.")
    ] = None
    plain: Annotated[
        float, typer.Option(min=0.0, help="Add this many rows without threads for each row with threads.")
    ] = 0.0
    annotator: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A function that writes the tags: it gets a prompt and returns the tagged text.",
        ),
    ] = None
    independence: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Reject threads that --model finds less likely without the others, by more nats a token."
        ),
    ] = None
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unusable rows.")] = False
    template: TemplateName = None
    device: Device = None


@command(DataSettings)
def data_command(settings: DataSettings) -> None:
    _check_data_usage(settings)
    plan = read_plan(settings.program, template=settings.template, mode=Mode.STRICT)
    if plan.auto is None:
        raise Refused("`data threads` is for programs with `assistant auto(...)`", EXIT_USAGE)
    if any(input.each for input in plan.inputs):
        raise Refused("`data threads` is for programs that answer one document", EXIT_USAGE)
    tagged, refused = _tagged(settings, plan)
    from pastalang.training.thread_data import plain_among, statistics_of

    added = plain_among(refused, round(settings.plain * len(tagged)))
    if settings.rejected is not None:
        write_file(settings.rejected, "".join(map(_with_reason, refused)))
    echo(_statistics_text(statistics_of(tagged, refused, len(added))))
    if not tagged:
        first = f"{refused[0].origin}: {refused[0].reason}"
        raise Refused(f"no row gets threads, so {settings.out} is not written; {first}", EXIT_PROBLEMS)
    write_file(settings.out, "".join(map(_line, [*(one.row for one in tagged), *added])))


def _check_data_usage(settings: DataSettings) -> None:
    refuse_second(settings.program, settings.data)
    for place in (settings.out, settings.rejected):
        refuse_unwritable(place, settings.program, settings.data)
    if settings.rejected is not None and settings.out.resolve() == settings.rejected.resolve():
        raise Refused(f"--out and --rejected are both {settings.out}: one would overwrite the other", EXIT_USAGE)
    if not math.isfinite(settings.plain):
        raise Refused(f"--plain takes a number, not {settings.plain:g}", EXIT_USAGE)
    if settings.annotator is not None and settings.least is not None:
        raise Refused("--least is for tags by rule: an annotator decides for itself", EXIT_USAGE)


def _tagged(settings: DataSettings, plan: Plan) -> tuple[list[Tagged], list[Rejected]]:
    """The rows with threads, and those that get none."""
    annotate = None if settings.annotator is None else function_named("--annotator", settings.annotator)
    name = chosen_model(settings.model).name
    tokenizer = load_tokenizer(name)
    with ctrl_c_exits_at_once():
        refuse_device(settings.device)
        from pastalang.training.data import read_checked
        from pastalang.training.independence import Grader
        from pastalang.training.model_files import read_base
        from pastalang.training.thread_data import Bar, Rejected, Tagged, tag_rows

    rows = read_checked(rows_of(settings.data), plan, skip_bad=settings.skip_bad, note=echo_error)
    bar = None
    if settings.independence is not None:
        refuse_missing(name)
        loaded = read_base(name).load(device=settings.device, seed=0, lora=None)
        bar = Bar(Grader(loaded, tokenizer, plan), settings.independence)
    with _keeping(settings, annotate) as ask:
        found = list(tag_rows(rows, plan, tokenizer, least=settings.least, annotate=ask, bar=bar))
    return [one for one in found if isinstance(one, Tagged)], [one for one in found if isinstance(one, Rejected)]


@contextmanager
def _keeping(settings: DataSettings, annotate: Annotator | None) -> Iterator[Annotator | None]:
    """The annotator. Its answers are kept next to the rows until every row has one."""
    if annotate is None:
        yield None
        return
    from pastalang.training.thread_data import KeptAnswers

    place = settings.out.with_name(f"{settings.out.name}.answers")
    with KeptAnswers(annotate, str(settings.annotator), place) as asked:
        if asked.kept:
            echo_error(f"going on with {counted(asked.kept, 'answer')} of an earlier run, from {place}")
        try:
            yield asked
        except KeyboardInterrupt:
            raise Refused(
                f"stopped; {counted(asked.kept, 'answer')} kept in {place}: give the same command again to go on",
                EXIT_STOPPED,
            ) from None
    if place.exists():
        echo_error(f"some rows got no answer: the same command asks for these alone, as {place} keeps the others")


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _with_reason(one: Rejected) -> str:
    return _line({**one.row, "origin": one.origin, "reason": one.reason})


def _statistics_text(found: Statistics) -> str:
    of_threads = [
        ("threads of a row", f"{found.threads:.1f}"),
        ("tokens in threads", f"{100 * found.in_threads:.1f}%"),
        ("theoretical speed-up", f"{found.theoretical:.2f}x"),
    ]
    lines = [
        ("rows with threads", f"{found.kept:,}"),
        *(of_threads if found.kept else []),
        *([("nats a token without the others", f"{found.loss:.3f}")] if found.loss is not None else []),
        ("rows without threads", f"{found.plain:,}"),
        ("rejected", f"{sum(found.rejected.values()):,}"),
        *((f"  {reason}", f"{count:,}") for reason, count in found.rejected.items()),
    ]
    return "\n".join(_columns(lines))


_FEW = 20  # rows: intervals of fewer say little


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependenceSettings:
    """The arguments and options of `pasta independence`."""

    program: Annotated[Path, typer.Argument(help="The program whose fields are decoded at the same time.")]
    data: Annotated[
        Path, typer.Option(help="Rows: the inputs by name, and the answer as `value`; without it, the model answers.")
    ]
    model: Annotated[
        str | None,
        typer.Option(help="The model that will decode: a folder, or a name on the Hugging Face hub. See pasta models."),
    ] = None
    least: Annotated[
        float, typer.Option(min=0.0, help="Advise an after only for losses above this, in nats per value.")
    ] = 0.1
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most this many rows.")] = None
    map: ColumnMap = None
    template: TemplateName = None
    device: Device = None
    cells: Cells = 8192
    as_json: AsJson = False


@command(IndependenceSettings)
def independence_command(settings: IndependenceSettings) -> None:
    refuse_second(settings.program, settings.data)
    columns_of(settings.map)
    checked = read_program(settings.program)
    chosen = choose_template(checked, settings.template)
    _refuse_other_answers(chosen)
    plan = build(checked, chosen, Mode.SEQUENTIAL)
    _refuse_threads(plan)
    build(checked, chosen, Mode.STRICT)
    name, rows, own, fields = _losses(settings, checked, chosen, plan)
    report = {
        "program": str(settings.program), "model": name, "rows": rows, "own_answers": own, "least": settings.least,
        "fields": [asdict(one) for one in fields],
    }  # fmt: skip
    if settings.as_json:
        echo_document(json.dumps(report, ensure_ascii=False))
    else:
        echo(_losses_text(fields, rows, own, settings.least))


def _losses(
    settings: IndependenceSettings, program: Program, chosen: Template, plan: Plan
) -> tuple[str, int, int, Sequence[FieldLosses]]:
    """The model, how many rows it has read, how many of them it has answered itself, and what fields lose."""
    name = chosen_model(settings.model).name
    refuse_missing(name)
    with ctrl_c_exits_at_once():
        refuse_device(settings.device)
        from pastalang.training.independence import field_losses
        from pastalang.training.model_files import read_base

    good = _good_rows(settings, plan)
    tokenizer, loaded = load_tokenizer(name), read_base(name).load(device=settings.device, seed=0, lora=None)
    rows, own = _answered(good, loaded, tokenizer, plan, settings.cells)
    _, live = screen()

    def show(done: int, of: int) -> None:
        if live is not None:
            live(f"{done} of {counted(of, 'field')}" if done < of else "")

    found = field_losses(loaded, tokenizer, program, rows, template=chosen.name, least=settings.least, on_done=show)
    return name, len(rows), own, found


def _good_rows(settings: IndependenceSettings, plan: Plan) -> list[Row | Asked]:
    from pastalang.training.data import read_answered
    from pastalang.training.errors import BadRow, BadRows

    read, left_out = read_answered(rows_of(settings.data, columns_of(settings.map)), plan)
    found = read[: settings.limit]
    if problems := [row for row in found if isinstance(row, BadRow)]:
        raise BadRows(problems, rows=len(found))
    if left_out:
        echo_error(f"columns that are not used: {', '.join(left_out)}")
    return [row for row in found if not isinstance(row, BadRow)]


def _refuse_other_answers(template: Template) -> None:
    """Raises `Refused` for an answer that has no fields which could wait for one another."""
    body = template.messages[-1].body
    if isinstance(body, JsonBody):
        return
    instead = "it is running text, in which a hole sees all text before it, apart from `async` blocks"
    if isinstance(body, AutoBody):
        instead = "the model opens its threads itself; `pasta data threads --independence` measures them"
    raise Refused(f"`pasta independence` is for answers in JSON. In `{template.name}`, {instead}", EXIT_USAGE)


def _refuse_threads(plan: Plan) -> None:
    """Raises `Refused` for a field in which the model opens threads: rows have no place for their tags."""
    for _, _, part in walk_plan(plan):
        if isinstance(part, Hole) and part.threads is not None and part.auto is not None:
            raise Refused(
                f"`{part.field}` is a text of auto({part.auto.value}), which cannot be measured among others: write "
                f"`string(max={part.max_tokens})` in its place to measure the fields",
                EXIT_USAGE,
            )


def _answered(rows: Sequence[Row | Asked], model: Any, tokenizer: Any, plan: Plan, cells: int) -> tuple[list[Row], int]:
    """The rows with answers, and how many of these are the model's own. Raises `Refused` if none is left."""
    from pastalang.training.data import Row
    from pastalang.training.errors import BadRow
    from pastalang.training.independence import with_own_answers

    if all(isinstance(row, Row) for row in rows):
        return [row for row in rows if isinstance(row, Row)], 0
    found = with_own_answers(rows, model, tokenizer, plan, cells=cells)
    for one in found:
        if isinstance(one, BadRow):
            echo_error(f"{one.origin}: left out, for the model's answer cannot be used: {one.reason}")
    answered = [one for one in found if isinstance(one, Row)]
    if not answered:
        raise Refused("no row has an answer that can be used", EXIT_PROBLEMS)
    given = sum(isinstance(row, Row) for row in rows)
    return answered, len(answered) - given


# ── as text ──────────────────────────────────────────────────────────────────────────────────────────────


def _losses_text(fields: Sequence[FieldLosses], rows: int, own: int, least: float) -> str:
    whose = f", {own:,} with the model's own answers" if own else ""
    lines = [f"{counted(rows, 'row')}{whose}; losses in nats per value, with 95% intervals", ""]
    losing = [one for one in fields if one.together is not None and _shown(one, least)]
    table = [("field", "does not see", "loses", "")]
    for one in losing:
        for number, lost in enumerate(_shown(one, least)):
            low, high = lost.interval
            table.append((one.field if not number else "", lost.unseen, f"{lost.nats:.2f}", f"{low:.2f} to {high:.2f}"))
    if losing:
        lines += [*_columns(table), ""]
    independent = [one.field for one in fields if one.together is not None and one not in losing]
    if independent:
        lines.append(f"nothing above {least:g}: {', '.join(independent)}")
    if free := [one.field for one in fields if one.together is None]:
        lines.append(f"nothing to wait for: {', '.join(free)}")
    advised = [one.advice for one in fields if one.advice is not None]
    if advised:
        lines += ["", "what would fix it, as decoded"]
        lines += _columns([(f"  {one.after}", f"{one.now:.2f} nats a value, then {one.then:.2f}") for one in advised])
    elif losing:
        lines += ["", "no `after` makes a field likelier as it is decoded"]
    if rows < _FEW:
        lines += ["", f"{counted(rows, 'row')} are few: the intervals are rough"]
    return "\n".join(lines)


def _shown(one: FieldLosses, least: float) -> list[Lost]:
    """What is worth a line, the largest first; all together if several fields say only together what is missing."""
    alone = sorted((lost for lost in one.lost if lost.interval[0] > least), key=lambda lost: -lost.nats)
    if alone or one.together is None or one.together.interval[0] <= least:
        return alone
    return [one.together]


def _columns(table: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    ]  # fmt: skip
