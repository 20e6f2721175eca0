"""Rows whose threads announce other lengths: what a good announcement is worth.

python -m recipes.threads_mini.lengths --data ROWS --model MODEL --announce exact|tens|40 --out FILE

The length that a tag announces decides where the text goes on, so a model is tuned and measured on rows of one kind:
`exact` announces the thread's own tokens, `tens` rounds them up to ten, a number is announced for every thread.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pastalang.errors import PastaError
from pastalang.runtime.models.loading import load_tokenizer
from recipes.threads_mini.recipe import counter_of

_THREAD: Final = re.compile(r'tokens="[0-9]+"/><async>(.*?)</async>', re.DOTALL)


def announced(value: str, how: str, count: Callable[[str], int]) -> str:
    """The answer with the lengths announced anew: `exact`, in `tens`, or a number."""

    def again(found: re.Match[str]) -> str:
        body = found[1]
        exact = sum(map(count, (body, "<async>", "</async>")))
        length = exact if how == "exact" else -(-exact // 10) * 10 if how == "tens" else int(how)
        return f'tokens="{length}"/><async>{body}</async>'

    return _THREAD.sub(again, value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.threads_mini.lengths", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="rows with threads of pasta, as JSON lines")
    parser.add_argument("--model", required=True, help="whose tokenizer counts")
    parser.add_argument("--announce", required=True, help="exact, tens, or a number of tokens for every thread")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.announce not in ("exact", "tens") and not given.announce.isdecimal():
        parser.error(f"--announce takes exact, tens or a number, not {given.announce}")
    try:
        count = counter_of(load_tokenizer(given.model))
        rows = [json.loads(line) for line in given.data.read_text(encoding="utf-8").splitlines()]
    except (PastaError, OSError, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 1
    lines = (json.dumps({**row, "value": announced(row["value"], given.announce, count)}) + "\n" for row in rows)
    given.out.write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
