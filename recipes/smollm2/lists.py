"""Answers with parts that stand alone, as rows for `pasta data threads`: python -m recipes.smollm2.lists --out FOLDER

`lists.txt` was written by hand for this recipe: prompts, and answers whose parts can be written at the same time, and
prompts whose answers have no such parts. Every fourth prompt is held out.

`--shorten ROWS` takes what `pasta data threads` made of them for `auto(pasta)`, and lets it open threads sooner: a tag
takes 14 tokens of smollm2, which the text writes before its next part.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("lists.txt")
_MARK: Final = "=== "  # begins the line of a prompt
_HELD_OUT: Final = 4  # of so many prompts, one
_WORDS: Final = 2  # of a topic
_TOPIC: Final = re.compile(r'(?<=topic=")[^"]*')
_LAST: Final = re.compile(r"<promise[^>]*/><async>((?:(?!<async>).)*)</async>(?=\s*$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asked:
    prompt: str
    answer: str

    @property
    def is_held_out(self) -> bool:
        return int(sha256(self.prompt.encode()).hexdigest(), 16) % _HELD_OUT == 0


def read_lists(path: Path = _FILE) -> list[Asked]:
    records = path.read_text(encoding="utf-8").split(f"\n{_MARK}")
    records[0] = records[0].removeprefix(_MARK)
    found = []
    for record in records:
        prompt, _, answer = record.partition("\n")
        found.append(Asked(prompt.strip(), answer.strip()))
    return found


def write_rows(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, is_held_out in (("train", False), ("test", True)):
        rows = [one for one in read_lists() if one.is_held_out is is_held_out]
        lines = [json.dumps({"prompt": one.prompt, "value": one.answer}, ensure_ascii=False) + "\n" for one in rows]
        (out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def shortened(tagged: str) -> str:
    """With topics of two words. A last part that nothing follows stands in the text: a tag would only delay it."""
    return _LAST.sub(r"\1", _TOPIC.sub(lambda topic: " ".join(topic[0].split()[:_WORDS]), tagged))


def write_shortened(rows: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    lines = [json.dumps({**row, "value": shortened(row["value"])}, ensure_ascii=False) + "\n" for row in found]
    (out / "shortened.jsonl").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m recipes.smollm2.lists", description="Write plain rows.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shorten", type=Path, metavar="ROWS", help="write these rows with threads, with shorter tags")
    given = parser.parse_args()
    if given.shorten is None:
        write_rows(given.out)
    else:
        write_shortened(given.shorten, given.out)


if __name__ == "__main__":
    main()
