"""Train an adapter of smollm2: python -m recipes.smollm2 --oa-mine train.jsonl --out FOLDER"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path

from pastalang.errors import PastaError
from pastalang.runtime.models.source import SMOLLM2
from recipes.pasta_mini.real_listings import read_oa_mine
from recipes.smollm2.recipe import Sizes, make_adapter


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.smollm2", description=__doc__)
    parser.add_argument("--oa-mine", type=Path, required=True, help="the open training part of OA-Mine, as JSON lines")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--start", type=Path, help="the folder of an adapter that it goes on from")
    parser.add_argument("--overwrite", action="store_true")
    for field in fields(Sizes):
        choices = ("float32", "mixed") if field.name == "precision" else None
        name, kind = f"--{field.name.replace('_', '-')}", type(field.default)
        parser.add_argument(name, type=kind, default=field.default, choices=choices)
    given = parser.parse_args()
    sizes = replace(Sizes(), **{field.name: getattr(given, field.name) for field in fields(Sizes)})
    try:
        titles = read_oa_mine(given.oa_mine).train
        make_adapter(
            given.model, titles, given.out, sizes, command=_command(given, sizes), report=print,
            overwrite=given.overwrite, start=given.start,
        )  # fmt: skip
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _command(given: argparse.Namespace, sizes: Sizes) -> str:
    """With every option that differs from its default."""
    words = ["python -m recipes.smollm2 --oa-mine", given.oa_mine.name]
    words += [] if given.model == SMOLLM2 else ["--model", given.model]
    words += ["--start", given.start.name] if given.start else []
    words += [
        f"--{field.name.replace('_', '-')} {value}"
        for field in fields(Sizes)
        if (value := getattr(sizes, field.name)) != field.default
    ]
    return " ".join([*words, "--out", given.out.name])


if __name__ == "__main__":
    sys.exit(main())
