"""Seeds and sampling: what repeats, what varies, and what does not change a draw."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import pytest

import pastalang
from pastalang.testing.fakes import FakeModel
from tests.api.engines import WARM, hashing, json_program, mini, text_program, uniform

PAIR = json_program(
    '  a: string(max=6)\n  b: "x" | "y" | "z"\n  c: string(max=4) after a', inputs='t: text = ""', says="{t}."
)


def text(seed: int = 0, program: pastalang.Program = PAIR, engine: Any = None, **options: Any) -> str:
    options = {"sampling": WARM, "on_truncated": "keep"} | options
    return str((engine or hashing(1)).run(program, seed=seed, **options).text)


def test_the_same_seed_draws_the_same_and_another_one_something_else() -> None:
    assert text(3) == text(3) and len({text(seed) for seed in range(6)}) == 6


def test_without_sampling_the_most_probable_token_is_taken_whatever_the_seed() -> None:
    assert len({text(seed, sampling=None) for seed in range(4)}) == 1
    assert {text(sampling=pastalang.Sampling(temperature=least)) for least in (0.0, 1e-6)} == {text(sampling=None)}


def test_decimal_numbers_are_those_of_floats() -> None:
    given = {"temperature": 0.75, "top_p": 0.75, "min_p": 0.125, "repetition_penalty": 1.5}
    exact: dict[str, Any] = {name: Decimal(value) for name, value in given.items()}
    assert text(3, sampling=pastalang.Sampling(**exact)) == text(3, sampling=pastalang.Sampling(**given))


def test_a_single_candidate_leaves_no_choice() -> None:
    greedy = text(sampling=None)
    assert text(5, sampling=pastalang.Sampling(temperature=5.0, top_k=1)) == greedy
    assert text(5, sampling=pastalang.Sampling(temperature=5.0, top_p=1e-6)) == greedy
    assert text(5, sampling=pastalang.Sampling(temperature=5.0, min_p=1.0)) == greedy


def test_a_penalty_makes_repetition_less_likely() -> None:
    program = text_program("{a: string(max=24)}")
    plain, fined = (
        uniform().run(program, sampling=pastalang.Sampling(repetition_penalty=penalty), on_truncated="keep").value["a"]
        for penalty in (1.0, 2.0)
    )
    assert len(set(fined)) >= len(set(plain))
    engine = hashing(4)
    results = [
        text(0, engine=engine, sampling=pastalang.Sampling(temperature=1.0, repetition_penalty=one))
        for one in (0.5, 1.0, 2.0)
    ]
    assert len(set(results)) > 1


def test_the_program_goes_before_the_call() -> None:
    fixed = json_program("  a: string(max=6) with (temperature=0)\n  b: string(max=6)")
    engine = hashing(2)
    found = [engine.run(fixed, seed=seed, sampling=WARM, on_truncated="keep").value for seed in range(4)]
    assert len({one["a"] for one in found}) == 1 and len({one["b"] for one in found}) == 4


def test_a_template_sets_the_sampling_of_its_holes() -> None:
    warm = pastalang.compile("template t() with (temperature=1.0)\nassistant json {\n  a: string(max=6)\n}\n")
    engine = hashing(2)
    assert len({engine.run(warm, seed=seed, on_truncated="keep").text for seed in range(4)}) == 4


@pytest.mark.parametrize("mode", ["strict", "lockstep", "sequential"])
def test_a_mode_is_a_word_or_a_member(mode: str) -> None:
    assert text(2, mode=mode) == text(2, mode=pastalang.Mode(mode))


def test_a_mode_changes_what_a_value_sees() -> None:
    assert len({text(1, mode=mode, sampling=None) for mode in pastalang.Mode}) > 1


WRONG = [
    ({"temperature": -1.0}, "`temperature` must be 0 or a number from 0.000001 to 100"),
    ({"temperature": math.nan}, "`temperature` must be 0 or a number from 0.000001 to 100"),
    ({"top_k": 0}, "`top_k` must be a whole number from 1 to 1000000, not 0"),
    ({"top_p": 0.0}, "`top_p` must be a number above 0 and up to 1, not 0.0"),
    ({"min_p": 1.5}, "`min_p` must be a number from 0 to 1, not 1.5"),
    ({"repetition_penalty": -1.0}, "`repetition_penalty` must be a number from 0.01 to 100"),
]


@pytest.mark.parametrize(("sampling", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_number_that_means_nothing_is_refused(sampling: Any, said: str) -> None:
    with pytest.raises(pastalang.BadInputs, match=re.escape(said)):
        uniform().run(PAIR, sampling=pastalang.Sampling(**sampling))


OPTIONS: list[tuple[Any, type[Exception], str]] = [
    ({"sampling": 0.7}, pastalang.BadInputs, "such as Sampling(temperature=0.7), not 0.7"),
    ({"seed": "x"}, pastalang.BadInputs, "`seed` must be a whole number"),
    ({"mode": "fast"}, pastalang.BadInputs, "`mode` must be `strict`, `lockstep` or `sequential`"),
    ({"drafts": 0}, pastalang.BadInputs, "`drafts` must be"),
    ({"temperature": 0.7}, TypeError, "write `sampling=pastalang.Sampling(temperature=0.7)`"),
    ({"max_tokens": 9}, TypeError, "pastalang.Tokens(20)"),
    ({"sed": 9}, TypeError, "did you mean `seed`"),
    ({"device": "cpu"}, TypeError, "Engine.load(..., device='cpu')"),
]


@pytest.mark.parametrize(("options", "error", "said"), OPTIONS, ids=[said for _, _, said in OPTIONS])
def test_an_option_that_is_none_is_refused_with_the_right_one(options: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        uniform().run(PAIR, **options)


# ── choices ──────────────────────────────────────────────────────────────────────────────────────────────


def _spelled(**chances: float) -> pastalang.Engine:
    """A model that gives these tokens their probabilities, each with a space before it, whatever it has read."""
    ids = mini().encoder.tokenizer.get_vocab()
    logits = [-30.0] * len(ids)
    for name, chance in chances.items():
        logits[ids[f"Ġ{name}"]] = math.log(chance)
    return pastalang.Engine(FakeModel(lambda _: logits, vocabulary=len(ids)), mini().encoder.tokenizer)


def test_a_choice_is_the_likeliest_option_and_not_the_one_of_the_likeliest_token() -> None:
    """No spelling of `true` is as likely as `false`; all of them together are."""
    result = _spelled(false=0.4, true=0.3, tr=0.2, t=0.1).run(json_program("  a: boolean"))
    assert result.value == {"a": True} and result.field("a").confidence == pytest.approx(0.6)


def test_null_is_written_if_all_ways_to_begin_it_are_likelier_than_a_value() -> None:
    program = json_program("  a: integer(0..9) | null")
    assert _spelled(**{"7": 0.4, "null": 0.3, "nu": 0.2, "n": 0.1}).run(program).value == {"a": None}
    assert _spelled(**{"7": 0.2, "3": 0.2, "5": 0.2, "null": 0.3, "n": 0.1}).run(program).value == {"a": 3}


def test_a_sampled_choice_is_tempered_and_cut_between_options() -> None:
    engine, program = _spelled(false=0.4, true=0.3, tr=0.2, t=0.1), json_program("  a: boolean")

    def share(**sampling: float | int) -> float:
        asked = pastalang.Sampling(**{"temperature": 1.0, **sampling})  # type: ignore[arg-type]
        return sum(engine.run(program, sampling=asked, seed=seed).value["a"] for seed in range(120)) / 120

    assert share() == pytest.approx(0.6, abs=0.1)
    assert share(temperature=0.5) == pytest.approx(0.36 / 0.52, abs=0.1)
    assert share(top_k=1) == 1
