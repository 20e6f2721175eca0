"""One schema with its instances comes in, how the guide treats it goes out: compiled, refused, slow or wrong."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from jsonschema import Draft202012Validator

from pastalang import NotExpressible
from pastalang.check.built_in_types import document_problem
from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.grammar_guide import GrammarGuide
from pastalang.runtime.constraints.guide import GuideError
from pastalang.runtime.constraints.matcher import Matcher
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.values.fit import document_mismatches
from pastalang.values.json import parse_json, write_json
from pastalang.values.schema.importer import type_of_schema
from pastalang.values.schema.keywords import modern
from pastalang.values.schema.split import split_text
from tests.conformance.suites import Case
from tests.work import counted

MAX_CALLS = 5_000_000  # of Python functions, for one schema and its instances; the most is 1.5 million


@dataclass(frozen=True)
class Grade:
    """`status`: compiled, refused, slow, accepts-invalid, rejects-valid; stricter: see `_is_stricter`."""

    status: str
    reason: str = ""
    calls: int = 0


def grade(case: Case, tokens: Tokens) -> Grade:
    found, calls = counted(lambda: _grade(case, tokens))
    return Grade("slow" if calls > MAX_CALLS else found.status, found.reason, calls)


def _grade(case: Case, tokens: Tokens) -> Grade:
    document = parse_json(json.dumps(case.schema, ensure_ascii=False))
    if (mismatch := document_problem(document)) is not None:
        return Grade("refused", str(mismatch))
    text = write_json(modern(document))
    try:
        guide = compile_guide(t.Schema(text), form=Form.JSON, follow="", vocabulary=tokens)
        assert isinstance(guide, GrammarGuide)
    except GuideError as problem:
        return Grade("refused", str(problem))
    checked = bool(split_text(text).checked)
    for valid, instance in case.tests:
        accepted = accepts(guide, case.schema, instance, valid=valid)
        if accepted and (valid or checked):  # a guide that leaves nothing to the check refuses by itself
            accepted = not document_mismatches(text, parse_json(json.dumps(instance)))
        if accepted == valid:
            continue
        reason = json.dumps(instance, ensure_ascii=False)[:200]
        if accepted:
            return Grade("accepts-invalid", reason)
        return Grade("stricter" if _is_stricter(case.schema, instance) else "rejects-valid", reason)
    return Grade("compiled")


def is_imported(case: Case) -> bool:
    """Whether the import makes a type of the schema."""
    try:
        type_of_schema(json.dumps(case.schema, ensure_ascii=False))
    except NotExpressible:
        return False
    return True


def _is_stricter(schema: Any, instance: Any) -> bool:
    """Formats are enforced here; and all schemas are read as draft 2020-12, where `$ref` has siblings."""
    return isinstance(schema, dict) and ("format" in schema or not Draft202012Validator(schema).is_valid(instance))


def accepts(guide: GrammarGuide, schema: Any, instance: Any, *, valid: bool) -> bool:
    """A value has one spelling: keys in the order of the schema, `1` and not `1.0`, constants as they stand there."""
    spellings = [instance, ordered(schema, instance, schema)]
    if valid:
        known = [value for value in _constants(schema) if value == instance and type(value) is not bool]
        spellings += [_plain(ordered(schema, instance, schema)), *known, *map(_plain, known)]
    if any(map(guide.takes, dict.fromkeys(json.dumps(value, ensure_ascii=False) for value in spellings))):
        return True
    return valid and Writer(guide.seam.tokens).writes(guide.matcher(), ordered(schema, instance, schema))


class Writer:
    """Writes a value in whatever order of its keys and spelling of its numbers the guide takes."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.tries = 20_000

    def writes(self, matcher: Matcher, value: Any) -> bool:
        after = self.value(matcher, "", value)
        return after is not None and after.accepts

    def value(self, matcher: Matcher, before: str, value: Any) -> Matcher | None:
        """The matcher behind the value, with `before` in front of it; None where it is not taken."""
        if isinstance(value, dict) and value:
            return self.members(matcher, before + "{", value)
        if isinstance(value, list) and value:
            here: Matcher | None = matcher
            for at, item in enumerate(value):
                here = None if here is None else self.value(here, ", " if at else before + "[", item)
            return None if here is None else self.text(here, "]")
        for spelled in _spellings(value):
            if (after := self.text(matcher, before + spelled)) is not None:
                return after
        return None

    def members(self, matcher: Matcher, before: str, value: dict[str, Any]) -> Matcher | None:
        for key, inner in value.items():
            after = self.value(matcher, f"{before}{json.dumps(key, ensure_ascii=False)}: ", inner)
            if after is None:
                continue
            rest = {other: part for other, part in value.items() if other != key}
            found = self.members(after, ", ", rest) if rest else self.text(after, "}")
            if found is not None:
                return found
        return None

    def text(self, matcher: Matcher, text: str) -> Matcher | None:
        self.tries -= 1
        after = matcher.copy()
        return after if self.tries > 0 and after.take(self.tokens.shortest(text.encode()) or ()) else None


def _spellings(value: Any) -> list[str]:
    if isinstance(value, float):
        return [json.dumps(value), json.dumps(_plain(value)), format(Decimal(repr(value)), "f")]
    return [json.dumps(value, ensure_ascii=False)]


def _constants(schema: Any) -> list[Any]:
    if not isinstance(schema, dict):
        return []
    return [*([schema["const"]] if "const" in schema else []), *schema.get("enum", [])]


def _plain(value: Any) -> Any:
    """Whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def ordered(schema: Any, instance: Any, root: Any, depth: int = 0) -> Any:
    if depth > 40:
        return instance
    if isinstance(instance, list):
        return [ordered(_items(schema, at, root), item, root, depth + 1) for at, item in enumerate(instance)]
    if not isinstance(instance, dict):
        return instance
    known = _properties(schema, root)
    places = {key: at for at, key in enumerate(known)}
    keys = sorted(instance, key=lambda key: places.get(key, len(places)))
    others = {key: _unnamed(schema, key, root) for key in keys if key not in known}
    return {key: ordered(known.get(key, others.get(key)), instance[key], root, depth + 1) for key in keys}


def _parts(schema: Any, root: Any, depth: int = 0) -> list[Any]:
    """The schema itself and what it refers to or joins."""
    if not isinstance(schema, dict) or depth > 8:
        return []
    parts = [schema]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        found = root
        for step in reference[1:].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step, {}) if isinstance(found, dict) else {}
        parts += _parts(found, root, depth + 1)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for arm in schema.get(keyword, []) if isinstance(schema.get(keyword), list) else []:
            parts += _parts(arm, root, depth + 1)
    return parts


def _properties(schema: Any, root: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in _parts(schema, root):
        named = part.get("properties")
        for key, inner in named.items() if isinstance(named, dict) else ():
            found.setdefault(key, inner)
    return found


def _unnamed(schema: Any, key: str, root: Any) -> Any:
    """The schema of a key that is known by a pattern, or not at all."""
    for part in _parts(schema, root):
        patterns = part.get("patternProperties")
        for pattern, inner in patterns.items() if isinstance(patterns, dict) else ():
            with suppress(re.error):
                if re.search(pattern, key):
                    return inner
        if isinstance(part.get("additionalProperties"), dict):
            return part["additionalProperties"]
    return {}


def _items(schema: Any, at: int, root: Any) -> Any:
    for part in _parts(schema, root):
        prefix = part.get("prefixItems", [])
        if isinstance(prefix, list) and at < len(prefix):
            return prefix[at]
        if isinstance(part.get("items"), dict):
            return part["items"]
    return {}
