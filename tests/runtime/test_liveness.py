"""Nobody waits forever: whatever the memory, the company and the pauses, a run ends in an answer or an error."""

from __future__ import annotations

import random
from typing import Any

import pytest

import pastalang
from pastalang import Engine, OutOfMemory, Plan, Program, Result, Sampling, build_plan
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from tests.properties.models import guides_of

WARM = Sampling(temperature=1.0)
LIST = pastalang.compile('''
template t(title: text)
user """{title}"""
assistant json {
  a: string(max=9)
  b: [{ c: string(max=6), d: string(max=6) }](2..5)
  e: string(max=9)
}
''')

WAITING = pastalang.compile('''
template t(title: text)
user """{title}"""
assistant text """
{names: [string(max=4)](1..1, max_tokens=12)}
{fork name in names}
{name}: {more: string(max=60)}
{end}
"""
''')


class Impatient:
    """Who may move is drawn; whoever asks too often has waited forever."""

    def __init__(self, seed: int, share: float) -> None:
        self.chance = random.Random(seed)
        self.share = share
        self.left = 50_000

    def __call__(self, branch: Any) -> bool:
        self.left -= 1
        assert self.left, "nobody moves, and nobody ever will"
        return self.chance.random() < self.share


class Bounded:
    """A model that says when a run has taken far more passes than it has tokens."""

    def __init__(self, cells: int, passes: int) -> None:
        self.inner = hashed_model(320, seed=11)
        self.inner.cells = cells
        self.left = passes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, batch: Any) -> Any:
        self.left -= 1
        assert self.left, "the same steps come again and again"
        return self.inner.forward(batch)


def plan_of(program: Program = LIST) -> Plan:
    return build_plan(program.only_template, program)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.6])
@pytest.mark.parametrize("cells", [8, 60, 90, 120, 160])
def test_branches_that_rest_in_a_small_memory_end_with_the_same_answer_or_an_error(cells: int, share: float) -> None:
    plan = plan_of()
    [expected] = Engine(hashed_model(320, seed=11), byte_tokenizer()).batch(plan, [{"title": "x"}], sampling=WARM)
    assert isinstance(expected, Result)
    engine = Engine(Bounded(cells, 3_000), byte_tokenizer(), schedule_filter=Impatient(3, share))  # type: ignore[arg-type]
    [found] = engine.batch(plan, [{"title": "x"}], sampling=WARM)
    assert isinstance(found, OutOfMemory) or (isinstance(found, Result) and found.text == expected.text)
    engine.check_integrity()


def test_requests_that_crowd_one_another_out_all_end() -> None:
    """The first one waits for room for a value. The second one's prompt fits, but not its value: it is set back, and
    must not take that room again before the first one has left."""
    plan, guides = plan_of(WAITING), guides_of("bytes")
    for cells in range(60, 130, 6):
        engine = Engine(Bounded(cells, 2_000), byte_tokenizer(), prefix_cells=0, guides=guides)  # type: ignore[arg-type]
        found = engine.batch(plan, [{"title": "x" * 20}, {"title": "y"}], sampling=WARM)
        assert all(isinstance(one, Result | OutOfMemory) for one in found), found
        engine.check_integrity()
