"""Plans: what is decoded at the same time, what needs what, and how it is drawn."""

from __future__ import annotations

import pytest

import pastalang
from pastalang.testing import sees, sees_all
from tests.api.engines import WARM, hashing, json_program, uniform

PRODUCT = json_program(
    '  brand: string(max=12)\n  kind: "tv" | "other"\n  headline: string(max=24) after brand\n'
    "  sequential {\n    reason: string(max=5)\n    verdict: boolean\n  }\n"
    "  lines: [{ name: string(max=3), total: integer(0..9) }](max=2)"
)


def plan(mode: str = "strict") -> pastalang.Plan:
    return pastalang.build_plan(PRODUCT.only_template, PRODUCT, mode=mode)


def test_what_sees_what_can_be_asked() -> None:
    assert sees_all(PRODUCT, "headline", "brand") and not sees(PRODUCT, "brand", "headline")
    assert not sees(PRODUCT, "kind", "brand") and sees(plan("lockstep"), "kind", "brand")
    assert sees_all(plan("sequential"), "kind", "brand")
    with pytest.raises(pastalang.PastaError, match="did you mean `headline`"):
        sees(PRODUCT, "headlin", "brand")


def test_a_plan_is_run_as_its_program_is() -> None:
    engine = hashing(2)
    for mode in ("strict", "lockstep", "sequential"):
        first = engine.run(plan(mode), sampling=WARM, on_truncated="keep")
        second = engine.run(PRODUCT, mode=mode, sampling=WARM, on_truncated="keep")
        assert first.text == second.text and first.usage.forward_passes == second.usage.forward_passes


def test_a_plan_has_its_mode_and_its_template() -> None:
    assert plan("lockstep").mode is pastalang.Mode.LOCKSTEP and plan().template == "t"
    with pytest.raises(pastalang.BadInputs, match="the plan belongs to the template `t`"):
        uniform().run(plan(), template="other")
    assert uniform().run(plan(), template="t").text == uniform().run(plan()).text
    with pytest.raises(pastalang.InputError, match="`mode` is one of strict"):
        plan("fast")


def test_a_plan_is_shown_as_text_and_as_a_picture() -> None:
    assert "headline" in repr(plan()) and plan()._repr_html_().startswith("<svg")


def test_a_program_that_may_grow_without_end_is_refused() -> None:
    with pytest.raises(pastalang.ProgramError, match="may grow to 2,001,001 branches; the limit is 100,000"):
        json_program("  a: [{ b: [{ c: string, d: string }](max=1000) }](max=1000)")


def test_what_is_no_template_is_told() -> None:
    with pytest.raises(TypeError, match="a plan is built for a template of a program"):
        pastalang.build_plan(1, 1)  # type: ignore[arg-type]


def test_a_call_may_choose_the_placement_and_a_plan_has_its_own() -> None:
    dense = pastalang.build_plan(PRODUCT.only_template, PRODUCT, placement="dense")
    assert "strict, dense" in repr(dense)
    engine = hashing()
    found = [engine.run(PRODUCT, sampling=WARM, placement=one).text for one in ("gaps", "dense", None)]
    assert found[1] == engine.run(dense, sampling=WARM).text != found[0] == found[2]
    with pytest.raises(pastalang.InputError, match="placement of the plan is dense, which a call cannot change"):
        engine.run(dense, placement="gaps")
    with pytest.raises(pastalang.InputError, match="`placement` must be `gaps` or `dense`, not 'tight'"):
        engine.run(PRODUCT, placement="tight")


@pytest.mark.parametrize(("option", "value"), [("mode", "lockstep"), ("overrun", "paper")])
def test_what_needs_gaps_has_no_dense_plan(option: str, value: str) -> None:
    with pytest.raises(pastalang.PlanError, match="the placement cannot be dense"):
        pastalang.build_plan(PRODUCT.only_template, PRODUCT, placement="dense", **{option: value})
