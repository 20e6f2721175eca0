"""Values that nest: llguidance says which tokens a grammar lets through, and an ending is always at hand.

    every state knows a short ending ──> a token is taken only if, behind it, an ending still fits
    no ending fits behind it         ──> the token is dropped and the value is closed with the ending before it

One matcher is made per guide and copied for each hole.
"""

from __future__ import annotations

from collections.abc import Sequence

from pastalang.runtime.constraints.grammar.ending import Strings, find_ending
from pastalang.runtime.constraints.grammar.grammar_state import GrammarState, Position
from pastalang.runtime.constraints.grammar.json_prefix import JsonPath, JsonPrefix
from pastalang.runtime.constraints.grammar.matcher import Matcher, Matchers
from pastalang.runtime.constraints.grammar.open_strings import OpenStrings, StringLimits
from pastalang.runtime.constraints.guide import GuideError, NoEndingFits
from pastalang.runtime.constraints.seam import Seam
from pastalang.values.words import counted


class StructureGuide:
    """See `guide.Guide`."""

    def __init__(
        self,
        matchers: Matchers,
        seam: Seam,
        unique: frozenset[JsonPath],
        meaning: str,
        strings: Strings,
        inside: OpenStrings | None,
        limits: StringLimits | None,
        least: int = 0,
    ) -> None:
        self._matchers = matchers
        self.seam = seam
        self._meaning = meaning
        self.first = JsonPrefix(unique)
        self.strings = strings
        self.inside = inside
        self.limits = limits
        self.least = least  # bytes that every value has
        matcher = matchers.copy()
        ending = find_ending(matcher, self.first, seam.tokens, strings=strings, several=True, least=least)
        if ending is None:
            matcher.check()
            raise GuideError(f"no short value of {meaning} was found, so no value could be closed at its limit")
        if limits is not None and not limits.keeps(self.first, (), ending):
            raise GuideError(f"no short value of {meaning} was found whose strings keep their own limits of tokens")
        self.ending = ending
        self.level = sum(len(seam.tokens.text(token) or b"") for token in ending) + 8

        if inside is not None and limits is None and seam.tokens.vocabulary.covers_bytes:
            inside.warm_first(self.first, self.matcher)

    @property
    def shortest(self) -> int:
        return max(1, len(self.ending))

    def matcher(self) -> Matcher:
        return self._matchers.copy()

    def behind(self, taken: Sequence[int], spent: Matcher | None = None) -> Matcher | None:
        """A matcher that took these tokens, with another lexer than the spent one; None where they are not taken."""
        if spent is not None:
            self._matchers.renew(spent)
        matcher = self._matchers.copy()
        if matcher.take(taken):
            return matcher
        return self.behind(taken, matcher) if spent is None and matcher.is_spent else None

    def takes(self, text: str) -> bool:
        """Whether the text is a value of the guide, whatever its length."""
        raw = text.encode()
        tokens = self.seam.tokens.canonical(raw)
        matcher = None if tokens is None else self.behind(tokens)
        if matcher is None:
            return False
        prefix = self.first.extended(raw).closed_word()
        return matcher.accepts and not prefix.is_invalid and prefix.end == len(raw)

    def start(self, *, max_tokens: int) -> GrammarState:
        if self.shortest > max_tokens:
            raise NoEndingFits(f"no value fits into {counted(max_tokens, 'token')}; a short one takes {self.shortest}")
        return GrammarState(self, self.matcher(), [Position(self.first, max_tokens, self.ending)])

    def explain(self) -> str:
        return f"{self._meaning}, by a grammar"
