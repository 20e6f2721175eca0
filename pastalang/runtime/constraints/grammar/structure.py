"""From a type that nests to its guide: what cannot be enforced is refused here, with its place where that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pastalang.program import types as t
from pastalang.runtime.constraints.grammar.json_prefix import unique_paths
from pastalang.runtime.constraints.grammar.lark import NO_SOURCES, grammar_of
from pastalang.runtime.constraints.grammar.llguidance import StructureGuide
from pastalang.runtime.constraints.grammar.matcher import Matchers, find_refused_part, refusal_of
from pastalang.runtime.constraints.grammar.open_strings import OpenStrings, StringLimits
from pastalang.runtime.constraints.guide import GuideError, Machine
from pastalang.runtime.constraints.seam import Seam
from pastalang.values.from_json_schema import is_endless
from pastalang.values.inhabited import uninhabited
from pastalang.values.inner_limits import ADVICE, limited_strings, uncounted
from pastalang.values.json_text import JsonValue, NotJson, parse_json, write_json
from pastalang.values.schema_guard import find_hostile
from pastalang.values.shortest import shortest_text
from pastalang.values.words import describe


def compile_structure(
    type: t.Type,
    types: Mapping[str, t.Type],
    seam: Seam,
    sources: Mapping[str, str] = NO_SOURCES,
    *,
    plain: Callable[[t.Type], Machine],
) -> StructureGuide:
    """`plain` makes the machine of a string that has a pattern or is quoted, for those that have limits."""
    _check_endings(type, types)
    if (problem := uncounted(type, types)) is not None:
        raise GuideError(f"{problem}: {ADVICE}")
    unique = unique_paths(type, types)
    grammar = grammar_of(type, types, follow=seam.follow.decode(), sources=sources)
    try:
        matchers = Matchers(grammar.text, seam.tokens)
    except GuideError as refused:
        if not isinstance(type, t.Schema):
            raise
        raise _located(type, seam, refused) from refused
    limited, tokens = limited_strings(type, types), seam.tokens
    is_followed = limited or tokens.vocabulary.covers_bytes
    inside = OpenStrings(type, types, seam, plain) if is_followed else None
    limits = StringLimits(limited, inside, tokens) if limited and inside is not None else None
    try:
        return StructureGuide(
            matchers, seam, unique, describe(type), grammar.strings, inside, limits, shortest_text(type)
        )
    except GuideError as refused:
        empty = sorted(name for name, text in sources.items() if not text)
        raise GuideError(f"the text of `{empty[0]}`, to quote from, is empty") if empty else refused from refused


def _located(type: t.Schema, seam: Seam, problem: GuideError) -> GuideError:
    """The same refusal with the part of the schema that is to blame."""

    def refusal(part: JsonValue) -> str | None:
        try:
            text = grammar_of(t.Schema(write_json(part)), {}, follow="").text
        except GuideError as other:
            return str(other)
        return refusal_of(text, seam.tokens)

    document = parse_json(type.document)
    reason = refusal(document)
    if reason is None:  # only the first mask shows it
        return problem
    pointer, reason = find_refused_part(document, reason, refusal)
    return GuideError(f"the schema cannot be enforced at `{pointer or '/'}`: {reason}")


def _check_endings(type: t.Type, types: Mapping[str, t.Type]) -> None:
    """What requires itself is refused before a grammar is searched for a value that it does not have."""
    if isinstance(type, t.Schema):
        try:
            document = parse_json(type.document)
        except NotJson as problem:
            raise GuideError(f"the schema cannot be read: {problem}") from problem
        if find_hostile(document) is None and is_endless(document):
            raise GuideError("the schema requires itself, so no value can end")
    elif empty := uninhabited(types):
        raise GuideError(f"`{empty[0]}` requires itself, so no value can end")
