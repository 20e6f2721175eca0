"""What is decoded again, token for token: the engine against the slow decoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastalang import Mode, Sampling, build_plan
from tests.oracle.toy_models import Family
from tests.properties import invariants
from tests.properties.cases import FEW, Case
from tests.properties.models import Hashes, Kind, Weights
from tests.properties.repairs import LIST_WITH_WAITS, OBJECT, program
from tests.properties.ways import PLENTY, Way
from tests.properties.wishes import Wish
from tests.runtime.float64 import wide_softmax

NESTED = "{ x: integer(0..9), y: { z: integer(0..9) } }"
LOOSE = f'f0: "tv" | "phone" | null\n  f1: "tv" | "phone" | null after f0\n  f2: {NESTED}\n  f3: {NESTED}'
IN_TURN = """f0: "tv" | "phone" | null
  f1: { x: integer(0..9), y: string(max=3) } | null after f0
  f2: "tv" | "phone" | null after f0, f1
  f3: "tv" | "phone" | null after f0
  sequential { g0: integer(0..99), g1: string(max=3), g2: integer(0..9) }"""
WAITED = f"f0: {NESTED}\n  f1: string(max=4)\n  f2: integer(0..99)\n  f3: integer(0..99) after f2, f1"


@FEW(20)
@given(st.data())
def test_what_is_decoded_again_is_what_the_slow_decoder_says(data: st.DataObject) -> None:
    invariants.check_repairs(data)


@FEW(10)
@given(st.data())
def test_each_document_of_a_stack_is_repaired_as_if_it_were_alone(data: st.DataObject) -> None:
    invariants.check_repaired_stack(data)


@pytest.mark.parametrize(
    ("body", "mode", "wish", "seed", "sampling", "kind", "words"),
    [
        (LIST_WITH_WAITS, Mode.STRICT, Wish(0.1, 0, 1, None, True), 0, Sampling(), Hashes(5), "bytes"),
        (LIST_WITH_WAITS, Mode.LOCKSTEP, Wish(0.1, 4, 4, 0.5, True), 4, Sampling(1.0, None, 0.9), Hashes(5), "bytes"),
        (
            LOOSE, Mode.LOCKSTEP, Wish(0.6, 203, 4, None, False), 65535, Sampling(None, 40, None, 0.3), Hashes(6, 3.0),
            "words",
        ),
        (WAITED, Mode.LOCKSTEP, Wish(0.6, 563, 2, 0.5, True), 418, Sampling(None, 40), Hashes(5), "bytes"),
        (
            OBJECT, Mode.LOCKSTEP, Wish(0.3, 218, 3, None, True), 2332, Sampling(1.0, 40, 0.3, 0.3, 1.3),
            Hashes(5, 3.0), "lines",
        ),
        (
            IN_TURN, Mode.SEQUENTIAL, Wish(0.1, 54, 3, 0.5, True), 37460, Sampling(0.7, 1, None, 0.3, 1.3),
            Weights(Family.MISTRAL, window=9), "bytes",
        ),
    ],
    ids=(
        "a list that gets shorter", "doubts in a list", "lock-step with values that stay", "a joiner of lock-step",
        "an object that becomes null", "a value that is said again",
    ),
)  # fmt: skip
def test_what_was_once_wrong(
    body: str, mode: Mode, wish: Wish, seed: int, sampling: Sampling, kind: Kind, words: str
) -> None:
    asked = program(body)
    case = Case(build_plan(asked.only_template, asked, mode=mode), ({},), seed, sampling, kind, words, wish)
    with wide_softmax():
        for way in (Way(), Way(chunk=3), Way(pauses=seed)):
            invariants.check_all(case, invariants.run(case, kind.model(PLENTY), way), way)
