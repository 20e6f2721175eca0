"""Guides of nested values: llguidance computes the tokens that a grammar allows; the state always has an ending.

    every state knows a short ending ──> a token is taken only if an ending still fits after it
    no ending fits after it          ──> the token is dropped, and the ending from before it closes the value

A guide has one matcher and copies it for each hole. A type that cannot be enforced is refused here, with the JSON
pointer into its schema if that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pastalang.program import types as t
from pastalang.runtime.constraints.grammar.ending import Strings, find_ending
from pastalang.runtime.constraints.grammar.grammar_state import GrammarState, Position
from pastalang.runtime.constraints.grammar.json_prefix import JsonPrefix
from pastalang.runtime.constraints.grammar.lark import NO_SOURCES, grammar_of
from pastalang.runtime.constraints.grammar.matcher import Matcher, Matchers, find_refused_part, refusal_of
from pastalang.runtime.constraints.grammar.open_strings import OpenStrings, StringLimits
from pastalang.runtime.constraints.guide import GuideError, Machine, NoEndingFits
from pastalang.runtime.constraints.seam import Seam
from pastalang.values.describe import counted, describe
from pastalang.values.json import JsonValue, NotJson, parse_json, write_json
from pastalang.values.lengths import min_length, types_without_values
from pastalang.values.one_hole import (
    ADVICE,
    AmbiguousItems,
    UniquePlaces,
    limited_strings,
    unenforced_limit,
    unique_places,
)
from pastalang.values.schema.guard import find_hostile
from pastalang.values.schema.importer import is_endless


class GrammarGuide:
    """See `guide.Guide`."""

    def __init__(
        self,
        matchers: Matchers,
        seam: Seam,
        unique: UniquePlaces,
        meaning: str,
        patterns: Strings,
        open_strings: OpenStrings | None,
        string_limits: StringLimits | None,
        min_bytes: int = 0,
    ) -> None:
        self._matchers = matchers
        self.seam = seam
        self.meaning = meaning
        self.empty_prefix = JsonPrefix(unique)
        self._patterns = patterns
        self.open_strings = open_strings
        self.string_limits = string_limits
        self._min_bytes = min_bytes  # every value has at least so many
        matcher = matchers.copy()
        ending = self.find_ending(matcher, self.empty_prefix, several=True)
        if ending is None:
            matcher.check()
            raise GuideError(f"no short value of {meaning} was found, so no value could be closed at its limit")
        if string_limits is not None and not string_limits.keeps(self.empty_prefix, (), ending):
            raise GuideError(f"no short value of {meaning} was found whose strings keep their token limits")
        self.ending = ending
        self.tokens_per_level = sum(len(seam.tokens.text(token) or b"") for token in ending) + 8
        if open_strings is not None and string_limits is None and seam.tokens.vocabulary.covers_bytes:
            open_strings.warm_first(self.empty_prefix, self.matcher)

    @property
    def shortest(self) -> int:
        return max(1, len(self.ending))

    def matcher(self) -> Matcher:
        return self._matchers.copy()

    def matcher_after(self, taken: Sequence[int], spent: Matcher | None = None) -> Matcher | None:
        """A matcher after these tokens, not with the lexer of `spent`; None if the grammar refuses the tokens."""
        if spent is not None:
            self._matchers.renew(spent)
        matcher = self._matchers.copy()
        if matcher.take(taken):
            return matcher
        return self.matcher_after(taken, matcher) if spent is None and matcher.is_spent else None

    def find_ending(self, matcher: Matcher, prefix: JsonPrefix, *, several: bool = False) -> tuple[int, ...] | None:
        """A few tokens that complete the value from here; None if none were found."""
        return find_ending(
            matcher, prefix, self.seam.tokens, strings=self._patterns, several=several, least=self._min_bytes
        )

    def takes(self, text: str) -> bool:
        """Whether the text is a value of the guide, of any length."""
        raw = text.encode()
        tokens = self.seam.tokens.canonical(raw)
        matcher = None if tokens is None else self.matcher_after(tokens)
        if matcher is None:
            return False
        prefix = self.empty_prefix.extended(raw).closed_word()
        return matcher.accepts and not prefix.is_invalid and prefix.end == len(raw)

    def start(self, *, max_tokens: int) -> GrammarState:
        if self.shortest > max_tokens:
            raise NoEndingFits(f"no value fits into {counted(max_tokens, 'token')}; a short one takes {self.shortest}")
        return GrammarState(self, self.matcher(), [Position(self.empty_prefix, max_tokens, self.ending)])


def compile_grammar_guide(
    type: t.Type,
    types: Mapping[str, t.Type],
    seam: Seam,
    sources: Mapping[str, str] = NO_SOURCES,
    *,
    plain: Callable[[t.Type], Machine],
) -> GrammarGuide:
    """`plain` makes the machine of a string with a pattern or a verbatim, for strings inside the value."""
    _check_endings(type, types)
    if (problem := unenforced_limit(type, types)) is not None:
        raise GuideError(f"{problem}: {ADVICE}")
    unique = _unique_places(type, types)
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
        return GrammarGuide(matchers, seam, unique, describe(type), grammar.strings, inside, limits, min_length(type))
    except GuideError as refused:
        empty = sorted(name for name, text in sources.items() if not text.strip())
        if not empty:
            raise
        raise GuideError(f"the text of `{empty[0]}`, to quote from, is empty or white space only") from refused


def _unique_places(type: t.Type, types: Mapping[str, t.Type]) -> UniquePlaces:
    try:
        return unique_places(type, types)
    except AmbiguousItems as problem:
        raise GuideError(str(problem)) from problem


def _located(type: t.Schema, seam: Seam, problem: GuideError) -> GuideError:
    """The same error with the part of the schema that causes it."""

    def refusal(part: JsonValue) -> str | None:
        try:
            text = grammar_of(t.Schema(write_json(part)), {}, follow="").text
        except GuideError as other:
            return str(other)
        return refusal_of(text, seam.tokens)

    document = parse_json(type.document)
    reason = refusal(document)
    if reason is None:  # the grammar fails only at its first mask
        return problem
    pointer, reason = find_refused_part(document, reason, refusal)
    return GuideError(f"the schema cannot be enforced at `{pointer or '/'}`: {reason}")


def _check_endings(type: t.Type, types: Mapping[str, t.Type]) -> None:
    """Refuse a type that requires itself: the search for an ending would find none, but slowly."""
    if isinstance(type, t.Schema):
        try:
            document = parse_json(type.document)
        except NotJson as problem:
            raise GuideError(f"the schema cannot be read: {problem}") from problem
        if find_hostile(document) is None and is_endless(document):
            raise GuideError("the schema requires itself, so no value can end")
    elif empty := types_without_values(types):
        raise GuideError(f"`{empty[0]}` requires itself, so no value can end")
