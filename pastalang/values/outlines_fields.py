"""A field of a Pydantic model whose type is a term of outlines: its core schema comes in, a type goes out.

To Pydantic such a term is a validator and nothing else. The term itself, which knows its pattern, is the owner of the
function that writes the JSON Schema; it is asked, so outlines is not imported here.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from pastalang.program import types as t
from pastalang.values.core_scalars import CoreSchema, Refused
from pastalang.values.patterns import find_problem

# Those of the type itself, and of what annotates it.
_WRITERS = ("pydantic_js_functions", "pydantic_js_annotation_functions")


def outlines_field(schema: CoreSchema) -> t.Type | None:
    """None where the validator is none of outlines; raises `Refused` where its pattern cannot be enforced.

    Whatever the term says, Pydantic holds the value as text: of a choice of texts the texts are known.
    """
    metadata = schema.get("metadata", {})
    for function in chain.from_iterable(metadata.get(key, ()) for key in _WRITERS):
        owner: Any = getattr(function, "__self__", None)
        if type(owner).__module__.partition(".")[0] == "outlines":
            return _choice(owner) or _pattern(owner, function, schema)
    return None


def _choice(owner: Any) -> t.Type | None:
    items = getattr(owner, "items", ()) if type(owner).__name__ == "Choice" else ()
    if not items or not all(isinstance(item, str) for item in items):
        return None
    literals = tuple(map(t.Literal, dict.fromkeys(items)))
    return literals[0] if len(literals) == 1 else t.Union(literals)


def _pattern(owner: Any, function: Any, schema: CoreSchema) -> t.Regex:
    try:
        pattern = str(function(schema, None)["pattern"])
    except (TypeError, ValueError, NotImplementedError) as problem:
        raise Refused(
            f"{owner!r} has no pattern ({problem}); for a text that may be null use `Field(pattern=...)`"
        ) from problem
    if (reason := find_problem(pattern)) is not None:
        raise Refused(f"the pattern of {owner!r} cannot be enforced: {reason}")
    return t.Regex(pattern)
