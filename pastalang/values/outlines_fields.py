"""A field of a Pydantic model whose type is a term of outlines: its core schema comes in, a pattern goes out.

To Pydantic such a term is a validator and nothing else. The term itself, which knows its pattern, is the owner of the
function that writes the JSON Schema; it is asked, so outlines is not imported here.
"""

from __future__ import annotations

from typing import Any

from pastalang.program import types as t
from pastalang.values.core_scalars import CoreSchema, Refused
from pastalang.values.regex import find_problem


def outlines_field(schema: CoreSchema) -> t.Regex | None:
    """None where the validator is none of outlines; raises `Refused` where its pattern cannot be enforced."""
    for function in schema.get("metadata", {}).get("pydantic_js_functions", ()):
        owner: Any = getattr(function, "__self__", None)
        if type(owner).__module__.partition(".")[0] == "outlines":
            pattern = str(function(schema, None)["pattern"])
            if (reason := find_problem(pattern)) is not None:
                raise Refused(f"the pattern of {owner!r} cannot be enforced: {reason}")
            return t.Regex(pattern)
    return None
