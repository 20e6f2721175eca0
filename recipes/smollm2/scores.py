"""Score a model on what no training has seen: python -m recipes.smollm2.scores --oa-mine train.jsonl --model smollm2

The titles of OA-Mine that the recipes hold out, made-up documents whose layouts, field names and values never occur in
training, and written programs that are held out; beside them, as many that are not. Each is asked for with the prompt
of `pastalang.from_model`. The figures come from one forward pass over the right answers, in strict mode, where that
equals greedy decoding.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random

from pastalang.errors import PastaError
from pastalang.runtime.models.loading import load_model
from pastalang.runtime.models.source import OWN, SMOLLM2
from pastalang.training.recording import Lesson, Recorder
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.lessons import document_lessons, exam_of, matched
from recipes.pasta_mini.listings import Listing
from recipes.pasta_mini.real_listings import read_oa_mine
from recipes.smollm2.lessons import lessons_of_titles
from recipes.smollm2.written import plain_lessons, read_written

_LENGTH = 4000  # tokens: no row is left out because one tokenizer writes more of them than another


def title_lessons(titles: Sequence[Listing], count: int) -> list[Lesson]:
    random = Random("titles")
    return [lessons_of_titles([one], list(one.values), random)[0] for one in titles[:count]]


def written_lessons(count: int, *, held_out: bool) -> list[Lesson]:
    """Programs of all files, shuffled, with every field and all of their documents, until there are that many."""
    records = [record for record in read_written() if record.is_held_out is held_out]
    Random("written").shuffle(records)
    return list(islice((lesson for record in records for lesson in plain_lessons(record)), count))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.smollm2.scores", description="Score a model.")
    parser.add_argument("--oa-mine", type=Path, required=True, help="the open training part of OA-Mine, as JSON lines")
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--adapter", default=OWN, help="its name or folder; none: the bare weights")
    parser.add_argument("--count", type=int, default=145, help="titles, and as many documents of each kind")
    given = parser.parse_args()
    try:
        titles = read_oa_mine(given.oa_mine).held_out
        found = load_model(given.model, adapter=None if given.adapter == "none" else given.adapter, packed=False)
        recorder = Recorder(found.tokenizer)
        for name, lessons in (
            ("titles, held out", title_lessons(titles, given.count)),
            ("documents, unseen layouts and names", document_lessons(given.count, seed=1, part=Part.TEST)),
            ("written programs, held out", written_lessons(given.count, held_out=True)),
            ("written programs, not held out", written_lessons(given.count, held_out=False)),
        ):
            exam, began = exam_of(recorder, lessons, length=_LENGTH, name=name, report=print), time.process_time()
            report = exam.report(found.weights)
            right, invented = matched(report.strict), report.strict.hallucination_rate
            print(
                f"{name}: fields right {right:.1f} %, F1 {report.reported.f1:.1f}, invented {invented:.1f} %, "
                f"{time.process_time() - began:.0f} s of processor time"
            )
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
