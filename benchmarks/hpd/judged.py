"""F1 without right answers: a judge reads a document and the values found in it, as for the third data set of HPD.

A judge is any function, or a model: one in this process, or one on a server, named by its address. Of each attribute it
says one of five things:

correct          the document states a value, and it was found
incorrect        the document states a value, and another one was found
missing          the document states a value, and none was found
correct null     the document states no value, and none was found
hallucination    the document states no value, and one was found

precision        correct and correct null, of all but missing
recall           correct and correct null, of all but hallucination

How far a judge can be trusted, the right answers show, and those of the next document, sorted by category:

python -m benchmarks.hpd.judged --oa-mine FILE --judge MODEL --documents 20
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TypeAlias

from benchmarks.hpd.documents import Name, read_corpus, taught
from pastalang.compiler import compile
from pastalang.errors import PastaError
from pastalang.hosts.opening import AnyEngine, open_engine
from pastalang.program import types as t
from pastalang.program.program import Program
from pastalang.training.errors import BadData
from pastalang.values.to_source import type_source

Found: TypeAlias = Mapping[str, str | None]


class Verdict(StrEnum):
    CORRECT = "correct"
    INCORRECT = "incorrect"
    MISSING = "missing"
    CORRECT_NULL = "correct null"
    HALLUCINATION = "hallucination"


Judge: TypeAlias = Callable[[str, Found], Mapping[str, str]]  # of a document: the verdict on each attribute


@dataclass(frozen=True, slots=True)
class Judged:
    """How often each verdict was given. Shares are in per cent."""

    counts: Mapping[Verdict, int]

    @property
    def precision(self) -> float:
        return self._share_without(Verdict.MISSING)

    @property
    def recall(self) -> float:
        return self._share_without(Verdict.HALLUCINATION)

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def _share_without(self, left_out: Verdict) -> float:
        right = self.counts.get(Verdict.CORRECT, 0) + self.counts.get(Verdict.CORRECT_NULL, 0)
        return 100 * right / max(1, sum(count for verdict, count in self.counts.items() if verdict != left_out))


def judged(judge: Judge, answers: Iterable[tuple[str, Found]]) -> Judged:
    """The texts of documents, each with what was found in it. Raises `BadData` if these are no verdicts."""
    counts: Counter[Verdict] = Counter()
    for text, found in answers:
        said = judge(text, found)
        if said.keys() != found.keys():
            raise BadData(f"the judge says something of each attribute, {', '.join(found)}, not of {', '.join(said)}")
        try:
            counts.update(Verdict(one) for one in said.values())
        except ValueError as problem:
            raise BadData(f"a judge says {', '.join(Verdict)}: {problem}") from problem
    return Judged(counts)


def judge_by(model: str | AnyEngine) -> Judge:
    """A model as the judge. It can say of a value that it is missing as little as of null that it is incorrect."""
    engine = open_engine(model) if isinstance(model, str) else model

    def judge(text: str, found: Found) -> Mapping[str, str]:
        program = _program(tuple((name, value is None) for name, value in found.items()))
        values = json.dumps(found, ensure_ascii=False, indent=2)
        result = engine.run(program, {"text": text, "values": values})
        assert isinstance(result.exact, dict)
        return {name: str(verdict) for name, verdict in result.exact.items()}

    return judge


_OF_NULL = (Verdict.MISSING, Verdict.CORRECT_NULL)
_OF_A_VALUE = (Verdict.CORRECT, Verdict.INCORRECT, Verdict.HALLUCINATION, Verdict.CORRECT_NULL)
_PROMPT = '''template verdicts(text: text, values: text)

system """
Somebody has filled in a record of a product from its listing. Judge each of the values by the listing alone.

correct: the listing states the value, and the record has all of it, in these or in other words of the same meaning.
incorrect: the listing states a value, and the record has another one, or a part of it.
missing: the listing states a value, and the record has null.
correct null: the listing states no value, and the record has null, or says that there is none.
hallucination: the listing states no value, and the record has one.
"""
user """
Listing:
{text}

Record:
{values}
"""
assistant json '''


@cache
def _program(attributes: tuple[tuple[str, bool], ...]) -> Program:
    fields = [
        t.Field(name, t.Union(tuple(t.Literal(str(one)) for one in (_OF_NULL if is_null else _OF_A_VALUE))))
        for name, is_null in attributes
    ]
    return compile(f"{_PROMPT}{type_source(t.Object(tuple(fields)))}\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hpd.judged", description="Whether a judge can judge.")
    parser.add_argument("--oa-mine", type=Path, required=True, help="its open training part, JSON lines, gzip or not")
    parser.add_argument("--judge", required=True, help="a model, or the address of one")
    parser.add_argument("--documents", type=int, default=20)
    given = parser.parse_args()
    try:
        judge, corpus = judge_by(given.judge), read_corpus(Name.OA_MINE, given.oa_mine)
        some = sorted(corpus.held_out, key=lambda one: one.category)[: given.documents]
        right = [taught(one, corpus.asked[one.category]) for one in some]
        others = [{name: right[(at + 1) % len(some)].get(name) for name in values} for at, values in enumerate(right)]
        for said, answers in (("right answers", right), ("those of other documents", others)):
            found = judged(judge, ((one.text, values) for one, values in zip(some, answers, strict=True)))
            print(f"{said}: F1 {found.f1:.1f}, {dict(found.counts)}", flush=True)
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
