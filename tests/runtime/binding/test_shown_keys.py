"""Weights that read keys as words: the answer has the keys of its type, and the model is fed words."""

from __future__ import annotations

from typing import Any

import pytest

import pastalang
from pastalang.plan.branches import Mode
from pastalang.runtime.models.training_note import TrainingNote
from tests.api.engines import hashing, mini

NOTE = TrainingNote(tuple(Mode), "", "", "", {}, keys_in_words=True)
PROGRAMS = (
    (
        'user """Go."""',
        ", ".join(f'"{key}": boolean' for key in ("RoastType", "orderID", "Net Content", "größe_2", "-")),
    ),
    ('user """{schema}"""', "rowId: integer, has_lid: boolean, note: string(max=4)"),
    ('user """{schema(style="list")}"""', "lines: [{ unit_price: integer, is_paid: boolean }](1..3)"),
    ('user """{schema(style="json")}"""', 'one_of: { kind: "a", net_size: integer } | { kind: "b", is_new: boolean }'),
    (
        'user """{if show}{schema}{end}"""',
        "sequential { first_name: string(max=4), nick: string(max=4) after first_name }",
    ),
)
NAMES = {
    "rowId": "Row id", "has_lid": "Has lid", "note": "Note", "lines": "Lines", "unit_price": "Unit price",
    "is_paid": "Is paid", "one_of": "One of", "kind": "Kind", "net_size": "Net size", "is_new": "Is new",
    "first_name": "First name", "nick": "Nick", "RoastType": "Roast type", "orderID": "Order ID",
    "Net Content": "Net Content", "net content": "Net content", "größe_2": "Größe 2", "-": "-",
}  # fmt: skip


def renamed(value: Any) -> Any:
    match value:
        case dict():
            return {NAMES[key]: renamed(part) for key, part in value.items()}
        case list():
            return [renamed(part) for part in value]
        case _:
            return value


@pytest.mark.parametrize(("prompt", "fields"), PROGRAMS)
@pytest.mark.parametrize("mode", Mode)
def test_the_model_decodes_what_it_would_for_words(prompt: str, fields: str, mode: Mode) -> None:
    source = f"template t(show: boolean)\n{prompt}\nassistant json {{ {fields} }}\n"
    spelled = source
    for key, words in NAMES.items():
        spelled = (
            spelled.replace(f'"{key}":', f'"{words}":')
            .replace(f"{key}:", f'"{words}":')
            .replace(f"after {key}", f'after "{words}"')
        )
    one = hashing(trained_for=NOTE).run(pastalang.compile(source), show=True, mode=mode)
    other = hashing().run(pastalang.compile(spelled), show=True, mode=mode)
    assert renamed(one.value) == other.value
    assert [part.text for part in one.trace.fed] == [part.text for part in other.trace.fed]


def test_keys_that_the_model_writes_and_keys_of_the_same_words_stay_as_they_are() -> None:
    fields = "a_b: integer, aB: integer, cD: integer, list: [{ x_y: integer }](1..2, max_tokens=40)"
    program = pastalang.compile(f'template t()\nuser """{{schema}}"""\nassistant json {{ {fields} }}\n')
    fed = "".join(part.text for part in hashing(trained_for=NOTE).run(program).trace.fed)
    assert all(one in fed for one in ('"a_b":', '"aB":', '"C d":', "{ x_y: integer }"))


def test_the_model_of_the_package_finds_what_it_finds_for_labels() -> None:
    title = "Norvika Coffee, Dark Roast, 12 oz"
    fields = "brand: string, roast_type: string | null, netContent: string | null"
    program = pastalang.compile(f'template t(title: text)\nuser """{{title}}"""\nassistant json {{ {fields} }}\n')
    found = mini().run(program, title=title)
    assert found.value == {"brand": "Norvika", "roast_type": "Dark Roast", "netContent": "12 oz"}
    assert found.text.startswith('{\n  "brand": "Norvika",\n  "roast_type"')
