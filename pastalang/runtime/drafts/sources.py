"""What guesses are made of: texts that a branch sees, values that fields held before, what followed the last tokens
wherever they were written, and predictions of probes.

Prompt tokens and the mask token predict the tokens that follow the next one:

    step 1     … a │ t1 t2 t3         draws b from the logits of a; t1, t2, t3 predict c, d, e
    step 2     … a b │ c d e │ t1 …   b draws c? then c draws d? …

Where tokens are sampled, predictions are sampled too, with the random key of the draw that they are a guess of. So the
two nearly always agree if the distributions do.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import torch

from pastalang.runtime.constraints.vocabulary import Vocabulary
from pastalang.runtime.drafts.budget import NO_PROBES, Probing
from pastalang.runtime.models.probe_tokens import BREAK, BUCKETS, EDGES, ProbeTokens
from pastalang.runtime.sampling.sampler import waiting_times
from pastalang.runtime.scheduler.draft_tree import DraftTree
from pastalang.runtime.scheduler.sample_request import draw_key, sampling_of
from pastalang.runtime.scheduler.state import BranchState, RequestState, Seen
from pastalang.runtime.scheduler.transcript import Field, Written, WrittenField, WrittenLoop

LONGEST = 4  # tokens of a match that are compared
_LOOKED_AT = 16  # places of a token that are compared, the last ones first
_MATCHES = 2  # that go on differently


class Match(NamedTuple):
    """`length` tokens stand there, and `following` after them."""

    length: int
    following: Sequence[int]


class Texts:
    """An index of the tokens of every branch that is looked at."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._words = _words(vocabulary)
        self._places: WeakKeyDictionary[BranchState, _Places] = WeakKeyDictionary()

    def matches(self, branch: BranchState, value: Sequence[int], depth: int) -> list[Match]:
        """The longest matches that go on differently, with up to `depth` tokens that follow.

        Of matches that are equally long, the last one: documents stand at the end of a prompt.
        """
        words = [self._words[token] for token in value[-LONGEST:]]
        if not any(word >= 0 for word in words):
            return []
        best: dict[int, Match] = {}  # by the word that follows
        for match in self._all(branch, words, depth):
            known = best.get(word := self._words[match.following[0]])
            if known is None or known.length < match.length:
                best[word] = match
        return sorted(best.values(), key=lambda match: -match.length)[:_MATCHES]

    def _all(self, branch: BranchState, value: Sequence[int], depth: int) -> Iterator[Match]:
        sequence = branch.sequence
        for seen in (Seen(branch, len(sequence.tokens) - 1), *reversed(sequence.view)):
            tokens = seen.branch.sequence.tokens
            for place in self._places_in(seen, value[-1]):
                length = 1
                while (
                    length < len(value)
                    and length <= place
                    and self._words[tokens[place - length]] == value[-1 - length]
                ):
                    length += 1
                if any(word >= 0 for word in value[len(value) - length :]):
                    yield Match(length, tokens[place + 1 : min(seen.length, place + 1 + depth)])

    def _places_in(self, seen: Seen, word: int) -> Iterator[int]:
        """Where a word stands in the tokens seen of a branch, the last place first; a token has to follow."""
        places = self._places.get(seen.branch)
        if places is None:
            places = self._places[seen.branch] = _Places()
        places.read(seen.branch.sequence.tokens, self._words)
        looked_at = 0
        for place in reversed(places.of.get(word, ())):
            if place < seen.length - 1:
                yield place
                looked_at += 1
                if looked_at == _LOOKED_AT:
                    return


class _Places:
    """Where each word stands in the tokens of a branch, as far as they have been read."""

    def __init__(self) -> None:
        self.of: defaultdict[int, list[int]] = defaultdict(list)
        self._read = 0

    def read(self, tokens: Sequence[int], words: Sequence[int]) -> None:
        for place in range(self._read, len(tokens)):
            self.of[words[tokens[place]]].append(place)
        self._read = len(tokens)


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


END = -1  # instead of a token: the value ended
_LONGEST = 8  # tokens of a value that are remembered
_BEGINNINGS = 10_000  # of values that are remembered, those that were met last
_DOUBT, _MEMORY = 1, 512  # what was never seen counts like so many values; what was seen, like so many at most


class Values:
    """Fields are known by their path, whatever program they stand in: a wrong guess costs time and nothing else."""

    def __init__(self) -> None:
        self._next: OrderedDict[tuple[str, tuple[int, ...]], Counter[int]] = OrderedDict()
        self._closings: dict[str, int] = {}

    def note(self, request: RequestState) -> None:
        """Remember the values of a request that is over."""
        for branch in request.live:
            for field in _fields(branch.written):
                if field.is_done and field.decoding.tokens:
                    self._note(field)

    def after(self, path: str, beginning: Sequence[int]) -> list[tuple[int, float]]:
        """What may follow the first tokens of a value, with its chance: tokens or `END`, the likeliest first."""
        counts = self._next.get((path, tuple(beginning)))
        if counts is None:
            return []
        total = counts.total() + _DOUBT
        return [(token, count / total) for token, count in counts.most_common(3)]

    def closing(self, path: str) -> int | None:
        """The token that ends a value of the field, or of any field if this one has not been seen."""
        return self._closings.get(path, self._closings.get(""))

    def _note(self, field: Field) -> None:
        decoding = field.decoding
        tokens = decoding.tokens[:-1] if decoding.dropped else decoding.tokens
        for place, token in enumerate((*tokens, END)[:_LONGEST]):
            self._count((field.path, tuple(tokens[:place])), token)
        if not field.truncated and not decoding.dropped and len(tokens) > 1:
            if len(self._closings) > _BEGINNINGS:
                self._closings.clear()
            self._closings[field.path] = self._closings[""] = tokens[-1]

    def _count(self, beginning: tuple[str, tuple[int, ...]], token: int) -> None:
        counts = self._next.setdefault(beginning, Counter())
        counts[token] += 1
        if counts.total() > _MEMORY:
            for one in list(counts):
                counts[one] //= 2
            self._next[beginning] = +counts
        self._next.move_to_end(beginning)
        if len(self._next) > _BEGINNINGS:
            self._next.popitem(last=False)


def _fields(written: Sequence[Written]) -> Iterator[Field]:
    for one in written:
        if isinstance(one, WrittenField):
            yield one.field
        elif isinstance(one, WrittenLoop):
            for item in one.items:
                yield from _fields(item)


_SLOTS, _WAYS = 1 << 19, 4  # contexts that are remembered, and what may follow each of them: 15 MB
_MOST, _NONE = 255, array("B", [0] * _WAYS)  # times that are counted
NGRAM: Final = 320  # the first kind of guesses that followed before
_TIMES = 4  # kinds by how often


class Ngrams:
    """N-grams: what was drawn after the last one to four tokens, in everything that the engine has written.

    A table of fixed size. Contexts that meet in one of its slots push each other out: a wrong guess costs time and
    nothing else. `written`: the tokens of texts, noted before any other.
    """

    def __init__(self, written: torch.Tensor | None = None) -> None:
        self._written = written  # until it is noted
        self._contexts = array("q")  # empty until something is noted
        self._tokens, self._counts = array("i"), array("B")
        self._read: WeakKeyDictionary[BranchState, int] = WeakKeyDictionary()  # draws

    def begin(self) -> None:
        """Note the texts that were written before, which takes a while."""
        if self._written is not None:
            self._note(self._written.tolist())
            self._written = None

    def read(self, branch: BranchState) -> None:
        """Note what the branch has drawn since it was read."""
        self.begin()
        drawn, tokens = branch.record.drawn, branch.sequence.tokens
        for one in drawn[self._read.get(branch, 0) :]:
            if one.index is not None and one.index < len(tokens) and tokens[one.index] == one.token:
                self._count(last_tokens(branch, one.index), one.token)
        self._read[branch] = len(drawn)

    def _note(self, written: Sequence[int]) -> None:
        """The tokens of texts, `BREAK` between them."""
        context: list[int] = []
        for token in written:
            if token == BREAK:
                context.clear()
                continue
            self._count(context, token)
            context = [*context[1 - LONGEST :], token]

    def after(self, context: Sequence[int]) -> Iterator[tuple[int, int]]:
        """What followed the longest context that is known, then the next one: tokens and the kinds of their guesses."""
        given = set[int]()
        for length, hashed in _contexts(context) if self._contexts else ():
            slot = hashed % _SLOTS
            if self._contexts[slot] != hashed:
                continue
            for way in range(slot * _WAYS, slot * _WAYS + _WAYS):
                token, count = self._tokens[way], self._counts[way]
                if count and token not in given:
                    times = min(count.bit_length(), _TIMES) - 1
                    yield token, NGRAM + ((length - 1) * _WAYS + len(given)) * _TIMES + times
                    given.add(token)
                    if len(given) == _WAYS:
                        return

    def _count(self, context: Sequence[int], token: int) -> None:
        """The ways of a context are ordered by their counts, or nearly. A new one takes the place of the last."""
        if not self._contexts:
            self._tokens, self._counts = array("i", [0]) * (_SLOTS * _WAYS), array("B", [0]) * (_SLOTS * _WAYS)
            self._contexts = array("q", [0]) * _SLOTS
        tokens, counts = self._tokens, self._counts
        for _, hashed in _contexts(context):
            slot = hashed % _SLOTS
            first, last = slot * _WAYS, slot * _WAYS + _WAYS - 1
            if self._contexts[slot] != hashed:
                self._contexts[slot] = hashed
                counts[first : last + 1] = _NONE
            way = first
            while way < last and counts[way] and tokens[way] != token:
                way += 1
            if tokens[way] != token:
                tokens[way], counts[way] = token, 0
            if counts[way] == _MOST:
                counts[first : last + 1] = array("B", [count // 2 for count in counts[first : last + 1]])
            counts[way] += 1
            if way > first and counts[way] > counts[way - 1]:
                counts[way], counts[way - 1] = counts[way - 1], counts[way]
                tokens[way], tokens[way - 1] = tokens[way - 1], tokens[way]


def last_tokens(branch: BranchState, length: int) -> list[int]:
    """The last tokens of the branch before its token of that number; those that it begins after, if it has too few."""
    sequence = branch.sequence
    found = list(sequence.tokens[max(0, length - LONGEST) : length])
    for seen in reversed(sequence.view):
        if len(found) == LONGEST:
            break
        found = [*seen.branch.sequence.tokens[max(0, seen.length + len(found) - LONGEST) : seen.length], *found]
    return found


def _contexts(context: Sequence[int]) -> list[tuple[int, int]]:
    """The length and the hash of each end of a context, the longest first."""
    last = tuple(context[-LONGEST:])
    return [(length, hash(last[-length:])) for length in range(len(last), 0, -1)]


def ngram_of(kind: int) -> tuple[int, int, int]:
    """The length of the context, the rank, and how often, of a guess that followed before."""
    rest, times = divmod(kind - NGRAM, _TIMES)
    return 1 + rest // _WAYS, rest % _WAYS, times


class Shares:
    """How often something of a kind was right. What is believed counts like `trust` times; what was noted, like
    `memory` times at most."""

    def __init__(self, trust: int, memory: int) -> None:
        self._trust, self._memory = trust, memory
        self._right: defaultdict[int, float] = defaultdict(float)
        self._judged: defaultdict[int, float] = defaultdict(float)

    def of(self, kind: int, belief: float) -> float:
        return (self._right[kind] + self._trust * belief) / (self._judged[kind] + self._trust)

    def note(self, kind: int, was_right: bool) -> None:
        if self._judged[kind] >= self._memory:
            self._right[kind] /= 2
            self._judged[kind] /= 2
        self._right[kind] += was_right
        self._judged[kind] += 1


PREDICTED: Final = 400  # the first kind of guesses that were predicted
LIKELIEST = 8  # tokens that are considered at each distance
_TRUST = 32  # steps: see `Shares`
_WORTH = 0.05  # the probability from which on a runner-up is worth guessing
_ROOM = 64  # positions that have to be left before the model's last one


class Predicted(NamedTuple):
    """A token at a distance, 0 for the next draw that is not known yet, and its probability by the probes."""

    token: int
    distance: int
    probability: float


class ProbeDrafts:
    """What the probes of each branch predicted, until it is known. `vocabulary`: the id of the first probe token."""

    def __init__(self, trained: ProbeTokens, vocabulary: int, last_position: int) -> None:
        self._accuracy = trained.accuracy
        self._last_position = last_position
        self._tokens = trained.ids(vocabulary)
        self._predicted: WeakKeyDictionary[BranchState, _Predicted] = WeakKeyDictionary()
        self._pending: WeakKeyDictionary[BranchState, list[_Predicted]] = WeakKeyDictionary()  # not judged yet
        self._shares = Shares(_TRUST, _MEMORY)

    def probing(self, branches: Sequence[BranchState]) -> Probing:
        """What a probe is worth now."""
        if any(branch.sequence.position + _ROOM > self._last_position for branch in branches):
            return NO_PROBES
        gains = [self._shares.of(distance, run) for distance, run in enumerate(self._accuracy.runs)]
        return Probing(gains, self._tokens)

    def look(self, logits: torch.Tensor, probed: Sequence[tuple[DraftTree, Sequence[Sequence[int]]]]) -> None:
        """Read what the probes of a step predict. `logits`: (rows, vocabulary)."""
        if not probed:
            return
        ensembles = torch.tensor([rows for _, distances in probed for rows in distances], device=logits.device)
        mean = logits[ensembles].float().mean(dim=1)
        chances = torch.softmax(mean, dim=-1)
        first = 0
        for tree, distances in probed:
            own = slice(first, first + len(distances))
            chances[own] = _as_drawn(mean[own], chances[own], tree)
            first = own.stop
        found = chances.topk(min(LIKELIEST, mean.shape[-1]), dim=-1)
        likeliest = list(zip(found.indices.tolist(), found.values.tolist(), strict=True))
        for tree, distances in probed:
            here, likeliest = likeliest[: len(distances)], likeliest[len(distances) :]
            found_here = _Predicted(_first(tree), [list(zip(*one, strict=True)) for one in here])
            self._predicted[tree.branch] = found_here
            self._settle(tree.branch)
            self._pending[tree.branch].append(found_here)

    def predicted(self, branch: BranchState) -> list[list[Predicted]]:
        """Of each token that the branch draws next, the next one first: the likeliest ones."""
        known = self._predicted.get(branch)
        length = len(branch.sequence.tokens)
        if known is None or length < known.first:
            return []
        gone = length - known.first
        return [
            [Predicted(token, distance, probability) for token, probability in candidates]
            for distance, candidates in enumerate(known.likeliest)
        ][gone:]

    def end(self, branch: BranchState) -> None:
        """A branch draws no more: what was predicted beyond its end was wrong."""
        self._predicted.pop(branch, None)
        for known in self._pending.pop(branch, ()):
            self._judge(branch, known)

    def belief(self, distance: int, bucket: int) -> float:
        """How often a token of such a probability was right at the end of training."""
        return self._accuracy.by_chance[distance][bucket]

    def _settle(self, branch: BranchState) -> None:
        """Judge what was predicted of tokens that are all known by now."""
        known = len(branch.sequence.tokens)
        pending = self._pending.setdefault(branch, [])
        for one in pending:
            if one.first + len(one.likeliest) <= known:
                self._judge(branch, one)
        pending[:] = [one for one in pending if one.first + len(one.likeliest) > known]

    def _judge(self, branch: BranchState, known: _Predicted) -> None:
        """How far the tokens that are worth guessing came true: each of a run that is right saves a pass."""
        tokens = branch.sequence.tokens
        drawn, is_right = {one.index for one in branch.record.drawn[-_ROOM:]}, True
        for distance, candidates in enumerate(known.likeliest):
            at = known.first + distance
            is_known = at < len(tokens)
            if is_known and at not in drawn:
                continue  # the type forced it
            is_right = is_right and is_known and tokens[at] in _worth_guessing(candidates)
            self._shares.note(distance, is_right)


def _worth_guessing(candidates: Sequence[tuple[int, float]]) -> set[int]:
    return {token for rank, (token, probability) in enumerate(candidates) if not rank or probability >= _WORTH}


def _first(tree: DraftTree) -> int:
    """The number of the token that the first probe predicts: the last confirmed one draws the token before it."""
    return tree.after + len(tree.confirmed) + 1


def _as_drawn(logits: torch.Tensor, chances: torch.Tensor, tree: DraftTree) -> torch.Tensor:
    """The chances (distances, vocabulary) of what is predicted to a branch. If it samples, the largest of a row is that
    of the token that its key would draw from the row, and the others say how near they come to it."""
    branch = tree.branch
    sampling = sampling_of(branch)
    if not sampling.temperature:
        return chances
    known = len(branch.sequence.tokens) - _first(tree)  # tokens that the type has forced after the last draw
    keys = [draw_key(branch, ahead=max(0, distance - known)) for distance in range(len(logits))]
    times = waiting_times(keys, torch.arange(logits.shape[1], device=logits.device), dtype=logits.dtype)
    drawn = torch.softmax(logits / sampling.temperature, dim=-1) / times
    return drawn / drawn.sum(dim=-1, keepdim=True)


class _Predicted(NamedTuple):
    first: int  # the number of the branch's token that the first distance predicts
    likeliest: Sequence[Sequence[tuple[int, float]]]


def kind_of(distance: int, probability: float) -> int:
    """Of a guess that was predicted."""
    return PREDICTED + distance * BUCKETS + bisect_right(EDGES, probability)


def distance_and_bucket(kind: int) -> tuple[int, int]:
    """Of a guess that was predicted."""
    return divmod(kind - PREDICTED, BUCKETS)
