"""`pasta evaluate`: right answers and those of a model come in, or are decoded here; F1 and its kin are printed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pastalang.cli.files import EXIT_FINE, EXIT_PROBLEMS
from pastalang.errors import PastaError

if TYPE_CHECKING:
    from pastalang.training.metrics import Counts, Report


def command(
    expected: Annotated[Path, typer.Argument(help="JSON lines: the right answer as `value`, perhaps a `category`.")],
    predicted: Annotated[Path, typer.Argument(help="JSON lines in the same order: `value`, null if unreadable.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    from pastalang.training.answers import score_files

    try:
        report = score_files(expected, predicted)
    except PastaError as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(EXIT_PROBLEMS) from problem
    typer.echo(json.dumps(_as_data(report)) if as_json else _as_text(report))
    raise typer.Exit(EXIT_FINE)


def _as_text(report: Report) -> str:
    lines = [
        ("documents", f"{report.documents}"),
        ("F1", f"{report.reported.f1:.2f}"),
        ("precision", f"{report.reported.precision:.2f}"),
        ("recall", f"{report.reported.recall:.2f}"),
        ("macro F1", f"{report.macro_f1:.2f}"),
        ("F1, case folded", f"{report.normalised.f1:.2f}"),
        ("F1, strict", f"{report.strict.f1:.2f}"),
        ("hallucinated", f"{report.strict.hallucination_rate:.2f} % of the absent values"),
        ("unreadable", f"{report.unparseable_rate:.2f} % of the documents"),
        ("truncated", f"{report.truncated_rate:.2f} % of the documents"),
    ]
    return "\n".join(f"{name:<16} {value}" for name, value in lines)


def _as_data(report: Report) -> dict[str, Any]:
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
