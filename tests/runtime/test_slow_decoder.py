"""What the slow decoder refuses, the runtime refuses too."""

from __future__ import annotations

import pytest

import pastalang
from pastalang import build_plan
from tests.oracle.differential import check_exact
from tests.properties.models import Hashes
from tests.properties.ways import PLENTY, Way, engine_for

BEHIND_A_FORK = pastalang.compile('''
template t(points: [text])
user """
{points}
"""
assistant text """
{fork point in points}* {point}: {words: [string(max=3)](1..1, max_tokens=30)}
{end}{sync}In short:
{fork word in words}* {word}: {note: string(max=1)}
{end}
"""
''')


@pytest.mark.parametrize("points", [[], ["a"], ["a", "b"]], ids=len)
def test_a_list_that_was_written_behind_a_fork_over_nothing_is_told(points: list[str]) -> None:
    model = Hashes(seed=3)
    engine = engine_for(model.model(PLENTY), Way())
    plan = build_plan(BEHIND_A_FORK.only_template, BEHIND_A_FORK)
    check_exact(engine, plan, {"points": points}, model.logits(), seed=1)
