"""Random programs on servers that fail at random, and on servers that never fail."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastalang import Plan
from pastalang.errors import HostError, Unsupported
from pastalang.hosts.engine import check_plan, check_whole
from pastalang.plan.build import build_plan
from pastalang.plan.structure import fields_of
from pastalang.testing import programs
from pastalang.values.fit import read
from pastalang.values.paths import place_of
from tests.hosts.stand_in import StandIn, faults, given_inputs

RAW = ("vllm", "sglang", "llama.cpp")
KINDS = st.sampled_from((*RAW, "openai"))
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def is_refused(plan: Plan, kind: str) -> bool:
    try:
        (check_plan if kind in RAW else check_whole)(plan)
    except Unsupported:
        return True
    return False


def places_of(plan: Plan) -> set[str]:
    return {without_numbers(place_of(one.field, (0,) * one.field.count("[]"))) for _, _, one in fields_of(plan)}


def without_numbers(place: str) -> str:
    """The place without the numbers of items and of the document."""
    return re.sub(r"\[\d+\]", "[]", re.sub(r"^(\[\d+\])+\.?", "", place)) or "answer"


def test_faults_end_a_run_with_an_error_that_names_the_value_or_not_at_all() -> None:
    """What was answered is never asked for again, and whoever asks often enough is answered."""
    seen: Counter[str] = Counter()

    @quick
    @given(program=programs(), kind=KINDS, seed=st.integers(0, 10**6), retries=st.sampled_from((2, 40)))
    def runs(program: Any, kind: str, seed: int, retries: int) -> None:
        plan = build_plan(program.only_template, program)
        host = StandIn(kind, faults=faults(seed, 400))
        try:
            result = host.connect(retries=retries).run(program, given_inputs(program))
        except Unsupported:
            seen["refused"] += 1
            assert is_refused(plan, kind) and not host.asked and not host.failed
            return
        except HostError as problem:
            seen["failed"] += 1
            is_named = kind == "openai" or without_numbers(problem.field) in places_of(plan)
            assert retries == 2 and host.failed and is_named
            return
        seen["answered"] += 1
        assert not is_refused(plan, kind)
        if plan.output is not None and not result.is_stacked:
            assert read(result.text, plan.output, dict(plan.types), sources=result.sources).fits
        assert result.usage.requests == len(host.answered)

    runs()
    assert seen["answered"] >= 0.2 * seen.total(), seen
