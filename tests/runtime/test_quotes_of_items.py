"""A value that is copied from an item stands in that item, whether items are written side by side or in a row."""

from __future__ import annotations

from typing import Any

import pytest

import pastalang
from pastalang import DeadEnd, Engine
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

PROGRAMS = {
    "items": ("xs: [text]", "{fork p in xs}\n* {v: verbatim(p)}\n{end}", ["abc", "zz"]),
    "parts": ("xs: [{q: text}]", "{fork p in xs}\n* {p.q} {v: verbatim(p.q)}\n{end}", [{"q": "abc"}, {"q": "zz"}]),
    "inner": (
        "xs: [{q: [text]}]",
        "{fork p in xs}\n{fork r in p.q}\n* {v: verbatim(r)}\n{end}\n{end}",
        [{"q": ["abc", "zz"]}, {"q": []}, {"q": ["k"]}],
    ),
}
TEXTS = {"items": ["abc", "zz"], "parts": ["abc", "zz"], "inner": ["abc", "zz", "k"]}


@pytest.mark.parametrize("mode", ["strict", "sequential"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_quotation_stands_in_its_own_item(name: str, mode: str) -> None:
    inputs, body, items = PROGRAMS[name]
    text = f'template t({inputs})\nuser """Go."""\nassistant text """\n{body}\n"""\n'
    engine = Engine(hashed_model(300), byte_tokenizer())
    result: Any = engine.run(pastalang.compile(text), {"xs": items}, mode=mode)
    found = [field.text for field in result.fields]
    assert len(found) == len(TEXTS[name])
    assert all(quoted and quoted in whole for quoted, whole in zip(found, TEXTS[name], strict=True))


def test_an_empty_text_is_named_with_its_item() -> None:
    program = pastalang.compile(
        'template t(each title: text)\nuser """\n{title}\n"""\nassistant json {\nv: verbatim(title)\n}\n'
    )
    engine = Engine(hashed_model(300), byte_tokenizer())
    with pytest.raises(DeadEnd, match="the text to quote from is empty") as caught:
        engine.run(program, {"title": ["abc", "", "de"]})
    assert (caught.value.code, caught.value.field) == ("dead_end", "[1].v")
