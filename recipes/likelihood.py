"""How likely a model finds the right answers, tags counted apart.

python -m recipes.likelihood --program FILE --data ROWS --model smollm2 --adapter pasta [--plain]

One pass over each row, with threads where its tags put them. `--plain` takes the tags out, for a model without threads.
Rows with a `category` get a line for each.
The words of a topic are counted apart too: a thread that has been announced by its first words finds them easier.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from pastalang.compiler import load
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.runtime.models.loading import load_model
from pastalang.runtime.models.source import OWN, SMOLLM2
from pastalang.training.batches import collate, logits_of
from pastalang.training.recording import IGNORED, Lesson, Recorder, TrainingRow, planner

_TAGS: Final = re.compile(r"<promise[^>]*/>|</?async>|<sync/>|\[/?Child\]|\[Fork\]")
_PARTS: Final = {
    "topics": re.compile(r'(?<=<promise topic=")[^"]*'),
    "tags": re.compile(r"<promise[^>]*/>|<sync/>|</async>|\[Fork\]"),
}


def costs(weights: Any, tokenizer: Any, row: TrainingRow) -> dict[str, float]:
    """The nats of each part of the row, and the tokens of its text."""
    batch = collate([[row]], len(row)).to(next(weights.parameters()).device)
    with torch.inference_mode():
        found = torch.log_softmax(logits_of(weights, batch)[0].float(), dim=-1)
    total: defaultdict[str, float] = defaultdict(float)
    for places in _written(row):
        labels = [int(row.labels[place]) for place in places]
        pieces = [tokenizer.decode([one], skip_special_tokens=True) for one in labels]
        for place, label, part in zip(places, labels, _parts(pieces), strict=True):
            total[part] -= float(found[place, label])
            total["tokens"] += part == "text"
    return total


def _written(row: TrainingRow) -> Iterator[list[int]]:
    """The places whose labels one writer drew, thread by thread."""
    assert row.writers is not None
    first: dict[int, int] = {}
    by_writer: defaultdict[int, list[int]] = defaultdict(list)
    for place, label in enumerate(row.labels):
        before = row.writers[place].after
        same = before >= 0 and row.writers[before].branch == row.writers[place].branch
        first[place] = first[before] if same else place
        if label != IGNORED:
            by_writer[first[place]].append(place)
    yield from by_writer.values()


def _parts(pieces: Sequence[str]) -> Iterator[str]:
    """Which part each token of a text belongs to: the first of `_PARTS` that it touches. The end of a turn is a tag."""
    whole, end = "".join(pieces), 0
    spans = [(name, found.span()) for name, pattern in _PARTS.items() for found in pattern.finditer(whole)]
    for piece in pieces:
        start, end = end, end + len(piece)
        touched = next((name for name, (left, right) in spans if start < right and end > left), "text")
        yield touched if piece else "tags"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.likelihood", description="Score right answers.")
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="rows with the inputs and a value, as JSON lines")
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--adapter", default=OWN, help="its name or folder; none: the bare weights")
    parser.add_argument("--plain", action="store_true", help="take the tags out of the rows")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    try:
        adapter = None if given.adapter == "none" else given.adapter
        model = load_model(given.model, device=given.device, dtype="float32", adapter=adapter, packed=False)
        program = load(given.program)
        recorder, plan = Recorder(model.tokenizer), planner(program)
        names = [one.name for one in program.only_template.inputs]
        rows = [json.loads(line) for line in given.data.read_text(encoding="utf-8").splitlines()]
        totals: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for number, row in enumerate(rows, start=1):
            value = _TAGS.sub("", row["value"]) if given.plain else row["value"]
            lesson = Lesson(plan, {name: row[name] for name in names if name in row}, value, f"{given.data}:{number}")
            recorded = recorder.row(lesson, Mode.STRICT, with_writers=True)
            found = costs(model.weights, model.tokenizer, recorded)
            for kind in {"", row.get("category", "")}:
                totals[kind]["rows"] += 1
                for name, nats in found.items():
                    totals[kind][name] += nats
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    for kind, total in sorted(totals.items()):
        said = ", ".join(f"{name} {total[name] / total['rows']:.1f}" for name in ("text", *_PARTS))
        about = f"{kind + ': ' if kind else ''}{total['rows']:.0f} rows, nats each: {said}"
        print(f"{about}; a token of the text {total['text'] / total['tokens']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
