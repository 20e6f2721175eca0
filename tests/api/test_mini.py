"""`pasta-mini`, the model that comes with the package: real values of real texts."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel

import pastalang
from tests.api.engines import mini

COFFEE = '''
template coffee(title: text)
system """You extract product attributes. Write null when the listing does not say."""
user """Title: {title}"""
assistant json {
  Brand: verbatim(title, max=12) | null
  "Roast type": verbatim(title, max=12) | null
  Flavor: verbatim(title, max=12) | null
  "Net content": verbatim(title, max=12) | null
}
'''


def test_a_program_takes_five_passes_and_thirteen_one_after_another() -> None:
    program = pastalang.compile(COFFEE)
    parallel = mini().run(program, title="Norvika Coffee, Dark Roast, 12 oz")
    assert parallel.value == {"Brand": "Norvika", "Roast type": "Dark Roast", "Flavor": None, "Net content": "12 oz"}
    assert parallel.usage.forward_passes == 5
    one_by_one = mini().run(program, title="Norvika Coffee, Dark Roast, 12 oz", mode="sequential")
    assert one_by_one.usage.forward_passes == one_by_one.usage.output_tokens >= 13


@pytest.mark.parametrize("source", ["nowhere/at-all", "./no-folder", "pasta-mni"])
def test_a_model_that_is_not_there_is_a_load_error(source: str) -> None:
    with pytest.raises(pastalang.LoadError):
        pastalang.Engine.load(source)


def test_a_notebook_marks_the_source_of_an_extraction_and_says_why_there_is_none() -> None:
    quote = Annotated[str, pastalang.Verbatim("text")]
    good, bad = pastalang.extract_many(dict[Literal["Brand"], quote], ["Title: Norvika <Coffee>", ""], model=mini())
    shown = good._repr_html_()
    assert "#1d2330" in shown and ">Norvika</mark>" in shown and "&lt;Coffee&gt;" in shown
    assert "error" in bad._repr_html_() and "<mark" not in bad._repr_html_()


class Bag(BaseModel):
    Brand: str
    Flavor: Annotated[str, pastalang.Verbatim("text")] = "none"
    NetContent: Annotated[str, pastalang.Verbatim("text")] = "unknown"


def test_a_key_with_a_default_has_it_where_the_text_does_not_say() -> None:
    found = mini().extract(Bag, "Norvika Coffee, Dark Roast, 12 oz", details=True)
    assert found.value == Bag(Brand="Norvika", Flavor="none", NetContent="12 oz")
    assert "Flavor" not in found.value.model_fields_set and found.field("Flavor").text == "null"
