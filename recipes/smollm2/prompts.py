"""Prompts of four kinds, for drafts of smollm2: python -m recipes.smollm2.prompts DATA --out FOLDER [--times N]

Writes `train.jsonl` and `held-out.jsonl`: prompts that the model answers itself. `--times` takes so many times as many
prompts of each kind, as far as there are; the held-out ones stay the same. `--answers` adds the answers of the data as
`value`, and leaves out those of more than 1,300 characters. `DATA` has public sets in folders of their own, as JSON
lines, compressed or not; all may be used for anything:

prose   oasst_en_100/trees.jsonl (Apache-2.0), self_instruct/seed_tasks.jsonl (Apache-2.0)
list    lists.txt of this recipe
code    gpteacher/codegen.jsonl.gz (MIT)
sums    gsm8k/train.jsonl.gz (MIT)
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from recipes.smollm2.lists import Asked, read_lists

_HELD_OUT: Final = 12  # of each kind
_SHORTEST, _LONGEST = 10, 700  # characters of a prompt
_LONGEST_ANSWER: Final = 1_300  # characters
_STEP: Final = re.compile(r"<<[^>]*>>|\n#### .*")  # what gsm8k notes for a calculator
_KINDS: Final = {"list": 80, "prose": 90, "code": 40, "sums": 40}


def asked_of(kind: str, data: Path) -> Iterable[Asked]:
    """Raises `OSError` if a file of the data is missing."""
    match kind:
        case "list":
            yield from read_lists()
        case "prose":
            for tree in _rows(data / "oasst_en_100/trees.jsonl"):
                asked = tree["prompt"]
                yield Asked(asked["text"], next((one["text"] for one in asked["replies"]), ""))
            for task in _rows(data / "self_instruct/seed_tasks.jsonl"):
                one = task["instances"][0]
                yield Asked(_with_input(task["instruction"], one["input"]), one["output"])
        case "code":
            for task in _rows(data / "gpteacher/codegen.jsonl.gz"):
                yield Asked(_with_input(task["instruction"], task["input"]), task["response"])
        case "sums":
            for row in _rows(data / "gsm8k/train.jsonl.gz"):
                yield Asked(row["question"], _STEP.sub("", row["answer"]))


def write_prompts(data: Path, out: Path, *, times: int = 1, with_answers: bool = False) -> None:
    chance = random.Random(4)
    train, held_out = list[dict[str, Any] | None](), list[dict[str, Any] | None]()
    for kind, count in _KINDS.items():
        asked = {one.prompt.strip(): one for one in reversed(list(asked_of(kind, data)))}
        if kind == "list":
            taught = [one.prompt for one in read_lists() if not one.is_held_out]
            kept = [one.prompt for one in read_lists() if one.is_held_out and _is_list(one.answer)]
            chance.shuffle(taught)
        else:
            found = list(dict.fromkeys(one.prompt.strip() for one in asked_of(kind, data)))
            found = [one for one in found if _SHORTEST < len(one) < _LONGEST]
            chance.shuffle(found)
            kept, taught = found[:_HELD_OUT], found[_HELD_OUT:]
        for prompts, rows in ((kept[:_HELD_OUT], held_out), (taught[: times * count], train)):
            rows += [_row(asked[one], kind, with_answer=with_answers) for one in prompts]
    chance.shuffle(train)
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train", train), ("held-out", held_out)):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows if row is not None]
        (out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def _row(asked: Asked, kind: str, *, with_answer: bool) -> dict[str, Any] | None:
    """None for an answer that is too long."""
    row: dict[str, Any] = {"prompt": asked.prompt.strip(), "category": kind}
    answer = asked.answer.strip()
    if not with_answer:
        return row
    return row | {"value": {"text": answer}} if 0 < len(answer) <= _LONGEST_ANSWER else None


def _rows(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _with_input(instruction: str, given: str) -> str:
    return f"{instruction}\n\n{given}" if given else instruction


def _is_list(answer: str) -> bool:
    return answer.startswith("- ") or "\n1. " in answer or answer.count("\n- ") > 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m recipes.smollm2.prompts", description="Write prompts.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--times", type=int, default=1, help="so many times as many prompts for training")
    parser.add_argument("--answers", action="store_true", help="add the answers of the data")
    given = parser.parse_args()
    write_prompts(given.data, given.out, times=given.times, with_answers=given.answers)


if __name__ == "__main__":
    main()
