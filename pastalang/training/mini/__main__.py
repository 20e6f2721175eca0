"""python -m pastalang.training.mini --oa-mine train.jsonl --text FILE... --out FOLDER"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path

from pastalang.errors import PastaError
from pastalang.training.mini.card import OWN_SOURCES, Facts, Source, write_card
from pastalang.training.mini.recipe import Sizes, make_mini
from pastalang.training.mini.sources import read_oa_mine, read_texts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pastalang.training.mini", description=__doc__)
    parser.add_argument("--oa-mine", type=Path, required=True, help="the open training part of OA-Mine, as JSON lines")
    parser.add_argument(
        "--text", type=Path, nargs="*", default=[], help="open texts; their licences are yours to check"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--overwrite", action="store_true")
    for field in fields(Sizes):
        kind = float if field.name == "learning_rate" else int
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    given = parser.parse_args()
    sizes = replace(Sizes(), **{field.name: getattr(given, field.name) for field in fields(Sizes)})
    try:
        texts = read_texts(given.text)
        make_mini(read_oa_mine(given.oa_mine), texts, given.out, sizes, tell=print, overwrite=given.overwrite)
        write_card(given.out, _facts(given, sizes))
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _facts(given: argparse.Namespace, sizes: Sizes) -> Facts:
    """The command with what differs from the default; the licences of the texts are known to who gives them."""
    changed = [
        f"--{field.name.replace('_', '-')} {value}"
        for field in fields(Sizes)
        if (value := getattr(sizes, field.name)) != field.default
    ]
    texts = [path.name for path in given.text]
    words = ["python -m pastalang.training.mini --oa-mine", given.oa_mine.name, *(["--text", *texts] if texts else [])]
    sources = (Source(name, "see its publisher", "language modelling") for name in texts)
    return Facts(" ".join([*words, *changed, "--out", given.out.name]), (*OWN_SOURCES, *sources))


if __name__ == "__main__":
    sys.exit(main())
