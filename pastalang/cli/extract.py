"""`pasta extract SOURCE DOCUMENTS -o OUT`: rows from many documents, in committed chunks; and `pasta report OUT`."""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TextIO

import typer

from pastalang.cli.exit_codes import (
    EXIT_PROBLEMS,
    EXIT_STOPPED,
    EXIT_UNREADABLE,
    EXIT_USAGE,
    Refused,
    exit_at_once,
)
from pastalang.cli.models import AskOnce, Load, LoadOnce, model_or_server
from pastalang.cli.options import (
    AdapterName,
    AnyMode,
    ApiKey,
    AsJson,
    ComputedIn,
    DecodingMode,
    Device,
    GuessAhead,
    MaxTokens,
    ModelName,
    Temperature,
    TemplateName,
    TopK,
    TopP,
    adapter_of,
    drafts_of,
    names_in,
    refuse_both,
    sampling_of,
)
from pastalang.cli.output import (
    echo,
    echo_document,
    echo_error,
    named_lines,
    reason_of,
    refuse_unwritable,
    show_notes,
    unwritable,
)
from pastalang.cli.process import command
from pastalang.cli.sources import SOURCE, is_standard_input, task_named
from pastalang.failures import FileError
from pastalang.plan.branches import Mode
from pastalang.program.types import OnTruncated
from pastalang.runtime.call import IN_FLIGHT
from pastalang.runtime.models.choice import is_folder, note_of, why_no_help
from pastalang.runtime.models.source import NAMES, is_address
from pastalang.runtime.windows import MergeRule
from pastalang.values.describe import counted, pace

if TYPE_CHECKING:
    from rich.progress import Progress

    from pastalang.bulk.compare import Advice, Comparison
    from pastalang.bulk.documents import Corpus, Document
    from pastalang.bulk.estimate import Estimate
    from pastalang.bulk.rows import Row, Task
    from pastalang.bulk.run import Decode, Job, Ledger, Totals
    from pastalang.hosts.opening import AnyEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSettings:
    """The arguments and options of `pasta extract`."""

    source: Annotated[str, typer.Argument(help=SOURCE)]
    documents: Annotated[
        Path, typer.Argument(help="A .jsonl, .csv, .tsv or .parquet file, a text, or a folder. - reads JSON lines.")
    ]
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file: .jsonl, .csv, .tsv or .parquet.")
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="For .csv, .tsv and .parquet: write only these columns, in this order."),
    ] = None
    no_meta: Annotated[bool, typer.Option("--no-meta", help="Leave out the columns _fields and _meta.")] = False
    confidence: Annotated[
        bool,
        typer.Option("--confidence", help="For .csv, .tsv and .parquet: a column KEY.confidence for each key."),
    ] = False
    text: Annotated[
        list[str] | None,
        typer.Option(help="The column with the text; repeat it to join columns. For a program, also INPUT=COLUMN."),
    ] = None
    id: Annotated[str | None, typer.Option(help="The column that identifies a document. Default: id, if any.")] = None
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most this many documents.")] = None
    instructions: Annotated[str | None, typer.Option(help="For a type: tell the model what to do.")] = None
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Read long documents in windows of this many tokens, and merge the values."),
    ] = None
    overlap: Annotated[
        int | None, typer.Option(min=0, help="The tokens that a window shares with the one before. Default: an eighth.")
    ] = None
    merge: Annotated[
        MergeRule | None, typer.Option(help="Which value to keep where windows disagree. Default: confidence.")
    ] = None
    template: TemplateName = None
    model: ModelName = None
    api_key: ApiKey = None
    adapter: AdapterName = None
    mode: DecodingMode = Mode.STRICT
    any_mode: AnyMode = False
    max_tokens: MaxTokens = None
    temperature: Temperature = None
    top_p: TopP = None
    top_k: TopK = None
    seed: Annotated[int, typer.Option(help="The same seed samples the same tokens.")] = 0
    drafts: GuessAhead = None
    on_truncated: Annotated[OnTruncated, typer.Option(help="What to do with a value that was cut at its limit.")] = (
        "keep"
    )
    repair: Annotated[
        int | None, typer.Option(min=0, help="Decode again, up to this many times, a field that the type refuses.")
    ] = None
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Give rows with a field below this confidence the status unsure.")
    ] = 0.0
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run, if there is one.")] = False
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output and start again.")] = False
    on_error: Annotated[
        Literal["row", "stop"],
        typer.Option(help="If a document fails: row writes its error and continues, stop ends the run."),
    ] = "row"
    max_error_rate: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="End the run if more than this share of the documents fails.")
    ] = 1.0
    chunk: Annotated[int, typer.Option(min=1, help="Rows per commit.")] = 256
    in_flight: Annotated[
        int | None,
        typer.Option(min=1, help="Documents to decode at the same time. Default: measured for long runs, else 16."),
    ] = None
    device: Device = None
    dtype: ComputedIn = None
    cells: Annotated[
        int | None,
        typer.Option(min=1, help="Size of the KV cache, in tokens. Default: 8,192, or what a long run needs."),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Measure a few documents, print an estimate of time and memory, and exit.")
    ] = False
    price_per_hour: Annotated[
        float | None, typer.Option(min=0.0, help="With --dry-run: the price of the machine per hour.")
    ] = None
    compare: Annotated[
        int | None,
        typer.Option(min=1, help="Also decode this many documents from left to right, and print where fields differ."),
    ] = None
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Decode on a Ray cluster; local starts one on this machine.")
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --ray: the number of worker processes. Default: one for each GPU or CPU."),
    ] = None
    as_json: AsJson = False

    @property
    def options(self) -> dict[str, Any]:
        """Those of a run."""
        drafts = drafts_of(self.drafts)
        return {
            "mode": self.mode.value, "any_mode": self.any_mode, "seed": self.seed,
            "on_truncated": self.on_truncated, "sampling": sampling_of(self),
            **({} if drafts is None else {"drafts": drafts}),
            **({} if self.repair is None else {"repair": self.repair}),
        }  # fmt: skip

    @property
    def windows(self) -> dict[str, Any]:
        """Those of reading in windows."""
        return {"window": self.window, "overlap": self.overlap, "merge": self.merge}


@command(ExtractSettings)
def extract_command(settings: ExtractSettings) -> None:
    _check_usage(settings)
    chosen = model_or_server(
        settings,
        {
            "--dry-run": settings.dry_run, "--device": settings.device, "--dtype": settings.dtype,
            "--cells": settings.cells, "--adapter": settings.adapter, "--drafts": settings.drafts,
        },
    )  # fmt: skip
    task = _task(settings)
    work = _work(settings, task, chosen.name)
    if not settings.as_json:
        show_notes(note_of(chosen), why_no_help(chosen.name, task.plan(), adapter_of(settings.adapter)))
    if settings.dry_run:
        _estimate(work, settings)
    elif settings.output is None:
        _show({"comparison": _compared(work, settings)}, settings)
    else:
        _run(work, settings.output, settings)


def _check_usage(settings: ExtractSettings) -> None:
    output, compare = settings.output, settings.compare
    if output is None and not settings.dry_run and compare is None:
        raise Refused("pasta extract needs --output FILE, --dry-run or --compare N", EXIT_USAGE)
    refuse_both("--resume goes on with a run and --overwrite begins again", settings.resume, settings.overwrite)
    if settings.price_per_hour is not None and not settings.dry_run:
        raise Refused("--price-per-hour belongs to --dry-run", EXIT_USAGE)
    if settings.workers is not None and settings.ray is None:
        raise Refused("--workers belongs to --ray", EXIT_USAGE)
    if settings.ray is not None and (settings.dry_run or compare is not None):
        raise Refused("--dry-run and --compare measure on this machine: call them without --ray", EXIT_USAGE)
    if compare is not None:
        _check_comparison(settings)
    if output is not None:
        refuse_unwritable(output, settings.documents)
        if settings.documents.is_dir() and settings.documents.resolve() in output.resolve().parents:
            raise Refused(f"{output} would be written among the documents that are read", EXIT_USAGE)


def _check_comparison(settings: ExtractSettings) -> None:
    refuse_both("--dry-run and --compare measure different things", settings.dry_run, settings.compare)
    if settings.mode is Mode.SEQUENTIAL:
        raise Refused("--compare compares with --mode sequential: choose strict or lockstep", EXIT_USAGE)
    if settings.output is not None and is_standard_input(settings.documents):
        raise Refused("the standard input can be read only once: --compare needs a file of documents", EXIT_USAGE)


def _work(settings: ExtractSettings, task: Task, model: str) -> Work:
    from pastalang.bulk.documents import open_documents
    from pastalang.bulk.rows import Origin, check_server
    from pastalang.bulk.run import Job

    corpus = open_documents(settings.documents, task.read)
    dtype, adapter = settings.dtype, adapter_of(settings.adapter)
    load: Load
    if is_address(model):
        load = AskOnce(
            model, api_key=settings.api_key, documents=settings.in_flight or IN_FLIGHT,
            of_values={"--confidence": settings.confidence, "--compare": settings.compare},
        )  # fmt: skip
        model = load.resolved(by_workers=settings.ray is not None)
        if settings.ray is None:
            check_server(load(), task)
    else:
        load = LoadOnce(model, settings.device, dtype, adapter)
        if not is_folder(model):
            load(settings.cells)  # the hub decides which version it is
    job = Job(
        task, Origin.of(task, model, dtype=dtype, adapter=adapter), settings.in_flight or IN_FLIGHT,
        chunk=settings.chunk, limit=settings.limit, max_error_rate=settings.max_error_rate,
        stop_on_error=settings.on_error == "stop",
    )  # fmt: skip
    return Work(job, corpus, partial(open_documents, settings.documents, task.read), load, settings.cells)


def _task(settings: ExtractSettings) -> Task:
    task = task_named(
        settings.source, text=settings.text or (), id=settings.id, template=settings.template,
        options=settings.options, windows=settings.windows, instructions=settings.instructions,
        max_tokens=settings.max_tokens,
    )  # fmt: skip
    return replace(task, min_confidence=settings.min_confidence)


def _run(work: Work, out: Path, settings: ExtractSettings) -> None:
    from pastalang.bulk.outputs import Shape, output_for
    from pastalang.bulk.run import Ledger, RunRefused, fingerprint_of, summary_of

    job = work.job
    summary: dict[str, Any] = {}
    shape = Shape(not settings.no_meta, settings.confidence, names_in(settings.columns))
    with Ledger(out, fingerprint_of(job, work.corpus, shape), output_for(out, job.task, shape)) as ledger:
        try:
            ledger.open(resume=settings.resume, overwrite=settings.overwrite)
            if ledger.is_complete and not work.corpus.identity:
                with work.corpus as documents:
                    ledger.check_all(islice(documents, job.limit))
        except RunRefused as refused:
            raise Refused(str(refused), EXIT_USAGE) from refused
        except OSError as problem:
            raise Refused(f"{ledger.folder} cannot be written: {reason_of(problem)}", EXIT_UNREADABLE) from problem
        if ledger.is_complete:
            summary |= {"output": str(out), "rows": ledger.rows, "is_complete": True}
        else:
            with _loading(ledger):
                work = tuned(work, settings)
                if settings.ray is None:
                    work.engine()
            totals = _go_through(work, ledger, settings)
            summary |= {"output": str(out), **summary_of(totals, work.job), "dtype": work.load.dtype}
            summary |= {} if work.load.advice is None else {"note": work.load.advice}
            if summary["doubts"] or (summary["rows"] and job.origin.model in NAMES):
                summary["next"] = _how_to_try(settings, job.origin.model, summary)
        if settings.compare is not None:
            summary["comparison"] = found = _compared(work, settings)
            try:
                ledger.keep_comparison(found.as_data())
            except OSError as problem:
                raise unwritable(ledger.folder, problem) from problem
    _show(summary, settings)


def _how_to_try(settings: ExtractSettings, model: str, summary: Mapping[str, Any]) -> str:
    command = f"pasta try {settings.source} ROWS --model {model}"
    if summary["doubts"]:
        small = f"{model} is small and often wrong: " if model in NAMES else ""
        return f"{small}{command} shows on five labelled rows what to change"
    found = "" if summary["problems"] else "nothing looks odd, but "
    return f"{found}{model} is small: {command} says on five labelled rows how often it is right"


def _show(summary: Mapping[str, Any], settings: ExtractSettings) -> None:
    comparison: Comparison | None = summary.get("comparison")
    if settings.as_json:
        data = {"comparison": comparison.as_data()} if comparison is not None else {}
        echo_document(json.dumps({**summary, **data}, ensure_ascii=False))
        return
    if summary.get("is_complete"):
        echo(f"{summary['output']} is complete: {counted(summary['rows'], 'row')}")
    elif "output" in summary:
        echo(summary_text(summary))
    if comparison is not None:
        echo(comparison_text(comparison))


def _compared(work: Work, settings: ExtractSettings) -> Comparison:
    from pastalang.bulk.compare import compare
    from pastalang.bulk.documents import drawn_from

    job = work.job
    corpus = work.corpus if settings.output is None else work.reopen()
    assert settings.compare is not None
    with corpus as documents:
        _, chosen = drawn_from(islice(documents, job.limit), settings.compare)
    return compare(work.engine(), job.task, chosen, in_flight=job.in_flight)


def _go_through(work: Work, ledger: Ledger, settings: ExtractSettings) -> Totals:
    from pastalang.bulk.run import RunRefused, Stopped, run_job
    from pastalang.hosts.errors import ServerLost

    count = work.corpus.count(work.job.limit)
    at_once = work.job.in_flight * (settings.workers or 1)
    progress = BulkProgress(sys.stderr, total=count, at_once=at_once)
    try:
        with decoding(work, settings, count) as decode, _stopping(progress) as is_stopped, progress:
            return run_job(decode, work.job, work.corpus, ledger, report=progress.show, is_stopped=is_stopped)
    except RunRefused as refused:
        raise Refused(str(refused), EXIT_USAGE) from refused
    except (ServerLost, FileError) as lost:
        raise Refused(f"{lost}\n{_how_to_go_on(ledger)}", EXIT_UNREADABLE) from lost
    except Stopped as stopped:
        code = EXIT_STOPPED if stopped.by_caller else EXIT_PROBLEMS
        raise Refused(f"{stopped.reason}\n{_how_to_go_on(ledger, stopped.change)}", code) from stopped
    except OSError as problem:
        place = problem.filename or ledger.folder
        message = f"{place} could not be written: {reason_of(problem)}\n{_how_to_go_on(ledger)}"
        raise Refused(message, EXIT_UNREADABLE) from problem


def _how_to_go_on(ledger: Ledger, change: str | None = None) -> str:
    if not ledger.rows:
        return "no row was committed: nothing is written"
    are = "is" if ledger.rows == 1 else "are"
    rows = counted(ledger.rows, "row")
    return f"{rows} {are} safe in {ledger.folder}; to go on, call the same command with --resume" + (
        f" and {change}" if change is not None else ""
    )


def _estimate(work: Work, settings: ExtractSettings) -> None:
    from pastalang.bulk.estimate import estimate

    work = tuned(work, settings)
    assert isinstance(work.load, LoadOnce)
    job = work.job
    with work.corpus as documents:
        found = estimate(work.load(work.cells), job.task, islice(documents, job.limit), in_flight=job.in_flight)
    if settings.as_json:
        echo_document(json.dumps(found.as_data(settings.price_per_hour)))
    else:
        echo(estimate_text(found, job.in_flight, settings.price_per_hour, note=work.load.advice))


@contextmanager
def _loading(ledger: Ledger) -> Iterator[None]:
    """Ctrl-C while a model is loaded and measured, and a request of the system to end, stop the command at once."""

    def leave(number: int, frame: FrameType | None) -> None:
        said = (
            f"stopped; {_how_to_go_on(ledger)}" if ledger.rows else "stopped before the first row: nothing is written"
        )
        ledger.close()
        exit_at_once(said)

    with _signals(leave):
        yield


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C and requests of the system to end are handled so."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, former in before.items():
        if former is not signal.SIG_IGN:  # as `nohup` and shells set it for jobs in the background
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def _stopping(progress: BulkProgress) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C, or a request of the system to end, stops the run in order; the second one at once."""
    given: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if given:
            raise KeyboardInterrupt
        given.append(number)
        progress.note("stopping after the documents that are being decoded; Ctrl-C once more stops at once")

    with _signals(stop):
        yield lambda: bool(given)


_LONG: Final = 1_000  # documents, for which measuring takes a tenth of the time or less
_LOOKED_AT: Final = 2_000  # documents that those measured are drawn from


@dataclass(frozen=True, slots=True)
class Work:
    """A job with its documents, those documents once more, and the engine with its cells."""

    job: Job
    corpus: Corpus
    reopen: Callable[[], Corpus]
    load: Load
    cells: int | None

    def engine(self) -> AnyEngine:
        return self.load(self.cells)


def tuned(work: Work, settings: ExtractSettings) -> Work:
    """With the number in flight and the cells that were measured, if the run is long enough for that."""
    from pastalang.bulk.documents import drawn_from
    from pastalang.bulk.estimate import SAMPLE, Memory, tune

    count = work.corpus.count(work.job.limit) or 0
    is_long = count > 0 and (settings.dry_run or count >= _LONG)  # without documents there is nothing to measure
    is_chosen = settings.in_flight is not None or settings.cells is not None or settings.ray is not None
    if is_chosen or not is_long or not isinstance(work.load, LoadOnce):
        return work
    job = work.job
    memory = Memory(job.task, job.origin, work.load.device)
    found = memory.get()
    if found is None:
        with work.reopen() as documents:
            _, sample = drawn_from(islice(documents, min(count, _LOOKED_AT)), SAMPLE)
        found = tune(work.load, job.task, sample)
        memory.put(found)
    if not settings.as_json:
        echo_error(f"note: {found.described}; --in-flight and --cells choose others")
    return replace(work, job=replace(job, in_flight=found.in_flight), cells=found.cells)


def decoding(work: Work, settings: ExtractSettings, count: int | None) -> AbstractContextManager[Decode]:
    return _engine_rows(work) if settings.ray is None else _ray_rows(work, settings, count)


@contextmanager
def _engine_rows(work: Work) -> Iterator[Decode]:
    """Until the end, nothing that is already alive is searched for garbage: model and libraries are a million objects,
    and going through them again and again took 4 % of the time.
    """
    from pastalang.bulk.run import rows_of_engine

    engine = work.engine()
    gc.collect()
    gc.freeze()
    try:
        yield partial(rows_of_engine, engine, work.job)
    finally:
        gc.unfreeze()


@contextmanager
def _ray_rows(work: Work, settings: ExtractSettings, count: int | None) -> Iterator[Decode]:
    """In batches so small that all workers have some, if the number of documents is known."""
    from pastalang.bulk.pool import rows_of_pool
    from pastalang.ray import RayWorkers

    job = work.job
    assert settings.ray is not None
    pool = RayWorkers(
        settings.ray, job.task, job.origin, size=settings.workers, device=work.load.device, cells=work.cells,
        in_flight=job.in_flight, api_key=settings.api_key,
    )  # fmt: skip
    with pool as workers:
        most = job.chunk if count is None else max(1, count // (4 * workers.size))
        yield partial(rows_of_pool, workers, batch=min(job.chunk, most))


_EVERY: Final = 30.0  # seconds between two plain lines


class BulkProgress:
    """A context manager. `total` is None if nobody knows how many documents there are.

    What a run waits for (a pass of a model, a server, the processes of a cluster) may take long, so plain lines come
    from a thread of their own, as a terminal is drawn by one. `waits` waits so many seconds, and says whether the run
    is over.
    """

    def __init__(
        self, stream: TextIO, *, total: int | None, at_once: int = 1, waits: Callable[[float], bool] | None = None
    ) -> None:
        self._stream = stream
        self._total = total
        self._at_once = at_once  # documents in flight: the first ones say nothing of how long the others take
        self._over = threading.Event()
        self._waits = waits or self._over.wait
        self._totals: Totals | None = None  # as they were when the last row arrived
        self._live: Progress | None = None
        self._lines: threading.Thread | None = None
        if stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            console = Console(file=stream)
            columns = (BarColumn(bar_width=24), TextColumn("{task.description}"))
            self._live = Progress(*columns, console=console, refresh_per_second=4, transient=True)
            self._task = self._live.add_task("", total=total)
        else:
            self._lines = threading.Thread(target=self._say_now_and_then, daemon=True)

    def show(self, totals: Totals) -> None:
        if self._live is not None:
            self._live.update(self._task, completed=totals.rows, description=self._line(totals))
        else:
            self._totals = replace(totals, statuses=totals.statuses.copy())

    def _say_now_and_then(self) -> None:
        while not self._waits(_EVERY):
            if self._totals is not None:
                with suppress(OSError, ValueError):  # a stream that is closed ends no run
                    self.note(self._line(self._totals))

    def note(self, text: str) -> None:
        """A line that stays."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def _line(self, totals: Totals) -> str:
        new, seconds = totals.rows - totals.resumed, max(totals.seconds, 1e-9)
        rate = new / seconds
        of = "" if self._total is None else f" of {self._total:,}"
        parts = [f"{totals.rows:,}{of} documents"]
        if new:
            parts += [pace(rate), pace(totals.output_tokens / totals.rows * rate, "tokens", digits=0)]
            parts += [f"{totals.passes / totals.rows:.1f} passes each"] if totals.passes else []
        if totals.failed:
            parts.append(f"{totals.failed:,} failed")
        if self._total is not None and new >= self._at_once:
            parts.append(f"{duration(max(self._total - totals.rows, 0) / rate)} left")
        return ", ".join(parts)

    def __enter__(self) -> BulkProgress:
        if self._live is not None:
            self._live.start()
        if self._lines is not None:
            self._lines.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, found: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
        if self._lines is not None:
            self._over.set()
            self._lines.join()


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h"


def summary_text(summary: Mapping[str, Any]) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in summary["statuses"].items())
    passes = summary["passes_per_document"]
    lines = [
        ("rows", f"{summary['rows']:,} in {summary['output']}" + (f": {statuses}" if statuses else "")),
        ("tokens", f"{summary['input_tokens']:,} read, {summary['output_tokens']:,} written"),
        *([("forward passes", f"{passes:.1f} per document")] if passes else []),  # a server does not say
        (
            "speed",
            f"{summary['documents_per_second']:.2f} documents per second, {summary['in_flight']} in flight"
            + (f", {summary['dtype']}" if summary["dtype"] else ""),
        ),
        ("time", duration(summary["seconds"])),
    ]
    if summary["resumed"]:
        lines.append(("resumed", f"after {summary['resumed']:,} rows of an earlier run"))
    if "note" in summary:
        lines.append(("note", summary["note"]))
    lines += [("problem", line) for line in summary["problems"]]
    lines += [("doubtful", line) for line in summary["doubts"]]
    if "next" in summary:
        lines.append(("next", summary["next"]))
    return named_lines(lines)


def estimate_text(found: Estimate, in_flight: int, price: float | None, *, note: str | None = None) -> str:
    speed_up = found.sequential_passes / found.passes if found.passes else 0.0
    statuses = ", ".join(f"{count} {status}" for status, count in found.statuses.items())
    lines = [
        ("documents", f"{found.documents:,}"),
        ("tokens", f"median {found.tokens_p50:,}, p95 {found.tokens_p95:,}"),
        ("measured", f"{found.calibrated} documents: {statuses}"),
        (
            "forward passes",
            f"{found.passes:.1f} per document, {found.sequential_passes:.1f} from left to right"
            + (f" ({speed_up:.1f}x)" if speed_up else ""),
        ),
        ("memory", f"{found.cells:,} of {found.pool:,} cells for {in_flight} documents in flight"),
        ("KV cache", f"{found.cache_bytes / 2**20:,.0f} MiB"),
        ("speed", f"{found.documents_per_second:.2f} documents per second"),
        ("time", duration(found.hours * 3600)),
    ]
    if price is not None:
        lines.append(("price", f"{found.price(price):,.2f} at {price:,.2f} per hour"))
    if note is not None:
        lines.append(("note", note))
    return named_lines(lines)


def comparison_text(found: Comparison) -> str:
    """How the fields agree, with an example of each that differs and what was seen to change it."""
    all_of = f"{found.same:,} of {counted(found.documents, 'document')} are the same in all fields"
    failed = f"; {found.failed:,} more had no value in one of the modes" if found.failed else ""
    lines = [("compared", f"{found.mode} with left to right: {all_of}{failed}")]
    width = max((len(one.field) for one in found.fields), default=0)
    for one in found.fields:
        lines.append(("", f"{one.field:<{width}}  {one.same:,} of {one.of:,}"))
        lines += [("", f"    {each.document}: {each.parallel} → {each.sequential}") for each in one.examples]
        if one.advice is not None:
            lines.append(("", f"    {_advised(one.advice)}"))
    return named_lines(lines + [("note", note) for note in found.notes])


def _advised(advice: Advice) -> str:
    if advice.after is not None:
        return f"`{advice.after}` makes {advice.fixes} of {advice.tried} the same"
    return "no `after` that was tried makes them the same; --mode sequential does, in more passes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """The arguments and options of `pasta report`."""

    out: Annotated[Path, typer.Argument(help="The rows: an output of pasta extract.")]
    documents: Annotated[
        Path | None, typer.Argument(help="The documents that were read, to show each row next to its text.")
    ] = None
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Output file. Default: OUT.html.")] = None


@command(ReportSettings)
def report_command(settings: ReportSettings) -> None:
    from pastalang.bulk.report import documents_of, read_rows, read_run, with_documents

    out, documents = settings.out, settings.documents
    page = settings.output or out.with_name(f"{out.name}.html")
    rows, run = read_rows(out), read_run(out)
    refuse_unwritable(page, out, documents)
    with ExitStack() as files:
        files.callback(rows.close)
        if documents is None:
            pairs: Iterator[tuple[Row, Document | None]] = ((row, None) for row in rows)
            notes = [f"Without source texts: pasta report {out} DOCUMENTS shows each row next to its text."]
        else:
            pairs, notes = with_documents(rows, files.enter_context(documents_of(run, documents))), []
        count = _write_report(page, pairs, run, title=out.name, notes=notes)
    size = page.stat().st_size
    echo(f"{page}: {counted(count, 'row')}, " + (f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size >> 10} KiB"))


def _write_report(
    page: Path, pairs: Iterator[tuple[Row, Document | None]], run: Any, *, title: str, notes: list[str]
) -> int:
    """The number of rows. The page is replaced when it is complete."""
    from pastalang.bulk.report import write_report

    draft = page.with_name(f"{page.name}.draft")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as stream:
            figures = write_report(stream, pairs, run, title=title, notes=notes)
        draft.replace(page)
    except OSError as problem:
        raise unwritable(page, problem) from problem
    finally:
        draft.unlink(missing_ok=True)
    return figures.rows
