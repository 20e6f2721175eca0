"""Where two values of an unsure field are equally probable, the first one stays."""

from __future__ import annotations

import pytest

import pastalang
from pastalang.program.types import Sampling
from pastalang.runtime.engine import Engine
from pastalang.runtime.events import FieldAgain
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import uniform_model

PROGRAM = pastalang.compile('template t()\nuser """\nGo.\n"""\nassistant json { a: integer(0..9) }\n')
WARM = Sampling(temperature=1.0)


def engine() -> Engine:
    return Engine(uniform_model(320), byte_tokenizer())


@pytest.mark.parametrize("seed", range(4))
def test_a_value_stays_if_the_next_one_is_only_as_probable(seed: int) -> None:
    before = engine().run(PROGRAM, {}, seed=seed, sampling=WARM)
    events = list(engine().stream(PROGRAM, {}, seed=seed, sampling=WARM, retry_below=0.9))
    assert [event.reason for event in events if isinstance(event, FieldAgain)] == ["unsure", "it stays as it was"]
    after = engine().run(PROGRAM, {}, seed=seed, sampling=WARM, retry_below=0.9)
    assert after.value == before.value
    assert after.usage.attempts == 1
