"""Write the report from the figures of all data sets. The end of the Markdown file is written by hand and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.hpd.experiment import STACKS, Scope
from benchmarks.hpd.statements import SINGLE, means, statements
from benchmarks.hpd.tables import Measured, data_table, quality_table, speed_table, stack_table
from benchmarks.hpd.tuning import Budget

BY_HAND = "<!-- nothing below this line is generated -->"

_HOW = """
Every attribute that the training part knows of a category is asked for; a value is a span of the text, letter for
letter, or null. The held-out tenth is chosen by a hash of the title and never trained on. Decoding is greedy, by the
engine, in float32, 64 documents at once where nothing else is said. *Sequential* has the same skeleton, and writes
one value after another. *Base* is the model as it came; *tuned for one* are copies of it, one for each mode;
*mixture* is one copy for all three modes; *free JSON* is one that `generate` has write everything, keys included, 160
documents at once. All copies have seen the same documents in the same number of steps. They are measured here and
passed on to nobody: AE-110k and WDC-PAVE are for research only.

- *F1* is as published: exact match, attributes that a document does not list are not looked at. *F1 strict* looks at
  all that are asked for; *invented* is the share of absent ones that got a value. OA-Mine never says that something
  is absent, and AE-110k seldom: there, what is not listed counts as absent for *strict* and *invented*, and in tuning.
- *cut* is the share of documents with a value that reached the limit. *limit* is the tokens that a value may take.
- *of `generate`* are the passes beside the tokens of the same answer in one line, with its keys and its end.
- Brackets hold 95 % of 2,000 draws of the documents, with all seeds of a document together.
- Differences come with the interval that holds 95 % of 2,000 draws of the documents. F1 is the mean of the seeds, and
  the difference with each of them stands beside; a verdict needs all of them. Differences in speed have no interval.
  Low limits and stacks have one seed.
"""
_RIVAL = """
Median seconds of rounds in which all sides take turns, with the weights of the mixture. `generate` writes the whole
JSON, exactly as many tokens as the right answer has (the longest of its batch).
"""


def write_report(
    path: Path, sets: Sequence[Measured], budgets: Sequence[Budget], scope: Scope, *, model: str, command: str
) -> None:  # fmt: skip
    """Keep the text that was written by hand below the line."""
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    kept = old.partition(BY_HAND)[2] or "\n\n## Read by people\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(_lines(sets, budgets, scope, model, command))
    path.write_text(f"{text}\n\n{BY_HAND}{kept}", encoding="utf-8")


def _lines(
    sets: Sequence[Measured], budgets: Sequence[Budget], scope: Scope, model: str, command: str
) -> list[str]:  # fmt: skip
    lines = [
        "# Values side by side, or one after another",
        "",
        *_setting(sets, budgets, scope, model),
        "",
        f"`{command}`",
    ]
    lines += [_HOW, "## What is confirmed, and what is not", ""]
    for one in sets:
        lines += [f"### {one.corpus.name}", "", *(statements(one) or ["- Nothing was measured."]), ""]
    if found := means(sets):
        lines += ["### the mean of all sets", "", *found, ""]
    lines += ["## Data", "", *data_table(sets)]
    for one in sets:
        lines += ["", f"## {one.corpus.name}", "", *quality_table(one)]
        if any(one.stack(tuning, STACKS[0]) for tuning in SINGLE):
            lines += ["", "Stacked, one sequence at a time:", "", *stack_table(one)]
        if one.speed is not None:
            lines += ["", "Documents per second:", "", *speed_table(one.speed), _RIVAL.rstrip()]
    return lines


def _setting(sets: Sequence[Measured], budgets: Sequence[Budget], scope: Scope, model: str) -> list[str]:
    lines = [(f"{model}, on {_machine(sets)}.")]
    for one, budget in zip(sets, budgets, strict=True):
        measured = min(scope.documents, len(one.corpus.held_out))
        seeds = 1 + sum(map(bool, one.repeated))
        lines.append(
            f"{one.corpus.name}: {budget.steps} steps of {budget.rows} × {budget.length} tokens at "
            f"{budget.learning_rate:g}; {measured} of {len(one.corpus.held_out)} held-out documents; "
            f"{seeds} {'seed' if seeds == 1 else 'seeds'}."
        )
    return lines


def _machine(sets: Sequence[Measured]) -> str:
    found = (part["machine"] for one in sets for part in one.figures.values() if "machine" in part)
    return next(found, "no machine")
