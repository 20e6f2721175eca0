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
from pathlib import Path
from typing import Final

from pastalang.errors import PastaError
from pastalang.runtime.models.loading import load_tokenizer
from pastalang.training.data import read_rows
from pastalang.training.errors import BadRow
from pastalang.training.thread_data import CountTokens, in_tens, length_of
from recipes.threads_mini.recipe import counter_of

_THREAD: Final = re.compile(r'tokens="[0-9]+"/><async>(.*?)</async>', re.DOTALL)


def announced(value: str, how: str, count: CountTokens) -> str:
    """The answer with the lengths announced anew: `exact`, in `tens`, or a number."""

    def again(found: re.Match[str]) -> str:
        exact = length_of(found[1], count)
        length = exact if how == "exact" else in_tens(exact) if how == "tens" else int(how)
        return f'tokens="{length}"/><async>{found[1]}</async>'

    return _THREAD.sub(again, value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.threads_mini.lengths", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="rows with threads of pasta, as JSON lines")
    parser.add_argument("--model", required=True, help="whose tokenizer counts")
    parser.add_argument("--announce", required=True, help="exact, tens, or a number of tokens for every thread")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.announce not in ("exact", "tens") and not re.fullmatch("[1-9][0-9]{0,5}", given.announce):
        parser.error(f"--announce takes exact, tens, or a number of tokens, not {given.announce}")
    try:
        count, lines = counter_of(load_tokenizer(given.model)), list[str]()
        for origin, row in read_rows(given.data):
            value = row.get("value")
            if not isinstance(value, str):
                raise BadRow(f"{origin}: the key `value` has to hold a text")
            again = {**row, "value": announced(value, given.announce, count)}
            lines.append(json.dumps(again, ensure_ascii=False) + "\n")
        given.out.write_text("".join(lines), encoding="utf-8")
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    except OSError as problem:
        print(f"{given.out} cannot be written: {problem.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
