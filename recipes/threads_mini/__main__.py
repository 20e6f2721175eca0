"""Train the models of the harbour task: python -m recipes.threads_mini --out FOLDER"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path

from pastalang.errors import PastaError
from recipes.threads_mini.recipe import Sizes, make_models


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.threads_mini", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    for field in fields(Sizes):
        kind = float if isinstance(field.default, float) else int
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    given = parser.parse_args()
    sizes = replace(Sizes(), **{field.name: getattr(given, field.name) for field in fields(Sizes)})
    try:
        make_models(given.out, sizes, report=lambda line: print(line, flush=True))
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
