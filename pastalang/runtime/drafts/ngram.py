"""Look-up drafts: a value that has begun like a text before it goes on like that text.

Most extracted values are copied from the prompt. The tokens of a value so far are looked up in everything that the
branch sees; what follows the longest match is the guess, as far as the type of the value allows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from pastalang.runtime.constraints.guide import GuideError, TokenMask
from pastalang.runtime.constraints.vocabulary import Vocabulary
from pastalang.runtime.drafts.budget import StepCosts, worth_feeding
from pastalang.runtime.scheduler.branch import BranchState, Seen
from pastalang.runtime.scheduler.draft_tree import FORCED, FROM_BRANCH, DraftTree, Guess
from pastalang.runtime.scheduler.hole import OpenHole

_LONGEST = 4  # tokens of a match that are compared
DEEPEST = 12  # guesses one after another
_LOOKED_AT = 16  # places of a token that are compared, the last ones first
_FIRST = (0.45, 0.7, 0.85, 0.9)  # the chance of the first guess, by the length of the match, before anything is learned
_NEXT = 0.85  # of a later one, if the one before it was right
_TRUST, _MEMORY = 8, 256  # what is believed counts like so many guesses; what was learned, like so many at most


class NgramDrafter:
    """`costs` says what more tokens cost."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.costs: StepCosts | None = None  # until they are measured
        self._words = _words(vocabulary)
        self._places: WeakKeyDictionary[BranchState, _Places] = WeakKeyDictionary()
        self._chances = _Chances()

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        """If a request asks for a number of drafts, each of its guesses is fed; of others, each has to be worth it."""
        trees: dict[BranchState, tuple[Guess, ...]] = {}
        for weighed in (False, True):
            some = [branch for branch in branches if branch.request.weighs_drafts is weighed]
            costs = self.costs if weighed and self.costs is not None else StepCosts.flat()
            fed = sum(map(len, trees.values()))
            found = worth_feeding([self._tree(branch) for branch in some], costs, step=step + fed, most=most - fed)
            trees |= dict(zip(some, found, strict=True))
        return [trees[branch] for branch in branches]

    def learn(self, tree: DraftTree) -> None:
        """A guess is judged if the one before it was right."""
        for place, node in enumerate(tree.nodes):
            if node.guess.kind != FORCED and (place in tree.confirmed or node.guess.parent == tree.last):
                self._chances.note(node.guess.kind, place in tree.confirmed)

    def _tree(self, branch: BranchState) -> list[Guess]:
        hole = branch.hole
        if hole is None or not hole.field.tokens:
            return []
        match, following = self._longest_match(branch, [self._words[token] for token in hole.field.tokens[-_LONGEST:]])
        return list(self._allowed(hole, following, match)) if match else []

    def _longest_match(self, branch: BranchState, value: Sequence[int]) -> tuple[int, Sequence[int]]:
        """How many of the last tokens of a value stand in what the branch sees, and the tokens that follow them there.

        Of matches that are equally long, the last one: documents stand at the end of a prompt.
        """
        best, following = 0, list[int]()
        for seen in (Seen(branch, len(branch.tokens) - 1), *reversed(branch.view)):
            tokens = seen.branch.tokens
            for place in self._places_in(seen, value[-1]):
                length = 1
                while (
                    length < len(value)
                    and length <= place
                    and self._words[tokens[place - length]] == value[-1 - length]
                ):
                    length += 1
                if length > best and any(word >= 0 for word in value[len(value) - length :]):
                    best, following = length, tokens[place + 1 : min(seen.length, place + 1 + branch.request.drafts)]
                if best == len(value):
                    return best, following
        return best, following

    def _places_in(self, seen: Seen, word: int) -> Iterator[int]:
        """Where a word stands in the tokens seen of a branch, the last place first; a token has to follow."""
        places = self._places.get(seen.branch)
        if places is None:
            places = self._places[seen.branch] = _Places()
        places.read(seen.branch.tokens, self._words)
        found = places.of[word]
        looked_at = 0
        for place in reversed(found):
            if place < seen.length - 1:
                yield place
                looked_at += 1
                if looked_at == _LOOKED_AT:
                    return

    def _allowed(self, hole: OpenHole, following: Sequence[int], match: int) -> Iterator[Guess]:
        """The guesses, one after another, as long as the type allows them. What it forces is fed with them."""
        way, parent, depth = hole.copy_for_probe(), FROM_BRANCH, 0
        forced: tuple[int, ...] = ()
        for token in following:
            if forced:
                if forced[0] != token:
                    return
                forced = forced[1:]
                continue
            try:
                if way.is_finished or not _is_in(way.allowed(), token):
                    return
                fill = way.take(token, 0.0)
            except GuideError:
                return
            if not fill.is_kept:
                return
            kind = match * DEEPEST + min(depth, DEEPEST - 1)
            yield Guess(token, parent, self._chances.of(kind), kind)
            forced = fill.feed[1:]
            for number, rider in enumerate(forced):
                yield Guess(rider, parent + 1 + number, 1.0, FORCED)
            parent += len(fill.feed)
            depth += 1


class _Places:
    """Where each word stands in the tokens of a branch, as far as they have been read."""

    def __init__(self) -> None:
        self.of: defaultdict[int, list[int]] = defaultdict(list)
        self._read = 0

    def read(self, tokens: Sequence[int], words: Sequence[int]) -> None:
        for place in range(self._read, len(tokens)):
            self.of[words[tokens[place]]].append(place)
        self._read = len(tokens)


class _Chances:
    """How often guesses of a kind are right."""

    def __init__(self) -> None:
        self._right: defaultdict[int, float] = defaultdict(float)
        self._judged: defaultdict[int, float] = defaultdict(float)

    def of(self, kind: int) -> float:
        match, depth = divmod(kind, DEEPEST)
        belief = _FIRST[min(match, len(_FIRST)) - 1] if depth == 0 else _NEXT
        return (self._right[kind] + _TRUST * belief) / (self._judged[kind] + _TRUST)

    def note(self, kind: int, was_right: bool) -> None:
        if self._judged[kind] >= _MEMORY:
            self._right[kind] /= 2
            self._judged[kind] /= 2
        self._right[kind] += was_right
        self._judged[kind] += 1


def _is_in(mask: TokenMask, token: int) -> bool:
    return token >> 5 < len(mask) and bool(mask[token >> 5] >> (token & 31) & 1)


def _words(vocabulary: Vocabulary) -> list[int]:
    """A number for each token: the same with and without a space before it. Below 0 for tokens without a letter or
    digit, whose matches say little."""
    numbers: dict[bytes, int] = {}
    words = []
    for token, text in enumerate(vocabulary.spelling):
        bare = (text or b"").lstrip(b" ")
        is_word = any(byte >= 128 or chr(byte).isalnum() for byte in bare)
        words.append(numbers.setdefault(bare, token) if is_word else -1 - token)
    return words
