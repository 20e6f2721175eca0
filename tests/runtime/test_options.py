from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel

from pastalang import (
    BadInputs,
    Engine,
    FileError,
    InputError,
    Mode,
    PastaError,
    Sampling,
    build_plan,
    compile,
    from_schema,
    model_of,
    schema_of,
)
from pastalang.runtime.call import Options, RunOptions, options_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import uniform_model
from tests.oracle.toy_models import toy_model


def test_type_checkers_and_the_runtime_know_the_same_options() -> None:
    assert get_type_hints(RunOptions) | {"model": Any} == get_type_hints(Options)


def test_every_option_is_described_once() -> None:
    lines = [line.removeprefix("    ") for line in (Options.__doc__ or "").splitlines()[2:]]
    described = [line.split()[0] for line in lines if line.strip() and not line.startswith(" ")]
    assert described == [field.name for field in fields(Options)]


def test_what_is_not_given_has_its_default() -> None:
    assert options_of({}) == Options()
    assert options_of({"seed": 3}).seed == 3


PROGRAM = compile("template t()\nassistant json {a: boolean}")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seed": True}, "`seed` must be a whole number, not True"),
        ({"sampling": Sampling(on_truncated="drop")}, "`on_truncated` must be `keep`, `raise` or `null`, not 'drop'"),
        ({"sampling": Sampling(temperature=1e-300)}, "`temperature` must be 0 or a number from 0.000001 to 100"),
        (
            {"sampling": Sampling(repetition_penalty=1e-300)},
            "`repetition_penalty` must be a number from 0.01 to 100, not 1e-300",
        ),
        ({"template": "report"}, "the program has no template `report`; it has `t`"),
        ({"template": 1}, "`template` must be the name of a template, not 1"),
        ({"template": []}, "`template` must be the name of a template, not []"),
        ({"details": "x"}, "`details` must be True or False, not 'x'"),
        ({"any_mode": 1}, "`any_mode` must be True or False, not 1"),
        ({"retry_below": "a"}, "`retry_below` is a probability above 0 and up to 1, not 'a'"),
        ({"retry_below": True}, "`retry_below` is a probability above 0 and up to 1, not True"),
        ({"repair": -1}, "`repair` is a number of attempts"),
    ],
)
def test_a_value_that_an_option_may_not_have_is_told_before_anything_runs(options: Any, told: str) -> None:
    engine = Engine(uniform_model(320), byte_tokenizer())
    with pytest.raises(BadInputs, match=re.escape(told)):
        engine.run(PROGRAM, {}, **options)
    assert engine.scheduler.is_idle


def test_all_that_is_wrong_with_the_options_is_told_at_once() -> None:
    with pytest.raises(BadInputs) as caught:
        options_of({"mode": "fast", "seed": 0.5, "sampling": Sampling(top_k=-3, min_p=2.0)})  # type: ignore[typeddict-item]
    assert len(str(caught.value).splitlines()) == 4


def test_a_program_is_planned_once_for_many_runs() -> None:
    engine = Engine(uniform_model(320), byte_tokenizer())
    plan = engine.plan(PROGRAM)
    assert engine.plan(PROGRAM) is plan and engine.plan(PROGRAM, mode="strict") is plan
    assert engine.plan(PROGRAM, mode=Mode.SEQUENTIAL).mode is Mode.SEQUENTIAL
    for number in range(100):
        assert engine.plan(compile(f"template t{number}()\nassistant json {{a: boolean}}")).template == f"t{number}"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: Engine("pasta-mini"), "`pastalang.Engine.load('pasta-mini')`"),  # type: ignore[arg-type]
        (lambda: Engine(uniform_model(320)), "`pastalang.Engine.load(model, tokenizer)`"),
        (lambda: Engine.load(toy_model()), "`Engine.load(model, tokenizer)`"),
    ],
)
def test_an_engine_is_made_by_loading_a_model(call: Any, told: str) -> None:
    with pytest.raises((TypeError, PastaError), match=re.escape(told)):
        call()
    assert Engine.load(toy_model(), byte_tokenizer()).run(PROGRAM).value.keys() == {"a"}


@pytest.mark.parametrize("inputs", [0, [1], "x", {1: 2}, {"x": b"bytes"}, {"x": 10**5000}, {"n": 10**5000}])
def test_inputs_that_are_none_are_told_and_leave_nothing_behind(inputs: Any) -> None:
    program = compile('template t(x: text = "", n: number = 1)\nuser """\n{x} {n}\n"""\nassistant json {a: boolean}')
    engine = Engine(uniform_model(320), byte_tokenizer())
    with pytest.raises(BadInputs):
        engine.run(program, inputs)
    kinds = [type(one).__name__ for one in engine.batch(program, [{}, inputs, {}])]
    assert kinds == ["Result", "BadInputs", "Result"] and engine.scheduler.is_idle


def test_a_batch_whose_inputs_break_off_leaves_nothing_behind() -> None:
    def broken() -> Any:
        yield {}
        raise OSError("the disk is gone")

    engine = Engine(uniform_model(320), byte_tokenizer())
    with pytest.raises(OSError, match="disk"):
        engine.batch(PROGRAM, broken())
    assert engine.scheduler.is_idle


TITLE = compile('template t(title: text, seed: text = "")\nuser """\n{title}{seed}\n"""\nassistant json {a: boolean}')


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    engine, path = Engine(uniform_model(320), byte_tokenizer()), tmp_path / "a.pasta"
    path.write_text("template t()\nassistant json {a: boolean}", encoding="utf-8")
    assert engine.plan(path) is engine.plan(str(path))
    assert engine.run(path).value.keys() == {"a"}
    path.write_text("template t()\nassistant json {b: boolean}", encoding="utf-8")
    assert engine.run(str(path)).value.keys() == {"b"}


class Record(BaseModel):
    a: bool


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda engine: engine.run(TITLE, title="a", response_model=Record), TypeError, "is `model=`"),
        (lambda engine: engine.run(TITLE, title="a", prompt="Hi"), TypeError, "messages are part of a program"),
        (lambda engine: engine.run(TITLE, title="a", max_retries=3), TypeError, "write `repair=3`"),
        (
            lambda engine: engine.run(TITLE, tilte="a"),
            TypeError,
            "unknown option or input `tilte`; did you mean `title`",
        ),
        (
            lambda engine: engine.run(TITLE, "a"),
            BadInputs,
            "inputs have to be a dict by name, `{\"title\": ...}`, not 'a'",
        ),
        (
            lambda engine: engine.load("pasta-mini", temperature=1),
            TypeError,
            "it belongs to a call: `engine.run(..., sampling=pastalang.Sampling(temperature=1))`",
        ),
        (
            lambda engine: engine.load("pasta-mini", seed=3),
            TypeError,
            "it belongs to a call: `engine.run(..., seed=3)`",
        ),
        (lambda engine: engine.load("pasta-mini", torch_dtype="auto"), TypeError, "write `dtype='auto'`"),
        (lambda engine: engine.load("pasta-mini", cell=9), TypeError, "unknown option `cell`; did you mean `cells`?"),
        (lambda engine: engine.run(TITLE, {"title": "a"}, title="b"), BadInputs, "`title` is passed twice"),
        (lambda engine: engine.run(Record, title="a"), TypeError, "write `extract(Record, text)`"),
        (lambda engine: engine.run("template t()\n", title="a"), TypeError, "pastalang.compile"),
        (lambda engine: engine.run("nowhere.pasta", title="a"), FileError, "nowhere.pasta"),
        (lambda engine: engine.run(TITLE, title="a", model="Qwen/Qwen3-0.6B"), BadInputs, "`pastalang.Engine.load`"),
        (lambda engine: engine.run(TITLE, title="a", model=Record(a=True)), BadInputs, "write `model=Record`"),
        (lambda engine: engine.run(TITLE, title="a", model=Engine), BadInputs, "a type that Pydantic can validate"),
    ],
)
def test_a_call_that_guesses_wrong_is_told_the_right_one(call: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=re.escape(told)):
        call(Engine(uniform_model(320), byte_tokenizer()))


@pytest.mark.parametrize("program", [None, b"template t()", 3])
def test_what_is_no_program_is_told(program: Any) -> None:
    engine = Engine(uniform_model(320), byte_tokenizer())
    with pytest.raises(TypeError, match="expected a program"):
        engine.run(program, {})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"limits": 5}, "`limits` must be a pastalang.Limits, not 5"),
        ({"prefix_cells": "x"}, "`prefix_cells` must be a whole number of at least 0, not 'x'"),
        ({"prefix_cells": 0.5}, "`prefix_cells` must be a whole number of at least 0, not 0.5"),
        ({"prefix_cells": -1}, "`prefix_cells` must be a whole number of at least 0, not -1"),
    ],
)
def test_an_engine_refuses_what_it_could_not_run_with(options: Any, told: str) -> None:
    with pytest.raises(BadInputs, match=re.escape(told)):
        Engine(uniform_model(320), byte_tokenizer(), **options)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: build_plan(PROGRAM.only_template, PROGRAM, overrun=[]), InputError, "`overrun` is one of "),
        (lambda: compile("template t()", name=None), TypeError, "`name` is a text, not None"),
        (lambda: from_schema("{}", name=None), TypeError, "`name` is a text, not None"),
        (lambda: schema_of(PROGRAM, template={}), TypeError, "`template` is the name of a template, not {}"),
        (lambda: model_of("x"), TypeError, "made of a Program"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_program_is_told_as_such(call: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=re.escape(told)):
        call()
