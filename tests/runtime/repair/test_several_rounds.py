"""Repairs behind repairs: what was decoded again is taken up once more, counted, judged and seen like the first."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from pastalang import Done, Engine, Invalid, Mode, Sampling
from tests.properties.test_events import told_in_the_end
from tests.runtime.repair.test_review import GROUP, LINES, WARM, engine, fakes, program, refusing


def test_who_waited_sees_a_list_that_was_decoded_again_in_the_order_of_the_program() -> None:
    """Layers with a window look at the last tokens of this order."""

    def before_total(runner: Engine) -> list[int]:
        path = [token.path for token in fakes(runner).fed if runner.encoder.decode([token.token]) == "t"][-1]
        text = runner.encoder.decode([token.token for token in path])
        return [text.rindex(part) for part in ("[", "]", '"sum"', '"t')]

    asked = program("""
  lines: [{ name: string(max=4), amount: integer(0..99), sum: integer(0..9) after amount }](3..4)
  total: integer(0..999) after lines
  other: integer(0..9)
""")
    plain, runner = engine(), engine()
    name = plain.run(asked, {}, sampling=WARM).value["lines"][-1]["name"]
    order = before_total(plain)
    assert order == sorted(order)

    class Line(BaseModel):
        name: Any
        amount: Any
        sum: Any

        @field_validator("name")
        @classmethod
        def judge(cls, value: Any) -> Any:
            assert value != name
            return value

    class Picky(BaseModel):
        lines: list[Line]
        total: Any
        other: Any

    assert runner.run(asked, {}, sampling=WARM, model=Picky, repair=3).answers[0].field("total").attempts == 2
    order = before_total(runner)
    assert order == sorted(order)


def test_a_penalty_holds_all_that_a_branch_has_written_against_a_value_that_is_written_again() -> None:
    """Its beginning, which an earlier request may have left, and what was written before the attempt."""
    asked = program("  a: string(max=6)\n  b: string(max=6)")
    penalised = Sampling(temperature=1.0, repetition_penalty=3.0)

    def texts(**options: Any) -> list[str]:
        asks: dict[str, Any] = {"model": refusing("b", a=1), "repair": 2, "keep_invalid": True}
        runner = engine(**options)
        return [
            runner.run(asked, {}, sampling=penalised, mode="sequential", seed=seed, **asks).text for seed in range(6)
        ]

    assert texts() == texts(prefix_cells=0)


@pytest.mark.parametrize(("cells", "last"), [(47, 1 << 14), (1 << 14, 55)], ids=["cells", "positions"])
@pytest.mark.parametrize("repair", [0, 3])
def test_an_answer_stays_that_there_is_no_room_to_decode_again(cells: int, last: int, repair: int) -> None:
    asked, runner = program('  a: string(max=6)\n  b: "tv" | "phone" after a'), engine(cells=cells, prefix_cells=0)
    runner.scheduler._max_position = last
    first = runner.run(asked, {}, sampling=WARM)
    options = {"model": refusing("a", b=1), "repair": repair, "keep_invalid": True} if repair else {"retry_below": 0.99}
    *events, done = runner.stream(asked, {}, sampling=WARM, **options)  # type: ignore[arg-type]
    assert isinstance(done, Done) and (done.result.text, done.result.usage.attempts) == (first.text, 0)
    assert [(one.attempts, "no room" in one.reason) for one in done.result.problems] == [(1, True)] * bool(repair)
    assert told_in_the_end(events) == {(one.path, one.items): one.text for one in first.fields}


@pytest.mark.parametrize("mode", Mode)
def test_attempts_give_back_the_memory_of_those_before_them(mode: Mode) -> None:
    """Nothing pleases the model, so there are as many attempts as are allowed: their number costs no memory."""
    for asked in (GROUP, LINES):
        names = list(engine().run(asked, {}, mode=mode).value)
        peaks = []
        for repair in (4, 40):
            with pytest.raises(Invalid) as caught:
                engine().run(asked, {}, mode=mode, sampling=WARM, model=refusing(names[-1]), repair=repair)
            assert caught.value.problems[0].attempts == repair + 1
            peaks.append(caught.value.result.usage.peak_cells)
        assert peaks[1] < 1.5 * peaks[0], "the memory of replaced branches is kept"
