"""What words mean, as far as it matters: which words of a field and which ones before a value belong together.

Vectors of a few numbers are learned from made-up documents, so that this is large for the place where a value begins:

    (words of a name + words of its line in the program) · (words before the place, each by its distance, and this one)

It is no more than sums of vectors: a quarter of a million documents take minutes, of which the model itself would see a
few thousand in that time. The head start of the model computes the same sums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import cross_entropy
from torch.optim import Adam

from pastalang.training.run_folder import ReportLine
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import Document, Form, draw_document, draw_form, slot_id
from recipes.pasta_mini.tokenizer import CONTROL, twins_of, writing_of

BACK = 7  # how many tokens before a place are looked at
DIMENSIONS = 36
_LONGEST = 260  # tokens of a document
_DOCUMENTS = 3  # of each program
_BATCH = 32  # documents
_RATE = 0.005
_FADE = 0.7  # how much less each word before a place counts than the one after it, at first


@dataclass(frozen=True, slots=True)
class Meanings:
    """Matrices are applied from the right. What is asked and what is stated are vectors of a typical length of 1."""

    words: Tensor  # tokens x dimensions: one meaning however a word is written
    asked: Tensor  # of each word of a name
    about: Tensor  # of the mean of the words of its line
    stated: Tensor  # of the word at a place, and of each word before it
    marks: Tensor  # of a word at a place that has a capital, has other capitals, follows a space
    prior: Tensor  # of each token at a place
    absent: Tensor  # what stands for a field that is not stated
    scale: Tensor  # what is added for that, and how much a product of two vectors of length 1 counts

    def save(self, path: Path) -> None:
        save_file({one.name: getattr(self, one.name).contiguous() for one in fields(self)}, str(path))

    @staticmethod
    def load(path: Path) -> Meanings:
        return Meanings(**load_file(str(path)))


def unlearned_meanings(count: int) -> Meanings:
    """Of so many tokens, for circuits whose numbers come from elsewhere."""
    same = torch.eye(DIMENSIONS)
    return Meanings(
        torch.ones(count, DIMENSIONS), same, same, same.repeat(BACK + 1, 1, 1), torch.zeros(3, DIMENSIONS),
        torch.zeros(count), torch.zeros(DIMENSIONS), torch.tensor([0.0, 1.0]),
    )  # fmt: skip


def learn_meanings(tokenizer: Any, *, batches: int, seed: int, report: ReportLine) -> Meanings:
    """Every batch is of new documents."""
    learner = Learner(tokenizer, torch.Generator().manual_seed(seed))
    drawn = Examples(tokenizer).draw(Random(f"meanings/{seed}"), Part.TRAIN)
    learner.learn(drawn, batches=batches, report=report)
    return learner.found(list(islice(drawn, _BATCH)))


# ── what is learned from ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Question:
    """In tokens. `place` is where the value begins in the document; -1: nowhere."""

    name: tuple[int, ...]
    about: tuple[int, ...]
    place: int


@dataclass(frozen=True, slots=True)
class Example:
    tokens: tuple[int, ...]
    questions: tuple[Question, ...]


class Examples:
    """Documents and what is asked about them, in tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._names: dict[str, tuple[int, ...]] = {}

    def draw(self, random: Random, part: Part) -> Iterator[Example]:
        while True:
            form = draw_form(random, part)
            lines = self._lines(form)
            for _ in range(_DOCUMENTS):
                document = draw_document(form, random, part)
                encoded = self._tokenizer(document.text, add_special_tokens=False, return_offsets_mapping=True)
                if len(encoded.input_ids) > _LONGEST:
                    continue
                ends = [end for _, end in encoded.offset_mapping]
                if questions := tuple(self._questions(form, document, lines, ends)):
                    yield Example(tuple(encoded.input_ids), questions)

    def _questions(
        self, form: Form, document: Document, lines: Mapping[str, tuple[int, ...]], ends: Sequence[int]
    ) -> Iterator[Question]:
        """But those whose answer stands there twice, or in other words."""
        for question in form.questions:
            fact = document.facts.get(slot_id(question.slot))
            place = -1
            if fact is not None:
                printed = fact.lines[0] if fact.lines else fact.printed
                if not printed or document.text.count(printed) != 1:
                    continue
                begin = document.text.index(printed)
                place = next(number for number, end in enumerate(ends) if end > begin)
            yield Question(self._name(question.key), lines.get(question.key, ()), place)

    def _name(self, key: str) -> tuple[int, ...]:
        """As it stands in an answer, between the quotes."""
        if key not in self._names:
            tokens = self._tokenizer.encode(f'{{\n  "{key}":', add_special_tokens=False)
            self._names[key] = tuple(tokens[2:-1][-BACK:])
        return self._names[key]

    def _lines(self, form: Form) -> dict[str, tuple[int, ...]]:
        """What the prompt says after the name of each field, with the colon."""
        prompt = form.prompt
        encoded = self._tokenizer(prompt, add_special_tokens=False, return_offsets_mapping=True)
        found = {}
        for question in form.questions:
            line = re.search(rf'\n *"?{re.escape(question.key)}"?:([^\n]*)', prompt)
            if line:
                found[question.key] = tuple(
                    token for token, (_, end) in zip(encoded.input_ids, encoded.offset_mapping, strict=True)
                    if line.start(1) <= end <= line.end(1)
                )  # fmt: skip
        return found


# ── learning ─────────────────────────────────────────────────────────────────────────────────────────────────


class Learner:
    def __init__(self, tokenizer: Any, random: torch.Generator) -> None:
        count, dims = len(tokenizer), DIMENSIONS
        twins, writing = twins_of(tokenizer), writing_of(tokenizer)
        ways = (writing.capital, writing.capitals, twins)
        self._same = torch.arange(count)
        self._marks = torch.zeros(count, len(ways))
        for column, way in reversed([*enumerate(ways)]):
            for token in range(count):
                now = int(self._same[token])
                if now in way:
                    self._same[token], self._marks[token, column] = way[now], 1
        quotes = (token for token in writing.signs if '"' in tokenizer.decode([token]))
        self._heard = torch.ones(count, 1)  # tokens of control, and those with quotes, mean nothing
        self._heard[[*tokenizer.convert_tokens_to_ids(list(CONTROL)), *quotes]] = 0
        words = torch.nn.functional.normalize(torch.randn(count, dims, generator=random))
        words[list(writing.signs)] *= 0.3
        fade = torch.tensor([0.3, *(_FADE**back for back in range(1, BACK + 1))])
        noise = 0.02 * torch.randn(BACK + 1, dims, dims, generator=random)
        self._words = Parameter(words * self._heard)
        self._stated = Parameter(fade[:, None, None] * torch.eye(dims) + noise)
        self._asked, self._about = Parameter(torch.eye(dims)), Parameter(4 * torch.eye(dims))
        self._capital = Parameter(torch.zeros(len(ways), dims))
        self._prior, self._absent = Parameter(torch.zeros(count)), Parameter(torch.zeros(dims))
        self._scale = Parameter(torch.tensor([0.0, 0.5]))

    def learn(self, drawn: Iterator[Example], *, batches: int, report: ReportLine) -> None:
        optimizer = Adam([number for number in vars(self).values() if isinstance(number, Parameter)], betas=(0.9, 0.99))
        for number in range(batches):
            optimizer.param_groups[0]["lr"] = _RATE * max(0.02, 1 - number / batches)
            scores, right = self.scores(list(islice(drawn, _BATCH)))
            loss = cross_entropy(scores, right)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                self._words.mul_(self._heard)
            if (number + 1) % 1000 == 0:
                share = (scores.argmax(1) == right).float().mean().item()
                report(f"meanings {number + 1}/{batches}  loss {loss.item():.2f}  right {100 * share:.0f} %")

    def scores(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """For each question: of nothing, then of each place; and the right one of these."""
        tokens, there = _padded(examples)
        owners = torch.tensor([row for row, one in enumerate(examples) for _ in one.questions])
        asked, stated = self._sides(examples, tokens, there)
        found = torch.einsum("qd,qld->ql", asked, stated[owners]) * self._scale[1].exp()
        found = found + self._prior[self._same[tokens[owners, BACK:]]]
        found = found.masked_fill(~there[owners, BACK:], float("-inf"))
        nothing = asked @ self._absent + self._scale[0]
        right = torch.tensor([question.place + 1 for one in examples for question in one.questions])
        return torch.cat((nothing[:, None], found), 1), right

    @torch.no_grad()
    def found(self, examples: Sequence[Example]) -> Meanings:
        """What is learned, so that what is asked and stated in `examples` has a typical length of 1."""
        tokens, there = _padded(examples)
        asked, stated = self._sides(examples, tokens, there)
        asks, states = asked.norm(dim=1).median(), stated[there[:, BACK:]].norm(dim=1).median()
        sharp = self._scale[1].exp()
        return Meanings(
            self._words[self._same], self._asked / asks, self._about / asks, self._stated / states,
            self._capital / states, self._prior[self._same], self._absent / sharp / states,
            torch.stack((self._scale[0], sharp * asks * states)),
        )  # fmt: skip

    def _sides(self, examples: Sequence[Example], tokens: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        words = self._words[self._same]
        seen = words[tokens] * there[..., None]
        length = tokens.shape[1] - BACK
        stated = self._marks[tokens[:, BACK:]] @ self._capital
        for back in range(BACK + 1):
            stated = stated + seen[:, BACK - back : BACK - back + length] @ self._stated[back]
        questions = [question for one in examples for question in one.questions]
        lengths = torch.tensor([[max(1, len(question.about))] for question in questions])
        about = _sums(words, [question.about for question in questions]) / lengths
        return _sums(words, [question.name for question in questions]) @ self._asked + about @ self._about, stated


def _padded(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Tokens after as many as are looked back at, and where there are any."""
    longest = max(len(one.tokens) for one in examples)
    tokens = torch.zeros(len(examples), BACK + longest, dtype=torch.long)
    there = torch.zeros(len(examples), BACK + longest, dtype=torch.bool)
    for row, one in enumerate(examples):
        here = slice(BACK, BACK + len(one.tokens))
        tokens[row, here], there[row, here] = torch.tensor(one.tokens), True
    return tokens, there


def _sums(words: Tensor, lists: Sequence[Sequence[int]]) -> Tensor:
    flat = torch.tensor([token for one in lists for token in one], dtype=torch.long)
    owners = torch.tensor([row for row, one in enumerate(lists) for _ in one], dtype=torch.long)
    return torch.zeros(len(lists), words.shape[1]).index_add(0, owners, words[flat])
