"""Train pasta-mini: python -m recipes.pasta_mini --oa-mine train.jsonl --text FILE... --out FOLDER"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from pastalang.errors import PastaError
from pastalang.runtime.models.loading import default_device
from pastalang.training.row_files import read_text
from pastalang.training.trainer import all_processes
from recipes.pasta_mini.card import OWN_SOURCES, Facts, Source, write_card
from recipes.pasta_mini.real_listings import read_oa_mine
from recipes.pasta_mini.recipe import Sizes, make_mini


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.pasta_mini", description=__doc__)
    parser.add_argument("--oa-mine", type=Path, required=True, help="the open training part of OA-Mine, as JSON lines")
    parser.add_argument(
        "--text", type=Path, nargs="*", default=[], help="open texts; their licences are yours to check"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--weights", type=Path, help="a folder of this recipe, whose weights and tokenizer it goes on with"
    )
    parser.add_argument("--overwrite", action="store_true")
    for field in fields(Sizes):
        kind = float if isinstance(field.default, float) else int
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    given = parser.parse_args()
    sizes = replace(Sizes(), **{field.name: getattr(given, field.name) for field in fields(Sizes)})
    try:
        texts = read_texts(given.text)
        real = read_oa_mine(given.oa_mine)
        with all_processes(default_device()) as (processes, _):
            make_mini(
                real, texts, given.out, sizes, report=print, overwrite=given.overwrite, start=given.weights,
                processes=processes,
            )  # fmt: skip
            if processes.is_first:
                write_card(given.out, _facts(given, sizes, processes.count))
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def read_texts(paths: Sequence[Path]) -> list[str]:
    """Plain texts, gzipped or not. A `.jsonl` file gives the `text` of each of its rows."""
    texts = []
    for path in paths:
        text, is_rows = read_text(path), ".jsonl" in path.suffixes
        texts += [json.loads(line)["text"] for line in text.splitlines()] if is_rows else [text]
    return texts


def _facts(given: argparse.Namespace, sizes: Sizes, processes: int) -> Facts:
    """The command with every option that differs from its default. Only the user knows the licences of the texts."""
    changed = [
        f"--{field.name.replace('_', '-')} {value}"
        for field in fields(Sizes)
        if (value := getattr(sizes, field.name)) != field.default
    ]
    texts = [path.name for path in given.text]
    start = "python" if processes == 1 else f"torchrun --nproc-per-node {processes}"
    words = [start, "-m recipes.pasta_mini --oa-mine", given.oa_mine.name, *(["--text", *texts] if texts else [])]
    words += ["--weights", given.weights.name] if given.weights else []
    sources = (Source(name, "see its publisher", "only which words are one token") for name in texts)
    return Facts(" ".join([*words, *changed, "--out", given.out.name]), (*OWN_SOURCES, *sources))


if __name__ == "__main__":
    sys.exit(main())
