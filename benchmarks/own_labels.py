"""python -m benchmarks.own_labels --oa-mine FILE --ae-110k FILE --wdc-pave FILE --model pasta-mini --steps N

What a model learns from its own answers, next to what it learns from those of people: the same documents, steps and
rates. A data set without a file is left out. Results are kept in the work folder, so a run that was interrupted
resumes, and the report is written from the results that exist. Copies of the model are measured and passed on to
nobody.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from benchmarks.hpd.certainty import difference, interval
from benchmarks.hpd.documents import ABSENT, Corpus, Document, Name, read_corpus
from benchmarks.hpd.measure import Way, load_engine, measure
from benchmarks.hpd.programs import TEXT, plans_of
from benchmarks.hpd.tables import table
from benchmarks.hpd.tuning import Budget, Lessons, tune
from benchmarks.hpd.work import OutOfTime, Work, fingerprint
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.runtime.models.source import DEFAULT, shipped_folder
from pastalang.training.errors import BadData
from pastalang.training.labels import ModelTeacher, label_rows
from pastalang.training.settings import TrainingMode

RESULTS = Path(__file__).parent / "results" / "own-labels.md"
BASE, OWN, PEOPLE = "base", "own labels", "labels of people"
LIMIT = 30  # tokens of a value

Figures = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Study:
    """One data set: the documents of `corpus.train` to learn from, and `measured` ones to answer."""

    base: Path
    corpus: Corpus
    budget: Budget
    measured: tuple[Document, ...]
    least: float
    work: Work

    def figures(self) -> Figures:
        parts = dict(self._parts())
        try:
            for name, make in parts.items():
                try:
                    self.work.part(name, make)
                except BadData as problem:  # no own label was kept
                    self.work.report(f"   {problem}")
        except OutOfTime:
            self.work.report("the minutes are over; the next run continues here")
        found = {name: self.work.known(name) for name in parts}
        return {name: made for name, made in found.items() if made is not None}

    def _parts(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        yield "labels", self._label
        for weights in (BASE, OWN, PEOPLE):
            for mode in Mode:
                yield f"{weights}, {mode.value}", partial(self._measure, weights, mode)

    def _label(self) -> dict[str, Any]:
        """The model's own answers from left to right, in the order of the documents; None for dropped ones."""
        engine = load_engine(self.base)
        answers: list[dict[str, str | None] | None] = []
        for document in self.corpus.train:
            plan = plans_of(self.corpus.asked[document.category], LIMIT)(Mode.SEQUENTIAL)
            teacher = ModelTeacher(engine, plan, {"any_mode": True}, in_flight=1)
            [found] = label_rows([{TEXT: document.text}], plan, teacher, min_confidence=self.least)
            label = found.answer.label
            answers.append(label.value if found.is_kept and label is not None else None)
        return {"answers": answers}

    def _measure(self, weights: str, mode: Mode) -> dict[str, Any]:
        return measure(load_engine(self._folder(weights)), self.corpus, self.measured, Way(mode, limit=LIMIT))

    def _folder(self, weights: str) -> Path:
        if weights == BASE:
            return self.base
        corpus = self.corpus if weights == PEOPLE else replace(self.corpus, train=tuple(self._own()))
        work = replace(self.work, folder=self.work.folder / weights.replace(" ", "-"))
        lessons = Lessons(corpus, AutoTokenizer.from_pretrained(self.base), self.budget)
        return tune(self.base, lessons, TrainingMode.MIXTURE, self.budget, work)

    def _own(self) -> Iterator[Document]:
        """The documents that the model is sure enough of, with its answers as the right ones."""
        known = self.work.known("labels")
        assert known is not None, "labels are the first part"
        for document, answer in zip(self.corpus.train, known["answers"], strict=True):
            if answer is not None:
                accepted = {name: (ABSENT if value is None else value,) for name, value in answer.items()}
                yield replace(document, accepted=accepted)


def report_lines(studies: list[tuple[Study, Figures]], command: str) -> list[str]:
    lines = ["# A model that teaches itself", "", f"`{command}`", "", _HOW]
    for study, found in studies:
        answers = found.get("labels", {}).get("answers", [])
        kept = sum(answer is not None for answer in answers)
        lines += [
            "",
            f"## {study.corpus.name}",
            "",
            (
                f"{len(answers)} documents to learn from, {kept} of them with own labels that are kept; "
                f"{len(study.measured)} held-out documents; {study.budget.steps} steps of {study.budget.rows} × "
                f"{study.budget.length} tokens."
            ),
            "",
            *table(("weights", *(mode.value for mode in Mode)), _rows(found)),
            "",
            *_statements(found),
        ]
    return lines


def _rows(found: Figures) -> Iterator[tuple[str, ...]]:
    for weights in (BASE, OWN, PEOPLE):
        yield (weights, *(_score(found.get(f"{weights}, {mode.value}")) for mode in Mode))


def _score(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return "–"
    low, high = interval(figures)
    return f"{figures['f1']:.1f} ({low:.1f} … {high:.1f})"


def _statements(found: Figures) -> Iterator[str]:
    sequential = found.get(f"{BASE}, {Mode.SEQUENTIAL.value}")
    strict = found.get(f"{BASE}, {Mode.STRICT.value}")
    own = found.get(f"{OWN}, {Mode.STRICT.value}")
    people = found.get(f"{PEOPLE}, {Mode.STRICT.value}")
    if own and strict and sequential:
        yield f"- Own labels, strict, against the base in strict mode: {_said(own, strict)}."
        yield f"- Own labels, strict, against their teacher, the base from left to right: {_said(own, sequential)}."
    if own and people:
        yield f"- Labels of people, strict, against own labels: {_said(people, own)}."


def _said(one: dict[str, Any], other: dict[str, Any]) -> str:
    found = difference(one, other)
    return f"{found}, {found.verdict}"


_HOW = """
The teacher is the base model, which answers each document from left to right. A document is dropped if the model is
less sure of any of its fields than the command says. Both copies are trained for all three modes, with the same steps
and rate; the copy of people's labels sees the right answers of the same documents. Figures are F1 as published (exact
match) on documents that were held out by a hash of their titles, with the interval that holds 95 % of 2,000 draws of
them.
""".strip()


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    torch.set_num_threads(given.threads)
    disable_progress_bar()
    try:
        base = shipped_folder(given.model) or Path(given.model)
        files = {name: getattr(given, name.replace("-", "_")) for name in Name}
        studies = [_study(name, path, base, given) for name, path in files.items() if path is not None]
        if not studies:
            raise PastaError("no data set is given")
        found = [(study, study.figures()) for study in studies]
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    names = ("model", "steps", "rows", "learning_rate", "trained", "documents", "min_confidence", "seed")
    options = " ".join(f"--{name.replace('_', '-')} {getattr(given, name)}" for name in names)
    files_given = " ".join(f"--{study.corpus.name} FILE" for study, _ in found)
    text = "\n".join(report_lines(found, f"python -m benchmarks.own_labels {files_given} {options}"))
    given.out.write_text(text + "\n", encoding="utf-8")
    print(f"written to {given.out}")
    return 0


def _study(name: Name, path: Path, base: Path, given: argparse.Namespace) -> Study:
    corpus = read_corpus(name, path, seed=given.seed)
    chosen = Random(given.seed).sample(corpus.train, min(given.trained, len(corpus.train)))
    corpus = replace(corpus, train=tuple(chosen))
    budget = Budget(given.steps, given.rows, 512, given.learning_rate, given.seed)
    if name is Name.WDC_PAVE:  # long documents: as many tokens, in fewer and longer lines
        budget = replace(budget, rows=max(1, given.rows // 2), length=1024)
    known = fingerprint(base / "model.safetensors", path, budget, given.trained, given.min_confidence)
    work = Work(
        given.work / f"{name}-{known}", f"figures-{given.documents}", given.minutes,
        lambda line: print(line, flush=True), began=given.began,
    )  # fmt: skip
    return Study(base, corpus, budget, corpus.held_out[: given.documents], given.min_confidence, work)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.own_labels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in Name:
        parser.add_argument(f"--{name}", type=Path, help="its open training part, JSON lines, gzip or not")
    parser.add_argument("--model", default=DEFAULT, help="the base model: a folder, or the one of the package")
    parser.add_argument("--steps", type=int, default=60, help="updates of each copy")
    parser.add_argument("--rows", type=int, default=4, help="lines of 512 tokens in an update")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--trained", type=int, default=300, help="documents to learn from, at most")
    parser.add_argument("--documents", type=int, default=60, help="held-out documents of each data set, at most")
    parser.add_argument("--min-confidence", type=float, default=0.3, help="of the least certain field of an own label")
    parser.add_argument("--minutes", type=float, help="begin nothing new after so many minutes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "pastalang-own-labels")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.set_defaults(began=time.monotonic())
    return parser


if __name__ == "__main__":
    sys.exit(main())
