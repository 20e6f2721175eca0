"""What an annotation of a field says to PastaLang, and that Pydantic does not notice it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, HttpUrl, create_model
from typing_extensions import TypedDict

import pastalang
from pastalang import After, NotExpressible, Sequential, Tokens, Verbatim

QUOTED = (
    'x: `Verbatim("text")` copies any words of its input, so {} cannot be enforced: leave out one of the two, or check '
    "it in a validator, with `repair`"
)


class Line(BaseModel):
    name: str


class Record(BaseModel):
    brand: Annotated[str | None, Verbatim("text"), Tokens(12)] = None
    name: Annotated[str, Tokens(9), Field(max_length=40)] = Field(description="as sold")
    tags: list[Annotated[str, Tokens(3)]]
    line: Annotated[Line, After("brand")]
    other: Line
    size: Annotated[Line | None, Sequential()] = None
    head: Annotated[str, Sequential(), After("brand", "name")] = Field(alias="headline")
    slug: Annotated[str, After("head")]


class Keys(TypedDict):
    a: Annotated[str, Tokens(3)]
    b: Annotated[str, After("a")]


@dataclass
class Data:
    a: Annotated[str, Tokens(3)]
    b: Annotated[str, After("a")]


def answer_of(model: Any) -> str:
    return pastalang.from_model(model).source.text.partition("assistant json ")[2]


def test_annotations_become_part_of_the_program() -> None:
    assert (
        answer_of(Record)
        == """\
{
  brand: verbatim(text, max=12) | null = null
  name: string(max=9, max_chars=40) "as sold"
  tags: [string(max=3)]
  line: Line after brand
  other: Line
  sequential { size: Line | null = null, headline as head: string after brand, name }
  slug: string after headline
}
"""
    )


@pytest.mark.parametrize("model", [Keys, Data])
def test_annotations_of_other_records_are_read_too(model: Any) -> None:
    assert answer_of(model) == "{\n  a: string(max=3)\n  b: string after a\n}\n"


def test_pydantic_validates_as_without_annotations() -> None:
    given = {"name": "n", "tags": ["t"], "line": {"name": "l"}, "other": {"name": "o"}, "headline": "h", "slug": "s"}
    assert Record.model_validate(given).model_dump(by_alias=True) == {**given, "brand": None, "size": None}
    assert Record.model_json_schema()["properties"]["line"] == {"$ref": "#/$defs/Line"}
    with pytest.raises(ValueError, match="at most 40 characters"):
        Record.model_validate({**given, "name": "n" * 41})


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Annotated[bool, Tokens(3)], "x: `Tokens(3)`: true or false has no limit of tokens"),
        (
            Annotated[str, Tokens(2)],
            "x: `Tokens(2)` leaves no room for text, because the quotes take 2: write Tokens(4)",
        ),
        (Annotated[int, Verbatim("text")], 'x: `Verbatim("text")`: only a string can be quoted, not an integer'),
        (Annotated[str, Field(max_length=9), Verbatim("text")], QUOTED.format("the length of the field")),
        (Annotated[str, Field(pattern="a+"), Verbatim("text")] | None, QUOTED.format("the pattern of the field")),
        (list[Annotated[str, After("other")]], "x[]: `After('other')` belongs to a field, not to a part of its type"),
        (Annotated[str, Sequential()] | None, "x: `Sequential()` belongs to a field, not to a part of its type"),
        (
            Annotated[str, After("othr")],
            "`x` waits for `othr`, which is not a field of the same model; did you mean `other`?",
        ),
        (Annotated[str, After("x")], "`x` waits for itself"),
        (Annotated[str, Tokens(3, "null")], "`x` cannot become null: a string is never null"),
        (
            list[Annotated[str | None, Tokens(3, "null")]],
            "x[]: `on_truncated` of `Tokens(3, 'null')` belongs to a field, not to a part of its type",
        ),
    ],
)
def test_an_annotation_that_means_nothing_there_is_refused(annotation: Any, reason: str) -> None:
    with pytest.raises(NotExpressible) as refused:
        pastalang.from_model(create_model("Model", other=str, x=annotation))
    assert str(refused.value) == f"Model cannot be expressed:\n  {reason}"


@pytest.mark.parametrize(
    "make", [lambda: Tokens(0), lambda: Tokens("9"), lambda: Tokens(9, "nul"), lambda: Verbatim(""), lambda: After()]
)  # type: ignore[arg-type]
def test_an_annotation_is_checked_where_it_is_written(make: Any) -> None:
    with pytest.raises(ValueError, match="takes"):
        make()


def test_a_field_says_what_becomes_of_a_cut_value() -> None:
    model = create_model("Model", x=(Annotated[str | None, Tokens(3, on_truncated="null")], None))
    assert answer_of(model) == '{\n  x: string(max=3) | null = null with (on_truncated="null")\n}\n'


def test_an_address_reserves_no_more_than_a_string() -> None:
    link = create_model("Link", title=str, url=HttpUrl)
    addresses, titles = pastalang.from_model(create_model("Page", links=list[link])), create_model("Title", url=str)  # type: ignore[valid-type]
    assert "at most 32 tokens, because no limit of tokens is set: links[].title, links[].url" in addresses.notes
    assert pastalang.from_model(titles).notes == ("at most 64 tokens, because no limit of tokens is set: url",)
