"""Write the model card (`README.md`) of a small model, from its weights, its `scores.json` and how it was made.

python -m recipes.pasta_mini.card FOLDER --command "..." [--source NAME LICENCE USE]... [--decoded REPORT]...
    [--note TEXT]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from safetensors import safe_open

from pastalang.errors import PastaError
from pastalang.training.errors import BadData
from pastalang.training.metrics import Counts
from recipes.pasta_mini.lessons import matched

SCORES = "scores.json"
CARD = "README.md"


@dataclass(frozen=True, slots=True)
class Source:
    """Data that shaped the weights."""

    name: str
    licence: str
    use: str


OWN_SOURCES = (
    Source("made-up listings and documents", "Apache-2.0, part of PastaLang", "drawn anew in every step"),
    Source("OA-Mine, open training part", "Apache-2.0", "{share}, cut and joined anew, their values exchanged"),
)


@dataclass(frozen=True, slots=True)
class Facts:
    """`command` makes the folder again. `decoded` are reports of `pasta evaluate --out` on the held-out rows. `note`:
    what else is to be known about how the weights were made."""

    command: str
    sources: tuple[Source, ...] = OWN_SOURCES
    decoded: tuple[Mapping[str, Any], ...] = ()
    note: str = ""


def write_card(folder: Path, facts: Facts) -> Path:
    """Write the card next to the weights. Raises `BadData` if the weights or `scores.json` cannot be read."""
    return write_from_scores(folder, CARD, lambda found: _lines(folder, found, facts))


def write_from_scores(folder: Path, name: str, lines: Callable[[Any], Iterable[str]]) -> Path:
    """Write a text whose lines come from the `scores.json` of a folder. Raises `BadData` if some of it is missing."""
    found = _read(folder / SCORES)
    try:
        text = "\n".join(lines(found))
    except (KeyError, TypeError, ValueError) as problem:
        raise BadData(f"{folder / SCORES} does not hold the scores of a recipe: {problem!r}") from problem
    path = folder / name
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _lines(folder: Path, found: Mapping[str, Any], facts: Facts) -> list[str]:
    name, sizes = folder.name, found["sizes"]
    share = "all titles" if sizes.get("all_titles") else "nine titles in ten"
    return [
        *("---", "license: apache-2.0", "language: en", "library_name: transformers", "pipeline_tag: text-generation"),
        *("tags: [pastalang, information-extraction, parallel-decoding]", "---", "", f"# {name}", ""),
        _INTRODUCTION.format(millions=_weights(folder) / 1e6, **_shape(folder)).strip(),
        *("", "## Figures", "", *_figures(found["scores"]), "", _MEASURED.strip()),
        *(("", _ALL.strip()) if sizes.get("all_titles") else ()),
        *_decoded(facts.decoded),
        *("", "## Data", "", "| data | licence | use |", "|---|---|---|"),
        *(f"| {one.name} | {one.licence} | {one.use.format(share=share)} |" for one in facts.sources),
        *("", _LEFT_OUT.strip(), "", "## Recipe", "", "```console", f"$ {facts.command}", "```", ""),
        f"Seed {sizes['seed']}; " + ", ".join(f"{key} {value}" for key, value in sizes.items() if key != "seed") + ".",
        *(("", facts.note) if facts.note else ()),
        *(("", f"Training took {found['hours']:.1f} hours of processor time.") if "hours" in found else ()),
        *("", "## Limits", "", _LIMITS.strip()),
    ]


def _figures(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [
        "| rows | documents | F1 | precision | recall | F1, strict | invented | fields right |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, report in scores.items():
        reported, strict = _counts(report["reported"]), _counts(report["strict"])
        lines.append(
            f"| {name} | {report['documents']} | {reported.f1:.1f} | {reported.precision:.1f} | {reported.recall:.1f} "
            f"| {strict.f1:.1f} | {strict.hallucination_rate:.1f} % | {matched(strict):.1f} % |"
        )
    return lines


def _decoded(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    if not reports:
        return []
    lines = [
        *("", "Decoded by the engine, greedily:", ""),
        "| mode | documents | F1 | F1, strict | invented | unreadable | passes per document |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for report in reports:
        reported, strict = _counts(report["reported"]), _counts(report["strict"])
        lines.append(
            f"| {report['mode']} | {report['documents']} | {reported.f1:.1f} | {strict.f1:.1f} "
            f"| {strict.hallucination_rate:.1f} % | {report['unparseable_rate']:.1f} % "
            f"| {report['passes_per_document']:.1f} |"
        )
    return [*lines, "", _PUBLISHED.strip()]


def _counts(found: Mapping[str, Any]) -> Counts:
    """A report may hold more than the counts."""
    return Counts(**{name: int(found[name]) for name in Counts.__dataclass_fields__})


def _weights(folder: Path) -> int:
    path = folder / "model.safetensors"
    if not path.is_file():
        raise BadData(f"{folder} holds no weights: there is no {path.name} in it")
    with safe_open(path, framework="pt") as file:
        return sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118, it is no mapping


def _shape(folder: Path) -> dict[str, Any]:
    config = _read(folder / "config.json")
    return {
        "layers": config["num_hidden_layers"],
        "hidden": config["hidden_size"],
        "vocabulary": config["vocab_size"],
        "positions": config["max_position_embeddings"],
    }


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise BadData(f"{path} could not be read: {problem}") from problem


_INTRODUCTION = """
A language model of {millions:.1f} million weights that extracts values from short texts: attributes from the titles of
product listings, and the facts of everyday documents such as invoices, tickets, invitations and log lines. It was
trained to write them at the same time: values that do not see one another, at positions with gaps between them. One set
of weights serves the modes `strict`, `lockstep` and `sequential` of PastaLang. The shape is Llama's: {layers} layers of
{hidden}, a vocabulary of {vocabulary:,}, {positions:,} positions. It was trained from scratch, on a CPU, so that you
can try PastaLang and test it.

```console
$ pasta run examples/demo/listings.pasta --template coffee -i title="Norvika Coffee, Dark Roast, 12 oz"
```
"""

_MEASURED = """
*Fields right* is the share of fields with exactly the right value, null included. F1 is exact match over the attributes
that the right answer names; *F1, strict* is exact match over all attributes of the category. In these rows the right
answer names every attribute that the model is asked for, absent ones as null, so an invented value costs in both.
*Invented* is the share of absent attributes that got a value. The held-out tenth of OA-Mine was chosen by a hash of the
title. The values of the made-up listings never occur in training, nor do the values, field names and layouts of the
documents, but for that of log lines. The figures come from one forward pass over the right answers, in strict mode,
where that equals greedy decoding, and from one run with one seed.
"""

_PUBLISHED = """
Here the right answers are those of OA-Mine, which name only the attributes that a title states and accept several
spellings of some values, so F1 is the measure published for that data set.
"""

_ALL = """
These weights have learned all titles of OA-Mine, the held-out tenth included. Its row shows what was remembered, not
what was understood.
"""

_LEFT_OUT = """
No data that is for research only, or not for commercial use, shaped these weights.
"""

_LIMITS = """
- It knows product titles and short documents in English, and nothing else. It does not chat, follow instructions or
  know facts.
- It copies values, and it normalises dates, times, amounts, yes or no, and options that are printed in other words.
  It cannot count, calculate or summarise, and it was trained on texts of at most some two hundred words.
- For fields whose names and descriptions are far from those of its training, it guesses. Ask for `verbatim(title) |
  null`, not for free text, and check the answers: the figures above say how often they are wrong.
- Larger models extract far better. Their figures cannot be derived from these.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.pasta_mini.card", description="Write the model card.")
    parser.add_argument("folder", type=Path, help="the model's; its scores.json is read")
    parser.add_argument("--command", required=True, help="what makes the folder again")
    parser.add_argument("--source", nargs=3, action="append", default=[], metavar=("NAME", "LICENCE", "USE"))
    parser.add_argument("--decoded", type=Path, nargs="*", default=[], help="reports of pasta evaluate --out")
    parser.add_argument("--note", default="", help="what else is to be known about how the weights were made")
    given = parser.parse_args()
    try:
        sources = (*OWN_SOURCES, *(Source(*words) for words in given.source))
        facts = Facts(given.command, sources, tuple(_read(path) for path in given.decoded), given.note)
        print(write_card(given.folder, facts))
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
