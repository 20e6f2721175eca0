"""A mask equals the result of trying every token byte by byte, which is the oracle."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pytest

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import Machine, MachineState
from pastalang.runtime.constraints.machine_guide import MachineGuide
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import Tokens
from tests.properties.hole_types import SOURCE
from tests.properties.hostile import SIMPLE
from tests.properties.vocabularies import VOCABULARIES

FOLLOWS = ("", ",\n  ", ", ", ". The end", "12")
MORE: tuple[t.Type, ...] = (
    *(t.String(format=name) for name in ("email", "url", "uri", "hostname", "ipv6", "duration", "date-time")),
    t.Regex("[a-z]{2}[a-f]+[^x]{0,3}"),
    t.Regex("[A-Z][a-zäöü]+( [A-Z][a-z]+)*"),
    t.Regex("[^,]{2,5}|[^\\x00-\\x7f]+"),
    t.Regex("[0-9]+(\\.[0-9]{2})?( (EUR|USD))?"),
    t.Integer(minimum=-7, maximum=1_000_003),
    t.Number(minimum=Decimal("-0.5"), multiple_of=Decimal("0.25")),
    t.Union(tuple(t.Literal(f"Brand {number * 37 % 101} {'GmbH' if number % 3 else 'Ltd'}") for number in range(60))),
    t.String(pattern="[^a]*", max_chars=12),
    t.String(pattern='([^,]|\\n|")*', min_chars=3, max_chars=9),
    t.String(pattern="([a-zäöü]+ )*[a-z]+", min_chars=6),
    t.String(format="email", max_chars=24),
    t.String(format="hostname", min_chars=12, max_chars=20),
    t.Union((t.String(format="email"), t.Null(), t.Integer())),
)


def allowed_slowly(
    machine: Machine, seam: Seam, state: MachineState, remaining: int | None
) -> tuple[set[int], set[int]]:
    """Tokens behind which an ending fits; and tokens that do nothing but cross the border."""
    inside, crossing = set(), set()
    for token, text in enumerate(seam.tokens.vocabulary.spelling):
        if text is None:
            continue
        if _stays_inside(machine, state, text, remaining):
            inside.add(token)
        elif _crosses(machine, seam, state, text):
            crossing.add(token)
    return inside, crossing


def _stays_inside(machine: Machine, state: MachineState, text: bytes, remaining: int | None) -> bool:
    here: MachineState | None = state
    for byte in text:
        here = machine.step(here, byte)
        if here is None or machine.stop_bytes(here):  # behind a stop nothing counts
            return here is not None
    ending = machine.ending(here)
    return ending is not None and (remaining is None or len(ending) <= remaining - 1)


def _crosses(machine: Machine, seam: Seam, state: MachineState, text: bytes) -> bool:
    here: MachineState | None = state
    for at, byte in enumerate(text):
        assert here is not None
        if at and machine.accepts(here) and seam.agrees(text[at:]):
            return True
        here = machine.step(here, byte)
        if here is None:
            return False
    return False


def _check(type: t.Type, form: Form, follow: str, tokens: Tokens, rng: random.Random, walks: int) -> None:
    guide = compile_guide(type, form=form, follow=follow, vocabulary=tokens, sources={"source": SOURCE})
    assert isinstance(guide, MachineGuide)
    machine, seam = guide.machine, guide.seam
    for _ in range(walks):
        state = machine.start
        for _ in range(12):
            shortest = machine.ending(state)
            assert shortest is not None
            left = max(1, len(shortest) + rng.randrange(4))
            for remaining in (None, left):
                fast = set(tokens_of(machine.mask(state, remaining)).tolist())
                inside, crossing = allowed_slowly(machine, seam, state, remaining)
                least = inside if _is_open(type, form) else inside | crossing
                assert least <= fast <= inside | crossing, (type, form, follow, remaining)
            state = _further(machine, state, tokens, rng)
            if state is None or not machine.can_continue(state):
                break


def _is_open(type: t.Type, form: Form) -> bool:
    """Free running text does not end inside a token: whatever follows it could stand in it as well."""
    arms = type.arms if isinstance(type, t.Union) else (type,)
    free = any(isinstance(arm, t.String) and arm.pattern is None and arm.format is None for arm in arms)
    return free and form is not Form.JSON


def _further(machine: Machine, state: MachineState, tokens: Tokens, rng: random.Random) -> MachineState | None:
    """Behind a token that is allowed, as long as it stays inside."""
    choices = tokens_of(machine.mask(state, None))
    if not len(choices):
        return None
    here: MachineState | None = state
    for byte in tokens.text(int(rng.choice(choices))) or b"":
        assert here is not None
        here = machine.step(here, byte)
        if here is None or machine.stop_bytes(here):
            return None
    return here


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_a_mask_equals_trying_every_token(kind: str) -> None:
    tokens, rng = VOCABULARIES[kind](), random.Random(1)
    for type in (*SIMPLE, *MORE):
        _check(type, rng.choice(list(Form)), rng.choice(FOLLOWS), tokens, rng, walks=1)


@pytest.mark.long
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("seed", range(5))
def test_a_mask_equals_trying_every_token_at_length(kind: str, seed: int) -> None:
    tokens, rng = VOCABULARIES[kind](), random.Random(f"masks {seed}")
    for type in (*SIMPLE, *MORE):
        for form in Form:
            for follow in FOLLOWS:
                _check(type, form, follow, tokens, rng, walks=3)


def test_masks_are_read_only() -> None:
    tokens = VOCABULARIES["bytes"]()
    state = compile_guide(t.Integer(), form=Form.JSON, follow=",", vocabulary=tokens).start(max_tokens=8)
    with pytest.raises(ValueError, match="read-only"):
        np.bitwise_not(state.allowed(), out=state.allowed())
