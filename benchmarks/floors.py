"""Two simple extractors on the held-out titles, so that no figure of a model stands alone.

python -m benchmarks.floors --oa-mine train.jsonl --model pasta-mini

dictionary   the values of the training part, looked up in the title
tagger       an averaged perceptron that marks each word as the begin or the inside of a value, or as outside

Both are trained on the other nine tenths in seconds, on a CPU, and always give the same answers. They read what a
model reads (the title, and which attributes its category has) and are scored with the same two measures. Models are
compared with the tagger, document by document.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.hpd.certainty import difference
from benchmarks.hpd.documents import ABSENT, Corpus, Document, Name, read_corpus, taught
from benchmarks.hpd.measure import example_of, scores
from benchmarks.hpd.programs import TEXT, plans_of
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.runtime.engine import Engine
from pastalang.training.evaluation import decode
from pastalang.training.metrics import Example, Report, evaluate, field_texts

Values: TypeAlias = Mapping[str, str | None]
Scores: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]

EPOCHS = 12
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|\S")


class Extractor(Protocol):
    def extract(self, documents: Sequence[Document]) -> list[Values]: ...


# ── looking values up ────────────────────────────────────────────────────────────────────────────────────


class Dictionary:
    """Knows how often each text of the training titles was a value of an attribute, and how often it was not."""

    def __init__(self, corpus: Corpus) -> None:
        self._asked = corpus.asked
        self._shares: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        texts: dict[str, list[str]] = defaultdict(list)
        for document in corpus.train:
            texts[document.category].append(document.text)
        for (category, name), values in _stated(corpus).items():
            for value, count in values.items():
                held = sum(value in text for text in texts[category])
                self._shares[category, name][value] = count / max(count, held)

    def extract(self, documents: Sequence[Document]) -> list[Values]:
        return [
            {name: self._likeliest(document, name) for name in self._asked[document.category]} for document in documents
        ]

    def _likeliest(self, document: Document, name: str) -> str | None:
        """The longest known value that is more often a value than not. An equal share decides between equal lengths."""
        shares = self._shares[document.category, name]
        found = [(len(value), share, value) for value, share in shares.items() if share >= 0.5]
        return max((one for one in found if _is_whole(one[2], document.text)), default=(0, 0.0, None))[2]


def _stated(corpus: Corpus) -> dict[tuple[str, str], Counter[str]]:
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for document in corpus.train:
        for name, value in taught(document, corpus.asked[document.category]).items():
            if value is not None:
                found[document.category, name][value] += 1
    return found


def _is_whole(value: str, text: str) -> bool:
    """Whether the text has the value with no word cut at either end."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


# ── tagging words ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Sentence:
    """`spans` are the places of the words in the text; `features` name what each word and its surroundings are."""

    spans: tuple[tuple[int, int], ...]
    features: tuple[list[int], ...]
    labels: Labels  # those of the category, in ascending order


class Tagger:
    """A structured perceptron: one weight per feature and label, one per pair of labels, averaged over its updates."""

    def __init__(self, corpus: Corpus, *, seed: int = 0, epochs: int = EPOCHS) -> None:
        self._asked = corpus.asked
        names = sorted({name for asked in corpus.asked.values() for name in asked})
        self._begins = {name: 1 + 2 * number for number, name in enumerate(names)}  # 0: outside; begin + 1: inside
        self._labels = 1 + 2 * len(names)
        self._features: dict[str, int] = {}
        self._is_learning = True
        train = [(self._sentence(document), self._right(document)) for document in corpus.train]
        self._is_learning = False
        self._emit: Scores = np.zeros((len(self._features) + 1, self._labels), dtype=np.float32)
        self._follow = np.zeros((self._labels, self._labels), dtype=np.float32)
        self._learn(train, Random(seed), epochs)

    def extract(self, documents: Sequence[Document]) -> list[Values]:
        return [self._tagged(document) for document in documents]

    def _tagged(self, document: Document) -> Values:
        sentence = self._sentence(document)
        path = self._best(sentence)
        values: dict[str, str | None] = dict.fromkeys(self._asked[document.category])
        for name, begin in self._begins.items():
            places = np.flatnonzero(path == begin)
            if name in values and len(places):
                first = last = int(places[0])
                while last + 1 < len(path) and path[last + 1] == begin + 1:
                    last += 1
                values[name] = document.text[sentence.spans[first][0] : sentence.spans[last][1]]
        return values

    def _learn(self, train: list[tuple[Sentence, Labels]], random: Random, epochs: int) -> None:
        """Averages by the usual shortcut: each update is also summed with the number of sentences seen before it."""
        emit_sum, follow_sum = np.zeros_like(self._emit), np.zeros_like(self._follow)
        seen = 0
        for _ in range(epochs):
            random.shuffle(train)
            for sentence, right in train:
                found = self._best(sentence)
                for path, sign in ((right, 1.0), (found, -1.0)) if (found != right).any() else ():
                    for label, features in zip(path, sentence.features, strict=True):
                        self._emit[features, label] += sign
                        emit_sum[features, label] += sign * seen
                    np.add.at(self._follow, (path[:-1], path[1:]), sign)
                    np.add.at(follow_sum, (path[:-1], path[1:]), sign * seen)
                seen += 1
        self._emit -= emit_sum / max(1, seen)
        self._follow -= follow_sum / max(1, seen)

    def _best(self, sentence: Sentence) -> Labels:
        """Viterbi's path. An inside follows its own begin or inside only."""
        labels = sentence.labels
        emitted = np.stack([self._emit[one][:, labels].sum(0) for one in sentence.features])
        follow = self._follow[np.ix_(labels, labels)] + _forbidden(len(labels))
        back = np.zeros(emitted.shape, dtype=np.int64)
        score = emitted[0] + _forbidden(len(labels))[0]
        for place in range(1, len(emitted)):
            ways = score[:, None] + follow
            back[place] = ways.argmax(0)
            score = ways[back[place], np.arange(len(labels))] + emitted[place]
        path = [int(score.argmax())]
        for place in range(len(emitted) - 1, 0, -1):
            path.append(int(back[place, path[-1]]))
        return labels[path[::-1]]

    def _sentence(self, document: Document) -> Sentence:
        spans = tuple(match.span() for match in _WORD.finditer(document.text)) or ((0, len(document.text)),)
        words = [document.text[start:end] for start, end in spans]
        begins = sorted(self._begins[name] for name in self._asked[document.category])
        labels = np.array([0, *(label for begin in begins for label in (begin, begin + 1))], dtype=np.int64)
        features = tuple(self._numbers(_features(words, place, document.category)) for place in range(len(words)))
        return Sentence(spans, features, labels)

    def _numbers(self, features: Iterable[str]) -> list[int]:
        """Features that training never saw share the last row, whose weights stay zero."""
        if self._is_learning:
            return [self._features.setdefault(one, len(self._features)) for one in features]
        return [self._features.get(one, -1) for one in features]

    def _right(self, document: Document) -> Labels:
        sentence = self._sentence(document)
        labels = np.zeros(len(sentence.spans), dtype=np.int64)
        for name, value in taught(document, self._asked[document.category]).items():
            start = -1 if value is None else document.text.find(value)
            end = start + len(value or "")
            inside = [place for place, (left, right) in enumerate(sentence.spans) if start <= left and right <= end]
            if start >= 0 and inside and not labels[inside].any():
                labels[inside[0]], labels[inside[1:]] = self._begins[name], self._begins[name] + 1
        return labels


@cache
def _forbidden(labels: int) -> Scores:
    """(from, to): added to a step; an inside is only reached from its own begin or itself. Row 0 also starts a text."""
    steps = np.zeros((labels, labels), dtype=np.float32)
    for inside in range(2, labels, 2):
        steps[:, inside] = -np.inf
        steps[[inside - 1, inside], inside] = 0
    return steps


def _features(words: Sequence[str], place: int, category: str) -> Iterable[str]:
    """What a word looks like, what stands around it, and where it stands; each alone and with the category."""
    around = {step: _at(words, place + step) for step in (-3, -2, -1, 0, 1, 2, 3)}
    low = {step: word.casefold() for step, word in around.items()}
    word = around[0]
    alone = [
        *(f"{step}={text}" for step, text in low.items() if abs(step) < 3),
        *(f"shape{step}={_shape(text)}" for step, text in around.items() if abs(step) < 3),
        f"start={low[0][:3]}", f"end={low[0][-3:]}", f"end2={low[0][-2:]}", f"word={word}",
        f"pair={low[-1]} {low[0]}", f"next={low[0]} {low[1]}", f"both={low[-1]} {low[1]}",
        f"shapes={_shape(around[-1])} {_shape(word)} {_shape(around[1])}",
        f"place={min(place, 6)}", f"left={min(len(words) - place, 6)}", f"commas={min(3, words[:place].count(','))}",
    ]  # fmt: skip
    return [f"{category}/{one}" for one in (*alone, "any")] + alone


def _at(words: Sequence[str], place: int) -> str:
    return words[place] if 0 <= place < len(words) else "<>"


def _shape(word: str) -> str:
    """`Sony-9` is `Aa-9`: kinds of letters, each kind once in a row."""
    kinds = ("9" if c.isdigit() else "A" if c.isupper() else "a" if c.islower() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", "".join(kinds))


# ── a model ──────────────────────────────────────────────────────────────────────────────────────────────


class Model:
    """Decodes every attribute of the category at the same time, as a quotation from the text or null."""

    def __init__(self, source: str, corpus: Corpus, mode: Mode, *, limit: int = 48) -> None:
        self._engine, self._corpus, self._mode, self._limit = Engine.load(source), corpus, mode, limit

    def extract(self, documents: Sequence[Document]) -> list[Values]:
        asked = self._corpus.asked
        plans = [plans_of(asked[document.category], self._limit)(self._mode) for document in documents]
        inputs = [{TEXT: document.text} for document in documents]
        decoding = decode(self._engine, list(zip(plans, inputs, strict=True)), batch=8, any_mode=True)
        return [field_texts(row.values[0]) for row in decoding.rows]


# ── scores ───────────────────────────────────────────────────────────────────────────────────────────────


def unseen_recall(examples: Sequence[Example], known: Mapping[tuple[str, str], Counter[str]]) -> tuple[int, int]:
    """Of the stated values that the attribute never has in training: how many were found, and how many there are."""
    found = total = 0
    for example in examples:
        for name, accepted in example.expected.items():
            if accepted[0] != ABSENT and not any(value in known[example.category, name] for value in accepted):
                total += 1
                found += (example.predicted or {}).get(name) in accepted
    return found, total


def score(examples: Sequence[Example], corpus: Corpus) -> Report:
    categories = {example.category for example in examples}
    return evaluate(examples, asked={category: corpus.asked[category] for category in categories})


def line(name: str, examples: Sequence[Example], corpus: Corpus, seconds: float) -> str:
    report, (found, unseen) = score(examples, corpus), unseen_recall(examples, _stated(corpus))
    return (
        f"| {name} | {report.documents} | {report.reported.f1:.1f} | {report.strict.f1:.1f} "
        f"| {report.strict.hallucination_rate:.1f} % | {100 * found / max(1, unseen):.1f} % of {unseen} "
        f"| {seconds:.0f} s |"
    )


def compare(corpus: Corpus, models: Sequence[str], mode: Mode) -> None:
    """Print a table of the floors and the models, and what the models are better by."""
    print(f"\n{corpus.name}\n\n| extractor | documents | F1 | F1, strict | invented | unseen values | processor time |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    kinds: dict[str, Callable[[], Extractor]] = {
        "dictionary": lambda: Dictionary(corpus),
        "tagger": lambda: Tagger(corpus),
        **{f"{source}, {mode.value}": partial(Model, source, corpus, mode) for source in models},
    }
    found: dict[str, list[Example]] = {}
    for name, make in kinds.items():
        began = time.process_time()
        extractor = make()
        answers = extractor.extract(corpus.held_out)
        found[name] = [example_of(*pair) for pair in zip(corpus.held_out, answers, strict=True)]
        print(line(name, found[name], corpus, time.process_time() - began), flush=True)
    figures = {name: scores(score(examples, corpus), examples) for name, examples in found.items()}
    for name in list(kinds)[2:]:
        print(f"\n{name} compared with the tagger: {difference(figures[name], figures['tagger'])}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.floors", description="Score simple extractors, and models next to them."
    )
    for name in Name:
        parser.add_argument(f"--{name.value}", type=Path, help=f"the training file of {name.value}")
    parser.add_argument("--model", nargs="*", default=[], help="models to compare with the floors")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.STRICT)
    given = parser.parse_args()
    files = {name: path for name in Name if (path := getattr(given, name.value.replace("-", "_")))}
    if not files:
        parser.error("name at least one data set, such as --oa-mine train.jsonl")
    try:
        for name, path in files.items():
            compare(read_corpus(name, path), given.model, given.mode)
    except PastaError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
