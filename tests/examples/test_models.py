"""The examples in both spellings: as programs and as types of Python they declare the same, and both run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import pastalang
from examples.models import JOBS
from pastalang import Plan
from pastalang.plan.branches import Hole, Repeat
from pastalang.plan.structure import walk_plan
from pastalang.runtime.question import program_for
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import uniform_model

TEXTS = ("05-comparison-report", "06-outline-then-expand")  # running text, which no type of Python describes
RECORDS = [name for name in JOBS if name not in TEXTS]


def given(name: str) -> dict[str, Any]:
    inputs: dict[str, Any] = json.loads(Path(f"examples/data/{name}.json").read_text("utf-8"))
    return inputs


def programs(name: str) -> tuple[pastalang.Program, pastalang.Program]:
    """As a file, and as `extract` makes it: its texts are called `text` and `context`."""
    return pastalang.load(f"examples/{name}.pasta"), program_for(JOBS[name])


def plan(program: pastalang.Program) -> Plan:
    return pastalang.build_plan(program.only_template, program)


def limits(program: pastalang.Program) -> dict[str, tuple[int, ...]]:
    segments = (segment for _, _, segment in walk_plan(plan(program)))
    return {
        one.field: (one.max_tokens,) if isinstance(one, Hole) else (one.minimum, one.maximum)
        for one in segments
        if isinstance(one, Hole | Repeat)
    }


def without_titles(schema: Any) -> Any:
    """A class of Python has a name, and an object in a program has none."""
    match schema:
        case dict():
            return {
                key: without_titles(part) for key, part in schema.items() if key != "title" or isinstance(part, dict)
            }
        case list():
            return [without_titles(part) for part in schema]
        case _:
            return schema


@pytest.mark.parametrize("name", RECORDS)
def test_both_spellings_declare_the_same_and_plan_alike(name: str) -> None:
    program, model = programs(name)
    wanted, found = without_titles(pastalang.schema_of(program)), without_titles(pastalang.schema_of(model))
    if name == "03-resume":  # `EmailStr` needs a package of its own
        assert wanted["properties"].pop("email") != found["properties"].pop("email")
    assert found == wanted
    assert limits(model) == limits(program)
    assert set(plan(model).graph().edges) == set(plan(program).graph().edges)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_and_a_record_share_the_values_that_they_have_in_common(name: str) -> None:
    program, model = ({path.rsplit(".", 1)[-1]: most for path, most in limits(one).items()} for one in programs(name))
    shared = (program.keys() & model.keys()) - {"confidence", "outline"}  # one is quoted in a record, one a list there
    assert len(shared) >= 2
    assert {key: program[key] for key in shared} == {key: model[key] for key in shared}


@pytest.mark.parametrize("name", JOBS)
def test_both_spellings_run(name: str) -> None:
    engine = pastalang.Engine(uniform_model(320), byte_tokenizer(), on_truncated="keep")
    inputs = given(name)
    result = engine.run(f"examples/{name}.pasta", inputs, seed=1)
    assert result.fields
    text = next(value for value in inputs.values() if isinstance(value, str))
    found = engine.extract(JOBS[name], text, context=inputs.get("sources", ()), seed=1)
    adapter: TypeAdapter[Any] = TypeAdapter(JOBS[name])
    assert adapter.validate_python(adapter.dump_python(found, by_alias=True)) == found


def test_a_quotation_says_which_source_it_is_from() -> None:
    engine = pastalang.Engine(uniform_model(320), byte_tokenizer(), on_truncated="keep")
    inputs = given("11-quoted-answers")
    quote = engine.run("examples/11-quoted-answers.pasta", inputs, seed=1).field("claims[0].quote")
    assert quote.source is not None and quote.source.item in (0, 1)
    assert inputs["sources"][quote.source.item][quote.source.start : quote.source.end] == quote.value
