"""Which words belong together is learned from documents, however the words are written."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from recipes.pasta_mini import meanings as module
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import Document, Form, draw_document, draw_form
from recipes.pasta_mini.meanings import BACK, DIMENSIONS, Examples, Learner, Meanings, learn_meanings
from recipes.pasta_mini.tokenizer import train_tokenizer

BATCHES = 40


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    random = Random(1)
    forms = [draw_form(random, Part.TRAIN) for _ in range(60)]
    texts = [f"{form.prompt}\n{draw_document(form, random, Part.TRAIN).text}" for form in forms]
    return train_tokenizer(texts, size=1200)


@pytest.fixture(scope="module")
def learned(tokenizer: Any) -> Meanings:
    return learn_meanings(tokenizer, batches=BATCHES, seed=0, report=lambda line: None)


def test_learning_tells_places_apart_and_is_the_same_every_time(tokenizer: Any, learned: Meanings) -> None:
    drawn = Examples(tokenizer).draw(Random(7), Part.TEST)
    examples = [next(drawn) for _ in range(60)]

    def cost(batches: int) -> float:
        learner = Learner(tokenizer, torch.Generator().manual_seed(0))
        learner.learn(Examples(tokenizer).draw(Random(0), Part.TRAIN), batches=batches, report=lambda line: None)
        scores, right = learner.scores(examples)
        return torch.nn.functional.cross_entropy(scores, right).item()

    assert cost(BATCHES) < cost(0) - 0.5
    again = learn_meanings(tokenizer, batches=BATCHES, seed=0, report=lambda line: None)
    assert all(torch.equal(getattr(learned, name), getattr(again, name)) for name in Meanings.__slots__)


def test_a_word_means_the_same_however_it_is_written_and_quotes_mean_nothing(tokenizer: Any, learned: Meanings) -> None:
    known = tokenizer.get_vocab()
    ways = [(word, "Ġ" + word) for word in known if word.strip("Ġ") and "Ġ" + word in known]
    ways += [
        (word, word.capitalize()) for word in known if word.isascii() and word.islower() and word.capitalize() in known
    ]
    assert len(ways) > 100
    for one, other in ways:
        assert torch.equal(learned.words[known[one]], learned.words[known[other]])
    for token in ("<|im_start|>", '":', '"'):
        assert not learned.words[known[token]].any()


def test_what_is_asked_and_what_is_stated_have_a_typical_length_of_one(tokenizer: Any, learned: Meanings) -> None:
    drawn = Examples(tokenizer).draw(Random(8), Part.TRAIN)
    lengths = []
    for example in (next(drawn) for _ in range(100)):
        words = learned.words[list(example.tokens)]
        for place in range(BACK, len(words)):
            stated = sum(
                (words[place - back] @ learned.stated[back] for back in range(BACK + 1)), torch.zeros(DIMENSIONS)
            )
            lengths.append(stated.norm().item())
    assert 0.7 < sorted(lengths)[len(lengths) // 2] < 1.4


def test_the_place_of_a_question_is_where_its_value_begins(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documents: list[Document] = []

    def draw(form: Form, random: Random, part: Part) -> Document:
        documents.append(draw_document(form, random, part))
        return documents[-1]

    monkeypatch.setattr(module, "draw_document", draw)
    drawn = Examples(tokenizer).draw(Random(3), Part.TRAIN)
    places = 0
    for example in (next(drawn) for _ in range(40)):
        facts = documents[-1].facts.values()
        values = {fact.lines[0] if fact.lines else fact.printed for fact in facts} - {""}
        for question in example.questions:
            if question.place >= 0:
                rest = tokenizer.decode(example.tokens[question.place :]).lstrip()
                assert rest.startswith(tuple(values))
                places += 1
    assert places > 40


def test_meanings_are_read_as_they_were_saved(learned: Meanings, tmp_path: Path) -> None:
    learned.save(tmp_path / "meanings.safetensors")
    read = Meanings.load(tmp_path / "meanings.safetensors")
    assert all(torch.equal(getattr(learned, name), getattr(read, name)) for name in Meanings.__slots__)
