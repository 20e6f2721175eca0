"""From a JSON Schema document that is to be one hole to why it cannot be enforced, each with its JSON pointer."""

from __future__ import annotations

from pastalang.values.json import JsonValue
from pastalang.values.mismatch import Mismatch
from pastalang.values.schema.carry import carrying_problem
from pastalang.values.schema.guard import find_hostile, find_in_schemas
from pastalang.values.schema.importer import is_endless


def document_problem(document: JsonValue) -> Mismatch | None:
    """The first problem; None where a grammar engine can be given the document."""
    if document is False:
        return Mismatch(("#",), "`false` takes no value")
    found = (
        find_hostile(document)
        or find_in_schemas(document, carrying_problem)
        or (("", "requires itself, so no value can end") if is_endless(document) else None)
    )
    return None if found is None else Mismatch((f"#{found[0]}",), found[1])
