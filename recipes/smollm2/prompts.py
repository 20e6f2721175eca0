"""Prompts of four kinds, for the prompt tokens of smollm2: python -m recipes.smollm2.prompts DATA --out FOLDER

Writes `train.jsonl` and `held-out.jsonl`. The model answers the prompts itself: no answer of the data is read. `DATA`
has public sets in folders of their own, as JSON lines, compressed or not; all may be used for anything:

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
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from recipes.smollm2.lists import read_lists

_HELD_OUT: Final = 12  # of each kind
_SHORTEST, _LONGEST = 10, 700  # characters of a prompt
_KINDS: Final = {"list": 80, "prose": 90, "code": 40, "sums": 40}


def prompts_of(kind: str, data: Path) -> Iterable[str]:
    """Raises `OSError` if a file of the data is missing."""
    match kind:
        case "prose":
            yield from (tree["prompt"]["text"] for tree in _rows(data / "oasst_en_100/trees.jsonl"))
            for task in _rows(data / "self_instruct/seed_tasks.jsonl"):
                yield _with_input(task["instruction"], task["instances"][0]["input"])
        case "code":
            for task in _rows(data / "gpteacher/codegen.jsonl.gz"):
                yield _with_input(task["instruction"], task["input"])
        case "sums":
            yield from (row["question"] for row in _rows(data / "gsm8k/train.jsonl.gz"))


def write_prompts(data: Path, out: Path) -> None:
    chance = random.Random(4)
    train, held_out = [], []
    for kind, count in _KINDS.items():
        if kind == "list":
            taught = [one.prompt for one in read_lists() if not one.is_held_out]
            kept = [one.prompt for one in read_lists() if one.is_held_out and _is_list(one.answer)]
            chance.shuffle(taught)
        else:
            found = list(dict.fromkeys(one.strip() for one in prompts_of(kind, data)))
            found = [one for one in found if _SHORTEST < len(one) < _LONGEST]
            chance.shuffle(found)
            kept, taught = found[:_HELD_OUT], found[_HELD_OUT:]
        held_out += [{"prompt": one, "category": kind} for one in kept[:_HELD_OUT]]
        train += [{"prompt": one, "category": kind} for one in taught[:count]]
    chance.shuffle(train)
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train", train), ("held-out", held_out)):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


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
    given = parser.parse_args()
    write_prompts(given.data, given.out)


if __name__ == "__main__":
    main()
