"""The tree of guesses of one branch while it is made.

Most extracted values are copied from the prompt, and most others have been written before. A tree grows

    from the text after the longest matches of the value so far      "Panasonic |Viera 42|"
    from values that the field held before                           |null|
    from a value's end into the text that follows                    "Viera|", "size": |4
    from what followed the last tokens anywhere                       of the|same
    from what probes predicted                                        a │predicted │token

as far as the type of the value allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush, nlargest
from typing import Final, TypeAlias

import numpy as np

from pastalang.plan.branches import Hole, Text
from pastalang.plan.machine import Cursor, Draw, Feed
from pastalang.runtime.constraints.guide import GuideError, TokenMask
from pastalang.runtime.drafts.sources import (
    END,
    LONGEST,
    NGRAM,
    PREDICTED,
    Shares,
    Texts,
    Values,
    distance_and_bucket,
    ngram_of,
)
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.scheduler.draft_tree import FORCED, FROM_BRANCH, PROBE, DraftTree, Guess
from pastalang.runtime.scheduler.hole import OpenHole
from pastalang.runtime.scheduler.state import BranchState

DEEPEST = 12  # guesses one after another
_LONGEST_TEXT = 32  # tokens between two values that are fed with a guess
_UNLIKELY = 0.08  # guesses of a smaller chance, all before them right, are not considered
_RARE = 0.02  # the same where a number of guesses is asked for, whatever they cost
_FIRST = (0.45, 0.7, 0.85, 0.9)  # the chance of the first copied token, by the length of the match, before any is seen
_NEXT = 0.85  # of a later one, if the one before it was right
_PROPOSED = 24  # guesses of a tree after which no more are proposed
_ENDS = 0.3  # that a value ends where it may
_BY_LENGTH = (0.15, 0.3, 0.45, 0.6)  # that what followed most often follows again, by the length of the context
_BY_RANK, _BY_TIMES = (1.0, 0.4, 0.25, 0.2), (0.8, 1.0, 1.1, 1.2)  # the others; and by how often it did
_TRUST, _MEMORY = 8, 256  # guesses: see `Shares`
_NOTHING: Final = np.zeros(0, np.uint32)  # a mask that allows no token

# Kinds of guesses, to learn from: a copied token by the length of the match and its depth, an end by its depth. From
# `NGRAM` on: one that followed before, by the length of the context, its rank and how often. From `PREDICTED` on:
# one that was predicted, by its distance and its probability.
_COPY, _SECOND_COPY, _END, _REMEMBERED = 0, 100, 200, 300


class GuessTree:
    """`guesses`: parents before children."""

    def __init__(self, branch: BranchState, values: Values, chances: Chances) -> None:
        hole = branch.pending.hole
        assert hole is not None
        self.guesses: list[Guess] = []
        self._branch = branch
        self._hole = hole
        self._values = values
        self._chances = chances
        self._encoder: Encoder = branch.request.tokens.encoder
        self._base = branch.request.base.drafts
        self._known: dict[tuple[int, int], int] = {}  # a guess by its parent and its token
        self._allowed: set[int] = set()  # the guesses that are known to be allowed
        self._reached: list[float] = []  # the chance that a guess and all before it are right
        self._machine = branch.request.tokens.machine
        self._after = self._text_after(branch.cursor)

    def copy_from(self, texts: Texts) -> None:
        """The text that the branch sees, after what stands there like the value so far."""
        matches = texts.matches(self._branch, self._hole.field.decoding.tokens[-LONGEST:], DEEPEST)
        for rank, match in enumerate(matches):
            self._copy(match.following, match.length, _SECOND_COPY if rank else _COPY)

    def _copy(self, following: Sequence[int], match: int, kind: int) -> None:
        """Guesses one after another, as long as the type allows them. What it forces is fed with them."""
        way, parent, depth = self._hole.copy_for_probe(), FROM_BRANCH, 0
        self._may_end(way, parent, match, depth)
        forced: tuple[int, ...] = ()
        for token in following:
            if forced:
                if forced[0] != token:
                    return
                forced = forced[1:]
                continue
            fed = _take(way, token)
            if fed is None:
                return
            of_kind = kind + match * DEEPEST + min(depth, DEEPEST - 1)
            parent = self._add_allowed(token, parent, self._chances.of(of_kind), of_kind)
            forced = fed[1:]
            parent = self._add_forced(forced, parent)
            depth += 1
            if way.is_finished or self._chance_of(parent) < _UNLIKELY:
                return
            self._may_end(way, parent, match, depth)

    def remember(self) -> None:
        """What the field held before, and after it the fields that follow."""
        begun, hole = self._hole.field.decoding.tokens, self._hole
        for token, chance in self._values.after(hole.field.path, begun):
            if token == END or chance < _UNLIKELY:
                continue
            way = hole.copy_for_probe()
            fed = _take(way, token)
            if fed is None:
                continue
            parent = self._add_allowed(token, FROM_BRANCH, chance, _REMEMBERED)
            parent = self._add_forced(fed[1:], parent)
            if way.is_finished:
                self._go_on(parent, self._after, 1.0)
            else:
                self._go_on_as_before(hole.field.path, (*begun, *fed), parent, self._after)

    def grow(self, likely: Likely) -> None:
        """The likeliest tokens, each after the likeliest before it. `likely` says what may follow a path of them."""
        heap: list[tuple[float, int, int, tuple[int, ...]]] = [(-1.0, 0, FROM_BRANCH, ())]
        ways = [self._hole]
        while heap and len(self.guesses) < _PROPOSED:
            reached, number, parent, path = heappop(heap)
            least = self._least()
            if -reached < least:
                return
            ranked = sorted(((self._chances.of(kind), token, kind) for token, kind in likely(path)), reverse=True)
            if not ranked or -reached * ranked[0][0] < least:
                continue
            allowed: TokenMask | None = None
            for chance, token, kind in ranked:
                if -reached * chance < least:
                    break
                known = self._known.get((parent, token))
                if known is None:
                    allowed = _allowed(ways[number]) if allowed is None else allowed
                    if not _is_in(allowed, token):
                        continue
                elif known not in self._allowed:
                    continue  # a value that is remembered goes on by itself, and may not be allowed here
                way = ways[number].copy_for_probe()
                fed = _taken(way, token)
                if fed is None:
                    continue
                added = self._add_allowed(token, parent, chance, kind)
                added = self._add_forced(fed[1:], added)
                if way.is_finished:
                    self._go_on(added, self._after, 1.0)
                    continue
                ways.append(way)
                heappush(heap, (-self._chance_of(added), len(ways) - 1, added, (*path, *fed)))

    def _least(self) -> float:
        """The chance below which a guess is not considered. If a number of guesses is asked for, the likeliest are fed:
        one that is less likely than so many others is none of them."""
        asked = self._branch.drafts
        if not isinstance(asked, int):
            return _UNLIKELY
        known = zip(self.guesses, self._reached, strict=True)
        best = nlargest(asked, (reached for guess, reached in known if guess.kind != FORCED))
        return max(_RARE, best[-1]) if len(best) == asked else _RARE

    def _go_on_as_before(self, path: str, begun: tuple[int, ...], parent: int, after: _TextAfter | None) -> None:
        """A value that is not decoded yet goes on as it did before, and so do the fields after it."""
        for token, chance in self._values.after(path, begun):
            if self._chance_of(parent) * chance < _UNLIKELY:
                return
            if token == END:
                self._go_on(parent, after, chance)
            else:
                added = self._add(token, parent, chance, _REMEMBERED)
                self._go_on_as_before(path, (*begun, token), added, after)

    def _may_end(self, way: OpenHole, parent: int, match: int, depth: int) -> None:
        """The value may end here. That saves a pass if the branch goes on with a text and another value."""
        closing = self._values.closing(self._hole.field.path)
        if self._after is None or closing is None or way.is_finished or not _is_in(_allowed(way), closing):
            return
        kind = _END + match * DEEPEST + min(depth, DEEPEST - 1)
        chance = self._chances.of(kind)
        if self._chance_of(parent) * chance >= _UNLIKELY:
            self._go_on(self._add_allowed(closing, parent, chance, kind), self._after, 1.0)

    def _go_on(self, parent: int, after: _TextAfter | None, chance: float) -> None:
        """The value has ended: the text after it, and what the field after that held before."""
        if after is None:
            return
        tokens, hole, place = after
        if parent != FROM_BRANCH and chance > 0.9:
            parent = self._add_forced(tokens, parent)
        elif tokens:
            parent = self._add(tokens[0], parent, chance, _REMEMBERED)
            parent = self._add_forced(tokens[1:], parent)
        if len(self.guesses) < 16 * DEEPEST:
            self._go_on_as_before(hole.field, (), parent, self._text_after(place))

    def _text_after(self, place: Cursor) -> _TextAfter | None:
        """The text between a value and the next one of the same branch. None if something else comes first, if the text
        is so long that feeding it in vain would cost more than a pass, or if the next value asks for no guesses."""
        cursor, tokens = place.after(), list[int]()
        while cursor.items == place.items and len(tokens) <= _LONGEST_TEXT:
            match self._machine.action(cursor):
                case Draw(segment=Hole() as hole):
                    asks_for_none = (hole.sampling.drafts or self._base) == "off"
                    return None if asks_for_none else (tuple(tokens), hole, cursor)
                case Feed(segment=Text(text=text, shown=shown) as segment):
                    tokens += self._encoder.text(segment.fed_text) if shown else self._encoder.control(text)
                case _:
                    return None
            cursor = cursor.after()
        return None

    def _add(self, token: int, parent: int, chance: float, kind: int) -> int:
        """Gives its number. A guess that is known keeps its chance."""
        number = self._known.setdefault((parent, token), len(self.guesses))
        if number == len(self.guesses):
            self.guesses.append(Guess(token, parent, chance, kind))
            self._reached.append(self._chance_of(parent) * chance)
        return number

    def _add_allowed(self, token: int, parent: int, chance: float, kind: int) -> int:
        number = self._add(token, parent, chance, kind)
        self._allowed.add(number)
        return number

    def _add_forced(self, tokens: Sequence[int], parent: int) -> int:
        for token in tokens:
            parent = self._add(token, parent, 1.0, FORCED)
        return parent

    def _chance_of(self, guess: int) -> float:
        return 1.0 if guess == FROM_BRANCH else self._reached[guess]


_TextAfter = tuple[tuple[int, ...], Hole, Cursor]
Likely: TypeAlias = Callable[[tuple[int, ...]], Iterable[tuple[int, int]]]  # tokens after a path, and their kinds


class Chances:
    """How often guesses of a kind are right. `predicted`: what is believed by distance and bucket of probability."""

    def __init__(self, predicted: Callable[[int, int], float] | None = None) -> None:
        self._predicted = predicted
        self._shares = Shares(_TRUST, _MEMORY)

    def of(self, kind: int) -> float:
        return self._shares.of(kind, self._belief(kind))

    def learn(self, tree: DraftTree) -> None:
        """A guess is judged if the one before it was right."""
        right = {FROM_BRANCH, *tree.confirmed}
        for place, node in enumerate(tree.nodes):
            if node.guess.kind not in (FORCED, PROBE, _REMEMBERED) and node.guess.parent in right:
                self._shares.note(node.guess.kind, place in right)

    def _belief(self, kind: int) -> float:
        """The chance of a guess of a kind before any was seen."""
        if kind >= PREDICTED:
            assert self._predicted is not None, "something was predicted"
            return self._predicted(*distance_and_bucket(kind))
        if kind >= NGRAM:
            length, rank, times = ngram_of(kind)
            return _BY_LENGTH[length - 1] * _BY_RANK[rank] * _BY_TIMES[times]
        match, depth = divmod(kind % 100, DEEPEST)
        if kind >= _END:
            return _ENDS
        likely = _FIRST[min(match, len(_FIRST)) - 1] if depth == 0 else _NEXT
        return likely if kind < _SECOND_COPY else likely / 3


def _allowed(way: OpenHole) -> TokenMask:
    """Nothing, where the type turns out to be one that cannot be enforced: guesses end no run."""
    try:
        return way.allowed()
    except GuideError:
        return _NOTHING


def _take(way: OpenHole, token: int) -> tuple[int, ...] | None:
    """The tokens that are fed if a hole takes a token. None if it does not, or does not keep it."""
    return _taken(way, token) if not way.is_finished and _is_in(_allowed(way), token) else None


def _taken(way: OpenHole, token: int) -> tuple[int, ...] | None:
    """The same for a token that is allowed."""
    try:
        fill = way.take(token, 0.0)
    except GuideError:
        return None
    return fill.feed if fill.is_kept else None


def _is_in(mask: TokenMask, token: int) -> bool:
    return token >> 5 < len(mask) and bool(mask[token >> 5] >> (token & 31) & 1)
