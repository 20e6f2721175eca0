"""Parts of a JSON Schema that are one hole: whatever a model writes there is a value of the schema."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from pastalang.plan.branches import Form
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.values.fit import read
from pastalang.values.patterns import STANDARD_FORMATS
from pastalang.values.schema.importer import type_of_schema
from tests.properties.hostile import PICKS
from tests.properties.test_guides import decode
from tests.properties.vocabularies import byte_level

LIMITS = (12, 40, 70)


def written_of(part: Any) -> set[str]:
    """Values of the part as one hole, by every hostile model."""
    found = type_of_schema(json.dumps({"allOf": [part, {}]}))
    assert [note.text for note in found.notes] == ["is enforced as one hole, so its parts are not decoded in parallel"]
    tokens, rng = byte_level(), random.Random(0)
    guide = compile_guide(found.type, form=Form.JSON, follow="", vocabulary=tokens)
    states = [decode(guide, limit, pick, tokens, rng) for pick in PICKS.values() for limit in LIMITS]
    texts = {state.text for state in states if state is not None}
    wrong = [text for text in texts if not read(text, found.type).fits]
    assert texts and not wrong
    return texts


@pytest.mark.parametrize("name", sorted(STANDARD_FORMATS))
def test_a_format_holds(name: str) -> None:
    written_of({"type": "string", "format": name})
