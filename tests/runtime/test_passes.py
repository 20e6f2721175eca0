"""The engine takes the passes that a plan asks for: the situations in which the two have disagreed, one each."""

from __future__ import annotations

from typing import Any

import pytest

import pastalang
from pastalang import Engine, Mode, Result, Sampling
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model, scripted_model

LIST_OF_ENDS = pastalang.compile('''
template t()
user """Go."""
assistant text """
{fork tip (2..4)}{n}. {line: string(max=4, min_chars=0)}{end}# {last: string(max=4, min_chars=0)}
"""
''')
FORK_BEHIND_AN_END = pastalang.compile('''
template t(title: text)
user """Go."""
assistant text """
Say {line: string(max=4, min_chars=0)}{title}{async aside}{word: "a" | "b"}{end}
{sync}so {last: string(max=4, min_chars=0)}
"""
''')
KNOWN_AT_ONCE = pastalang.compile('''
template t()
user """Go."""
assistant json {
  kind: "television" | "phone"
  flags: [boolean](1..3, max_tokens=30)
  note: string(max=12)
}
''')
JOINED_BEFORE_ANYTHING_IS_DRAWN = pastalang.compile('''
template t(title: text)
user """Go."""
assistant text """
{fork item (2..2)}- {async aside}{title}{end}, {sync}then
{end}
{last: string(max=4, min_chars=0)}
"""
''')
WAITS_FOR_WHAT_IS_WRITTEN_BEHIND_IT = pastalang.compile('''
template t()
user """Go."""
assistant json {
  note: string(max=6) after count
  count: integer(1..1)
}
''')


def run(model: Any, program: Any, mode: Mode = Mode.STRICT, seed: int = 0, **inputs: str) -> Result:
    engine = Engine(model, byte_tokenizer())
    return engine.run(program, inputs, mode=mode, seed=seed, sampling=Sampling(temperature=1.0))


def always(token: int) -> Any:
    return scripted_model(lambda fed: token, 320)


END = byte_tokenizer().eos_token_id


def test_behind_a_value_that_ends_with_the_turn_a_list_decides_in_the_same_pass() -> None:
    result = run(always(END), LIST_OF_ENDS)
    assert result.usage.forward_passes == result.usage.critical_path
    drawn = [drawn.forward_pass for drawn in result.trace.drawn]
    assert len(drawn) > len(set(drawn)), "a token that is not fed and the next one come from the same logits"


def test_a_branch_forked_behind_a_value_that_ends_with_the_turn_draws_in_the_same_pass() -> None:
    result = run(always(END), FORK_BEHIND_AN_END, title="")
    assert [drawn.forward_pass for drawn in result.trace.drawn] == [1, 1, 2]
    assert result.usage.forward_passes == result.usage.critical_path


@pytest.mark.parametrize("seed", range(12))
def test_in_lock_step_what_is_forced_of_a_value_that_has_ended_is_fed_in_one_pass(seed: int) -> None:
    result = run(hashed_model(320, seed=seed), KNOWN_AT_ONCE, Mode.LOCKSTEP, seed)
    assert result.usage.forward_passes == result.usage.critical_path


def test_a_join_of_what_was_never_drawn_goes_on_by_itself() -> None:
    result = run(always(END), JOINED_BEFORE_ANYTHING_IS_DRAWN, title="x")
    assert result.text.startswith("- x, then\n- x, then\n")
    assert result.usage.forward_passes == result.usage.critical_path == 1


def test_a_value_may_wait_for_one_that_is_forced_and_written_behind_it() -> None:
    result = run(hashed_model(320), WAITS_FOR_WHAT_IS_WRITTEN_BEHIND_IT)
    assert result.value["count"] == 1
    assert result.usage.forward_passes == result.usage.critical_path
