"""Look-up drafts: a value goes on like a text that its branch sees, or like a value that its field held before.

Most extracted values are copied from the prompt, and most others have been written before. A tree of guesses grows

    from the text after the longest matches of the value so far      "Panasonic |Viera 42|"
    from values that the field held before                           |null|
    from a value's end into the text that follows                    "Viera|", "size": |4

as far as the type of the value allows it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import linear_regression, median

from pastalang.plan.plan import Hole, Segment, Text
from pastalang.runtime.binding.spaced import fed_text
from pastalang.runtime.constraints.guide import GuideError, TokenMask
from pastalang.runtime.constraints.vocabulary import Vocabulary
from pastalang.runtime.drafts.budget import StepCosts, worth_feeding
from pastalang.runtime.drafts.texts import LONGEST, Texts
from pastalang.runtime.drafts.values import END, Values
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.draft_tree import FORCED, FROM_BRANCH, DraftTree, Guess
from pastalang.runtime.scheduler.hole import OpenHole
from pastalang.runtime.scheduler.request import RequestState

DEEPEST = 12  # guesses one after another
_LONGEST_TEXT = 32  # tokens between two values that are fed with a guess
_UNLIKELY = 0.08  # guesses of a smaller chance, all before them right, are not considered
_FIRST = (0.45, 0.7, 0.85, 0.9)  # the chance of the first copied token, by the length of the match, before any is seen
_NEXT = 0.85  # of a later one, if the one before it was right
_SKIPPED = 50  # steps without trees before they are tried again
_STEPS = 32  # whose times are remembered
_ENDS = 0.3  # that a value ends where it may
_TRUST, _MEMORY = 8, 256  # what is believed counts like so many guesses; what was learned, like so many at most

# Kinds of guesses, to learn from: a copied token by the length of the match and its depth, an end by its depth.
_COPY, _SECOND_COPY, _END, _REMEMBERED = 0, 100, 200, 300

_Place = tuple[tuple[tuple[Segment, ...], int, bool], ...]  # segments, index, whether it is a list: from the outermost


class LookUpDrafter:
    """`costs` says what more tokens cost."""

    def __init__(self, vocabulary: Vocabulary, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.costs: StepCosts | None = None  # until they are measured
        self._around: deque[tuple[int, float]] = deque(maxlen=_STEPS)  # (draws, seconds)
        self._tree_seconds: deque[float] = deque(maxlen=_STEPS)
        self._trees = self._fed = self._confirmed = float(_TRUST)  # trees that were made, their guesses, the right ones
        self._skipped = 0  # steps without trees
        self._texts = Texts(vocabulary)
        self._values = Values()
        self._chances = _Chances()

    def note_step(self, tokens: int, draws: int, seconds: float) -> None:
        """How long a whole step took."""
        if self.costs is not None:
            forward = self.costs(tokens) - self.costs.around
            self._around.append((draws, max(0.0, seconds - forward)))
            self.costs = replace(self.costs, around=_without_draws(self._around))

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        """If a request asks for a number of drafts, each of its guesses is fed; of others, each has to be worth it."""
        trees: dict[BranchState, tuple[Guess, ...]] = {}
        for weighed in (False, True):
            some = [branch for branch in branches if (branch.drafts == "auto") is weighed]
            if weighed and (self.costs is None or not self._is_worth_trees(self.costs, len(some), step)):
                continue
            costs = self.costs if weighed and self.costs is not None else StepCosts.flat()
            each = [one for branch in some if isinstance(one := branch.drafts, int)] or None
            fed = sum(map(len, trees.values()))
            began = self._clock()
            grown = [self._tree(one) for one in some]
            if weighed and some:
                self._note_trees(len(some), self._clock() - began)
            found = worth_feeding(grown, costs, step=step + fed, most=most - fed, each=each)
            trees |= dict(zip(some, found, strict=True))
        return [trees.get(branch, ()) for branch in branches]

    def _is_worth_trees(self, costs: StepCosts, branches: int, step: int) -> bool:
        """Whether guesses are expected to save more time than it takes to think of them. With many branches in a step,
        a pass costs each of them little. Tried again now and then, because what was learned may be wrong by now."""
        if not self._tree_seconds or not branches:
            return True
        passes = self._confirmed / self._trees / branches  # that a tree saves
        spent = self._fed / self._trees * (costs(step + 1) - costs(step)) + median(self._tree_seconds)
        is_worth = passes * costs(branches) > spent  # a later pass is saved, which feeds no prompt
        self._skipped = 0 if is_worth or self._skipped == _SKIPPED else self._skipped + 1
        return not self._skipped

    def _note_trees(self, trees: int, seconds: float) -> None:
        self._tree_seconds.append(seconds / trees)
        if self._trees > _MEMORY:
            self._trees /= 2
            self._fed /= 2
            self._confirmed /= 2
        self._trees += trees

    def learn(self, tree: DraftTree) -> None:
        """A guess is judged if the one before it was right."""
        if tree.is_weighed:
            self._confirmed += len(tree.confirmed)
            self._fed += len(tree.nodes)
        right = {FROM_BRANCH, *tree.confirmed}
        for place, node in enumerate(tree.nodes):
            if node.guess.kind not in (FORCED, _REMEMBERED) and node.guess.parent in right:
                self._chances.note(node.guess.kind, place in right)

    def remember(self, request: RequestState) -> None:
        if request.drafts != {"off"}:
            self._values.note(request)

    def _tree(self, branch: BranchState) -> list[Guess]:
        assert branch.hole is not None
        tree = _Tree(branch, self._values, self._chances)
        for rank, match in enumerate(self._texts.matches(branch, branch.hole.field.tokens[-LONGEST:], DEEPEST)):
            tree.copy(match.following, match.length, _SECOND_COPY if rank else _COPY)
        tree.remember()
        return tree.guesses


class _Tree:
    """The guesses of one branch while they are made."""

    def __init__(self, branch: BranchState, values: Values, chances: _Chances) -> None:
        assert branch.hole is not None
        self.guesses: list[Guess] = []
        self._hole = branch.hole
        self._values = values
        self._chances = chances
        self._encoder: Encoder = branch.request.tokens.encoder
        self._base = branch.request.base.drafts
        self._known: dict[tuple[int, int], int] = {}  # a guess by its parent and its token
        self._reached: list[float] = []  # the chance that a guess and all before it are right
        place = tuple((frame.segments, frame.index, frame.repeat is not None) for frame in branch.frames)
        self._after = self._text_after(place)

    def copy(self, following: Sequence[int], match: int, kind: int) -> None:
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
            parent = self._add(token, parent, self._chances.of(of_kind), of_kind)
            forced = fed[1:]
            parent = self._add_forced(forced, parent)
            depth += 1
            if way.is_finished or self._chance_of(parent) < _UNLIKELY:
                return
            self._may_end(way, parent, match, depth)

    def remember(self) -> None:
        """What the field held before, and after it the fields that follow."""
        begun, hole = self._hole.field.tokens, self._hole
        for token, chance in self._values.after(hole.field.path, begun):
            if token == END or chance < _UNLIKELY:
                continue
            way = hole.copy_for_probe()
            fed = _take(way, token)
            if fed is None:
                continue
            parent = self._add(token, FROM_BRANCH, chance, _REMEMBERED)
            parent = self._add_forced(fed[1:], parent)
            if way.is_finished:
                self._go_on(parent, self._after, 1.0)
            else:
                self._go_on_as_before(hole.field.path, (*begun, *fed), parent, self._after)

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
        if self._after is None or closing is None or way.is_finished or not _is_in(way.allowed(), closing):
            return
        kind = _END + match * DEEPEST + min(depth, DEEPEST - 1)
        chance = self._chances.of(kind)
        if self._chance_of(parent) * chance >= _UNLIKELY:
            self._go_on(self._add(closing, parent, chance, kind), self._after, 1.0)

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

    def _text_after(self, place: _Place) -> _TextAfter | None:
        """The text between a value and the next one of the same branch. None if something else comes first, if the text
        is so long that feeding it in vain would cost more than a pass, or if the next value asks for no guesses."""
        tokens: list[int] = []
        *outer, (segments, index, is_list) = place
        while True:
            index += 1
            if index == len(segments):
                if is_list or not outer:
                    return None
                segments, index, is_list = outer.pop()
                continue
            segment = segments[index]
            if isinstance(segment, Hole):
                if (segment.sampling.drafts or self._base) == "off":
                    return None
                return tuple(tokens), segment, (*outer, (segments, index, is_list))
            if not isinstance(segment, Text):
                return None
            text = self._encoder.text(fed_text(segment)) if segment.shown else self._encoder.control(segment.text)
            tokens += text
            if len(tokens) > _LONGEST_TEXT:
                return None

    def _add(self, token: int, parent: int, chance: float, kind: int) -> int:
        """Gives its number. A guess that is known keeps its chance."""
        number = self._known.setdefault((parent, token), len(self.guesses))
        if number == len(self.guesses):
            self.guesses.append(Guess(token, parent, chance, kind))
            self._reached.append(self._chance_of(parent) * chance)
        return number

    def _add_forced(self, tokens: Sequence[int], parent: int) -> int:
        for token in tokens:
            parent = self._add(token, parent, 1.0, FORCED)
        return parent

    def _chance_of(self, guess: int) -> float:
        return 1.0 if guess == FROM_BRANCH else self._reached[guess]


_TextAfter = tuple[tuple[int, ...], Hole, _Place]


class _Chances:
    """How often guesses of a kind are right."""

    def __init__(self) -> None:
        self._right: defaultdict[int, float] = defaultdict(float)
        self._judged: defaultdict[int, float] = defaultdict(float)

    def of(self, kind: int) -> float:
        return (self._right[kind] + _TRUST * _belief(kind)) / (self._judged[kind] + _TRUST)

    def note(self, kind: int, was_right: bool) -> None:
        if self._judged[kind] >= _MEMORY:
            self._right[kind] /= 2
            self._judged[kind] /= 2
        self._right[kind] += was_right
        self._judged[kind] += 1


def _belief(kind: int) -> float:
    """The chance of a guess of a kind before any was seen."""
    match, depth = divmod(kind % 100, DEEPEST)
    if kind >= _END:
        return _ENDS
    likely = _FIRST[min(match, len(_FIRST)) - 1] if depth == 0 else _NEXT
    return likely if kind < _SECOND_COPY else likely / 3


def _without_draws(steps: Iterable[tuple[int, float]]) -> float:
    """What a step takes besides its forward pass and its draws, of which a longer step has more: the line through the
    times of some steps, where it has no draws."""
    draws, seconds = zip(*steps, strict=True)
    if min(draws) == max(draws):
        return 0.0
    return float(min(max(0.0, linear_regression(draws, seconds).intercept), min(seconds)))


def _take(way: OpenHole, token: int) -> tuple[int, ...] | None:
    """The tokens that are fed if a hole takes a token. None if it does not, or does not keep it."""
    try:
        if way.is_finished or not _is_in(way.allowed(), token):
            return None
        fill = way.take(token, 0.0)
    except GuideError:
        return None
    return fill.feed if fill.is_kept else None


def _is_in(mask: TokenMask, token: int) -> bool:
    return token >> 5 < len(mask) and bool(mask[token >> 5] >> (token & 31) & 1)
