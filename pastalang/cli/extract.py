"""`pasta extract SOURCE DOCUMENTS -o OUT`: rows from many documents, in committed chunks."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from pastalang.cli.bulk_progress import BulkProgress, estimate_text, summary_text
from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_STOPPED, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.import_model import find_model
from pastalang.cli.model_source import chosen_model, load_engine, refuse_model
from pastalang.cli.options import (
    AnyMode,
    AsJson,
    Cells,
    DecodingMode,
    Device,
    Temperature,
    TemplateName,
    TopK,
    TopP,
    sampling_of,
)  # fmt: skip
from pastalang.cli.output import echo, echo_document, echo_error, reason_of, refuse_unwritable
from pastalang.cli.plan_source import choose_template, read_program
from pastalang.cli.process import exits_with_code
from pastalang.cli.program_files import SUFFIX
from pastalang.cli.run import OnCut
from pastalang.plan.plan import Mode
from pastalang.runtime.call import IN_FLIGHT
from pastalang.runtime.models.choice import is_folder, note_of, why_no_help
from pastalang.values.describe import counted

if TYPE_CHECKING:
    from pastalang.bulk.files import Corpus
    from pastalang.bulk.ledger import Ledger
    from pastalang.bulk.run import Job, Totals
    from pastalang.bulk.task import Task
    from pastalang.runtime.engine import Engine

Load: TypeAlias = "Callable[[], Engine]"


class OnError(StrEnum):
    ROW = "row"
    STOP = "stop"


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
    mode: DecodingMode = Mode.STRICT,
    any_mode: AnyMode = False,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    seed: Annotated[int, typer.Option(help="The same seed samples the same tokens.")] = 0,
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
    in_flight: Annotated[int, typer.Option(min=1, help="The documents that are decoded at once.")] = IN_FLIGHT,
    device: Device = None,
    cells: Cells = 8192,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Measure a few documents, print what the run will take, and exit.")
    ] = False,
    price_per_hour: Annotated[
        float | None, typer.Option(min=0.0, help="With --dry-run: what an hour of the machine costs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    _check_usage(output, documents, resume=resume, overwrite=overwrite, dry_run=dry_run, price=price_per_hour)
    chosen = chosen_model(model)
    refuse_model(chosen.name)
    options: dict[str, Any] = {
        "mode": mode.value, "any_mode": any_mode, "seed": seed, "on_truncated": on_truncated.value,
        "sampling": sampling_of(temperature, top_p, top_k),
    }  # fmt: skip
    task = _task(source, tuple(text or ()), id, template, instructions, options)

    from pastalang.bulk.files import open_documents
    from pastalang.bulk.rows import Origin
    from pastalang.bulk.run import Job

    corpus = open_documents(documents, task.read)
    load = partial(load_engine, chosen.name, device=device, cells=cells)
    engine = None if is_folder(chosen.name) else load()  # the hub decides which version it is
    job = Job(
        task, Origin.of(task, chosen.name), in_flight, chunk=chunk, limit=limit, max_error_rate=max_error_rate,
        stop_on_error=on_error is OnError.STOP,
    )  # fmt: skip
    for note in () if as_json else (note_of(chosen), why_no_help(chosen.name, task.plan())):
        if note is not None:
            echo_error(f"note: {note}")
    if dry_run:
        _estimate(engine or load(), job, corpus, price_per_hour, as_json=as_json)
        return
    assert output is not None
    _run(job, corpus, output, lambda: engine or load(), resume=resume, overwrite=overwrite, as_json=as_json)


def _check_usage(
    output: Path | None, documents: Path, *, resume: bool, overwrite: bool, dry_run: bool, price: float | None
) -> None:
    if output is None and not dry_run:
        raise Refused("pasta extract needs --output FILE, or --dry-run", EXIT_USAGE)
    if resume and overwrite:
        raise Refused("--resume goes on with a run and --overwrite begins again: pass one of them", EXIT_USAGE)
    if price is not None and not dry_run:
        raise Refused("--price-per-hour belongs to --dry-run", EXIT_USAGE)
    if output is not None:
        refuse_unwritable(output, documents)
        if documents.is_dir() and documents.resolve() in output.resolve().parents:
            raise Refused(f"{output} would be written among the documents that are read", EXIT_USAGE)


def _task(
    source: str, text: tuple[str, ...], id: str | None, template: str | None, instructions: str | None,
    options: dict[str, Any],
) -> Task:  # fmt: skip
    from pastalang.bulk.task import task_of_program, task_of_type

    if source.endswith(SUFFIX):
        if instructions is not None:
            raise Refused("--instructions is for a type; a program has its own messages", EXIT_USAGE)
        program = read_program(Path(source))
        chosen = choose_template(program, template).name
        return task_of_program(program, text=text, id=id, template=chosen, options=options)
    module, colon, name = source.rpartition(":")
    if not colon:
        raise Refused(
            f"{source} is neither a program, which ends in {SUFFIX}, nor a type, written module:Model", EXIT_USAGE
        )
    if template is not None:
        raise Refused("--template is for a program; a type has only one", EXIT_USAGE)
    found = find_model(module, name)
    return task_of_type(found, text=text or ("text",), id=id, options={**options, "instructions": instructions})


def _run(job: Job, corpus: Corpus, out: Path, load: Load, *, resume: bool, overwrite: bool, as_json: bool) -> None:
    from pastalang.bulk.ledger import Ledger, RunRefused
    from pastalang.bulk.output import output_for
    from pastalang.bulk.run import fingerprint_of, summary_of

    with Ledger(out, fingerprint_of(job, corpus), output_for(out, job.task)) as ledger:
        try:
            ledger.open(resume=resume, overwrite=overwrite)
        except RunRefused as refused:
            raise Refused(str(refused), EXIT_USAGE) from refused
        except OSError as problem:
            raise Refused(f"{ledger.folder} cannot be written: {reason_of(problem)}", EXIT_UNREADABLE) from problem
        if ledger.is_complete:
            echo(f"{out} is complete: {counted(ledger.rows, 'row')}")
            return
        totals = _go_through(load(), job, corpus, ledger)
    summary = {"output": str(out), **summary_of(totals, job)}
    if as_json:
        echo_document(json.dumps(summary, ensure_ascii=False))
    else:
        echo(summary_text(summary))


def _go_through(engine: Engine, job: Job, corpus: Corpus, ledger: Ledger) -> Totals:
    from pastalang.bulk.ledger import RunRefused
    from pastalang.bulk.run import Stopped, run_job

    progress = BulkProgress(sys.stderr, total=corpus.count(job.limit))
    try:
        with _stopping(progress) as is_stopped, progress:
            return run_job(engine, job, corpus, ledger, report=progress.show, is_stopped=is_stopped)
    except RunRefused as refused:
        raise Refused(str(refused), EXIT_USAGE) from refused
    except Stopped as stopped:
        code = EXIT_STOPPED if stopped.by_caller else EXIT_PROBLEMS
        raise Refused(f"{stopped.reason}\n{_how_to_go_on(ledger)}", code) from stopped
    except OSError as problem:
        place = problem.filename or ledger.folder
        message = f"{place} could not be written: {reason_of(problem)}\n{_how_to_go_on(ledger)}"
        raise Refused(message, EXIT_UNREADABLE) from problem


def _how_to_go_on(ledger: Ledger) -> str:
    are = "is" if ledger.rows == 1 else "are"
    rows = counted(ledger.rows, "row")
    return f"{rows} {are} safe in {ledger.folder}; to go on, call the same command with --resume"


def _estimate(engine: Engine, job: Job, corpus: Corpus, price: float | None, *, as_json: bool) -> None:
    from pastalang.bulk.estimate import estimate

    found = estimate(engine, job.task, islice(corpus.documents, job.limit), in_flight=job.in_flight)
    if as_json:
        echo_document(json.dumps(found.as_data(price)))
    else:
        echo(estimate_text(found, job.in_flight, price))


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
