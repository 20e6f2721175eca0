"""A request that runs alone in some memory runs in that memory next to any other requests, with the same answer.

Alone it runs in the cells that it reports as its peak, and it is preempted a bounded number of times: once for each
request in front of it, and at most four times for its own sake (once to be alone, once without the prompts of others,
twice to run another way).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pastalang
from pastalang import Engine, OutOfMemory, Result, Sampling, build_plan
from pastalang.runtime.scheduler.state import RequestState
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.oracle.toy_models import Family
from tests.properties.cases import FEW, Case, cases
from tests.properties.models import KINDS, Hashes, Weights
from tests.properties.ways import PLENTY, Outcome, Way, check_nothing_is_left, engine_for

HASHES = tuple(kind for kind in KINDS if isinstance(kind, Hashes))
OWN = 4  # preemptions that a request may need for itself


class Noted(Engine):
    """Keeps the requests that it was given."""

    def _request(self, *arguments: Any, **options: Any) -> RequestState:
        request = super()._request(*arguments, **options)
        self.noted = [*getattr(self, "noted", []), request]
        return request


def run(case: Case, requests: Sequence[Mapping[str, Any]], cells: int, way: Way) -> list[Outcome]:
    engine = engine_for(case.kind.model(cells), way, words=case.words, kind=Noted)
    found = engine.batch(case.plan, requests, **case.options)
    check_nothing_is_left(engine)
    for ahead, request in enumerate(getattr(engine, "noted", [])):
        assert request.schedule.preemptions <= ahead + OWN, (
            f"preempted {request.schedule.preemptions} times behind {ahead} requests"
        )
    return found


def is_same(found: Outcome, expected: Outcome) -> bool:
    if isinstance(expected, Result) and isinstance(found, Result):
        return [one.text for one in found.answers] == [one.text for one in expected.answers] and [
            one.log_probabilities for one in found.fields
        ] == [one.log_probabilities for one in expected.fields]
    return type(found) is type(expected) and not isinstance(found, OutOfMemory)


def check_fair_memory(data: st.DataObject) -> None:
    case = data.draw(cases(kinds=HASHES, most=4))
    chunk = data.draw(st.sampled_from((None, None, 4, 20)))
    kept = data.draw(st.sampled_from((0, 0, 40, 4096)))
    way = Way(kept=kept, chunk=chunk, requests=data.draw(st.sampled_from((None, None, 2))))
    alone = [run(case, [one], PLENTY, way)[0] for one in case.requests]
    peaks = [one.usage.peak_cells for one in alone if isinstance(one, Result)]
    if len(peaks) < len(alone) or not peaks:
        return
    for request, expected, peak in zip(case.requests, alone, peaks, strict=True):
        [found] = run(case, [request], max(peak, 1), way)
        assert is_same(found, expected), f"alone in its own peak of {peak} cells: {found!r:.300}"
    share = data.draw(st.sampled_from((1.0, 1.0, 0.8, 0.6, 0.5)))
    cells = max(int(max(peaks) * share), 1)
    fits = [not isinstance(run(case, [one], cells, way)[0], OutOfMemory) for one in case.requests]
    order = data.draw(st.permutations(range(len(case.requests))))
    together = run(case, [case.requests[index] for index in order], cells, way)
    for index, found in zip(order, together, strict=True):
        if fits[index]:
            assert is_same(found, alone[index]), f"next to others in {cells} cells: {found!r:.300}"


@FEW(40)
@given(st.data())
def test_what_runs_alone_runs_next_to_others(data: st.DataObject) -> None:
    check_fair_memory(data)


TITLES = pastalang.compile(
    'template t(title: text)\nsystem """\nBe brief.\n"""\nuser """\n{title}\n"""\n'
    'assistant text """\nSay {h: string(max=1)}\n"""\n'
)


@pytest.mark.parametrize("spare", [0, 6, 12, 18])
def test_a_prompt_of_which_a_part_is_kept_fits_where_it_fits_alone(spare: int) -> None:
    """The second request went on from the middle of the first one's prompt. The rest of both prompts was kept, first
    because the second one waited with it, then because it saw a part."""
    requests = [{"title": "a 12"}, {"title": ""}]
    case = Case(
        build_plan(TITLES.templates["t"], TITLES), tuple(requests), 0, Sampling(), Hashes(5, 0.0), "bytes", None, {}
    )
    way = Way(kept=4096)
    alone = [run(case, [one], PLENTY, way)[0] for one in requests]
    cells = max(one.usage.peak_cells for one in alone if isinstance(one, Result)) + spare
    assert [is_same(*pair) for pair in zip(run(case, requests, cells, way), alone, strict=True)] == [True, True]


NESTED = pastalang.compile(
    "template t()\n"
    "assistant json { a: { l: [{ k: string(max=8), v: integer(1..99) }](max=2), n: integer(1..9) } | null }"
)


@pytest.mark.parametrize("seed", range(12))
def test_a_branch_never_waits_for_one_that_waits_for_it(seed: int) -> None:
    """A child was admitted before the parent whose text it must be fed after, and both waited forever."""
    options = {"seed": seed, "sampling": pastalang.Sampling(temperature=1.0)}
    kind = Weights(Family.LLAMA)
    found = Engine(kind.model(PLENTY), byte_tokenizer(), prefix_cells=0).run(NESTED, {}, **options)
    for cells in (found.usage.peak_cells, found.usage.peak_cells + 8, 80):
        if cells >= found.usage.peak_cells:
            tight = Engine(kind.model(cells), byte_tokenizer(), prefix_cells=0)
            assert tight.run(NESTED, {}, **options).text == found.text
