"""Whatever is guessed, and whatever a run does besides: the answers without drafts, to the last bit.

Guesses come from the look-up, from random prompt tokens and mask tokens, and from an oracle that knows what is drawn
and guesses wrong tokens next to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pastalang import Invalid, Result
from tests.properties.autos import auto_cases
from tests.properties.cases import FEW, Case, cases
from tests.properties.invariants import run
from tests.properties.models import KINDS, Hashes
from tests.properties.repairs import repaired_cases
from tests.properties.tally import Invariant, count
from tests.properties.ways import PLENTY, Outcome, Way, is_excused, ways
from tests.runtime.float64 import wide_softmax

WAYS = 4  # of drafting each drawn case
QUICK = [kind for kind in KINDS if isinstance(kind, Hashes)]  # each logit hashes all that is seen: nothing is hidden


def check_drafted(data: st.DataObject, *, different_ways: int = WAYS) -> None:
    any_case = cases(kinds=QUICK)
    stacked = cases(kinds=QUICK, stacked=True, most=1)
    drawn = data.draw(st.one_of(any_case, any_case, stacked, repaired_cases(), auto_cases()))
    case = drawn if isinstance(drawn.kind, Hashes) else replace(drawn, kind=data.draw(st.sampled_from(QUICK)))
    with wide_softmax():
        plain = run(case, case.kind.model(PLENTY), Way())
        for way in data.draw(st.lists(ways(), min_size=different_ways, max_size=different_ways)):
            check_same_as_plain(case, plain, replace(way, drafts=data.draw(st.integers(0, 1 << 16))))


def check_same_as_plain(case: Case, plain: list[Outcome], way: Way) -> None:
    found = run(case, case.kind.model(way.cells or PLENTY), way)
    for one, other in zip(plain, found, strict=True):
        if not is_excused(other, way):
            assert facts_of(one) == facts_of(other)
            count(Invariant.DRAFTS, case.key, way)


def result_of(outcome: Outcome) -> Outcome:
    return outcome.result if isinstance(outcome, Invalid) else outcome


def facts_of(outcome: Outcome) -> Any:
    """What a caller sees of an answer: its text, its tokens and their probabilities, to the last bit."""
    result = result_of(outcome)
    if not isinstance(result, Result):
        return type(result)  # of several fields that fail, the first one is named: another one, where passes are fewer
    fields = [(field.path, field.items, field.tokens, field.log_probabilities) for field in result.fields]
    return isinstance(outcome, Invalid), result.text, fields, result.problems


@FEW(40)
@given(st.data())
def test_drafts_change_nothing(data: st.DataObject) -> None:
    check_drafted(data)
