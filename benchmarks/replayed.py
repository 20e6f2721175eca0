"""Drafts under a larger model, on texts that one would write: given answers, replayed with random weights.

    python -m benchmarks.replayed --oa-mine train.jsonl [--documents 20] [--batch 1]
    python -m benchmarks.replayed --texts rows.jsonl [--documents 20] [--most 160]

How many passes there are, and how long they take, depends on what is written, not on what the weights are worth. So a
random model of 135 million weights computes each pass, and a teacher says the tokens that are drawn: of listings, what
`pasta-mini` writes; of texts, the answer of the row. A row is `{"instruction": …, "input": …, "output": …}`, as in
Alpaca, or `{"turns": …, "reference": …}`, as in Spec-Bench, of which those are taken that have a text as reference.
The name of the file is the title of its rows. Each way has an engine of its own, and all take the documents in turn;
the times are of the processor.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import torch

import pastalang
from benchmarks.drafts import PROGRAM as LISTING
from benchmarks.drafts import WAYS
from benchmarks.subjects import make_model, make_tokenizer
from pastalang.plan.branches import Mode
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.program.types import Drafts
from pastalang.runtime.sampling.sampler import Sample
from pastalang.source import Source
from pastalang.training.data import Row, read_checked
from pastalang.training.recording import Teacher

TEXT: Final = '''template answer(prompt: text)
user """
{prompt}
"""
assistant text """
{answer: string(max=MOST)}
"""
'''
MODEL: Final = "pasta-mini"
LONGEST: Final = 1200  # tokens of a prompt


@dataclass
class Total:
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)


def rows_of(plan: Plan, rows: Sequence[dict[str, Any]]) -> list[Row]:
    return read_checked(Source("rows", "".join(json.dumps(row) + "\n" for row in rows)), plan)


def listings(path: Path, count: int, mode: Mode) -> Iterator[dict[str, Any]]:
    engine, program = pastalang.Engine.load(MODEL), pastalang.compile(LISTING)
    with path.open(encoding="utf-8") as file:
        for line in islice(file, count):
            title = json.loads(line)["input"]
            yield {"title": title, "value": engine.run(program, title=title, mode=mode).value}


def texts(path: Path, count: int, tokenizer: Any, most: int) -> Iterator[dict[str, Any]]:
    """Rows that have a text as their answer. Long answers and prompts are cut."""
    opened: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            if "turns" in row:
                prompt, answer = row["turns"][0], row.get("reference")
                answer = answer[0] if answer and isinstance(answer[0], str) else ""
            else:
                prompt, answer = f"{row['instruction']}\n{row['input']}".strip(), row["output"]
            if answer.strip() and count:
                count -= 1
                answer = _first(answer.strip(), tokenizer, most - 4)  # with room for another spelling
                yield {"prompt": _first(prompt, tokenizer, LONGEST), "value": {"answer": answer}}


def _first(text: str, tokenizer: Any, most: int) -> str:
    tokens = tokenizer.encode(text, add_special_tokens=False)
    return text if len(tokens) <= most else str(tokenizer.decode(tokens[:most])).strip("\ufffd ")


class Replay:
    """An engine whose draws are those of a teacher. The sampler samples as well, so that its time counts."""

    def __init__(self, model: Any, tokenizer: Any, drafts: Drafts, plan: Plan, rows: Sequence[Row]) -> None:
        self.engine = pastalang.Engine.load((model, tokenizer), drafts=drafts, cells=1 << 14)
        self._answers = {_key(row.inputs): row.answer for row in rows}
        self._plan, self._teachers = plan, dict[int, Teacher]()
        self._sample = self.engine._sample
        self.engine._sample = self._teach  # type: ignore[method-assign]

    def run(self, rows: Sequence[Row], total: Total) -> None:
        began = time.process_time()
        results = self.engine.batch(self._plan, [row.inputs for row in rows], any_mode=True, on_truncated="keep")
        total.seconds += time.process_time() - began
        for result in results:
            assert isinstance(result, pastalang.Result), result
            usage = result.usage
            total.counts.update(
                drawn=usage.output_tokens, drafted=usage.drafted_tokens, confirmed=usage.confirmed_tokens
            )
        total.counts["passes"] += max(one.usage.forward_passes for one in results if isinstance(one, pastalang.Result))

    def _teach(self, logits: torch.Tensor, pending: Any) -> Any:
        sampled = self._sample(logits, pending)
        return [(one, Sample(self._teacher(one.branch.request).token(one.branch), 0.0)) for one, _ in sampled]

    def _teacher(self, request: Any) -> Teacher:
        if request.number not in self._teachers:
            answer = self._answers[_key(request.values)]
            self._teachers[request.number] = Teacher(answer, self.engine._vocabulary, self.engine.encoder)
        return self._teachers[request.number]


def _key(inputs: Any) -> str:
    return json.dumps(dict(inputs), sort_keys=True)


def compare(title: str, plan: Plan, rows: Sequence[Row], model: Any, tokenizer: Any, batch: int) -> None:
    replays = {way: Replay(model, tokenizer, way, plan, rows) for way in WAYS}
    totals = {way: Total() for way in WAYS}
    first, *rows = rows
    for replay in replays.values():
        replay.run([first], Total())  # measures what passes cost
    for start in range(0, len(rows), batch):
        for way, replay in replays.items():
            replay.run(rows[start : start + batch], totals[way])
    plain, count = totals["off"], len(rows)
    for way, total in totals.items():
        each = {name: total.counts[name] / count for name in ("drawn", "drafted", "confirmed")}
        print(
            f"| {title} | {count} | {way} | {each['drawn']:.1f} | {batch * total.counts['passes'] / count:.1f} "
            f"| {each['drafted']:.1f} | {each['confirmed']:.1f} | {1000 * total.seconds / count:.0f} "
            f"| {plain.seconds / total.seconds:.2f}x |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oa-mine", type=Path)
    parser.add_argument("--texts", type=Path, action="append", default=[])
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--most", type=int, default=160, help="the most tokens of an answer that are written")
    given = parser.parse_args()
    warnings.simplefilter("ignore", pastalang.TruncationWarning)
    tokenizer, model = make_tokenizer(), make_model()
    print("| what is written | documents | drafts | drawn | passes | drafted | confirmed | ms per document | faster |")
    print("|---|---|---|---|---|---|---|---|---|")
    for mode in (Mode.STRICT, Mode.SEQUENTIAL) if given.oa_mine else ():
        plan = planned(LISTING, mode)
        rows = rows_of(plan, list(listings(given.oa_mine, given.documents + 1, mode)))
        compare(f"listings, {mode.value}", plan, rows, model, tokenizer, given.batch)
    for path in given.texts:
        plan = planned(TEXT.replace("MOST", str(given.most)), Mode.STRICT)
        rows = rows_of(plan, list(texts(path, given.documents + 1, tokenizer, given.most)))
        compare(path.name.partition(".")[0], plan, rows, model, tokenizer, given.batch)


def planned(source: str, mode: Mode) -> Plan:
    program = pastalang.compile(source)
    return build_plan(program.only_template, program, mode=mode)


if __name__ == "__main__":
    main()
