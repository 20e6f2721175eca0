"""Numbers with random bounds and steps: only numbers that fit are accepted, alone and inside a list."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.grammar_guide import GrammarGuide
from pastalang.runtime.constraints.guide import Guide, GuideError, MachineState
from pastalang.runtime.constraints.lark import is_written_out
from pastalang.runtime.constraints.machine_guide import MachineGuide
from pastalang.values.fit import find_mismatches
from tests.properties.vocabularies import plain_bytes

Numeric = t.Integer | t.Number
_DIGITS = {t.Integer: 19, t.Number: 15}
WHOLE = st.one_of(
    st.integers(-12, 12), st.integers(-(10**6), 10**6), st.integers(1, 32).map(lambda power: 10**power),
    st.sampled_from([2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**18 + 1]),
).flatmap(lambda size: st.sampled_from([size, -size]))  # fmt: skip
FRACTIONS = st.builds(lambda digits, power: Decimal(digits).scaleb(-power), WHOLE, st.integers(0, 9))
STEPS = st.sampled_from([1, 2, 3, 7, 10, 97, 1_009, 10**6])
FINE_STEPS = st.sampled_from([Decimal(step) for step in ("1", "7", "0.5", "0.25", "0.01", "0.07", "1.5", "1e-6", "97")])


@st.composite
def numerics(draw: st.DrawFn) -> Numeric:
    is_whole = draw(st.booleans())
    ends = WHOLE if is_whole else FRACTIONS
    low, high = sorted(draw(st.tuples(ends, ends)))
    step = draw(st.none() | (STEPS if is_whole else FINE_STEPS))
    names = draw(
        st.sampled_from([("minimum", "maximum"), ("exclusive_minimum", "exclusive_maximum"), ("minimum", None),
                         (None, "maximum"), ("exclusive_minimum", None), (None, "exclusive_maximum"),
                         ("exclusive_minimum", "maximum"), ("minimum", "exclusive_maximum"), (None, None)])
    )  # fmt: skip
    bounds = {name: end for name, end in zip(names, (low, high), strict=True) if name is not None}
    limits: dict[str, Any] = {**bounds, "multiple_of": step}
    return (t.Integer if is_whole else t.Number)(**limits)


def candidates(type: Numeric) -> list[Decimal]:
    """Numbers at the bounds and beside them, and some that are near nothing."""
    bounds = [type.minimum, type.maximum, type.exclusive_minimum, type.exclusive_maximum]
    marks = [Decimal(0), *(Decimal(bound) for bound in bounds if bound is not None)]
    step = Decimal(type.multiple_of or 1)
    near = [Decimal(0), Decimal(1), step, Decimal("0.5"), Decimal("1e-9"), step * 10]
    around = {mark + sign * distance for mark in marks for distance in near for sign in (1, -1)}
    return sorted(around | {Decimal(int(mark / step) + more) * step for mark in marks for more in (-1, 0, 1)})


def is_right(type: Numeric, value: Decimal) -> bool:
    """By arithmetic alone."""
    number = Fraction(value)
    return (
        (isinstance(type, t.Number) or number.denominator == 1)
        and (type.minimum is None or number >= Fraction(type.minimum))
        and (type.maximum is None or number <= Fraction(type.maximum))
        and (type.exclusive_minimum is None or number > Fraction(type.exclusive_minimum))
        and (type.exclusive_maximum is None or number < Fraction(type.exclusive_maximum))
        and (type.multiple_of is None or (number / Fraction(type.multiple_of)).denominator == 1)
    )


def spelled(value: Decimal) -> str:
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def is_short(type: Numeric, text: str) -> bool:
    """Whether it has no more digits than every number may have, whatever the bounds."""
    return len(text.lstrip("-0.").replace(".", "")) <= _DIGITS[t.Integer if isinstance(type, t.Integer) else t.Number]


def is_sure(type: Numeric, text: str, *, in_list: bool) -> bool:
    """Whether it has to be taken. Steps of many remainders are counted with doubles inside a list."""
    return is_short(type, text) and not (in_list and abs(Decimal(text)) > 2**53 and not is_written_out(type))


def takes(guide: Guide, text: str, step: int | Decimal | None) -> bool:
    """Inside a list, a multiple of a large fraction may have to have as many places as the fraction."""
    if isinstance(guide, GrammarGuide):
        places = -min(0, int(Decimal(step or 1).as_tuple().exponent))
        padded = text + "0" * (places - len(text.partition(".")[2])) if "." in text else text
        return guide.takes(f"[{text}]") or guide.takes(f"[{padded}]")
    assert isinstance(guide, MachineGuide)
    state: MachineState | None = guide.machine.start
    for byte in text.encode():
        state = None if state is None else guide.machine.step(state, byte)
    return state is not None and guide.machine.accepts(state)


def compiled(type: t.Type) -> Guide | GuideError:
    try:
        return compile_guide(type, form=Form.JSON, follow=",", vocabulary=plain_bytes())
    except GuideError as problem:
        return problem


@settings(max_examples=40)
@given(numerics())
@example(t.Number(minimum=Decimal(-1), exclusive_maximum=Decimal(0)))
@example(t.Number(maximum=Decimal("1e20")))
@example(t.Integer(minimum=1, multiple_of=1009))
@example(t.Number(minimum=Decimal("0.5"), multiple_of=Decimal("97.03")))
@example(t.Integer(minimum=-(2**63)))
@example(t.Integer(exclusive_minimum=-(10**20), maximum=0, multiple_of=97))
def test_only_numbers_that_fit_the_bounds_are_accepted(type: Numeric) -> None:
    values = candidates(type)
    right = {spelled(value) for value in values if is_right(type, value)}
    for in_list in (False, True):
        guide = compiled(t.Array(type, 1, 1) if in_list else type)
        sure = {text for text in right if is_sure(type, text, in_list=in_list)}
        if isinstance(guide, GuideError):
            assert not sure, guide
            continue
        for value in values:
            text = spelled(value)
            assert (text in right) == (not find_mismatches(type, value if "." in text else int(value), {}))
            if takes(guide, text, type.multiple_of):
                assert text in right, text
            else:
                assert text not in sure, text
