"""Write the card (`MODEL_CARD.md`) of a text model from its `scores.json` and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipes.pasta_mini.card import write_from_scores
from recipes.text_mini.scores import HEAD, Score

CARD = "MODEL_CARD.md"


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one kind of text."""

    kind: str
    files: str
    licence: str


@dataclass(frozen=True, slots=True)
class Made:
    """`command` makes the folder again."""

    command: str
    sources: tuple[Source, ...]


def write_card(folder: Path, made: Made) -> Path:
    """Write the card next to the weights. Raises `BadData` if `scores.json` cannot be read."""
    return write_from_scores(folder, CARD, lambda found: _lines(found, made))


def _lines(found: Mapping[str, Any], made: Made) -> Iterator[str]:
    sizes, tokens = found["sizes"], found["tokens"]
    fed, whole = found["step"] * sizes["rows"] * sizes["length"], sum(tokens.values())
    yield from ("# A model of easy text", "", _INTRODUCTION.strip(), "")
    if found["step"] < sizes["steps"]:
        yield from (f"**Unfinished: these are the weights after step {found['step']} of {sizes['steps']}.**", "")
    yield from ("## Held-out text", "", *HEAD, *(Score(**one).as_line() for one in found["scores"]), "")
    yield from (_MEASURED.strip(), "", "## Data", "", "| text | files | licence | tokens |", "|---|---|---|---:|")
    for one in made.sources:
        yield f"| {one.kind} | {one.files} | {one.licence} | {tokens[one.kind]:,} |"
    yield from ("", "## Recipe", "", "```console", f"$ {made.command}", "```", "")
    batch = sizes["rows"] * sizes["length"]
    yield f"{found['step']:,} steps of at most {batch:,} tokens, {fed / 1e6:.1f} million in all:"
    yield f"about {fed / whole:.1f} times the {whole / 1e6:.1f} million tokens of the data. It took"
    yield f"{found['hours']:.1f} hours of processor time, with one run and one seed."
    yield from ("", ", ".join(f"{name.replace('_', '-')} {value}" for name, value in sizes.items()) + ".")


_INTRODUCTION = """
A small language model that goes on with texts of the kinds below, given their beginnings. It was made to measure how
far ahead prompt tokens and masks can predict (docs/drafts.md). It knows nothing else, and is not for use.
"""

_MEASURED = """
The loss is in nats per token, over the rest of each passage and its end, after its beginning. One document in twenty is
held out, by a hash of its text; neither the model nor the tokenizer has seen it.
"""
