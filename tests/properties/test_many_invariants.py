"""Ninety thousand cases of the invariants, in parts that can be run one by one: `make invariants`.

A part is a property, a number of examples and a seed, which is the number in its name. A part that has held is noted
under `build/invariants`, for this very code and these very tests; what is noted is not run again. A breach is told as
it was drawn: looking for a smaller one takes longer than all parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.properties import invariants
from tests.properties.tally import ALL
from tests.properties.test_drafted import check_drafted
from tests.properties.test_exactness import check_drafts
from tests.properties.test_fair_memory import check_fair_memory
from tests.properties.test_plan import check_schedules
from tests.properties.test_training import check_training

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Part:
    check: Callable[[st.DataObject], None]
    examples: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.check.__name__.removeprefix('check_')}-{self.seed}"


PROPERTIES = (  # what is checked, how many examples a part has, how many parts there are
    (invariants.check_everything, 45, 190),
    (invariants.check_stack, 50, 24),
    (invariants.check_repaired_stack, 50, 24),
    (invariants.check_cancelling, 50, 40),
    (invariants.check_failing, 50, 24),
    (invariants.check_repairs, 50, 40),
    (invariants.check_auto, 50, 30),
    (invariants.check_cells, 200, 20),
    (check_fair_memory, 100, 200),
    (check_schedules, 200, 20),
    (check_training, 25, 32),
    (check_drafts, 25, 32),
    (check_drafted, 50, 220),
)


def parts() -> Iterator[Part]:
    """Those of one property one after another, all properties from the beginning."""
    for number in range(max(count for _, _, count in PROPERTIES)):
        yield from (Part(check, examples, number) for check, examples, count in PROPERTIES if number < count)


@cache
def folder() -> Path:
    """Named by all that a part could depend on."""
    digest = blake2b(digest_size=6)
    for file in sorted([*ROOT.glob("pastalang/**/*.py"), *ROOT.glob("tests/**/*.py")]):
        digest.update(file.read_bytes())
    return ROOT / "build" / "invariants" / digest.hexdigest()


def explore(part: Part) -> None:
    @seed(part.seed)
    @settings(
        max_examples=part.examples, derandomize=False, database=None, deadline=None, print_blob=False,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(st.data())
    def check(data: st.DataObject) -> None:
        part.check(data)

    check()


@pytest.mark.long
@pytest.mark.parametrize("part", tuple(parts()), ids=lambda part: part.name)
def test_many_cases(part: Part) -> None:
    note = folder() / f"{part.name}.json"
    if not note.exists():
        before = ALL.seen
        ALL.clear()
        try:
            explore(part)
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(json.dumps(ALL.seen))
        finally:
            ALL.add(before)
    ALL.add(json.loads(note.read_text()))
