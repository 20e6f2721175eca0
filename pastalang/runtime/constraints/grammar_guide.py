"""Guides of nested values: llguidance computes the tokens that a grammar allows; the state always has an ending.

    every state knows a short ending ──> a token is taken only if an ending still fits after it
    no ending fits after it          ──> the token is dropped, and the ending from before it closes the value

A guide has one matcher and copies it for each hole. A type that cannot be enforced is refused here, with the JSON
pointer into its schema if that is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from pastalang.program import types as t
from pastalang.runtime.constraints.ending import Strings, find_ending, rest_of
from pastalang.runtime.constraints.guide import (
    Accepted,
    GuideError,
    Machine,
    NoEndingFits,
    Position,
    PositionedState,
    TokenMask,
)
from pastalang.runtime.constraints.json_prefix import JsonPrefix
from pastalang.runtime.constraints.lark import NO_SOURCES, grammar_of
from pastalang.runtime.constraints.lead import GuideAfterLead, Lead
from pastalang.runtime.constraints.masks import allows, frozen, mask_of
from pastalang.runtime.constraints.matcher import Matcher, Matchers, find_refused_part, refusal_of
from pastalang.runtime.constraints.open_strings import KeepMask, Opened, OpenLimit, OpenStrings, StringLimits
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import ROOT, Tokens, ranges
from pastalang.values.describe import describe
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
from pastalang.values.schema.guard import find_unsafe
from pastalang.values.schema.importer import has_no_finite_value

_PLENTY: tuple[int, ...] = (-1,)  # stands for an ending that need not be known
_LONG = 48  # tokens: a longer ending is not searched again for every token


# ── the state of a hole ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position(Position):
    """`ending` None: the limit is so far away that no ending was searched. `raw` are the bytes of the prefix."""

    prefix: JsonPrefix
    ending: tuple[int, ...] | None
    taken: tuple[int, ...] = ()


def _position(
    prefix: JsonPrefix,
    remaining: int,
    ending: tuple[int, ...] | None,
    taken: tuple[int, ...] = (),
    end: int | None = None,
    truncated: bool = False,
) -> _Position:
    return _Position(
        raw=prefix.raw, remaining=remaining, end=end, truncated=truncated, prefix=prefix, ending=ending, taken=taken
    )


class GrammarState(PositionedState[_Position]):
    """See `guide.State`."""

    def __init__(
        self, guide: GrammarGuide, matcher: Matcher, position: _Position, earlier: tuple[_Position, ...] = ()
    ) -> None:
        super().__init__(position, guide.space)
        self._guide = guide
        self._earlier = list(earlier)
        self._matcher: Matcher | None = matcher  # None: to be rebuilt from the tokens taken so far
        self._mask: TokenMask | None = None
        self._is_stuck = False  # the next token is replaced by an ending, because the grammar has no mask here
        self._opened: Opened | None = None

    def fork(self) -> GrammarState:
        copied = GrammarState(self._guide, self._current().copy(), self._position, tuple(self._earlier))
        copied._mask, copied._is_stuck, copied._opened = self._mask, self._is_stuck, self._opened
        return copied

    def _move(self, position: _Position) -> None:
        self._earlier.append(self._position)
        super()._move(position)

    def _known_ending(self) -> tuple[int, ...]:
        return self._position.ending or self._guide.ending

    # ── masks and forced tokens ────────────────────────────────────────────────────────────────────────────

    def allowed(self) -> TokenMask:
        assert not self.is_finished, "the value has ended"
        return self._lead_mask() if self._position.rest else self._value_mask()

    def _lead_mask(self) -> TokenMask:
        guide, rest = self._guide, self._position.rest
        assert guide.lead is not None
        value, sure = None, b""
        if self._has_room:
            value = self._value_mask()
            sure = self._text_of(self._value_forced())
        return guide.lead.mask(rest, value, {}, shortest=guide.shortest_value, remaining=self.remaining, sure=sure)

    @property
    def _has_room(self) -> bool:
        """Whether a value may begin here."""
        return self._guide.shortest_value <= self._position.remaining

    def _text_of(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self._guide.seam.tokens.text(token) or b"" for token in tokens)

    def _value_mask(self) -> TokenMask:
        if self._mask is None:
            self._mask = self._free_mask()
        return self._mask

    def _free_mask(self) -> TokenMask:
        limit, limits = self._open_limit(), self._guide.string_limits
        if (quick := self._mask_of_string(limit)) is not None:
            return quick
        if limits is not None or self._guide.open_strings is None:
            return self._grammar_mask()
        return self._guide.open_strings.shared_masks.mask(self._position.prefix, self._grammar_mask)

    def _grammar_mask(self, keep: KeepMask | None = None) -> TokenMask:
        """The grammar's mask without duplicate keys and long numbers, which a grammar cannot exclude.

        `keep` is called with the mask if it may be cached.
        """
        seam, limits, limit = self._guide.seam, self._guide.string_limits, self._open_limit()
        mask = self._current().mask()
        if self._current().inner.is_error() and self._renew():
            mask = self._current().mask()
        matcher = self._current()
        if matcher.inner.is_error():  # the grammar is too complex here for llguidance's limits: close the value
            self._is_stuck = True
            return mask_of(seam.tokens.size, self._known_ending()[:1])
        self._forbid_taken_keys(mask)
        self._forbid_long_numbers(mask)
        if limits is not None:
            mask = limits.without_bad_openings(mask)
            if limit is not None:
                mask = mask & limits.within(limit)
        if matcher.accepts and not seam.follow:
            mask = mask | seam.mask
        if not mask.any():  # every key that may come here is taken
            self._is_stuck = not self._position.ending
            return mask_of(seam.tokens.size, self._known_ending()[:1])
        if keep is not None:
            keep(mask)
        return frozen(mask)

    def _open_limit(self) -> OpenLimit | None:
        """The open string with a token limit; None if there is none."""
        limits, position = self._guide.string_limits, self._position
        return None if limits is None else limits.limit_at(position.prefix, position.taken, self._opened)

    def _mask_of_string(self, limit: OpenLimit | None) -> TokenMask | None:
        """The mask inside a string, computed without the grammar; None elsewhere."""
        strings, limits = self._guide.open_strings, self._guide.string_limits
        if strings is None:
            return None
        self._opened = strings.opened(self._position.prefix, self._opened)
        if self._opened is None:
            return None
        mask = strings.mask(self._opened, self._current, None if limit is None else limit.left)
        if limits is None or mask is None:
            return mask
        return limits.without_bad_openings(mask) if mask.any() else None

    def _forbid_taken_keys(self, mask: TokenMask) -> None:
        """Exclude the tokens that would close a key that the object already has."""
        found = self._position.prefix.open_key()
        if found is None:
            return
        begun, taken = found
        trie = self._guide.seam.tokens.trie
        for key in taken:
            spelled = json.dumps(key, ensure_ascii=False)[1:].encode()
            if spelled.startswith(begun) and (node := trie.find(spelled[len(begun) :])) >= 0:
                mask &= ~mask_of(self._guide.seam.tokens.size, trie.below(node))

    def _forbid_long_numbers(self, mask: TokenMask) -> None:
        """Exclude more digits than every JSON reader accepts, unless nothing else may come."""
        left = self._position.prefix.digits_left()
        if left is None:
            return
        beyond = _tokens_with_more_digits(self._guide.seam.tokens, left)
        if (mask & ~beyond).any():
            mask &= ~beyond

    def forced(self) -> tuple[int, ...]:
        if self.is_finished:
            return ()
        if not (rest := self._position.rest):
            return self._value_forced()
        found = self._value_forced() if self._has_room else ()
        return self._if_taken(self._guide.seam.tokens.canonical(rest + self._text_of(found)) or ()) if found else ()

    def _if_taken(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """The tokens, if they are all taken one after the other; otherwise none."""
        trial = self.fork()
        for token in tokens:
            is_first = bool(trial._position.rest)
            if trial.is_finished or (is_first and not allows(trial.allowed(), token)):
                return ()
            try:
                kept = trial.advance(token).kept
            except ValueError:
                return ()
            if not kept and not is_first:  # the limit ended the value
                return ()
        return tokens

    def _value_forced(self) -> tuple[int, ...]:
        """The tokens that the grammar forces, if an ending fits after them."""
        text = bytes(self._current().inner.compute_ff_bytes())
        if not text:
            return ()
        tokens = self._guide.seam.tokens.canonical(text)
        if not tokens:
            return ()
        ahead = self._current().copy()
        prefix = self._position.prefix.extended(text)
        if prefix.is_invalid or (prefix.end is not None and prefix.end < len(prefix.raw)) or not ahead.take(tokens):
            return ()
        levels = self._position.prefix.depth + len(tokens) + 3
        is_far = self._position.remaining >= levels * self._guide.tokens_per_level + 32
        if is_far and self._guide.string_limits is None:
            return tokens
        ending = () if prefix.end is not None else self._ending_after_forced(text, prefix, ahead)
        if ending is None or len(tokens) + len(ending) > self._position.remaining:
            return ()
        if not self._keeps_limits(self._position, (*tokens, *ending)):
            return ()
        if is_far:
            return tokens
        # near the limit only another spelling may fit: one token at a time
        return tokens[:1] if allows(self._value_mask(), tokens[0]) else ()

    def _ending_after_forced(self, text: bytes, prefix: JsonPrefix, ahead: Matcher) -> tuple[int, ...] | None:
        """An ending after a forced text; the known ending usually begins with that text."""
        tokens, known = self._guide.seam.tokens, self._position.ending
        if known and self._guide.string_limits is None and (rest := rest_of(known, text, tokens)) is not None:
            return rest
        return self._guide.find_ending(ahead, prefix)

    def _current(self) -> Matcher:
        if self._matcher is None:
            self._matcher = self._guide.matcher_after(self._position.taken)
            if self._matcher is None:
                raise ValueError("a new matcher refuses the tokens that this one has taken")
        return self._matcher

    def _renew(self, token: int | None = None) -> bool:
        """Replace a matcher whose lexer has used up its fuel, after the tokens so far and `token`. Whether it did."""
        spent = self._matcher
        if spent is None or not spent.is_spent:
            return False
        taken = self._position.taken if token is None else (*self._position.taken, token)
        found = self._guide.matcher_after(taken, spent)
        self._matcher = spent if found is None else found
        return found is not None

    def _find_ending(self, prefix: JsonPrefix, token: int | None = None) -> tuple[int, ...] | None:
        """An ending after the tokens so far and `token`."""
        found = self._guide.find_ending(self._current(), prefix)
        if found is None and self._renew(token):
            found = self._guide.find_ending(self._current(), prefix)
        rest = found if token is None or found is None else (token, *found)
        return found if rest is not None and self._keeps_limits(self._position, rest) else None

    def _keeps_limits(self, position: _Position, following: Sequence[int]) -> bool:
        limits = self._guide.string_limits
        return limits is None or limits.keeps(position.prefix, position.taken, following)

    # ── taking a token ─────────────────────────────────────────────────────────────────────────────────────

    def advance(self, token: int) -> Accepted:
        assert not self.is_finished, "the value has ended"
        if rest := self._position.rest:
            piece = self._guide.seam.tokens.text(token)
            if (accepted := self._take_lead(piece)) is not None:
                return accepted
            plain = self._guide.seam.tokens.ids.get(piece[len(rest) :]) if piece and piece.startswith(rest) else None
            if plain is None or not self._has_room:
                raise ValueError(f"token {token} ({piece!r}) is not allowed here")
            token = plain
        limit, limits = self._open_limit(), self._guide.string_limits
        is_truncated = self.truncated or (limit is not None and limits is not None and limits.closes(limit))
        position, kept = self._after(token)
        self._mask = None
        return self._accept(replace(position, truncated=True) if is_truncated else position, kept)

    def _after(self, token: int) -> tuple[_Position, bool]:
        position, seam = self._position, self._guide.seam
        piece = seam.tokens.text(token)
        taken, remaining = (*position.taken, token), position.remaining - 1
        if piece is None:
            matcher = self._current()
            if token not in seam.tokens.vocabulary.ends or seam.follow or not matcher.accepts:
                raise ValueError(f"token {token} is not allowed here")
            return replace(position, end=len(position.prefix.raw), remaining=remaining), False
        if self._is_stuck:
            return self._close_at_limit(()), False
        before = self._ending_here()
        if not self._current().take([token]) and not self._renew(token):
            is_too_complex = self._current().inner.is_error()  # as in `_grammar_mask`, but found only now
            self._matcher = None
            if is_too_complex:
                return self._close_at_limit(before), False
            raise ValueError(f"token {token} ({piece!r}) is not allowed here")
        prefix = position.prefix.extended(piece)
        if prefix.end is not None and not prefix.is_invalid:
            return _position(prefix, remaining, (), taken, prefix.end), prefix.end == len(prefix.raw)
        if not prefix.is_invalid and self._current().is_over and not self._current().inner.is_error():
            return _position(prefix, remaining, (), taken, len(prefix.raw)), True
        ending = None if prefix.is_invalid else self._ending_after(prefix, remaining, before, token)
        if prefix.is_invalid or (ending is not None and len(ending) > remaining):
            return self._close_at_limit(before), False
        if not remaining:
            end = prefix.closed_word().end
            assert end is not None, "the limit ended a value that is not complete"
            return _position(prefix, 0, (), taken, end, truncated=True), end == len(prefix.raw)
        return _position(prefix, remaining, None if ending == _PLENTY else ending, taken), True

    def _ending_after(
        self, prefix: JsonPrefix, remaining: int, before: tuple[int, ...], token: int
    ) -> tuple[int, ...] | None:
        """An ending after the token; an ending that is too long if none was found.

        `_PLENTY` is returned while the limit is so far away that no ending need be known.
        """
        if before[:1] == (token,):
            return before[1:]
        if remaining >= (prefix.depth + 2) * self._guide.tokens_per_level + 16:
            return _PLENTY
        strings = self._guide.open_strings
        if strings is not None and strings.closes_alike(self._position.prefix, prefix, before, self._opened):
            return before
        found = self._reuse_ending(prefix, before, token) or self._find_ending(prefix, token)
        return (0,) * (remaining + 1) if found is None else found

    def _reuse_ending(self, prefix: JsonPrefix, before: tuple[int, ...], token: int) -> tuple[int, ...] | None:
        """A long ending from before the token, if a part of it still closes the value after one more item."""
        if len(before) < _LONG or prefix.unique or any(around.is_object for around in prefix.stack):
            return None
        texts = self._guide.seam.tokens.text
        for rest in (before[1:], before, before[2:]):
            ahead = self._current().copy()
            if prefix.extended(b"".join(texts(one) or b"" for one in rest[:4])).is_invalid or not ahead.take(rest):
                continue
            if ahead.accepts and self._keeps_limits(self._position, (token, *rest)):
                return rest
        return None

    def _ending_here(self) -> tuple[int, ...]:
        position = self._position
        if position.ending is not None:
            return position.ending
        if position.remaining > 1 + (position.prefix.depth + 3) * self._guide.tokens_per_level + 32:
            return ()  # far from the limit: searched only if it is needed
        return self._find_ending(position.prefix) or ()

    def _close_at_limit(self, before: tuple[int, ...]) -> _Position:
        """Close the value without the token: with the ending from here, or from the last position that has one."""
        tokens = self._guide.seam.tokens
        for back, position in enumerate((self._position, *reversed(self._earlier))):
            ending = before if back == 0 and before else position.ending
            if ending is None or not ending or len(ending) > position.remaining:
                matcher = self._guide.matcher_after(position.taken)
                found = matcher and self._guide.find_ending(matcher, position.prefix)
                ending = found if found and self._keeps_limits(position, found) else None
            if ending is not None and len(ending) <= self._position.remaining:
                raw = position.prefix.raw + b"".join(tokens.text(token) or b"" for token in ending)
                self._matcher = None
                prefix = replace(position.prefix, raw=raw)
                remaining = self._position.remaining - max(1, len(ending))
                return _position(prefix, remaining, (), position.taken, len(raw), truncated=True)
        raise NoEndingFits(f"the value can no longer be closed within its limit: {self._guide.meaning}")


def _tokens_with_more_digits(tokens: Tokens, most: int) -> TokenMask:
    """The tokens that begin with more than `most` digits."""
    return tokens.cached(("digits", most), lambda: _find_more_digits(tokens, most))


def _find_more_digits(tokens: Tokens, most: int) -> TokenMask:
    trie, nodes = tokens.trie, np.array([ROOT])
    for _ in range(most + 1):
        children, _ = trie.expand(nodes)
        nodes = children[(trie.byte[children] >= ord("0")) & (trie.byte[children] <= ord("9"))]
    return mask_of(tokens.size, trie.order[ranges(trie.low[nodes], trie.high[nodes])])


# ── the guide ────────────────────────────────────────────────────────────────────────────────────────────


class GrammarGuide(GuideAfterLead[GrammarState]):
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
        self.lead: Lead | None = None
        matcher = matchers.copy()
        ending = self.find_ending(matcher, self.empty_prefix, several=True)
        if ending is None:
            matcher.check()
            raise GuideError(f"no short value of {meaning} was found, so no value could be closed at its limit")
        if string_limits is not None and not string_limits.keeps(self.empty_prefix, (), ending):
            raise GuideError(f"no short value of {meaning} was found whose strings keep their token limits")
        self.ending = ending
        self.tokens_per_level = sum(len(seam.tokens.text(token) or b"") for token in ending) + 8

    def after(self, space: str) -> GrammarGuide:
        found = copy(self)
        found.lead = Lead(space, self.seam.tokens)
        return found

    @property
    def shortest_value(self) -> int:
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

    def _begin(self, space: str, max_tokens: int) -> GrammarState:
        first = replace(_position(self.empty_prefix, max_tokens, self.ending), rest=space.encode())
        return GrammarState(self, self.matcher(), first)


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
        if find_unsafe(document) is None and has_no_finite_value(document):
            raise GuideError("the schema requires itself, so no value can end")
    elif empty := types_without_values(types):
        raise GuideError(f"`{empty[0]}` requires itself, so no value can end")
