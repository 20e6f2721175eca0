"""Values that are copied from a text: what can be copied, and where it stands."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel

import pastalang
from tests.api.engines import WARM, hashing, json_program, writing

TITLE = "Sharp 42 inch TV, “smart” – größe 100 cm"


@pytest.mark.parametrize("seed", range(8))
def test_a_quotation_is_whole_words_of_its_source_with_their_place(seed: int) -> None:
    program = json_program("  quote: verbatim(title, max=40)", inputs="title: text", says="{title}")
    result = hashing(seed).run(program, title=TITLE, sampling=WARM, on_truncated="keep")
    [field] = result.fields
    assert field.source is not None and field.source.path == "title" and field.source.item is None
    assert TITLE[field.source.start : field.source.end] == field.value == result.value["quote"]
    if not field.truncated:
        before, after = TITLE[: field.source.start][-1:], TITLE[field.source.end :][:1]
        assert not (before.isalnum() and field.value[:1].isalnum())
        assert not (after.isalnum() and field.value[-1:].isalnum())


def test_a_model_that_wants_other_words_gets_the_ones_that_are_there() -> None:
    program = json_program("  quote: verbatim(title, max=12)", inputs="title: text", says="{title}")
    assert writing({'"quote": ': '"Sony"'}).run(program, title="Sharp TV").value["quote"] in ("Sharp", "Sharp TV", "TV")
    assert writing({'"quote": ': '"TV"'}).run(program, title="Sharp TV").value["quote"] == "TV"


def test_any_characters_may_be_quoted_if_the_program_says_so() -> None:
    program = json_program('  q: verbatim(title, max=9, at="characters")', inputs="title: text", says="{title}")
    result = writing({'"q": ': '"har"'}).run(program, title="Sharp TV")
    assert result.value == {"q": "har"}
    assert (result.fields[0].source.start, result.fields[0].source.end) == (1, 4)  # type: ignore[union-attr]


def test_a_quotation_from_a_list_of_texts_names_its_element() -> None:
    program = json_program(
        "  q: verbatim(pages, max=20)", inputs="pages: [text]", says="{for page in pages}{page} {end}"
    )
    result = writing({'"q": ': '"made in"'}).run(program, pages=["roasted in Oslo", "made in Rome"])
    span = result.field("q").source
    assert span is not None and (span.item, span.path, span.name) == (1, "pages[1]", "pages")
    assert result.sources["pages[1]"][span.start : span.end] == "made in"


def test_a_value_that_stands_there_several_times_says_so() -> None:
    program = json_program("  q: verbatim(text, max=9)", inputs="text: text", says="{text}")
    span = writing({'"q": ': '"ho"'}).run(program, text="ho he ho").field("q").source
    assert span is not None and (span.start, span.occurrences) == (0, 2)


@pytest.mark.parametrize("text", ["<end>", 'Say "hi"\\now', "User:\n\nAssistant:\n", "🙂 שלום", "a\tb"])
def test_whatever_stands_in_a_source_can_be_quoted(text: str) -> None:
    class Quote(BaseModel):
        words: Annotated[str, pastalang.Verbatim("text"), pastalang.Tokens(40)]

    found = hashing(2).extract(Quote, text, details=True, on_truncated="keep")
    span = found.field("words").source
    assert span is not None and found.sources["text"][span.start : span.end] == found.value.words


def test_an_empty_source_leaves_nothing_to_quote() -> None:
    program = json_program("  q: verbatim(text, max=9) | null\n  b: boolean", inputs="text: text", says="{text}.")
    assert hashing().run(program, text="").value["q"] is None
    strict = json_program("  q: verbatim(text, max=9)", inputs="text: text", says="{text}.")
    with pytest.raises(pastalang.PastaError, match="q"):
        hashing().run(strict, text="")
