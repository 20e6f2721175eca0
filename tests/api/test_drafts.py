"""Drafts: fewer passes, and the same answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.engines import WARM, hashing, json_program, writing

TITLE = "Norvika Coffee, Dark Roast, 12 oz, ground"
QUOTE = json_program(
    "  quote: verbatim(title, max=60)\n  again: string(max=40) after quote", inputs="title: text", says="{title}"
)
COPYING = {'"quote": ': '"Norvika Coffee, Dark Roast"', '"again": ': '"Dark Roast, 12 oz"'}


@pytest.mark.parametrize("drafts", ["auto", 1, 4, 16])
def test_drafts_give_the_same_answer_and_take_fewer_passes(drafts: Any) -> None:
    plain = writing(COPYING).run(QUOTE, title=TITLE)
    drafted = writing(COPYING).run(QUOTE, title=TITLE, drafts=drafts)
    assert drafted.text == plain.text and drafted.usage.forward_passes <= plain.usage.forward_passes
    assert [field.log_probabilities for field in drafted.fields] == [field.log_probabilities for field in plain.fields]
    if drafts != "auto":
        usage = drafted.usage
        assert usage.forward_passes < plain.usage.forward_passes
        assert usage.drafted_tokens >= usage.confirmed_tokens > 0


@pytest.mark.parametrize("seed", range(4))
def test_sampled_answers_stay_the_same_too(seed: int) -> None:
    found = {
        hashing(seed).run(QUOTE, title=TITLE, drafts=drafts, sampling=WARM, seed=seed, on_truncated="keep").text
        for drafts in ("off", "auto", 3)
    }
    assert len(found) == 1


def test_an_engine_may_draft_by_default_and_a_call_goes_before_it() -> None:
    engine = writing(COPYING, drafts=8)
    assert engine.run(QUOTE, title=TITLE).usage.confirmed_tokens > 0
    assert engine.run(QUOTE, title=TITLE, drafts="off").usage.drafted_tokens == 0


def test_a_program_goes_before_the_call() -> None:
    program = json_program('  quote: verbatim(title, max=60) with (drafts="off")', inputs="title: text", says="{title}")
    assert writing(COPYING).run(program, title=TITLE, drafts=8).usage.drafted_tokens == 0


def test_an_earlier_answer_is_guessed_again() -> None:
    program = json_program("  note: string(max=40)", inputs="title: text", says="{title}")
    engine = writing({'"note": ': '"nothing that stands anywhere"'}, drafts=8)
    first, second = (engine.run(program, title=title).usage for title in ("a", "b"))
    assert second.forward_passes < first.forward_passes


def test_the_trace_shows_what_was_guessed() -> None:
    result = writing(COPYING).run(QUOTE, title=TITLE, drafts=4)
    assert sum(one.confirmed for one in result.trace.drafts) == result.usage.confirmed_tokens
