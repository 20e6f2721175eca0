"""The mean of two adapters of one descent: python -m recipes.smollm2.mean FIRST SECOND --out FOLDER

An adapter that goes on from another one for a few hundred steps learns something new and loses a little of the old.
The mean of both has nearly all of either, and so has that of two which went on from the same one.
With `--share`, the second one counts so much. The runs of both are listed, those of `SECOND` last, with a note.
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

_NOTE: Final = "The adapter is the mean of this run's and of the one before{}."


def mean_of(first: Adapter, second: Adapter, share: float = 0.5) -> Adapter:
    """Both have pairs of the same shapes. `share` is what the second one counts."""
    pairs = {
        name: (
            down.float().lerp(second.pairs[name][0].float(), share),
            up.float().lerp(second.pairs[name][1].float(), share),
        )
        for name, (down, up) in first.pairs.items()
    }
    return Adapter(pairs, second.alpha, second.by_root, second.sample)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.smollm2.mean", description="The mean of two adapters.")
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="what the second one counts, between 0 and 1")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if not 0 <= given.share <= 1:
        parser.error(f"--share is between 0 and 1, not {given.share:g}")
    try:
        found = mean_of(read_adapter(given.first), read_adapter(given.second), given.share)
        write_adapter(given.out, found, base=KNOWN[SMOLLM2].hub_name or SMOLLM2)
        note = read_note(given.second)
        assert isinstance(note, TrainingNote)
        note.write(given.out)
        runs, others = (json.loads((folder / RUNS).read_text("utf-8")) for folder in (given.first, given.second))
        runs += [run for run in others if run not in runs]
        said = _NOTE.format("" if given.share == 0.5 else f", of which this one counts {given.share:g}")
        runs[-1]["note"] = " ".join([*filter(None, [runs[-1].get("note")]), said])
        (given.out / RUNS).write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")
    except (PastaError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
