"""Terms of outlines and compiled regular expressions are accepted wherever a type is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from outlines import types as ot
from pydantic import BaseModel, Field

import pastalang
from tests.api.command import Pasta
from tests.api.engines import WARM, hashing

CODE = re.compile("[A-C]{2}-[0-9]{3}")
TYPES: tuple[tuple[Any, Callable[[Any], bool]], ...] = (
    (ot.date, lambda value: ot.date.matches(value)),
    (ot.either("tv", "phone"), lambda value: value in ("tv", "phone")),
    (ot.exactly(3, ot.digit), lambda value: re.fullmatch("[0-9]{3}", value) is not None),
    (ot.json_schema({"type": "integer", "minimum": 1, "maximum": 9}), lambda value: 1 <= value <= 9),
    (list[ot.date], lambda value: all(map(ot.date.matches, value))),
    (Annotated[str, ot.date], lambda value: ot.date.matches(value)),
    (CODE, lambda value: CODE.fullmatch(value) is not None),
)
MODULE = """
import re
from outlines import types as ot

code = re.compile("[A-C]{2}-[0-9]{3}")
kind = ot.either("tv", "phone")
"""


@pytest.mark.parametrize(("type", "is_right"), TYPES)
def test_extract_and_run_answer_with_a_value_of_the_type(type: Any, is_right: Callable[[Any], bool]) -> None:
    engine, program = hashing(), pastalang.from_model(type)
    for seed in range(3):
        assert is_right(engine.extract(type, "x", seed=seed, sampling=WARM))
        assert is_right(engine.run(program, text="x", seed=seed, sampling=WARM, model=type).value)


def test_the_fields_of_a_model_may_have_patterns() -> None:
    class Device(BaseModel):
        kind: Annotated[str, ot.Choice(["tv", "phone"])]
        code: Annotated[str, Field(pattern="^[A-C]{2}$")]
        sold: list[Annotated[str, ot.date]] = Field(max_length=2)

    value = hashing().extract(Device, "x", sampling=WARM)
    assert value.kind in ("tv", "phone")
    assert re.fullmatch("[A-C]{2}", value.code)
    assert all(map(ot.date.matches, value.sold))


def test_an_example_that_does_not_match_is_refused() -> None:
    assert pastalang.from_model(CODE, examples=[("x", "AB-123")])
    with pytest.raises(pastalang.InputError, match="does not match"):
        pastalang.from_model(CODE, examples=[("x", "AB-123 ")])


def test_what_cannot_be_enforced_is_refused_with_its_reason() -> None:
    for type, reason in (
        (re.compile("a(?=b)b"), "look-around"), (re.compile("ab", re.IGNORECASE), "flags"), (ot.isbn, "look-around"),
    ):  # fmt: skip
        with pytest.raises(pastalang.NotExpressible, match=reason):
            pastalang.from_model(type)


@pytest.mark.parametrize(("name", "written"), [("code", "[A-C]{2}-[0-9]{3}"), ("kind", '"tv" | "phone"')])
def test_import_writes_a_program_of_the_type(
    pasta: Pasta, monkeypatch: pytest.MonkeyPatch, name: str, written: str
) -> None:
    monkeypatch.syspath_prepend(Path.cwd())
    Path("kinds.py").write_text(MODULE, encoding="utf-8")
    ended = pasta("import", f"kinds:{name}")
    assert ended.code == 0, ended.error
    assert written in ended.out
    assert pastalang.compile(ended.out).templates.keys() == {name}
