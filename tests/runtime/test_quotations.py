"""Where the quotations of an answer stand in the texts that it was given."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pastalang
from pastalang import DeadEnd, Engine
from pastalang.program.types import QuoteUnit
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.values.quotes import BORDER, QuotedPlace, find_quotation

JSON, TEXT = "assistant json {{\n{}\n}}\n", 'assistant text """\n{}\n"""\n'
# name -> inputs, answer, the values of the inputs, the path of the source of each field
CASES: dict[str, tuple[str, str, Any, dict[str, set[str]]]] = {
    "text": (
        "a: text", JSON.format("x: verbatim(a)\ny: verbatim(a) | null"), {"a": 'e\u0301😀 "b"\n'},
        {"x": {"a"}, "y": {"a"}},
    ),
    "record": ("a: {b: {c: text}}", JSON.format("x: verbatim(a.b.c)"), {"a": {"b": {"c": "xyz"}}}, {"x": {"a.b.c"}}),
    "texts": (
        "a: [text]", JSON.format("x: verbatim(a)\ny: [verbatim(a)](2..3)\nz: {string: verbatim(a)}(1..2)"),
        {"a": ["ab😀", "", "cd"]}, {name: {"a[0]", "a[2]"} for name in "xyz"},
    ),
    "records": (
        "a: [{b: text, c: text}]", JSON.format("x: verbatim(a.b)\ny: [{z: verbatim(a.c)}](1..2)"),
        {"a": [{"b": "ab", "c": "xy"}, {"b": "cd", "c": "zw"}]},
        {"x": {"a[0].b", "a[1].b"}, "y[].z": {"a[0].c", "a[1].c"}},
    ),
    "stack": ("each a: text", JSON.format("x: verbatim(a)"), {"a": ["ab", "cd"]}, {"x": {"a[0]", "a[1]"}}),
    "items": (
        "a: [{b: [text]}]",
        TEXT.format("{fork p in a}\n{fork q in p.b}\n* {x: verbatim(q)} {y: verbatim(p.b)}\n{end}\n{end}"),
        {"a": [{"b": ["ab"]}, {"b": ["cd", "ef"]}]},
        {name: {"a[0].b[0]", "a[1].b[0]", "a[1].b[1]"} for name in ("p[].q[].x", "p[].q[].y")},
    ),
    "parts": (
        "a: [{b: text}]", TEXT.format("{fork p in a}\n* {p.b} {x: verbatim(p.b)}\n{end}"),
        {"a": [{"b": "abc"}, {"b": "zz"}]}, {"p[].x": {"a[0].b", "a[1].b"}},
    ),
    "fields": (
        "a: [text]", TEXT.format("{fork p in a}\n* {x: verbatim(p)} {y: verbatim(x)}\n{end}"), {"a": ["ab", "cd"]},
        {"p[].x": {"a[0]", "a[1]"}, "p[].y": {"p[0].x", "p[1].x"}},
    ),
    "chain": (
        "a: text", TEXT.format("{fork p (2..2)}\n* {x: verbatim(a)} {y: verbatim(x)}\n{end}"), {"a": "abcd"},
        {"p[].x": {"a"}, "p[].y": {"p[0].x", "p[1].x"}},
    ),
    "written": (
        "", TEXT.format("{l: [string(max=4)](2..3)}\n{fork p in l}\n* {x: verbatim(p)}\n{end}"), {},
        {"p[].x": {"l[0]", "l[1]", "l[2]"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["strict", "sequential"])
@pytest.mark.parametrize("name", CASES)
def test_a_quotation_stands_where_its_field_says(name: str, mode: str) -> None:
    inputs, answer, values, sources = CASES[name]
    program = pastalang.compile(f'template t({inputs})\nuser """\nGo.\n"""\n{answer}')
    for seed in range(3):
        result = Engine(hashed_model(320, seed=seed), byte_tokenizer()).run(program, values, mode=mode)
        for field in result.fields:
            wanted = set() if field.value is None else sources.get(field.path, set())
            assert bool(field.sources) == bool(wanted) and {span.path for span in field.sources} <= wanted
            for span in field.sources:
                value = field.value
                for step in span.within:
                    value = value[step]
                assert result.sources[span.path][span.start : span.end] == value
                assert span.path.startswith(span.name) and span.occurrences >= 1
                if name in ("items", "parts", "fields"):  # a branch over an item quotes that item, or all of its texts
                    within = [int(one) for one in re.findall(r"\[(\d+)\]", span.path)]
                    most = 1 if field.path == "p[].q[].y" else None
                    assert tuple(within[:most]) == field.items[:most]
                assert (span.item is None) == (name not in ("texts", "records") and field.path != "p[].q[].y")


def test_an_empty_text_is_named_with_its_item() -> None:
    program = pastalang.compile(
        'template t(each title: text)\nuser """\n{title}\n"""\nassistant json {\nv: verbatim(title)\n}\n'
    )
    engine = Engine(hashed_model(300), byte_tokenizer())
    with pytest.raises(DeadEnd, match="the text to quote from is empty") as caught:
        engine.run(program, {"title": ["abc", "", "de"]})
    assert (caught.value.code, caught.value.field) == ("dead_end", "[1].v")


TEXTS = st.text("ab😀", max_size=5)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.text("ab😀", min_size=1, max_size=3))
def test_a_quotation_is_found_at_its_first_place_in_one_element(texts: list[str], quotation: str) -> None:
    places = [
        (number, at) for number, text in enumerate(texts) for at in range(len(text)) if text.startswith(quotation, at)
    ]
    found = find_quotation(BORDER.join(texts), quotation, QuoteUnit.CHARACTERS)
    if not places:
        assert found is None
        return
    item, start = places[0]
    count = sum(text.count(quotation) for text in texts)
    assert found == QuotedPlace(item if len(texts) > 1 else None, start, start + len(quotation), count)


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "div" and ("class", "text") in attrs:
            self._inside = True
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "div"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data


def test_the_page_of_a_result_shows_its_sources_and_escapes_them() -> None:
    texts = ["<script>alert('1')</script> & so on\n", "</div><img src=x onerror=y>\"'😀"]
    program = pastalang.compile(
        'template t(a: [text])\nuser """\n{a}\n"""\nassistant json {"<b>": verbatim(a, max=9), q: [verbatim(a)](2..4)}'
    )
    result = Engine(hashed_model(320, seed=1), byte_tokenizer()).run(program, a=texts)
    page = _Page(result.to_html())
    assert page.texts == texts
    assert "mark" in page.tags and {"script", "img", "b"}.isdisjoint(page.tags)
    assert "http" not in result.to_html()
