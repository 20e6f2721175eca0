from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from pastalang.compile import compile
from pastalang.runtime.engine import Engine
from pastalang.runtime.model.bytes import byte_tokenizer
from pastalang.runtime.model.fakes import uniform_model
from pastalang.runtime.options import Options, RunOptions, options_of


def test_type_checkers_and_the_runtime_know_the_same_options() -> None:
    assert get_type_hints(RunOptions) == get_type_hints(Options)


def test_every_option_is_described_once() -> None:
    described = [line.split()[0] for line in (Options.__doc__ or "").splitlines()[2:] if line.strip()]
    assert described == [field.name for field in fields(Options)]


def test_what_is_not_given_has_its_default() -> None:
    assert options_of({}) == Options()
    assert options_of({"seed": 3}).seed == 3


def test_a_name_that_is_no_option_is_told_with_the_right_one() -> None:
    engine = Engine(uniform_model(320), byte_tokenizer())
    program = compile("template t()\nassistant json {a: boolean}")
    with pytest.raises(TypeError, match="there is no option 'sed'; did you mean 'seed'"):
        engine.run(program, {}, sed=1)  # type: ignore[call-arg]
