"""The state of a hole whose value nests: what may come next, and the ending that is at hand behind every token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pastalang.runtime.constraints.grammar.ending import Strings, find_ending, rest_of
from pastalang.runtime.constraints.grammar.json_prefix import JsonPrefix
from pastalang.runtime.constraints.grammar.matcher import Matcher
from pastalang.runtime.constraints.grammar.open_strings import Opened, OpenLimit, OpenStrings, StringLimits
from pastalang.runtime.constraints.grammar.schema_position import KeepMask
from pastalang.runtime.constraints.guide import Accepted, NoEndingFits, TokenMask
from pastalang.runtime.constraints.masks import allows, frozen, mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.token_bytes import tokens_with_more_digits
from pastalang.values.words import counted


class Ground(Protocol):
    """What a growth asks of its guide."""

    seam: Seam
    strings: Strings
    inside: OpenStrings | None
    limits: StringLimits | None
    least: int
    ending: tuple[int, ...]
    level: int

    def behind(self, taken: Sequence[int], spent: Matcher | None = None) -> Matcher | None: ...

    def explain(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Stand:
    """`ending` None: there is room enough that none had to be looked for."""

    prefix: JsonPrefix
    remaining: int
    ending: tuple[int, ...] | None
    taken: tuple[int, ...] = field(default=())
    end: int | None = None
    truncated: bool = False


class Growth:
    """See `guide.State`."""

    def __init__(self, guide: Ground, matcher: Matcher, stands: list[Stand]) -> None:
        self._guide = guide
        self._matcher: Matcher | None = matcher  # None: to be made again from the tokens that were taken
        self._stands = stands
        self._mask: TokenMask | None = None
        self._is_stuck = False
        self._opened: Opened | None = None

    @property
    def _stand(self) -> Stand:
        return self._stands[-1]

    @property
    def is_finished(self) -> bool:
        return self._stand.end is not None

    @property
    def truncated(self) -> bool:
        return self._stand.truncated

    @property
    def remaining(self) -> int:
        return self._stand.remaining

    @property
    def text(self) -> str:
        return self._stand.prefix.raw[: self._stand.end].decode("utf-8", "ignore")

    def fork(self) -> Growth:
        copied = Growth(self._guide, self._here().copy(), list(self._stands))
        copied._mask, copied._opened = self._mask, self._opened
        return copied

    def roll_back(self, tokens: int) -> None:
        assert tokens < len(self._stands), "rolled back behind the start"
        if tokens:
            del self._stands[-tokens:]
            self._matcher = self._mask = None
            self._is_stuck = False

    def _closing(self) -> tuple[int, ...]:
        return self._stand.ending or self._guide.ending

    def explain(self) -> str:
        where = "ended" if self.is_finished else f"{counted(self.remaining, 'token')} left"
        return f"{self._guide.explain()}; {self.text!r} so far, {where}"

    # ── what may come ────────────────────────────────────────────────────────────────────────────────────

    def allowed(self) -> TokenMask:
        assert not self.is_finished, "the value has ended"
        if leash := self._leash():
            return mask_of(self._guide.seam.tokens.size, leash[:1])
        if self._mask is None:
            self._mask = self._free_mask()
        return self._mask

    def unlimited(self) -> TokenMask:
        return self._free_mask()

    def _leash(self) -> tuple[int, ...]:
        """The ending that has to be followed, because nothing longer fits."""
        ending = self._stand.ending or ()
        return ending if len(ending) >= self._stand.remaining else ()

    def _is_cut_here(self) -> bool:
        """Whether something else could have come, had there been room: asked of a copy, which may fail at it."""
        leash = self._leash()
        if not leash:
            return False
        matcher, was_stuck = self._here(), self._is_stuck
        self._matcher = matcher.copy()
        free = self._free_mask()
        self._matcher, self._is_stuck = matcher, was_stuck
        return bool((free & ~mask_of(self._guide.seam.tokens.size, leash[:1])).any())

    def _free_mask(self) -> TokenMask:
        held, limits = self._held(), self._guide.limits
        if (quick := self._mask_of_string(held)) is not None:
            return quick
        if limits is not None or self._guide.inside is None:
            return self._asked()
        return self._guide.inside.shared_masks.mask(self._stand.prefix, self._asked)

    def _asked(self, keep: KeepMask | None = None) -> TokenMask:
        """What the grammar says, less what it cannot say."""
        seam, limits, held = self._guide.seam, self._guide.limits, self._held()
        mask = self._here().mask()
        if self._here().inner.is_error() and self._is_renewed():
            mask = self._here().mask()
        matcher = self._here()
        if matcher.inner.is_error():  # too intricate a place for its limits: the value is closed here
            self._is_stuck = True
            return mask_of(seam.tokens.size, self._closing()[:1])
        self._drop_taken_keys(mask)
        self._drop_digits(mask)
        if limits is not None:
            mask = limits.opening_well(mask) if held is None else limits.opening_well(mask) & limits.within(held)
        if matcher.accepts and not seam.follow:
            mask = mask | seam.mask
        if not mask.any():  # every key that may stand here is taken
            self._is_stuck = not self._stand.ending
            return mask_of(seam.tokens.size, self._closing()[:1])
        if keep is not None:
            keep(mask)
        return frozen(mask)

    def _held(self) -> OpenLimit | None:
        """The open string whose tokens are counted; None where there is none."""
        limits, stand = self._guide.limits, self._stand
        return None if limits is None else limits.held(stand.prefix, stand.taken, self._opened)

    def _mask_of_string(self, held: OpenLimit | None) -> TokenMask | None:
        """Inside a free string; None elsewhere."""
        inside, limits = self._guide.inside, self._guide.limits
        if inside is None:
            return None
        self._opened = inside.opened(self._stand.prefix, self._opened)
        if self._opened is None:
            return None
        mask = inside.mask(self._opened, self._here, None if held is None else held.left)
        if limits is None or mask is None:
            return mask
        return limits.opening_well(mask) if mask.any() else None

    def _drop_taken_keys(self, mask: TokenMask) -> None:
        """A key that the object has already is not closed again."""
        found = self._stand.prefix.open_key()
        if found is None:
            return
        begun, taken = found
        trie = self._guide.seam.tokens.trie
        for key in taken:
            spelled = json.dumps(key, ensure_ascii=False)[1:].encode()
            if spelled.startswith(begun) and (node := trie.find(spelled[len(begun) :])) >= 0:
                mask &= ~mask_of(self._guide.seam.tokens.size, trie.below(node))

    def _drop_digits(self, mask: TokenMask) -> None:
        """A number gets no more digits than every reader takes, as far as anything else may come."""
        left = self._stand.prefix.digits_left()
        if left is None:
            return
        beyond = tokens_with_more_digits(self._guide.seam.tokens, left)
        if (mask & ~beyond).any():
            mask &= ~beyond

    def forced(self) -> tuple[int, ...]:
        """What the grammar forces, as far as an ending fits behind it."""
        if self.is_finished:
            return ()
        text = bytes(self._here().inner.compute_ff_bytes())
        if not text:
            return ()
        tokens = self._guide.seam.tokens.canonical(text)
        if not tokens:
            return ()
        ahead = self._here().copy()
        prefix = self._stand.prefix.extended(text)
        if prefix.is_invalid or (prefix.end is not None and prefix.end < len(prefix.raw)) or not ahead.take(tokens):
            return ()
        is_far = self._stand.remaining >= (self._stand.prefix.depth + len(tokens) + 3) * self._guide.level + 32
        if is_far and self._guide.limits is None:
            return tokens
        ending = () if prefix.end is not None else self._ending_behind(text, prefix, ahead)
        if ending is None or len(tokens) + len(ending) > self._stand.remaining:
            return ()
        if not self._keeps_limits(self._stand, (*tokens, *ending)):
            return ()
        if is_far:
            return tokens
        # near the limit another spelling may be the one that fits: one token at a time
        return tokens[:1] if allows(self.allowed(), tokens[0]) else ()

    def _ending_behind(self, text: bytes, prefix: JsonPrefix, ahead: Matcher) -> tuple[int, ...] | None:
        """An ending behind a text that is forced: the one that is known begins with it."""
        tokens, known = self._guide.seam.tokens, self._stand.ending
        if known and self._guide.limits is None and (rest := rest_of(known, text, tokens)) is not None:
            return rest
        return find_ending(ahead, prefix, tokens, strings=self._guide.strings, least=self._guide.least)

    def _here(self) -> Matcher:
        if self._matcher is None:
            self._matcher = self._guide.behind(self._stand.taken)
            if self._matcher is None:
                raise ValueError("the tokens that were taken are not taken again")
        return self._matcher

    def _is_renewed(self, token: int | None = None) -> bool:
        """Whether it goes on with a new lexer now, as the old one had learnt as much as it may; behind the token."""
        spent = self._matcher
        if spent is None or not spent.is_spent:
            return False
        taken = self._stand.taken if token is None else (*self._stand.taken, token)
        found = self._guide.behind(taken, spent)
        self._matcher = spent if found is None else found
        return found is not None

    def _find_ending(self, prefix: JsonPrefix, token: int | None = None) -> tuple[int, ...] | None:
        """Behind what was taken, and the token that is being taken."""
        tokens, strings = self._guide.seam.tokens, self._guide.strings
        found = find_ending(self._here(), prefix, tokens, strings=strings, least=self._guide.least)
        if found is None and self._is_renewed(token):
            found = find_ending(self._here(), prefix, tokens, strings=strings, least=self._guide.least)
        rest = found if token is None or found is None else (token, *found)
        return found if rest is not None and self._keeps_limits(self._stand, rest) else None

    def _keeps_limits(self, stand: Stand, following: Sequence[int]) -> bool:
        limits = self._guide.limits
        return limits is None or limits.keeps(stand.prefix, stand.taken, following)

    # ── taking a token ───────────────────────────────────────────────────────────────────────────────────

    def advance(self, token: int) -> Accepted:
        assert not self.is_finished, "the value has ended"
        known, held, limits = self.text, self._held(), self._guide.limits
        is_cut = (
            self.truncated or (held is not None and limits is not None and limits.closes(held)) or self._is_cut_here()
        )
        stand, kept = self._after(token)
        self._stands.append(replace(stand, truncated=True) if is_cut else stand)
        self._mask = None
        return Accepted(self.text[len(known) :], kept, stand.end is not None)

    def _after(self, token: int) -> tuple[Stand, bool]:
        stand, seam = self._stand, self._guide.seam
        piece = seam.tokens.text(token)
        taken, remaining = (*stand.taken, token), stand.remaining - 1
        if piece is None:
            matcher = self._here()
            if token not in seam.tokens.vocabulary.ends or seam.follow or not matcher.accepts:
                raise ValueError(f"token {token} is not allowed here")
            return replace(stand, end=len(stand.prefix.raw), remaining=remaining), False
        if self._is_stuck:
            return self._cut(()), False
        before = self._ending_here()
        if not self._here().take([token]) and not self._is_renewed(token):
            self._matcher = None
            raise ValueError(f"token {token} ({piece!r}) is not allowed here")
        prefix = stand.prefix.extended(piece)
        if prefix.end is not None and not prefix.is_invalid:
            return Stand(prefix, remaining, (), taken, prefix.end), prefix.end == len(prefix.raw)
        if not prefix.is_invalid and self._here().is_over and not self._here().inner.is_error():
            return Stand(prefix, remaining, (), taken, len(prefix.raw)), True
        ending = None if prefix.is_invalid else self._ending_after(prefix, remaining, before, token)
        if prefix.is_invalid or (ending is not None and len(ending) > remaining):
            return self._cut(before), False
        if not remaining:
            end = prefix.closed_word().end
            assert end is not None, "the limit ended a value that is not complete"
            return Stand(prefix, 0, (), taken, end, truncated=True), end == len(prefix.raw)
        return Stand(prefix, remaining, None if ending == _PLENTY else ending, taken), True

    def _ending_after(
        self, prefix: JsonPrefix, remaining: int, before: tuple[int, ...], token: int
    ) -> tuple[int, ...] | None:
        """An ending behind the token; too long a one where none was found; `_PLENTY` where it need not be known."""
        if before[:1] == (token,):
            return before[1:]
        if remaining >= (prefix.depth + 2) * self._guide.level + 16:
            return _PLENTY
        inside = self._guide.inside
        if inside is not None and inside.closes_alike(self._stand.prefix, prefix, before, self._opened):
            return before
        found = self._carried_on(prefix, before, token) or self._find_ending(prefix, token)
        return (0,) * (remaining + 1) if found is None else found

    def _carried_on(self, prefix: JsonPrefix, before: tuple[int, ...], token: int) -> tuple[int, ...] | None:
        """A long ending from before the token, where the rest of it still closes the value behind another item."""
        if len(before) < _LONG or prefix.unique or any(around.is_object for around in prefix.stack):
            return None
        texts = self._guide.seam.tokens.text
        for rest in (before[1:], before, before[2:]):
            ahead = self._here().copy()
            if prefix.extended(b"".join(texts(one) or b"" for one in rest[:4])).is_invalid or not ahead.take(rest):
                continue
            if ahead.accepts and self._keeps_limits(self._stand, (token, *rest)):
                return rest
        return None

    def _ending_here(self) -> tuple[int, ...]:
        stand = self._stand
        if stand.ending is not None:
            return stand.ending
        if stand.remaining > 1 + (stand.prefix.depth + 3) * self._guide.level + 32:
            return ()  # far from the limit; looked for only if it has to be
        return self._find_ending(stand.prefix) or ()

    def _cut(self, before: tuple[int, ...]) -> Stand:
        """Closes the value without the token: with the ending from here, or from the last place that had one."""
        tokens = self._guide.seam.tokens
        for back, stand in enumerate(reversed(self._stands)):
            ending = before if back == 0 and before else stand.ending
            if ending is None or not ending or len(ending) > stand.remaining:
                matcher = self._guide.behind(stand.taken)
                found = matcher and find_ending(
                    matcher, stand.prefix, tokens, strings=self._guide.strings, least=self._guide.least
                )
                ending = found if found and self._keeps_limits(stand, found) else None
            if ending is not None and len(ending) <= self._stand.remaining:
                raw = stand.prefix.raw + b"".join(tokens.text(token) or b"" for token in ending)
                self._matcher = None
                prefix = replace(stand.prefix, raw=raw)
                remaining = self._stand.remaining - max(1, len(ending))
                return Stand(prefix, remaining, (), stand.taken, len(raw), truncated=True)
        raise NoEndingFits(f"the value can no longer be closed within its limit: {self._guide.explain()}")


_PLENTY: tuple[int, ...] = (-1,)
_LONG = 48  # tokens of an ending that is not searched anew for every token
