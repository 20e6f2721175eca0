"""`pasta evaluate`: score answers against the right ones. A model can write the answers first."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pastalang.cli.evaluate_threads import Wish, as_text, evaluate_threads
from pastalang.cli.exit_codes import EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.model_source import chosen_model, load_engine, refuse_adapter, refuse_hub, refuse_model
from pastalang.cli.options import (
    AdapterName,
    AnyMode,
    AsJson,
    Cells,
    ColumnMap,
    DecodingMode,
    Device,
    GuessAhead,
    MaxTokens,
    OverrunPolicy,
    Temperature,
    TemplateName,
    TopK,
    TopP,
    adapter_of,
    columns_of,
    drafts_of,
    sampling_of,
)  # fmt: skip
from pastalang.cli.output import echo, echo_document, echo_error, refuse_unwritable, write_file
from pastalang.cli.plan_source import read_plan
from pastalang.cli.process import exits_with_code
from pastalang.cli.standard_input import refuse_second, rows_of
from pastalang.cli.trade_off import Reports, draw_reports, place_of, read_reports, refuse_plot, short_name
from pastalang.plan.plan import Mode, Overrun, Plan
from pastalang.program.types import Sampling
from pastalang.runtime.models.source import Adapter

if TYPE_CHECKING:
    from pastalang.training.evaluation import Scored
    from pastalang.training.metrics import Counts, Report

THREADS = "threads"  # in place of RIGHT: how answers with threads do
_USAGE = "pass either the two files RIGHT and GIVEN, or --program and --data (and optionally --model)"


@exits_with_code
def command(
    right: Annotated[
        Path | None,
        typer.Argument(
            help="Rows with the right answer as `value` or `target_scores`. JSON, CSV, Parquet, a data set. "
            "Or the word `threads`: measure auto(...)."
        ),
    ] = None,
    given: Annotated[
        Path | None, typer.Argument(help="Rows in the same order: the answer as `value`; null if unreadable.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that answers: a folder, or a name on the Hugging Face hub.")
    ] = None,
    adapter: AdapterName = None,
    program: Annotated[Path | None, typer.Option(help="The program to run.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Rows: the inputs by name, and the right answer as `value`.")
    ] = None,
    map: ColumnMap = None,
    template: TemplateName = None,
    mode: DecodingMode = Mode.STRICT,
    overrun: OverrunPolicy = Overrun.CONTINUE,
    any_mode: AnyMode = False,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    max_tokens: MaxTokens = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="The rows that share forward passes. Default: 8, for threads 1.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="For threads: a model that answers without them, to compare with.")
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="For threads: counts what is right in an answer."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="For threads: says which of two answers is better."),
    ] = None,
    drafts: GuessAhead = None,
    plot: Annotated[
        Path | None, typer.Option(help="For threads: draw speed and quality of this and other reports, as PNG.")
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="For --plot: a report that --out wrote. May be repeated."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="For threads: decode so often; the fastest counts.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the report to this file, as JSON.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Write the answers of the model to this file, as JSON lines.")
    ] = None,
    device: Device = None,
    cells: Cells = 8192,
    as_json: AsJson = False,
) -> None:
    sampling, columns = sampling_of(temperature, top_p, top_k), columns_of(map)
    refuse_second(right, given, program, data)
    for place in (out, predictions):
        refuse_unwritable(place, right, given, program, data)
    if out is not None and predictions is not None and out.resolve() == predictions.resolve():
        raise Refused(f"--out and --predictions are both {out}: one would overwrite the other", EXIT_USAGE)
    wants_threads = right is not None and str(right) == THREADS and given is None
    threads_only = {
        "baseline": baseline, "score": score, "judge": judge, "drafts": drafts, "plot": plot, "add": add,
        "rounds": None if rounds == 1 else rounds,
    }  # fmt: skip
    if adapter is not None and (wants_threads or given is not None):
        raise Refused("--adapter is for `pasta evaluate --program FILE --data FILE`", EXIT_USAGE)
    if given_ones := [f"--{name}" for name, value in threads_only.items() if value is not None and not wants_threads]:
        raise Refused(f"only `pasta evaluate threads` takes {', '.join(given_ones)}", EXIT_USAGE)
    if add and plot is None:
        raise Refused("--add is for --plot: it names a report to draw", EXIT_USAGE)
    if plot is not None:
        refuse_plot(plot, right, given, program, data, out, predictions, *(place_of(one)[1] for one in add or ()))
    is_only_drawn = wants_threads and program is None and data is None and plot is not None and bool(add)
    reports: Reports = {}
    if add:
        reports = read_reports(add, measured=None if is_only_drawn else short_name(chosen_model(model).name))
    if is_only_drawn and plot is not None:
        measured = {"out": out, "predictions": predictions, "model": model, "baseline": baseline, "score": score}
        if idle := [f"--{name}" for name, value in (measured | {"judge": judge}).items() if value is not None]:
            raise Refused(f"nothing is measured without --program and --data: leave out {', '.join(idle)}", EXIT_USAGE)
        draw_reports(plot, reports)
        return
    if wants_threads:
        if program is None or data is None:
            raise Refused("`pasta evaluate threads` needs --program and --data, or --plot and --add", EXIT_USAGE)
        plan = read_plan(program, template=template, mode=mode, max_tokens=max_tokens, overrun=overrun)
        wish = Wish(
            chosen_model(model).name, plan, rows_of(data, columns), any_mode, batch or 1, rounds, sampling, baseline,
            score, judge, None if drafts == "off" else drafts_of(drafts), predictions, device, cells, _counter,
        )  # fmt: skip
        report = evaluate_threads(wish)
    elif right is not None and given is not None and not any((model, program, data, predictions)):
        report = _compare(right, given, columns)
    elif right is None and program is not None and data is not None:
        plan = read_plan(program, template=template, mode=mode, max_tokens=max_tokens, overrun=overrun)
        report = _run(
            chosen_model(model).name, plan, data, columns, batch or 8, any_mode, sampling, predictions, device, cells,
            adapter_of(adapter),
        )  # fmt: skip
    else:
        raise Refused(_USAGE, EXIT_USAGE)
    if out is not None:
        write_file(out, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    if not as_json:
        echo(as_text(report) if wants_threads else _as_text(report))
    if plot is not None:  # after the figures, which a picture that cannot be drawn must not cost
        draw_reports(plot, {short_name(str(report["model"])): report, **reports})
    if as_json:
        echo_document(json.dumps(report, ensure_ascii=False))


def _compare(right: Path, given: Path, columns: Mapping[str, str]) -> dict[str, Any]:
    from pastalang.training.metrics import count_fields, evaluate, read_examples

    examples = read_examples(rows_of(right, columns), rows_of(given))
    return _as_data(evaluate(examples), count_fields(examples))


def _run(
    model: str, plan: Plan, data: Path, columns: Mapping[str, str], batch: int, any_mode: bool,
    sampling: Sampling | None, predictions: Path | None, device: str | None, cells: int, adapter: Adapter,
) -> dict[str, Any]:  # fmt: skip
    """Checks everything that it can before it loads the model."""
    refuse_model(model)
    refuse_adapter(model, adapter)
    refuse_hub(model)
    with ctrl_c_exits_at_once():
        from pastalang.training.data import read_checked
        from pastalang.training.evaluation import prediction_lines, score_rows_by_decoding

    rows = read_checked(rows_of(data, columns), plan, note=echo_error)
    engine = load_engine(model, device=device, cells=cells, adapter=adapter)
    scored = score_rows_by_decoding(
        engine, plan, rows, batch=batch, any_mode=any_mode, sampling=sampling, on_progress=_counter(len(rows))
    )
    for origin, problem in scored.problems:
        echo_error(f"{origin}: not decoded: {problem}")
    if predictions is not None:
        write_file(predictions, prediction_lines(scored, rows))
    return _as_data(scored.report, scored.fields) | _cost(scored, model, plan.mode, batch)


def _counter(rows: int) -> Callable[[int], None] | None:
    """On a terminal, shows how many rows are done; the count disappears at the end."""
    if not sys.stderr.isatty():
        return None

    def show(done: int) -> None:
        sys.stderr.write(f"\r\x1b[K{done} of {rows}" if done < rows else "\r\x1b[K")
        sys.stderr.flush()

    return show


def _cost(scored: Scored, model: str, mode: Mode, batch: int) -> dict[str, Any]:
    return {
        "model": model,
        "mode": mode.value,
        "batch": batch,
        "passes_per_document": round(scored.decoding.passes_per_document, 2),
        "documents_per_second": round(scored.decoding.documents_per_second, 3),
        "seconds": round(scored.decoding.seconds, 3),
    }


def _as_text(report: dict[str, Any]) -> str:
    counts, strict = report["reported"], report["strict"]
    lines = [
        ("documents", f"{report['documents']}"),
        ("F1", f"{counts['f1']:.2f}"),
        ("precision", f"{counts['precision']:.2f}"),
        ("recall", f"{counts['recall']:.2f}"),
        ("macro F1", f"{report['macro_f1']:.2f}"),
        ("F1, case folded", f"{report['normalised']['f1']:.2f}"),
        ("F1, strict", f"{strict['f1']:.2f}"),
        ("hallucinated", f"{strict['hallucination_rate']:.2f} % of the absent values"),
        ("unreadable", f"{report['unparseable_rate']:.2f} % of the documents"),
        ("truncated", f"{report['truncated_rate']:.2f} % of the documents"),
    ]
    if "model" in report:
        lines += [
            ("forward passes", f"{report['passes_per_document']:.1f} per document"),
            ("speed", f"{report['documents_per_second']:.2f} documents per second, {report['batch']} at a time"),
            ("model", f"{report['model']}, mode {report['mode']}"),
        ]
    lines += [(f"  {name}", f"F1 {counts['f1']:.2f}") for name, counts in report["fields"].items()]
    width = max(16, *(len(name) for name, _ in lines))
    return "\n".join(f"{name:<{width}} {value}" for name, value in lines)


def _as_data(report: Report, fields: Mapping[str, Counts]) -> dict[str, Any]:
    from dataclasses import asdict

    data = asdict(report)
    for name in ("reported", "strict", "normalised"):
        data[name] = _counted(getattr(report, name))
    return data | {"fields": {name: _counted(counts) for name, counts in fields.items()}}


def _counted(counts: Counts) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(counts) | {
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "hallucination_rate": counts.hallucination_rate,
    }
