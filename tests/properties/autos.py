"""Strategy for texts in which the model begins branches itself: models that like tags, tokens that make them."""

from __future__ import annotations

from hypothesis import strategies as st

import pastalang
from pastalang import Sampling, build_plan
from pastalang.plan.branches import Overrun
from tests.properties.cases import SEEDS, TEXTS, Case, inputs_for, planned, samplings
from tests.properties.models import FAMILIES, TAGS, Hashes, Kind
from tests.properties.sources import compiled, sources
from tests.properties.wishes import wishes

LIKING: tuple[Kind, ...] = tuple(Hashes(seed, liking) for seed in (5, 6, 7) for liking in (3.0, 4.0, 6.0))


def program(policy: str, most: int, each: str, thought: str) -> pastalang.Program:
    return pastalang.compile(
        f'template t({each}title: text)\nuser """\n{{title}}\n"""\nassistant {thought}auto({policy}, max={most})\n'
    )


def auto_cases() -> st.SearchStrategy[Case]:
    return st.one_of(whole_answers(), among_others())


@st.composite
def among_others(draw: st.DrawFn) -> Case:
    """Programs in which such texts stand among other values, some of which are decoded again."""
    plan = draw(planned(sources(depth=draw(st.sampled_from((0, 1, 1))), autos=True).map(compiled)))
    requests = draw(st.lists(inputs_for(plan), min_size=1, max_size=2))
    wish = draw(st.one_of(st.none(), wishes())) if plan.output is not None else None
    words = draw(st.sampled_from(sorted(TAGS)))
    return Case(plan, tuple(requests), draw(SEEDS), draw(samplings()), draw(st.sampled_from(LIKING)), words, wish)


@st.composite
def whole_answers(draw: st.DrawFn) -> Case:
    """Few of the models with weights come to write a tag."""
    policy = draw(st.sampled_from(("pasta", "pasta", "apar")))
    each = draw(st.sampled_from(("", "", "each ")))
    asked = program(policy, draw(st.sampled_from((6, 15, 30, 50))), each, "")
    plan = build_plan(asked.only_template, asked, overrun=draw(st.sampled_from((Overrun.CONTINUE, *Overrun))))
    kind = draw(st.sampled_from((*LIKING, *FAMILIES[-2:])))
    texts = draw(st.lists(TEXTS, min_size=1, max_size=2))
    requests = ({"title": texts if each else texts[0]}, {"title": texts[-1:] if each else texts[-1]})
    sampling = draw(st.builds(Sampling, st.sampled_from((0.7, 1.0, 1.5)), st.sampled_from((None, 40))))
    words = draw(st.sampled_from(sorted(TAGS)))
    return Case(plan, requests[: draw(st.integers(1, 2))], draw(SEEDS), sampling, kind, words)
