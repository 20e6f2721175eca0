"""python -m benchmarks.hpd --oa-mine FILE --ae-110k FILE --wdc-pave FILE --model pasta-mini --steps N

A data set without a file is left out. Results are kept in the work folder, so a run that was interrupted, or that ran
out of --minutes, resumes. The report is written from the results that exist.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks.hpd.documents import Name, read_corpus
from benchmarks.hpd.experiment import Experiment, Scope
from benchmarks.hpd.measure import Bench
from benchmarks.hpd.report import write_report
from benchmarks.hpd.tables import Measured
from benchmarks.hpd.tuning import Budget, Lessons
from benchmarks.hpd.work import Work, fingerprint
from pastalang.errors import PastaError
from pastalang.runtime.models.loading import load_tokenizer, place_of
from pastalang.runtime.models.source import DEFAULT
from pastalang.training.settings import TrainingMode

RESULTS = Path(__file__).parents[1] / "results" / "hpd.md"


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    torch.set_num_threads(given.threads)
    disable_progress_bar()
    files = {name: getattr(given, name.replace("-", "_")) for name in Name}
    try:
        base = Path(place_of(given.model))
        if not (base / "model.safetensors").is_file():
            raise PastaError(f"{base} holds no model: there is no model.safetensors in it")
        known = {name: path for name, path in files.items() if path is not None}
        seeded = [_experiments(name, path, base, given) for name, path in known.items()]
        if not seeded:
            raise PastaError("no data set is given")
        for one in zip(*seeded, strict=True):  # the first seed of all sets, then the next one
            for experiment in one:
                experiment.run_quality()
        sets = [
            Measured(first.corpus, first.figures(), [other.figures() for other in others]) for first, *others in seeded
        ]
        experiments = [first for first, *_ in seeded]
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    budgets = [one.budget for one in experiments]
    command = (
        f"python -m benchmarks.hpd {' '.join(f'--{one.corpus.name} FILE' for one in experiments)} {_settings(given)}"
    )
    write_report(given.out, sets, budgets, experiments[0].scope, model=given.model, command=command)
    print(f"written to {given.out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hpd", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in Name:
        parser.add_argument(f"--{name}", type=Path, help="its open training part, JSON lines, gzip or not")
    parser.add_argument("--model", default=DEFAULT, help="the base model: a folder, or the one of the package")
    parser.add_argument("--steps", type=int, default=150, help="updates of each copy")
    parser.add_argument("--rows", type=int, default=4, help="lines of 512 tokens in an update")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--documents", type=int, default=40, help="held-out documents of each data set, at most")
    parser.add_argument("--stacked", type=int, default=24, help="of these, for stacks")
    parser.add_argument("--timed", type=int, default=16, help="of these, against `generate`")
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison with `generate`")
    parser.add_argument(
        "--tunings", type=TrainingMode, nargs="*", default=list(TrainingMode), choices=list(TrainingMode)
    )
    parser.add_argument("--minutes", type=float, help="begin nothing new after so many minutes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=0, help="that record rows for training meanwhile; 0: none")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the copies: F1 is the mean of all seeds")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "pastalang-hpd")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.set_defaults(began=time.monotonic())
    return parser


def _experiments(name: Name, path: Path, base: Path, given: argparse.Namespace) -> list[Experiment]:
    """One for each seed."""
    first, *further = dict.fromkeys(given.seeds)
    budget = Budget(given.steps, given.rows, 512, given.learning_rate, first)
    if name is Name.WDC_PAVE:  # long documents: as many tokens, in fewer and longer lines
        budget = replace(budget, rows=max(1, given.rows // 2), length=1024)
    scope = Scope(given.documents, given.stacked, given.timed, given.rounds, tuple(given.tunings))
    lessons, bench = Lessons(read_corpus(name, path), load_tokenizer(base), budget), Bench(given.device)
    if given.processes and given.tunings:
        lessons.record_ahead(given.processes)
    measured = f"figures-{scope.documents}-{scope.stacked}-{scope.timed}-{scope.rounds}"

    def experiment(seed: int) -> Experiment:
        own = replace(budget, seed=seed)
        folder = given.work / f"{name}-{fingerprint(base / 'model.safetensors', path, own)}"
        work = Work(folder, measured, given.minutes, lambda line: print(line, flush=True), began=given.began)
        return Experiment(base, lessons.seeded(seed), bench, own, scope, work, repeated=seed != first)

    return [experiment(seed) for seed in (first, *further)]


def _settings(given: argparse.Namespace) -> str:
    names = ("model", "steps", "rows", "learning_rate", "documents", "stacked", "timed", "rounds", "threads", "device")
    seeds = " ".join(map(str, given.seeds))
    return " ".join([*(f"--{name.replace('_', '-')} {getattr(given, name)}" for name in names), f"--seeds {seeds}"])


if __name__ == "__main__":
    sys.exit(main())
