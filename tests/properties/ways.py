"""Ways of running one request: memory, pauses, limits, company. None of them may change what comes out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

from pastalang.errors import PastaError
from pastalang.plan.plan import Plan
from pastalang.program.types import Sampling
from pastalang.runtime.engine import Engine
from pastalang.runtime.errors import OutOfMemory
from pastalang.runtime.model.bytes import byte_tokenizer
from pastalang.runtime.model.fakes import hashed_model
from pastalang.runtime.model.protocol import Model
from pastalang.runtime.result import Result
from pastalang.runtime.scheduler.loop import Limits
from pastalang.runtime.tokens import MakeGuide
from pastalang.testing.exact import guides_for

PLENTY = 1 << 14
VOCABULARY = 320
Outcome = Result | PastaError
E = TypeVar("E", bound=Engine)


@dataclass(frozen=True)
class Way:
    """`kept`: cells for prompts. `pauses`: a seed for who rests when. `cells`: few, or None for plenty of them.

    Who rests says so in every pass, so a run that rests is never set back: it has no few cells. `chunk` and
    `requests` are the engine's limits; `again`: how often the same is run before, so that prompts are kept.
    """

    kept: int = 0
    pauses: int | None = None
    cells: int | None = None
    chunk: int | None = None
    requests: int | None = None
    again: int = 0


def ways() -> st.SearchStrategy[Way]:
    def maybe(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
        return st.one_of(st.none(), strategy)

    resting_or_scarce = st.one_of(
        st.fixed_dictionaries({"pauses": maybe(st.integers(0, 1 << 16))}),
        st.fixed_dictionaries({"cells": st.integers(100, 400)}),
    )
    others = st.fixed_dictionaries(
        {
            "kept": st.sampled_from((0, 40, 4096)),
            "chunk": maybe(st.integers(1, 6)),
            "requests": maybe(st.integers(1, 2)),
            "again": st.integers(0, 1),
        }
    )
    return st.builds(lambda one, more: Way(**one, **more), resting_or_scarce, others)


def run(plan: Plan, inputs: Sequence[Mapping[str, Any]], model: Model, way: Way, **options: Any) -> list[Outcome]:
    """What each request comes to. Afterwards every cell is free, or keeps a prompt."""
    model.cells = way.cells or PLENTY
    engine = engine_for(model, way)
    for _ in range(way.again):
        engine.batch(plan, inputs, **options)
    found = engine.batch(plan, inputs, **options)
    check_nothing_is_left(engine)
    return found


def engine_for(model: Model, way: Way, *, kind: type[E] = Engine) -> E:
    return kind(
        model,
        tokenizer(),
        limits=Limits(chunk=way.chunk, requests=way.requests),
        prefix_cells=way.kept,
        guides=guides(),
        may_move=None if way.pauses is None else resting(way.pauses),
    )


def check_nothing_is_left(engine: Engine) -> None:
    engine.check_integrity()
    assert engine.scheduler.is_idle
    kept = sum(len(node.cells) for node in engine.scheduler.prefix.nodes)
    assert engine.scheduler.cells.in_use == kept <= engine.scheduler.prefix.limit


def is_excused(found: Outcome, way: Way) -> bool:
    """Too small a memory may be refused; whatever is answered in it is the same."""
    return way.cells is not None and isinstance(found, OutOfMemory)


def resting(seed: int) -> Any:
    """Branches stand still now and then, and move sooner or later."""
    chance = random.Random(seed)
    return lambda branch: chance.random() < 0.6


@cache
def tokenizer() -> Any:
    return byte_tokenizer()


@cache
def guides() -> MakeGuide:
    """Guides are compiled once for all runs."""
    return guides_for(Engine(hashed_model(VOCABULARY), tokenizer()))


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


TEXTS = st.sampled_from(("a 12", "", "größer", "x" * 20, "one, two"))


@st.composite
def inputs_for(draw: st.DrawFn, plan: Plan) -> dict[str, Any]:
    """Of the programs of `pastalang.testing`: a title or stacked notes, and points."""
    found: dict[str, Any] = {}
    for one in plan.inputs:
        if one.each:
            found[one.name] = draw(st.lists(TEXTS, min_size=1, max_size=3))
        elif one.name == "points":
            found[one.name] = draw(st.lists(TEXTS, max_size=3))
        else:
            found[one.name] = draw(TEXTS)
    return found
