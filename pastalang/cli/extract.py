"""`pasta extract SOURCE DOCUMENTS -o OUT`: rows from many documents, in committed chunks."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pastalang.cli.bulk_engine import LoadOnce, Wanted, Work, decoding, tuned
from pastalang.cli.bulk_progress import BulkProgress, comparison_text, estimate_text, summary_text
from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_STOPPED, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.import_model import find_model
from pastalang.cli.model_source import chosen_model, refuse_adapter, refuse_model
from pastalang.cli.options import (
    AdapterName,
    AnyMode,
    AsJson,
    DecodingMode,
    Device,
    GuessAhead,
    MaxTokens,
    Temperature,
    TemplateName,
    TopK,
    TopP,
    adapter_of,
    drafts_of,
    sampling_of,
)  # fmt: skip
from pastalang.cli.output import echo, echo_document, echo_error, reason_of, refuse_unwritable, unwritable
from pastalang.cli.plan_source import choose_template, read_program
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import SUFFIX
from pastalang.cli.run import OnCut
from pastalang.cli.standard_input import is_standard_input
from pastalang.plan.plan import Mode
from pastalang.runtime.call import IN_FLIGHT
from pastalang.runtime.models.choice import is_folder, note_of, why_no_help
from pastalang.runtime.models.source import DTypeName
from pastalang.values.describe import counted

if TYPE_CHECKING:
    from pastalang.bulk.compare import Comparison
    from pastalang.bulk.rows import Task
    from pastalang.bulk.run import Ledger, Totals


class OnError(StrEnum):
    ROW = "row"
    STOP = "stop"


class DType(StrEnum):
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


_DTYPES: Final[dict[DType, DTypeName]] = {DType.FLOAT32: "float32", DType.BFLOAT16: "bfloat16"}


@exits_with_code
def command(
    source: Annotated[str, typer.Argument(help="What to extract: a type, written module:Model, or a .pasta program.")],
    documents: Annotated[
        Path, typer.Argument(help="A .jsonl, .csv, .tsv or .parquet file, a text, or a folder. - reads JSON lines.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file of rows: .jsonl, .csv, .tsv or .parquet.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="The column of the text; several make one text. For a program also INPUT=COLUMN."),
    ] = None,
    id: Annotated[str | None, typer.Option(help="The column that identifies a document. Default: id, if any.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Read only so many documents.")] = None,
    instructions: Annotated[str | None, typer.Option(help="For a type: what the model should do.")] = None,
    template: TemplateName = None,
    model: Annotated[
        str | None,
        typer.Option(help="A folder with a model, or its name on the Hugging Face hub. Default: see pasta models."),
    ] = None,
    adapter: AdapterName = None,
    mode: DecodingMode = Mode.STRICT,
    any_mode: AnyMode = False,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    seed: Annotated[int, typer.Option(help="The same seed samples the same tokens.")] = 0,
    drafts: GuessAhead = None,
    on_truncated: Annotated[OnCut, typer.Option(help="What becomes of a value that its limit has cut.")] = OnCut.KEEP,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run, if there is one.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output and begin again.")] = False,
    on_error: Annotated[
        OnError, typer.Option(help="A document that fails: row writes its error and goes on, stop ends the run.")
    ] = OnError.ROW,
    max_error_rate: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="End the run if a larger share of the documents fails.")
    ] = 1.0,
    chunk: Annotated[int, typer.Option(min=1, help="The rows that are committed together.")] = 256,
    in_flight: Annotated[
        int | None,
        typer.Option(min=1, help="The documents that are decoded at once. Default: measured for long runs, else 16."),
    ] = None,
    device: Device = None,
    dtype: Annotated[
        DType | None, typer.Option(help="What the model computes in. Default: what suits the device.")
    ] = None,
    cells: Annotated[
        int | None,
        typer.Option(min=1, help="The tokens that fit into memory. Default: 8,192, or what a long run needs."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Measure a few documents, print what the run will take, and exit.")
    ] = False,
    price_per_hour: Annotated[
        float | None, typer.Option(min=0.0, help="With --dry-run: what an hour of the machine costs.")
    ] = None,
    compare: Annotated[
        int | None,
        typer.Option(min=1, help="Also decode so many documents from left to right, and print where fields differ."),
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Decode on a Ray cluster; local starts one on this machine.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --ray: how many processes decode. Default: one for each GPU or CPU.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    wanted = Wanted(
        output, resume, overwrite, dry_run, price_per_hour, compare, ray, workers, as_json, in_flight, cells
    )  # fmt: skip
    _check_usage(wanted, documents, mode)
    chosen = chosen_model(model)
    refuse_model(chosen.name)
    added = adapter_of(adapter)
    refuse_adapter(chosen.name, added)
    options: dict[str, Any] = {
        "mode": mode.value, "any_mode": any_mode, "seed": seed, "on_truncated": on_truncated.value,
        "sampling": sampling_of(temperature, top_p, top_k),
        **({} if (ahead := drafts_of(drafts)) is None else {"drafts": ahead}),
    }  # fmt: skip
    task = _task(source, tuple(text or ()), id, template, instructions, options, max_tokens)

    from pastalang.bulk.documents import open_documents
    from pastalang.bulk.rows import Origin
    from pastalang.bulk.run import Job

    corpus = open_documents(documents, task.read)
    name = None if dtype is None else _DTYPES[dtype]
    load = LoadOnce(chosen.name, device, name, added)
    if not is_folder(chosen.name):
        load(cells)  # the hub decides which version it is
    job = Job(
        task, Origin.of(task, chosen.name, dtype=name, adapter=added), in_flight or IN_FLIGHT, chunk=chunk, limit=limit,
        max_error_rate=max_error_rate, stop_on_error=on_error is OnError.STOP,
    )  # fmt: skip
    for note in () if as_json else (note_of(chosen), why_no_help(chosen.name, task.plan())):
        if note is not None:
            echo_error(f"note: {note}")
    reopen = partial(open_documents, documents, task.read)
    work = Work(job, corpus, reopen, load, cells)
    if dry_run:
        _estimate(work, wanted)
    elif output is None:
        _show({"comparison": _compared(work, wanted)}, wanted)
    else:
        _run(work, output, wanted)


def _check_usage(wanted: Wanted, documents: Path, mode: Mode) -> None:
    output = wanted.output
    if output is None and not wanted.dry_run and wanted.compare is None:
        raise Refused("pasta extract needs --output FILE, --dry-run or --compare N", EXIT_USAGE)
    if wanted.resume and wanted.overwrite:
        raise Refused("--resume goes on with a run and --overwrite begins again: pass one of them", EXIT_USAGE)
    if wanted.price is not None and not wanted.dry_run:
        raise Refused("--price-per-hour belongs to --dry-run", EXIT_USAGE)
    if wanted.workers is not None and wanted.ray is None:
        raise Refused("--workers belongs to --ray", EXIT_USAGE)
    if wanted.ray is not None and (wanted.dry_run or wanted.compare is not None):
        raise Refused("--dry-run and --compare measure on this machine: call them without --ray", EXIT_USAGE)
    if wanted.compare is not None:
        if wanted.dry_run:
            raise Refused("--dry-run and --compare measure different things: pass one of them", EXIT_USAGE)
        if mode is Mode.SEQUENTIAL:
            raise Refused("--compare compares with --mode sequential: choose strict or lockstep", EXIT_USAGE)
        if output is not None and is_standard_input(documents):
            raise Refused("the standard input can be read only once: --compare needs a file of documents", EXIT_USAGE)
    if output is not None:
        refuse_unwritable(output, documents)
        if documents.is_dir() and documents.resolve() in output.resolve().parents:
            raise Refused(f"{output} would be written among the documents that are read", EXIT_USAGE)


def _task(
    source: str, text: tuple[str, ...], id: str | None, template: str | None, instructions: str | None,
    options: dict[str, Any], max_tokens: int | None,
) -> Task:  # fmt: skip
    from pastalang.bulk.rows import task_of_program, task_of_type
    from pastalang.values.pydantic.from_core import is_type

    if source.endswith(SUFFIX):
        if instructions is not None:
            raise Refused("--instructions is for a type; a program has its own messages", EXIT_USAGE)
        program = read_program(Path(source))
        chosen = choose_template(program, template).name
        return task_of_program(program, text=text, id=id, template=chosen, options=options, max_tokens=max_tokens)
    module, colon, name = source.rpartition(":")
    if not colon:
        raise Refused(
            f"{source} is neither a program, which ends in {SUFFIX}, nor a type, written module:Model", EXIT_USAGE
        )
    if template is not None:
        raise Refused("--template is for a program; a type has only one", EXIT_USAGE)
    found = find_model(module, name)
    if not is_type(found):
        raise Refused(f"{source} is not a Pydantic model, a dataclass, a TypedDict or another type", EXIT_USAGE)
    given = {**options, "instructions": instructions}
    return task_of_type(found, text=text or ("text",), id=id, options=given, max_tokens=max_tokens)


def _run(work: Work, out: Path, wanted: Wanted) -> None:
    from pastalang.bulk.run import Ledger, RunRefused, fingerprint_of, output_for, summary_of

    job = work.job
    summary: dict[str, Any] = {}
    with Ledger(out, fingerprint_of(job, work.corpus), output_for(out, job.task)) as ledger:
        try:
            ledger.open(resume=wanted.resume, overwrite=wanted.overwrite)
            if ledger.is_complete and not work.corpus.identity:
                ledger.check_all(islice(work.corpus.documents, job.limit))
        except RunRefused as refused:
            raise Refused(str(refused), EXIT_USAGE) from refused
        except OSError as problem:
            raise Refused(f"{ledger.folder} cannot be written: {reason_of(problem)}", EXIT_UNREADABLE) from problem
        if ledger.is_complete:
            summary |= {"output": str(out), "rows": ledger.rows, "is_complete": True}
        else:
            work = tuned(work, wanted)
            totals = _go_through(work, ledger, wanted)
            summary |= {"output": str(out), **summary_of(totals, work.job), "dtype": work.load.dtype}
            summary |= {} if work.load.advice is None else {"note": work.load.advice}
        if wanted.compare is not None:
            summary["comparison"] = found = _compared(work, wanted)
            try:
                ledger.keep_comparison(found.as_data())
            except OSError as problem:
                raise unwritable(ledger.folder, problem) from problem
    _show(summary, wanted)


def _show(summary: Mapping[str, Any], wanted: Wanted) -> None:
    comparison: Comparison | None = summary.get("comparison")
    if wanted.as_json:
        data = {"comparison": comparison.as_data()} if comparison is not None else {}
        echo_document(json.dumps({**summary, **data}, ensure_ascii=False))
        return
    if summary.get("is_complete"):
        echo(f"{summary['output']} is complete: {counted(summary['rows'], 'row')}")
    elif "output" in summary:
        echo(summary_text(summary))
    if comparison is not None:
        echo(comparison_text(comparison))


def _compared(work: Work, wanted: Wanted) -> Comparison:
    from pastalang.bulk.compare import compare
    from pastalang.bulk.documents import drawn_from

    job = work.job
    corpus = work.corpus if wanted.output is None else work.reopen()
    assert wanted.compare is not None
    _, chosen = drawn_from(islice(corpus.documents, job.limit), wanted.compare)
    return compare(work.engine(), job.task, chosen, in_flight=job.in_flight)


def _go_through(work: Work, ledger: Ledger, wanted: Wanted) -> Totals:
    from pastalang.bulk.run import RunRefused, Stopped, run_job

    count = work.corpus.count(work.job.limit)
    progress = BulkProgress(sys.stderr, total=count)
    try:
        with decoding(work, wanted, count) as decode, _stopping(progress) as is_stopped, progress:
            return run_job(decode, work.job, work.corpus, ledger, report=progress.show, is_stopped=is_stopped)
    except RunRefused as refused:
        raise Refused(str(refused), EXIT_USAGE) from refused
    except Stopped as stopped:
        code = EXIT_STOPPED if stopped.by_caller else EXIT_PROBLEMS
        raise Refused(f"{stopped.reason}\n{_how_to_go_on(ledger, stopped.change)}", code) from stopped
    except OSError as problem:
        place = problem.filename or ledger.folder
        message = f"{place} could not be written: {reason_of(problem)}\n{_how_to_go_on(ledger)}"
        raise Refused(message, EXIT_UNREADABLE) from problem


def _how_to_go_on(ledger: Ledger, change: str | None = None) -> str:
    are = "is" if ledger.rows == 1 else "are"
    rows = counted(ledger.rows, "row")
    return f"{rows} {are} safe in {ledger.folder}; to go on, call the same command with --resume" + (
        f" and {change}" if change is not None else ""
    )


def _estimate(work: Work, wanted: Wanted) -> None:
    from pastalang.bulk.estimate import estimate

    work = tuned(work, wanted)
    job = work.job
    found = estimate(work.engine(), job.task, islice(work.corpus.documents, job.limit), in_flight=job.in_flight)
    if wanted.as_json:
        echo_document(json.dumps(found.as_data(wanted.price)))
    else:
        echo(estimate_text(found, job.in_flight, wanted.price, note=work.load.advice))


class _Flag:
    def __init__(self) -> None:
        self.is_set = False

    def __call__(self) -> bool:
        return self.is_set


@contextmanager
def _stopping(progress: BulkProgress) -> Iterator[_Flag]:
    """The first Ctrl-C, or a request of the system to end, stops the run in order; the second one at once."""
    flag = _Flag()

    def stop(number: int, frame: FrameType | None) -> None:
        if flag.is_set:
            raise KeyboardInterrupt
        flag.is_set = True
        progress.note("stopping after the documents that are being decoded; Ctrl-C once more stops at once")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as `nohup` and shells set it for jobs in the background
            signal.signal(number, stop)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
