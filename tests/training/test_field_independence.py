"""What fields lose by not seeing one another, with models whose dependence is known."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import pastalang
from pastalang import Engine, Mode, PastaError, Program, Sampling
from pastalang.program.program import JsonBody
from pastalang.source import Source
from pastalang.testing import programs
from pastalang.testing.fakes import hashed_model
from pastalang.testing.strategies import objects
from pastalang.training.data import Row, read_checked
from pastalang.training.errors import BadRows
from pastalang.training.independence import FieldLosses, _patterns, _Work, field_losses
from pastalang.training.recording import Recorder, planner
from pastalang.values.json import write_json
from tests.oracle.toy_models import toy_model
from tests.training.lessons import TOKENIZER

VOCABULARY = 264
Rule = Callable[[str], list[float]]  # of the text that a token sees, itself last: the logits after it


class ReadingModel(torch.nn.Module):
    """A model that is a function of the visible text: of the tokens in the order of their positions."""

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config = toy_model().config
        self.head = _Head(rule)

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.head

    def forward(
        self, input_ids: Any, position_ids: Any, attention_mask: Any, past_key_values: None, use_cache: bool
    ) -> Any:
        assert not use_cache and len(input_ids) == 1
        order = torch.argsort(position_ids[0], stable=True)
        self.head.tokens, self.head.seen = input_ids[0][order].numpy(), attention_mask[0, 0][:, order].numpy() >= 0
        return SimpleNamespace(logits=self.head(torch.arange(input_ids.shape[1])[None]))


class _Head(torch.nn.Module):
    tokens: NDArray[np.int64]  # in the order of their positions
    seen: NDArray[np.bool_]

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule = rule

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        texts = ("".join(map(chr, self.tokens[self.seen[place]])) for place in places.flatten().tolist())
        return torch.tensor([self.rule(text) for text in texts], dtype=torch.float64)


# ── the measure ──────────────────────────────────────────────────────────────────────────────────────────


def hashed(text: str) -> list[float]:
    """By what is seen, in any order: a field that waits stands elsewhere."""
    chance = random.Random(crc32("".join(sorted(text)).encode()))
    return [chance.uniform(-2, 2) for _ in range(VOCABULARY)]


def a_row(program: Program, seed: int) -> Row:
    """A row with a random answer. Raises `BadRow` for one that cannot be recorded."""
    plan_of = planner(program)
    inputs = {"title": "red tv", "note": ["a", "b"], "points": ["x", "y"]}
    asked = {one.name: inputs[one.name] for one in program.only_template.inputs}
    engine = Engine(hashed_model(VOCABULARY, seed=seed), TOKENIZER)
    value = engine.run(plan_of(Mode.SEQUENTIAL), asked, on_truncated="keep", seed=seed).exact
    [row] = read_checked(Source("rows", write_json({**asked, "value": value})), plan_of(Mode.STRICT))
    return row


@st.composite
def with_objects(draw: st.DrawFn) -> Program:
    """Programs whose answer is an object, without a thought before it."""
    program, type = draw(programs()), draw(objects(checked=True).filter(lambda one: len(one.fields) > 1))
    template = program.only_template
    *before, answer = template.messages
    last = replace(answer, body=JsonBody(type, Sampling()), thought=None)
    return replace(program, templates={template.name: replace(template, messages=(*before, last))})


@given(st.data(), with_objects(), st.integers(0, 1000))
@settings(max_examples=12, deadline=None)
def test_hiding_what_a_field_would_not_see_is_decoding_the_program_in_which_it_does_not_see_it(
    data: st.DataObject, program: Program, seed: int
) -> None:
    try:
        row = a_row(program, seed)
        work = _Work(ReadingModel(hashed), Recorder(TOKENIZER), program, program.only_template, [row])
        work.check()
    except PastaError:  # such as an answer that its limit has cut
        return
    field = work.field(data.draw(st.sampled_from(list(_patterns(work.plan)))))
    if not field.waits:
        return
    some = frozenset(data.draw(st.lists(st.sampled_from(field.waits))))
    [scores] = field.scores([some])
    assert scores == pytest.approx(work.decoded(work.recorded(work.waiting(some)), field.pattern), abs=1e-9)


# ── what is found ────────────────────────────────────────────────────────────────────────────────────────

LETTERS = re.compile(r'"(f\d)": "([ab])"')


def knowing(needs: dict[str, list[str]]) -> Rule:
    """Of each field `a` or `b`, by the parity of the fields that it needs; knows nothing unless it sees them all."""

    def rule(text: str) -> list[float]:
        logits = [0.0] * VOCABULARY
        asked, known = re.search(r'"(f\d)": "$', text), dict(LETTERS.findall(text))
        if asked is not None and all(one in known for one in needs[asked[1]]):
            logits[ord(parity(known[one] for one in needs[asked[1]]))] = 3.0
        return logits

    return rule


def parity(letters: Iterable[str]) -> str:
    return "ab"[sum(letter == "b" for letter in letters) % 2]


def losses(source: str, values: list[dict[str, Any]], rule: Rule) -> dict[str, FieldLosses]:
    program = pastalang.compile(f'template t(title: text)\nuser """{{title}}"""\nassistant json {source}')
    lines = "\n".join(json.dumps({"title": "tv", "value": value}) for value in values)
    rows = read_checked(Source("rows.jsonl", lines), planner(program)(Mode.STRICT))
    return {one.field: one for one in field_losses(ReadingModel(rule), TOKENIZER, program, rows)}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What each field needs, and what it waits for: some of the fields before it."""
    names = [f"f{number}" for number in range(draw(st.integers(2, 5)))]

    def some(name: str, most: int) -> list[str]:
        before = names[: names.index(name)]
        return draw(st.lists(st.sampled_from(before), unique=True, max_size=most)) if before else []

    return {name: some(name, 2) for name in names}, {name: some(name, 1) for name in names}


def seen_by(name: str, waits: dict[str, list[str]]) -> set[str]:
    return set(waits[name]).union(*(seen_by(one, waits) for one in waits[name]))


@given(graphs())
@settings(max_examples=25, deadline=None)
def test_what_a_field_needs_is_found_with_the_waits_that_show_it_and_nothing_else_is(
    graph: tuple[dict[str, list[str]], dict[str, list[str]]],
) -> None:
    needs, waits = graph
    fields = ", ".join(
        f'{name}: "a" | "b"' + (f" after {', '.join(waits[name])}" if waits[name] else "") for name in needs
    )
    value = dict[str, Any]()
    for name, needed in needs.items():
        value[name] = parity(value[one] for one in needed)
    found = losses(f"{{ {fields} }}", [value], knowing(needs))
    for name, needed in needs.items():
        missing, one = set(needed) - seen_by(name, waits), found[name]
        shows = {lost.unseen: {lost.unseen} | seen_by(lost.unseen, waits) for lost in one.lost}
        for lost in one.lost:
            assert (lost.nats > 0.3) == bool(missing and missing <= shows[lost.unseen]), lost
            assert lost.nats > 0.3 or abs(lost.nats) < 1e-9
        if not missing:
            assert one.advice is None
            continue
        assert one.advice is not None and one.advice.now - one.advice.then > 0.3
        advised = one.advice.after.removeprefix(f"{name} after ").split(", ")
        assert missing <= set().union(*(shows[each] for each in advised))
        assert all(
            not missing <= set().union(*(shows[other] for other in advised if other != each)) for each in advised
        )


NESTED = """{
  f0: "a" | "b"
  list: [{ f1: "a" | "b", f2: "a" | "b", f3: "a" | "b" }](0..3)
  maybe: { f4: "a" | "b", f5: "a" | "b" } | null
}"""


def test_items_of_lists_optional_objects_and_objects_inside_wait_where_they_can() -> None:
    value = {
        "f0": "b",
        "list": [{"f1": "a", "f2": "b", "f3": "b"}, {"f1": "b", "f2": "a", "f3": "a"}],
        "maybe": {"f4": "a", "f5": "b"},
    }
    needs = {"f0": [], "f1": [], "f2": [], "f3": ["f2"], "f4": [], "f5": ["f0"]}
    found = losses(NESTED, [value, value | {"maybe": None}, value | {"list": []}], knowing(needs))
    assert {name: one.advice.after for name, one in found.items() if one.advice is not None} == {
        "list[].f3": "list[].f3 after f2",
        "maybe.f5": "maybe after f0",
    }
    assert {name: one.rows for name, one in found.items()} == {
        "f0": 3, "list": 3, "list[].f1": 2, "list[].f2": 2, "list[].f3": 2, "maybe": 3, "maybe.f4": 2, "maybe.f5": 2,
    }  # fmt: skip
    assert [(lost.unseen, lost.after) for lost in found["maybe.f5"].lost] == [
        ("f0", "maybe after f0"), ("list", "maybe after list"), ("maybe.f4", "maybe.f5 after f4"),
    ]  # fmt: skip


def test_all_rows_that_cannot_be_measured_are_reported() -> None:
    with pytest.raises(BadRows, match=r"1 of 2 rows cannot be used\n  rows\.jsonl:2: `name` cannot be written"):
        losses("{ name: string(max=5) }", [{"name": "a"}, {"name": "a long one"}], hashed)
