"""From a number as written to its exact value, without ever building a number of a million digits."""

from __future__ import annotations

from decimal import Decimal

from pastalang.grammar.nodes import NumberValue
from pastalang.limits import MAX_NUMBER_DIGITS


def exact(number: NumberValue) -> Decimal | None:
    """The value, or None where it has more digits than the limit."""
    if len(number.text) > MAX_NUMBER_DIGITS:
        return None
    value = Decimal(number.text)
    if not value:
        return Decimal(0)
    return value if abs(value.adjusted()) <= MAX_NUMBER_DIGITS else None


def why_beyond(number: NumberValue) -> str | None:
    """What is wrong with a number that has no exact value here, as a part of a sentence; None where it has one."""
    if exact(number) is not None:
        return None
    if len(number.text) > MAX_NUMBER_DIGITS:
        return f"is written with more than {MAX_NUMBER_DIGITS} characters"
    if Decimal(number.text).adjusted() < 0:
        return f"is closer to 0 than 1e-{MAX_NUMBER_DIGITS}, the least that can be enforced"
    return f"is beyond 1e{MAX_NUMBER_DIGITS}, the most that can be enforced"


def whole(number: NumberValue) -> int | None:
    """The value as an integer (`1e3` and `2.0` are integers), or None."""
    value = exact(number)
    return int(value) if value is not None and value == value.to_integral_value() else None


def literal_number(number: NumberValue) -> int | Decimal | None:
    """An integer where it is written as one, an exact decimal otherwise; None beyond the limit."""
    value = exact(number)
    if value is None:
        return None
    return int(value) if number.text.lstrip("-").isdigit() else value
