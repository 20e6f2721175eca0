"""The mean of two adapters of one descent: python -m recipes.smollm2.mean FIRST SECOND --out FOLDER

An adapter that goes on from another one for a few hundred steps learns something new and loses a little of the old.
The mean of both has nearly all of either, and so has that of two which went on from the same one.
The runs of both are listed, those of `SECOND` last, with a note.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from pastalang.errors import PastaError
from pastalang.runtime.models.adapters import Adapter, read_adapter, write_adapter
from pastalang.runtime.models.source import KNOWN, SMOLLM2
from pastalang.runtime.models.training_note import TrainingNote, read_note
from recipes.smollm2.recipe import RUNS

_NOTE: Final = "The adapter is the mean of this run's and of the one before."


def mean_of(first: Adapter, second: Adapter) -> Adapter:
    """Both have pairs of the same shapes."""
    pairs = {
        name: ((down.float() + second.pairs[name][0]) / 2, (up.float() + second.pairs[name][1]) / 2)
        for name, (down, up) in first.pairs.items()
    }
    return Adapter(pairs, second.alpha, second.by_root, second.sample)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.smollm2.mean", description="The mean of two adapters.")
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    try:
        found = mean_of(read_adapter(given.first), read_adapter(given.second))
        write_adapter(given.out, found, base=KNOWN[SMOLLM2].hub_name or SMOLLM2)
        note = read_note(given.second)
        assert isinstance(note, TrainingNote)
        note.write(given.out)
        runs, others = (json.loads((folder / RUNS).read_text("utf-8")) for folder in (given.first, given.second))
        runs += [run for run in others if run not in runs]
        runs[-1]["note"] = " ".join([*filter(None, [runs[-1].get("note")]), _NOTE])
        (given.out / RUNS).write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")
    except (PastaError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
