"""The task whose dependencies are known: what depends on what, what is right, and how few tokens its tags take."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import build_plan
from pastalang.program.types import AutoPolicy
from pastalang.runtime.models.training_note import read_note
from pastalang.training.answer import read_thread_text
from pastalang.training.data import read_checked
from recipes.threads_mini.answers import Policy, answer_as
from recipes.threads_mini.ceiling import Cost, Replay
from recipes.threads_mini.lengths import announced
from recipes.threads_mini.model import make_tokenizer
from recipes.threads_mini.recipe import Sizes, counter_of, make_models, write_exams
from recipes.threads_mini.ships import (
    HELD_OUT_COUNTS,
    TRAINED_COUNTS,
    Table,
    better_answer,
    choose_berths,
    draw_table,
    is_held_out,
    read_table,
    score,
)

SEEDS = st.integers(0, 1 << 20)


def table_of(seed: int, *, is_varied: bool = False) -> tuple[Table, tuple[str, ...]]:
    random = Random(seed)
    counts = TRAINED_COUNTS if is_varied else HELD_OUT_COUNTS
    table = draw_table(random, counts=counts, held_out=True, is_varied=is_varied)
    return table, choose_berths(table, random)


def answer(policy: Policy, table: Table, berths: tuple[str, ...]) -> str:
    return read_thread_text(answer_as(policy, table, berths, len), AutoPolicy(policy.tags)).plain


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.booleans())
def test_every_policy_writes_the_same_right_answer(seed: int, is_varied: bool) -> None:
    table, berths = table_of(seed, is_varied=is_varied)
    texts = {answer(policy, table, berths) for policy in Policy}
    assert len(texts) == 1
    assert all(right == whole for right, whole in score(table, texts.pop()).values())
    assert read_table(table.text) == table
    assert all(is_held_out(ship.name) for ship in table.ships)


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_lengths_are_announced_anew(seed: int) -> None:
    """In tens, the answer stays as it was; with other lengths, its text does."""
    count = counter_of(make_tokenizer())
    value = answer_as(Policy.PASTA, *table_of(seed), count)
    assert announced(value, "tens", count) == value
    exact = announced(value, "exact", count)
    lengths, rooms = ([int(one) for one in re.findall(r'tokens="(\d+)"', text)] for text in (exact, value))
    assert all(0 <= room - length < 10 for length, room in zip(lengths, rooms, strict=True))
    plain = {read_thread_text(text, AutoPolicy.PASTA).plain for text in (value, exact, announced(value, "40", count))}
    assert len(plain) == 1


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.booleans())
def test_the_right_policy_waits_before_every_ship_that_lies_with_another(seed: int, is_varied: bool) -> None:
    table, berths = table_of(seed, is_varied=is_varied)
    *parts, last = answer_as(Policy.PASTA, table, berths, len).split("<sync/>")
    opened = [{number for number in range(len(berths)) if f'topic="{table.first + number}"' in part} for part in parts]
    assert last.startswith("Berths ") and set[int]().union(*opened) == set(range(len(berths)))
    for before, after in pairwise(opened):
        assert before and table.waits(min(after)), "it waits for nothing"
    assert not any(table.waits(number) for together in opened for number in sorted(together)[1:])


def test_a_wrong_fact_a_wrong_berth_and_a_missing_sentence_are_seen() -> None:
    table, berths = next(one for one in map(table_of, range(100)) if any(map(one[0].waits, range(len(one[1])))))
    number = next(filter(table.waits, range(len(berths))))
    right, whole = answer(Policy.LINEAR, table, berths), score(table, answer(Policy.LINEAR, table, berths))
    cargo = right.replace(f" {table.ships[0].cargo},", " gold,")
    assert score(table, cargo)["items"] == (len(berths) - 1, len(berths))
    other = "A" if berths[number] != "A" else "B"
    berth = right.replace(f" {table.place(number)}-{berths[number]};", f" {table.place(number)}-{other};")
    assert (seen := score(table, berth))["dependent berths"][0] < whole["dependent berths"][0]
    assert seen["last lines"] == (0, 1) and score(table, "")["items"] == (0, len(berths))
    verdicts = [better_answer({"table": table.text}, *two)[0] for two in ((right, cargo), ("", cargo), (cargo, cargo))]
    assert verdicts == ["first", "second", "tie"]


@pytest.fixture(scope="module")
def tokenizer() -> object:
    return make_tokenizer()


def test_a_promise_takes_five_tokens_and_a_fact_one(tokenizer: object) -> None:
    def pieces(text: str) -> list[str]:
        return [tokenizer.decode(token) for token in tokenizer.encode(text)]  # type: ignore[attr-defined]

    assert pieces('<promise topic="1" tokens="50"/><async>') == [
        '<promise topic="', "1", '" tokens="', "50", '"/>', "<async>",
    ]  # fmt: skip
    assert pieces(" 450 coffee 3+1-C[Fork]") == [" 450", " coffee", " 3", "+1", "-C", "[Fork]"]


def test_the_right_policies_save_passes_and_apar_saves_memory(tokenizer: object, tmp_path: Path) -> None:
    write_exams(tmp_path, tokenizer, Sizes(exam=4))

    def costs(policy: Policy) -> list[Cost]:
        replay = Replay(policy, tokenizer)
        return [replay.cost(row) for row in read_checked(tmp_path / f"test-{policy.value}.jsonl", replay.plan)]

    for linear, pasta, apar in zip(*map(costs, (Policy.LINEAR, Policy.PASTA, Policy.APAR)), strict=True):
        assert linear.passes == linear.drawn and linear.peak_cells == linear.cells
        assert linear.passes > 1.4 * pasta.passes and pasta.peak_cells == pasta.cells
        assert linear.passes > 2.5 * apar.passes and apar.peak_cells < linear.peak_cells < apar.cells
        assert apar.attended < linear.attended
        assert linear.passes > 2.0 * linear.drafted and apar.drafted < pasta.drafted < pasta.passes < linear.passes


def test_an_interrupted_recipe_goes_on_and_makes_a_model_for_each_policy(tmp_path: Path) -> None:
    sizes = Sizes(hidden=64, layers=2, base_steps=2, tokens=300, rows=4, tune_steps=1, tune_lines=1, exam=4)
    lines: list[str] = []

    class PulledPlug(Exception):
        pass

    def report(line: str) -> None:
        if line == "── pasta" and line not in lines:
            lines.append(line)
            raise PulledPlug
        lines.append(line)

    with pytest.raises(PulledPlug):
        make_models(tmp_path, sizes, report=report)
    make_models(tmp_path, sizes, report=report)
    assert [line for line in lines if line.startswith("──")] == [
        "── base", "── pasta", "── pasta", "── apar", "── linear", "── blind", "── mixed",
    ]  # fmt: skip
    for policy in Policy:
        program, data = tmp_path / f"{policy.tags}.pasta", tmp_path / f"test-{policy.value}.jsonl"
        loaded = pastalang.load(program)
        rows = read_checked(data, build_plan(loaded.only_template, loaded))
        assert [row.category for row in rows] == ["5 ships", "6 ships", "7 ships", "8 ships"]
        assert read_note(tmp_path / policy.value) is not None
