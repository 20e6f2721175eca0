"""Strategy for cases: a random program, what it is run on, and what the slow decoder makes of it.

Programs of `pastalang.testing`, and programs as text, in every mode, overrun policy and placement; mostly small ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

from hypothesis import HealthCheck, reject, settings
from hypothesis import strategies as st

from pastalang import DeadEnd, Mode, Plan, PlanError, Program, Sampling, build_plan
from pastalang.plan.branches import Overrun, Placement
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.testing.strategies import programs
from pastalang.values.schema.split import has_checks
from tests import oracle
from tests.oracle.differential import decode_slowly
from tests.properties.models import KINDS, WORDS, Hashes, Kind, encoder_of, guides_of
from tests.properties.sources import compiled, sources
from tests.properties.wishes import Wish, wishes

TEXTS = st.sampled_from(("a 12", "", "größer", "x" * 20, "one, two", 'q " w, 3\n x'))
SEEDS = st.integers(0, 1 << 16)
Expected = oracle.Decoded | oracle.Refused


def FEW(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Case:
    """Requests that are run together, and all that their answers are a function of."""

    plan: Plan
    requests: tuple[Mapping[str, Any], ...]
    seed: int
    sampling: Sampling
    kind: Kind
    words: str = "bytes"
    wish: Wish | None = None
    known: dict[int, Expected] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def key(self) -> str:
        return blake2b(repr(self).encode(), digest_size=8).hexdigest()

    @cached_property
    def has_checks(self) -> bool:
        """Whether a schema is checked on the finished value."""
        return has_checks(() if self.plan.output is None else (self.plan.output, *dict(self.plan.types).values()))

    @property
    def may_repeat(self) -> bool:
        """Whether values may be decoded again."""
        return self.wish is not None or self.has_checks

    @property
    def options(self) -> dict[str, Any]:
        asked = {} if self.wish is None else self.wish.options
        return {"seed": self.seed, "sampling": self.sampling, **asked}

    def expected(self, number: int = 0) -> Expected:
        """What the slow decoder makes of a request, decoded once."""
        if number not in self.known:
            self.known[number] = self.slowly(self.requests[number])
        return self.known[number]

    def slowly(self, inputs: Mapping[str, Any]) -> Expected:
        encoder, guides = encoder_of(self.words), guides_of(self.words)
        policy = None if self.wish is None else self.wish.policy
        return decode_slowly(
            self.plan, inputs, self.kind.logits(), encoder, guides, seed=self.seed, sampling=self.sampling,
            policy=policy,
        )  # fmt: skip


@st.composite
def plans(draw: st.DrawFn, *, stacked: bool | None = None) -> Plan:
    """One in four is nested more deeply."""
    depth = draw(st.sampled_from((1, 1, 1, 2)))
    made = programs(depth=depth, stacked=stacked)
    return draw(planned(made if stacked else st.one_of(made, sources(depth=depth).map(compiled))))


@st.composite
def planned(draw: st.DrawFn, drawn: st.SearchStrategy[Program | None]) -> Plan:
    """A plan of a program that is drawn, in some mode; programs that nothing can be made of are drawn anew."""
    program = draw(drawn)
    if program is None:
        reject()
    mode, overrun = draw(st.sampled_from(Mode)), draw(st.sampled_from((Overrun.CONTINUE, *Overrun)))
    can_be_dense = mode is not Mode.LOCKSTEP and overrun is Overrun.CONTINUE
    placement = draw(st.sampled_from(Placement)) if can_be_dense else Placement.GAPS
    try:
        return build_plan(program.only_template, program, mode=mode, overrun=overrun, placement=placement)
    except PlanError:
        reject()


def is_refused(plan: Plan, words: str) -> bool:
    """Whether a limit leaves no value, which refuses every run of the plan."""
    try:
        BoundPlan(plan, encoder_of(words), guides_of(words)).check_limits()
    except DeadEnd as problem:
        assert "fits into" in problem.reason, "a type that cannot be enforced is refused by the checker"
        return True
    return False


@st.composite
def cases(draw: st.DrawFn, *, kinds: Sequence[Kind] = KINDS, stacked: bool | None = None, most: int = 3) -> Case:
    """Of one request mostly; a case has as many as are cheap."""
    plan = draw(plans(stacked=stacked))
    kind = draw(st.sampled_from(kinds))
    requests = draw(st.lists(inputs_for(plan), min_size=1, max_size=most if isinstance(kind, Hashes) else 1))
    words = draw(st.sampled_from(sorted(WORDS)))
    wish = draw(st.one_of(st.none(), st.none(), wishes())) if plan.output is not None else None
    return Case(plan, tuple(requests), draw(SEEDS), draw(samplings()), kind, words, wish)


@st.composite
def inputs_for(draw: st.DrawFn, plan: Plan) -> dict[str, Any]:
    """A text or stacked ones for each input, and a list of points."""
    found: dict[str, Any] = {}
    for one in plan.inputs:
        if one.each:
            found[one.name] = draw(st.lists(TEXTS, min_size=1, max_size=3))
        elif one.name == "points":
            found[one.name] = draw(st.lists(TEXTS, max_size=3))
        else:
            found[one.name] = draw(TEXTS)
    return found


def samplings() -> st.SearchStrategy[Sampling]:
    """Every setting alone and with others."""
    return st.builds(
        Sampling,
        temperature=st.sampled_from((None, 0.0, 0.7, 1.0, 1.5)),
        top_k=st.sampled_from((None, None, 1, 5, 40)),
        top_p=st.sampled_from((None, None, 0.3, 0.9)),
        min_p=st.sampled_from((None, None, 0.05, 0.3)),
        repetition_penalty=st.sampled_from((None, None, 1.3, 0.8)),
    )
