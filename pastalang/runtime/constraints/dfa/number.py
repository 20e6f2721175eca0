"""The automaton of numbers within bounds, over their digits: exact, without exponents.

It accepts no leading zeros, no `-0`, and no more digits than a double can distinguish. All arithmetic is on integers:
a number is counted in units of its last possible decimal place. `12.5` with two places is 1250 units.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import lcm

from pastalang.program import types as t
from pastalang.runtime.constraints.dfa.table import group_edges
from pastalang.runtime.constraints.guide import GuideError

_ZERO, _MINUS, _POINT = ord("0"), ord("-"), ord(".")
_INTEGER_DIGITS = 19  # as many as 64-bit integers have; bounds may allow more
_EXACT_DIGITS = 15  # decimal digits that a double keeps


@dataclass(frozen=True, slots=True)
class NumberPrefix:
    """The number so far: its digits as one integer, the number of digits before the point (`digits`) and after it.

    `places` None: no point yet. `digits` 0: no digit yet.
    """

    negative: bool
    value: int
    digits: int
    places: int | None


@dataclass(frozen=True, slots=True)
class _Rule:
    """Magnitudes in units, both ends included, for one sign; empty if `low > high`."""

    low: int
    high: int


class NumberAutomaton:
    """See `table.Automaton`."""

    def __init__(self, type: t.Integer | t.Number) -> None:
        self._places = _places(type)
        self._step = max(1, int(Decimal(type.multiple_of or 0).scaleb(self._places)))
        if not type.multiple_of and isinstance(type, t.Integer):
            self._step = 1
        low, high = _limits(type, self._places)
        self._digits = _digits(type, low, high, self._places)
        self._exact = max(_EXACT_DIGITS, self._places) if type.multiple_of is None else self._digits + self._places
        most = 10 ** (self._digits + self._places) - 1
        low, high = max(-most, low if low is not None else -most), min(most, high if high is not None else most)
        self._rules = {False: _Rule(max(low, 0), high), True: _Rule(max(-high, 1), -low)}
        # if only the number of digits is bounded, all prefixes but a single zero have the same continuations
        self._is_free = {
            negative: rule.low <= int(negative) and rule.high >= most for negative, rule in self._rules.items()
        }
        self._alike: dict[Hashable, NumberPrefix] = {}
        self._known: dict[NumberPrefix, bytes | None] = {}
        self.start: Hashable = NumberPrefix(False, 0, 0, None)
        if not any(self._shortest(state) is not None for state in (self.start, NumberPrefix(True, 0, 0, None))):
            raise GuideError("no number fits these bounds")

    def edges(self, state: Hashable) -> Mapping[int, Hashable]:
        assert isinstance(state, NumberPrefix)
        found: dict[int, Hashable] = {}
        for byte, following in self._candidates(state):
            shared = self._share(following)
            if self._shortest(shared) is not None:
                found[byte] = shared
        return found

    def ways(self, state: Hashable) -> Iterator[tuple[bytes, Hashable]]:
        return group_edges(dict(sorted(self.edges(state).items())))

    def accepts(self, state: Hashable) -> bool:
        assert isinstance(state, NumberPrefix)
        if not state.digits or state.places == 0:
            return False
        rule, units = self._rules[state.negative], state.value * self._unit(state.places or 0)
        return rule.low <= units <= rule.high and units % self._step == 0

    def ending(self, state: Hashable) -> bytes:
        assert isinstance(state, NumberPrefix)
        found = self._shortest(state)
        if state == self.start:
            negative = self._shortest(NumberPrefix(True, 0, 0, None))
            if found is None or (negative is not None and len(negative) + 1 < len(found)):
                assert negative is not None
                return b"-" + negative
        assert found is not None
        return found

    def closing(self, begun: bytes) -> bytes | None:
        """A short ending after the beginning of a number; None if no number begins like that."""
        state: Hashable | None = self.start
        for byte in begun:
            state = None if state is None else self.edges(state).get(byte)
        return None if state is None else self.ending(state)

    def _unit(self, places: int) -> int:
        return int(10 ** (self._places - places))

    def _candidates(self, state: NumberPrefix) -> list[tuple[int, NumberPrefix]]:
        if not state.digits:
            digits = [(_ZERO + digit, NumberPrefix(state.negative, digit, 1, None)) for digit in range(10)]
            return digits if state.negative else [(_MINUS, NumberPrefix(True, 0, 0, None)), *digits]
        places = None if state.places is None else state.places + 1
        more = (places or 0) <= self._places and (places is None or _significant(state) + places <= self._exact)
        grows = state.value > 0 or state.places is not None
        digits = [
            (
                _ZERO + digit,
                NumberPrefix(state.negative, state.value * 10 + digit, state.digits + (places is None), places),
            )
            for digit in range(10)
            if more and grows
        ]
        if state.places is None and self._places:
            digits.append((_POINT, NumberPrefix(state.negative, state.value, state.digits, 0)))
        return digits

    # ── possible continuations ─────────────────────────────────────────────────────────────────────────────

    def _shortest(self, state: NumberPrefix) -> bytes | None:
        """The fewest further bytes to a valid number; None if there is none."""
        if state not in self._known:
            self._known[state] = self._find_shortest(state)
        return self._known[state]

    def _find_shortest(self, state: NumberPrefix) -> bytes | None:
        if not state.digits:
            found = [
                (str(digit).encode() + rest)
                for digit in range(10)
                if (rest := self._shortest(NumberPrefix(state.negative, digit, 1, None))) is not None
            ]
            return min(found, key=len, default=None)
        if self.accepts(state):
            return b""
        if state.places is not None:
            return self._with_places(state, state.places)
        best: bytes | None = None
        further = 0 if state.value == 0 else max(0, self._digits - state.digits)
        for more in range(further + 1):
            found_here = self._with_digits(state, more)
            if found_here is not None and (best is None or len(found_here) < len(best)):
                best = found_here
            if best is not None and len(best) <= more + 1:
                break
        return best

    def _with_digits(self, state: NumberPrefix, more: int) -> bytes | None:
        """The ending with exactly `more` digits before the point, and as few places as possible."""
        low = state.value * 10 ** (more + self._places)
        high = (state.value + 1) * 10 ** (more + self._places) - 1
        room = self._places if state.value == 0 and not more else min(self._places, self._exact - state.digits - more)
        for places in range(max(room, 0) + 1):
            units = self._first(state.negative, low, high, places)
            if units is not None:
                digits = str(units // 10**self._places)[state.digits :]
                return (digits + self._fraction(units, places)).encode()
        return None

    def _with_places(self, state: NumberPrefix, written: int) -> bytes | None:
        scale = self._places - written
        low, high = state.value * 10**scale, (state.value + 1) * 10**scale - 1
        room = min(self._places, self._exact - _significant(state))
        for places in range(max(written, 1), max(room, written) + 1):
            units = self._first(state.negative, low, high, places)
            if units is not None:
                return self._fraction(units, places)[1 + written :].encode()
        return None

    def _fraction(self, units: int, places: int) -> str:
        if not places:
            return ""
        return "." + str(units % 10**self._places).zfill(self._places)[:places]

    def _first(self, negative: bool, low: int, high: int, places: int) -> int | None:
        """The smallest valid number of units in the range that needs at most `places` decimal places."""
        rule = self._rules[negative]
        low, high = max(low, rule.low), min(high, rule.high)
        grid = lcm(self._step, 10 ** (self._places - places))
        found = -(-low // grid) * grid
        return found if found <= high else None

    def _share(self, state: NumberPrefix) -> NumberPrefix:
        """One state for all prefixes with the same continuations, so that there are few states."""
        if self._is_free[state.negative] and state.value and state.digits <= self._digits:
            first = state.value * self._unit(state.places or 0) if self._step > 1 else 0
            key: Hashable = (state.negative, state.digits, state.places, first % self._step, _significant(state))
            return self._alike.setdefault(key, state)
        if state.places is not None:
            blocks = [(state.value * 10 ** (self._places - state.places), 10 ** (self._places - state.places))]
        elif state.value == 0:
            return state
        else:
            most = max(0, self._digits - state.digits)
            blocks = [
                (state.value * 10 ** (more + self._places), 10 ** (more + self._places)) for more in range(most + 1)
            ]
        rule = self._rules[state.negative]
        where = tuple(_position(start, start + size - 1, rule) for start, size in blocks)
        if any(place is None for place in where):
            return state
        past = (state.negative, state.digits, state.places, _significant(state), state.value == 0)
        key = (past, where, blocks[0][0] % self._step)
        return self._alike.setdefault(key, state)


def _significant(state: NumberPrefix) -> int:
    """The significant digits before the point; a single zero is not one."""
    whole = state.digits
    return 0 if whole == 1 and _whole(state) == 0 else whole


def _whole(state: NumberPrefix) -> int:
    return state.value // int(10 ** (state.places or 0))


def _position(low: int, high: int, rule: _Rule) -> bool | None:
    """Whether the numbers from `low` to `high` keep the rule: True if all do, False if none does, None if some do."""
    if high < rule.low or low > rule.high:
        return False
    return True if rule.low <= low and high <= rule.high else None


def _places(type: t.Integer | t.Number) -> int:
    if isinstance(type, t.Integer):
        return 0
    if type.multiple_of is not None:
        return _decimals(type.multiple_of)
    bounds = (type.minimum, type.maximum, type.exclusive_minimum, type.exclusive_maximum)
    needed = max((_decimals(bound) for bound in bounds if bound is not None), default=0)
    return max(_EXACT_DIGITS, needed + 2)


def _decimals(value: Decimal) -> int:
    exponent = Decimal(value).normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def _limits(type: t.Integer | t.Number, places: int) -> tuple[int | None, int | None]:
    """In units, both ends included."""
    unit = 10**places
    lows = [_ceil(type.minimum, unit)] if type.minimum is not None else []
    if type.exclusive_minimum is not None:
        lows.append(_floor(type.exclusive_minimum, unit) + 1)
    highs = [_floor(type.maximum, unit)] if type.maximum is not None else []
    if type.exclusive_maximum is not None:
        highs.append(_ceil(type.exclusive_maximum, unit) - 1)
    return max(lows, default=None), min(highs, default=None)


def _floor(value: int | Decimal, unit: int) -> int:
    numerator, denominator = Decimal(value).as_integer_ratio() if isinstance(value, Decimal) else (value, 1)
    return numerator * unit // denominator


def _ceil(value: int | Decimal, unit: int) -> int:
    return -_floor(-value, unit)


def _digits(type: t.Integer | t.Number, low: int | None, high: int | None, places: int) -> int:
    """The most digits before the point: enough for both bounds, and for a step beyond one of them."""
    usual = _INTEGER_DIGITS if isinstance(type, t.Integer) else _EXACT_DIGITS
    known = [len(str(abs(bound) // 10**places)) for bound in (low, high) if bound is not None]
    if low is not None and high is not None:
        return max(known)
    step = len(str(abs(int(Decimal(type.multiple_of))))) if type.multiple_of is not None else 1
    return max(usual, step + 1, *(digits + step + 1 for digits in known)) if known else max(usual, step + 1)
