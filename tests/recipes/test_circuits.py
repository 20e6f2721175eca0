"""Before any training, a fresh pasta-mini finds what a program asks for, or that it is not stated."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from pastalang.training.batches import Batch, logits_of
from pastalang.training.errors import BadData
from recipes.pasta_mini.meanings import BACK, DIMENSIONS, Meanings
from recipes.pasta_mini.model import fresh_model
from recipes.pasta_mini.tokenizer import Writing

LINE, COLON, QUOTE, BEGIN, END, ANSWER, NULL, KIND = range(8)
WORDS = range(10, 400)  # in small letters; the same ones with a capital are the next 390 tokens
VALUES = range(790, 1000)
WRITING = Writing(
    {word + 390: word for word in WORDS}, {}, signs=(LINE, COLON, QUOTE, BEGIN, END), colons=(COLON, LINE),
    lines=(LINE,), begin=BEGIN, end=END, answer=ANSWER, null=NULL, asks=(COLON, QUOTE),
    quote=QUOTE,
)  # fmt: skip
QUESTIONS = 24


@cache
def meanings() -> Meanings:
    """Every word means something else; a value is not a word, and follows the words of its label."""
    random = torch.Generator().manual_seed(2)
    words = torch.zeros(VALUES.stop, DIMENSIONS)
    words[WORDS.start : WORDS.stop] = torch.nn.functional.normalize(torch.randn(390, DIMENSIONS, generator=random))
    words[WORDS.start + 390 : WORDS.stop + 390] = words[WORDS.start : WORDS.stop]
    prior = torch.full((VALUES.stop,), -6.0)
    prior[VALUES.start :] = 0
    fade = torch.tensor([0.0, 0.0, *(0.8**back for back in range(BACK - 1))])  # a sign stands between label and value
    same = torch.eye(DIMENSIONS)
    return Meanings(
        words, asked=same, about=4 * same, stated=fade[:, None, None] * same, marks=torch.zeros(3, DIMENSIONS),
        prior=prior, absent=torch.zeros(DIMENSIONS), scale=torch.tensor([19.0, 14.0]),
    )  # fmt: skip


@cache
def model() -> Any:
    return fresh_model(
        VALUES.stop, end=END, seed=0, hidden=320, layers=5, heads=5, inner=64, finding=(WRITING, meanings())
    ).eval()


def likeliest(program: list[list[int]], document: list[list[int]], asked: list[int], among: list[int]) -> int:
    """What follows the name of a field in the answer, after a prompt of two messages."""
    lines = [[token for line in part for token in (LINE, *line)] for part in (program, document)]
    said = [[BEGIN, *part, END] for part in lines]
    tokens = torch.tensor([[*said[0], *said[1], BEGIN, ANSWER, LINE, *asked]])
    with torch.no_grad():
        logits: Tensor = logits_of(model(), Batch(tokens, torch.arange(tokens.shape[1])[None], tokens, None, ("",)))
    return among[int(logits[0, -1, among].argmax())]


def drawn(seed: int) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Eight labels of two words, eight values of two tokens, and words that nothing else has."""
    random = torch.Generator().manual_seed(seed)
    words = (torch.randperm(len(WORDS), generator=random)[:24] + WORDS.start).tolist()
    values = (torch.randperm(len(VALUES), generator=random)[:16] + VALUES.start).tolist()
    return [words[at : at + 2] for at in range(0, 16, 2)], [values[at : at + 2] for at in range(0, 16, 2)], words[16:]


@pytest.mark.parametrize("end", [[COLON], [COLON, QUOTE]], ids=["a number", "a text"])
@pytest.mark.parametrize("capitals", [0, 390], ids=["written alike", "with capitals"])
def test_a_value_is_found_by_the_name_of_its_field(end: list[int], capitals: int) -> None:
    right = 0
    for seed in range(QUESTIONS):
        labels, values, _ = drawn(seed)
        program = [[*label, COLON, KIND] for label in labels]
        document = [
            [word + capitals for word in label] + [COLON, *value] for label, value in zip(labels, values, strict=True)
        ]
        found = likeliest(program, document, [*labels[seed % 8], *end], [*VALUES])
        right += found == values[seed % 8][0]
    assert right > 0.8 * QUESTIONS


def test_a_value_is_found_by_what_the_program_says_about_its_field() -> None:
    right = 0
    for seed in range(QUESTIONS):
        labels, values, names = drawn(seed)
        program = [[name, COLON, KIND, *label] for name, label in zip(names, labels, strict=True)]
        document = [[*label, COLON, *value] for label, value in zip(labels, values, strict=True)]
        found = likeliest(program, document, [names[seed % 8], COLON], [*VALUES])
        right += found == values[seed % 8][0]
    assert right > 0.7 * QUESTIONS


def test_what_is_not_stated_is_null() -> None:
    said = {True: 0, False: 0}
    for seed in range(QUESTIONS):
        labels, values, _ = drawn(seed)
        program = [[*label, COLON, KIND] for label in labels]
        for is_stated in said:
            document = [
                [*label, COLON, *value] for place, (label, value) in enumerate(zip(labels, values, strict=True))
                if is_stated or place != seed % 8
            ]  # fmt: skip
            found = likeliest(program, document, [*labels[seed % 8], COLON], [NULL, *VALUES])
            said[is_stated] += found == NULL
    assert said[False] > 0.8 * QUESTIONS
    assert said[True] < 0.2 * QUESTIONS


def test_what_follows_the_same_words_in_the_text_is_said() -> None:
    right = 0
    for seed in range(QUESTIONS):
        labels, values, others = drawn(seed)
        document = [[*label, COLON, *value] for label, value in zip(labels, values, strict=True)]
        words = [others[:2] * 2, others[2:6], [others[6], others[1], others[7]]]  # one of them is followed by two
        found = likeliest([[KIND]], [*document, *words], others[2:4], [*others, *values[0]])
        right += found == others[4]
    assert right > 0.8 * QUESTIONS


def test_training_leaves_the_circuits_as_they_are() -> None:
    trained = fresh_model(
        VALUES.stop, end=END, seed=0, hidden=320, layers=5, heads=5, inner=64, finding=(WRITING, meanings())
    )
    before = {name: weight.detach().clone() for name, weight in trained.named_parameters()}
    tokens = torch.randint(VALUES.stop, (2, 40), generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3, weight_decay=0.0)
    for _ in range(2):
        trained(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    changed = {name: weight.detach() != before[name] for name, weight in trained.named_parameters()}
    size = 64
    for place, heads in ((0, (1, 2, 3, 4)), (1, (0, 1, 2, 3, 4)), (2, (0,)), (3, (0, 1))):
        for head in heads:
            of = slice(head * size, (head + 1) * size)
            for matrix in "qkv":
                assert not changed[f"model.layers.{place}.self_attn.{matrix}_proj.weight"][of].any()
            assert not changed[f"model.layers.{place}.self_attn.o_proj.weight"][:, of].any()
    assert not changed["model.embed_tokens.weight"][:, slice(0, 14 + DIMENSIONS)].any()
    assert changed["model.embed_tokens.weight"][:, -1].any()
    assert changed["model.layers.2.self_attn.q_proj.weight"][size:].any()
    assert changed["model.layers.4.mlp.down_proj.weight"].any()


def test_a_model_that_is_too_small_for_the_circuits_is_refused() -> None:
    with pytest.raises(BadData, match="take 4 layers, 5 heads"):
        fresh_model(VALUES.stop, end=END, seed=0, hidden=256, layers=4, heads=4, finding=(WRITING, meanings()))
