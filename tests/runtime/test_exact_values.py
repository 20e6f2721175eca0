"""The JSON value of a result is what the text of the answer says, digit for digit and sign for sign."""

from __future__ import annotations

import pytest

import pastalang
from pastalang import Engine, Sampling
from pastalang.cli.run import _as_json
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from pastalang.values.json import parse_json

FIELDS = """
  day: date
  at: datetime
  clock: time
  id: uuid
  span: string(format="duration")
  whole: number(min=202442424242, max=202442424249, multiple_of=1)
  large: integer(min=90071992547409931, max=90071992547409939)
  part: number(min=0.1, max=0.9, multiple_of=0.1)
  several: [datetime](1..2, unique=true, max_tokens=90)
"""
JSON = f'template t()\n\nuser """\nGo.\n"""\n\nassistant json {{{FIELDS}}}\n'
TEXT = '''
template t(points: [text])

user """
Go.
"""

assistant text """
At {at: datetime}, {whole: number(min=202442424242, max=202442424249, multiple_of=1)} of {several: [date](1..2)}.
{fork point in points ~60}
{point}: {day: date}
{end}
"""
'''


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(hashed_model(300), byte_tokenizer())


WARM = Sampling(temperature=1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_json_value_is_the_text(engine: Engine, seed: int) -> None:
    result = engine.run(pastalang.compile(JSON), {}, sampling=WARM, seed=seed)
    shown = parse_json(_as_json(result))
    assert isinstance(shown, dict)
    assert shown["value"] == parse_json(result.text) == result.exact


def test_the_json_value_of_running_text_is_what_its_fields_say(engine: Engine) -> None:
    result = engine.run(pastalang.compile(TEXT), {"points": ["a", "b"]}, sampling=WARM, seed=1)
    shown = parse_json(_as_json(result))
    assert isinstance(shown, dict)
    said = {field.path.rsplit(".", 1)[-1]: field.text for field in result.fields}
    value = shown["value"]
    assert isinstance(value, dict)
    assert value["at"] == said["at"] and str(value["whole"]) == said["whole"]
    assert value["several"] == parse_json(said["several"])
    days = [field.text for field in result.fields if field.path.endswith("day")]
    assert [item["day"] for item in value["point"]] == days  # type: ignore[index, union-attr, call-overload]
