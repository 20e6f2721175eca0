"""Rewrites dependent keys and `oneOf` of schemas as `anyOf`, where that means exactly the same."""

from __future__ import annotations

from itertools import product
from typing import Final

from pastalang.values.json import JsonValue
from pastalang.values.schema.disjoint import are_disjoint
from pastalang.values.schema.drafts import Schema
from pastalang.values.schema.guard import Work
from pastalang.values.schema.keywords import ANNOTATIONS, DEPENDENT

MAX_DEPENDENT_KEYS: Final = 8  # each doubles the alternatives

_MAX_ALTERNATIVES: Final = 64


def with_alternatives(schema: Schema, document: JsonValue, work: Work) -> Schema:
    """The schema with dependencies and `oneOf` rewritten as `anyOf`. Too many alternatives stay as they are."""
    found, cases = dict(schema), list[JsonValue]()
    dependent = [case for keyword in DEPENDENT for case in _dependent(schema.get(keyword))]
    if dependent and len(dependent) <= MAX_DEPENDENT_KEYS:
        cases += dependent
        found = {keyword: part for keyword, part in found.items() if keyword not in DEPENDENT}
    single = _exclusive_alternatives(schema, document, work)
    if single is not None:
        cases.append(single)
        del found["oneOf"]
    return with_parts(found, cases)


def with_parts(schema: Schema, parts: list[JsonValue]) -> Schema:
    """The schema with further schemas that hold together with it."""
    if not parts:
        return schema
    others = schema.get("allOf", [])
    return {**schema, "allOf": [*(others if isinstance(others, list) else []), *parts]}


def _dependent(given: JsonValue) -> list[JsonValue]:
    """For each key: the key is missing, or what it needs holds."""
    cases: list[JsonValue] = []
    for key, needed in given.items() if isinstance(given, dict) else ():
        then: JsonValue = {"required": needed} if isinstance(needed, list) else needed
        cases.append({"anyOf": [{"properties": {key: False}}, then]})
    return cases


def _exclusive_alternatives(schema: Schema, document: JsonValue, work: Work) -> JsonValue | None:
    """`oneOf` as `anyOf`, if the alternatives are disjoint or each of them only requires keys; else None."""
    arms = schema.get("oneOf")
    if not isinstance(arms, list) or len(arms) < 2:
        return None
    others = {keyword: part for keyword, part in schema.items() if keyword != "oneOf"}
    if are_disjoint(arms, document, work, together_with=others):
        return {"anyOf": arms}
    required_keys = [keys for arm in arms if (keys := _required_keys(arm))]
    if len(required_keys) < len(arms):
        return None
    cases: list[JsonValue] = []
    for at, keys in enumerate(required_keys):
        ways = [[key for key in other if key not in keys] for number, other in enumerate(required_keys) if number != at]
        for left_out in product(*ways):  # empty if another arm holds whenever this one does
            if len(cases) >= _MAX_ALTERNATIVES:
                return None
            without: Schema = dict.fromkeys(left_out, False)
            case: JsonValue = {"type": "object", "required": [*keys], "properties": without}
            cases += [case] if case not in cases else []
    return {"anyOf": cases} if cases else None


def _required_keys(arm: JsonValue) -> list[str]:
    """The keys that the alternative requires; empty if it constrains anything else."""
    keys = arm.get("required") if isinstance(arm, dict) and not set(arm) - {"required"} - ANNOTATIONS else None
    return [str(key) for key in keys] if isinstance(keys, list) else []
