"""Train a model on kinds of text: python -m recipes.text_mini --text KIND FILE... [--text KIND FILE...] --out FOLDER"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path

from pastalang.errors import PastaError
from pastalang.training.errors import BadData
from recipes.text_mini.card import Made, Source
from recipes.text_mini.recipe import Sizes, make_text_model, write_model_so_far
from recipes.text_mini.texts import Texts, read_documents


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.text_mini", description=__doc__)
    parser.add_argument(
        "--text", nargs="+", action="append", required=True, metavar=("KIND", "FILE"),
        help="texts, or rows with texts; their licences are yours to check",
    )  # fmt: skip
    parser.add_argument("--licence", nargs=2, action="append", default=[], metavar=("KIND", "LICENCE"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--so-far", action="store_true", help="write the model of the last checkpoint; do not train")
    for field in fields(Sizes):
        kind = float if isinstance(field.default, float) else int
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    given = parser.parse_args()
    sizes = replace(Sizes(), **{field.name: getattr(given, field.name) for field in fields(Sizes)})
    files: dict[str, list[Path]] = {}
    for kind, *names in given.text:
        files.setdefault(kind, []).extend(map(Path, names))
    try:
        texts = [Texts(kind, tuple(read_documents(paths))) for kind, paths in files.items()]
        made = _made(files, _licences(given.licence, files), sizes, given.out)
        make = write_model_so_far if given.so_far else make_text_model
        make(texts, given.out, sizes, made, report=lambda line: print(line, flush=True))
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _licences(given: list[list[str]], files: dict[str, list[Path]]) -> dict[str, str]:
    licences: dict[str, str] = dict(given)
    for kind in licences:
        if kind not in files:
            raise BadData(f"--licence {kind}: there is no --text of this kind; there are {', '.join(files)}")
    return licences


def _made(files: dict[str, list[Path]], licences: dict[str, str], sizes: Sizes, out: Path) -> Made:
    """The command with every size that differs from its default. Only the user knows the licences of the texts."""
    words = ["python -m recipes.text_mini"]
    sources = []
    for kind, paths in files.items():
        names = " ".join(path.name for path in paths) if len(paths) < 5 else f"{paths[0].name} …"
        words.append(f"--text {kind} {names}")
        words += [f"--licence {kind} {shlex.quote(licences[kind])}"] if kind in licences else []
        shown = names if len(paths) < 5 else f"{len(paths)} files, {paths[0].name} to {paths[-1].name}"
        sources.append(Source(kind, shown, licences.get(kind, "see its publisher")))
    words += [
        f"--{field.name.replace('_', '-')} {value}"
        for field in fields(Sizes)
        if (value := getattr(sizes, field.name)) != field.default
    ]
    return Made(" ".join([*words, "--out", out.name]), tuple(sources))


if __name__ == "__main__":
    sys.exit(main())
