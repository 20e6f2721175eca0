"""`pasta evaluate`: right answers and those of a model come in, or are decoded here; F1 and its kin are printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, ends_at_once
from pastalang.cli.model_source import load_engine, look_for_hub, refuse_folder
from pastalang.cli.output import refuse_place, say, say_document, tell
from pastalang.cli.plan_source import read_plan
from pastalang.cli.process import exits_with_code
from pastalang.plan.plan import Mode
from pastalang.runtime.models.source import DEFAULT

if TYPE_CHECKING:
    from pastalang.training.decode_eval import Scored
    from pastalang.training.metrics import Counts, Report

_TWO_WAYS = "give the two files RIGHT and GIVEN, or --program and --data (and --model)"


@exits_with_code
def command(
    right: Annotated[Path | None, typer.Argument(help="JSON lines: the right answer as `value`, a `category`.")] = None,
    given: Annotated[Path | None, typer.Argument(help="JSON lines, same order: `value`, null if unreadable.")] = None,
    model: Annotated[str | None, typer.Option(help="Who decodes: a folder, or a name on the hub.")] = None,
    program: Annotated[Path | None, typer.Option(help="The program that it fills in.")] = None,
    data: Annotated[Path | None, typer.Option(help="JSON lines: inputs by name, and the right `value`.")] = None,
    template: Annotated[str | None, typer.Option(help="Which template, where the program has several.")] = None,
    mode: Annotated[Mode, typer.Option(help="How the values of a JSON answer relate to one another.")] = Mode.STRICT,
    any_mode: Annotated[
        bool, typer.Option("--any-mode", help="Decode also in a mode that the weights were not trained for.")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="How many rows share their forward passes.")] = 8,
    out: Annotated[Path | None, typer.Option(help="Write the report, as JSON.")] = None,
    predictions: Annotated[Path | None, typer.Option(help="Write what was decoded, as JSON lines.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; left out: the best there is.")] = None,
    cells: Annotated[int, typer.Option(min=1, help="How many tokens fit into memory.")] = 8192,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    for place in (out, predictions):
        refuse_place(place, right, given, program, data)
    if out is not None and predictions is not None and out.resolve() == predictions.resolve():
        raise Refused(f"--out and --predictions are both {out}: one would overwrite the other", EXIT_USAGE)
    if right is not None and given is not None and not any((model, program, data, predictions)):
        shown = _compare(right, given)
    elif right is None and program is not None and data is not None:
        plan = read_plan(program, template=template, mode=mode)
        shown = _run(model or DEFAULT, plan, data, batch, any_mode, predictions, device, cells)
    else:
        raise Refused(_TWO_WAYS, EXIT_USAGE)
    if out is not None:
        _write(out, json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
    if as_json:
        say_document(json.dumps(shown, ensure_ascii=False))
    else:
        say(_as_text(shown))


def _compare(right: Path, given: Path) -> dict[str, Any]:
    from pastalang.training.metrics import score_files

    return _as_data(score_files(right, given))


def _run(
    model: str, plan: Any, data: Path, batch: int, any_mode: bool, predictions: Path | None, device: str | None,
    cells: int,
) -> dict[str, Any]:  # fmt: skip
    """Whatever can be refused is, before the model is loaded."""
    refuse_folder(model)
    look_for_hub(model)
    with ends_at_once():
        from pastalang.training.data import read_checked
        from pastalang.training.decode_eval import prediction_lines, score_rows_by_decoding

    rows = read_checked(data, plan)
    engine = load_engine(model, device=device, cells=cells)
    scored = score_rows_by_decoding(engine, plan, rows, batch=batch, any_mode=any_mode, tell=_counter(len(rows)))
    for origin, problem in scored.problems:
        tell(f"{origin}: not decoded: {problem}")
    if predictions is not None:
        _write(predictions, prediction_lines(scored, rows))
    return _as_data(scored.report) | _cost(scored, model, plan.mode, batch)


def _counter(rows: int) -> Any:
    """A count on a terminal, that is gone when it is done."""
    if not sys.stderr.isatty():
        return None

    def tell(done: int) -> None:
        sys.stderr.write(f"\r\x1b[K{done} of {rows}" if done < rows else "\r\x1b[K")
        sys.stderr.flush()

    return tell


def _cost(scored: Scored, model: str, mode: Mode, batch: int) -> dict[str, Any]:
    return {
        "model": model,
        "mode": mode.value,
        "batch": batch,
        "passes_per_document": round(scored.decoding.passes_per_document, 2),
        "documents_per_second": round(scored.decoding.documents_per_second, 3),
        "seconds": round(scored.decoding.seconds, 3),
    }


def _as_text(shown: dict[str, Any]) -> str:
    counts, strict = shown["reported"], shown["strict"]
    lines = [
        ("documents", f"{shown['documents']}"),
        ("F1", f"{counts['f1']:.2f}"),
        ("precision", f"{counts['precision']:.2f}"),
        ("recall", f"{counts['recall']:.2f}"),
        ("macro F1", f"{shown['macro_f1']:.2f}"),
        ("F1, case folded", f"{shown['normalised']['f1']:.2f}"),
        ("F1, strict", f"{strict['f1']:.2f}"),
        ("hallucinated", f"{strict['hallucination_rate']:.2f} % of the absent values"),
        ("unreadable", f"{shown['unparseable_rate']:.2f} % of the documents"),
        ("truncated", f"{shown['truncated_rate']:.2f} % of the documents"),
    ]
    if "model" in shown:
        lines += [
            ("passes", f"{shown['passes_per_document']:.1f} per document"),
            ("speed", f"{shown['documents_per_second']:.2f} documents per second, {shown['batch']} at once"),
            ("decoded by", f"{shown['model']}, {shown['mode']}"),
        ]
    return "\n".join(f"{name:<16} {value}" for name, value in lines)


def _as_data(report: Report) -> dict[str, Any]:
    from dataclasses import asdict

    shown = asdict(report)
    for name in ("reported", "strict", "normalised"):
        counts: Counts = getattr(report, name)
        shown[name] |= {
            "precision": counts.precision,
            "recall": counts.recall,
            "f1": counts.f1,
            "hallucination_rate": counts.hallucination_rate,
        }
    return shown


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise Refused(f"{path} could not be written: {problem.strerror}", EXIT_UNREADABLE) from problem
