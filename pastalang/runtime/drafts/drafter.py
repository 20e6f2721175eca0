"""The engine's drafter: guesses from everything that it knows, and how many of them a step is worth.

look-up          what the branch sees, what its field held before, what followed its last tokens
probes           what those of the step before predicted, if the model has prompt tokens or a mask token
the budget       which of these guesses are fed, and after which of them probes
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import linear_regression, median

import torch

from pastalang.runtime.constraints.vocabulary import Vocabulary
from pastalang.runtime.drafts.budget import NO_PROBES, StepCosts, worth_feeding
from pastalang.runtime.drafts.guess_tree import Chances, GuessTree
from pastalang.runtime.drafts.sources import LONGEST, Ngrams, ProbeDrafts, Texts, Values, kind_of, last_tokens
from pastalang.runtime.scheduler.draft_tree import DraftTree, Guess
from pastalang.runtime.scheduler.state import BranchState, RequestState

_SKIPPED = 50  # steps without trees before they are tried again
_TRIED = 2  # steps more, with probes: what one step predicts is guessed in the next
_STEPS = 32  # whose times are remembered
_TRUST, _MEMORY = 8, 256  # what is believed counts like so many trees; what was learned, like so many at most


class EngineDrafter:
    """`costs` says what more tokens cost. `ahead`: what probes predict, if the model has any. `written`: the tokens of
    texts that the model wrote before."""

    def __init__(
        self, vocabulary: Vocabulary, clock: Callable[[], float], ahead: ProbeDrafts | None = None,
        written: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        self._clock = clock
        self.costs: StepCosts | None = None  # until they are measured
        self._began: float | None = None  # when the step began
        self._thought = 0.0  # seconds that the step took to think of guesses and to read what probes predicted
        self._thought_of = 0  # trees
        self._around: deque[tuple[int, float]] = deque(maxlen=_STEPS)  # (draws, seconds)
        self._tree_seconds: deque[float] = deque(maxlen=_STEPS)
        self._trees = self._fed = self._confirmed = float(_TRUST)  # trees that were made, their guesses, the right ones
        self._skipped = 0  # steps without trees
        self._texts = Texts(vocabulary)
        self._values = Values()
        self._ngrams = Ngrams(written)
        self._ahead = ahead
        self._chances = Chances(None if ahead is None else ahead.belief)

    def weigh(self, costs: StepCosts | None) -> None:
        """Guesses have to be worth their time from now on, if it could be measured. What takes time once is done now,
        and not in a step."""
        self.costs = costs
        self._ngrams.begin()

    def begin_step(self) -> None:
        """Times are taken where they are compared with something: reading the clock of a thread can be slow."""
        self._began = self._now()
        self._thought, self._thought_of = 0.0, 0

    def note_step(self, tokens: int, draws: int) -> None:
        """A whole step is over. The time for guesses counts against them: it is not what a saved step would take."""
        if self.costs is not None and self._began is not None:
            others = self.costs(tokens) - self.costs.around + self._thought
            self._around.append((draws, max(0.0, self._clock() - self._began - others)))
            self.costs = replace(self.costs, around=_without_draws(self._around))
            if self._thought_of:
                self._tree_seconds.append(self._thought / self._thought_of)

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        """If a request asks for a number of drafts, each of its guesses is fed; of others, each has to be worth it."""
        began = self._now()
        trees: dict[BranchState, tuple[Guess, ...]] = {}
        for branch in branches:
            if _shares(branch.request):
                self._ngrams.read(branch)
        for weighed in (False, True):
            some = [branch for branch in branches if (branch.drafts == "auto") is weighed]
            if weighed and (self.costs is None or not self._is_worth_trees(self.costs, len(some), step)):
                continue
            costs = self.costs if weighed and self.costs is not None else StepCosts.flat()
            each = [one for branch in some if isinstance(one := branch.drafts, int)] or None
            fed = sum(map(len, trees.values()))
            grown = [self._tree(one) for one in some]
            self._thought_of += len(some)
            if weighed and some:
                self._note_trees(len(some))
            probing = NO_PROBES if self._ahead is None else self._ahead.probing(some)
            found = worth_feeding(grown, costs, step=step + fed, most=most - fed, each=each, probing=probing)
            trees |= dict(zip(some, found, strict=True))
        self._note_thought(began)
        return [trees.get(branch, ()) for branch in branches]

    def _is_worth_trees(self, costs: StepCosts, branches: int, step: int) -> bool:
        """Whether guesses are expected to save more time than it takes to think of them. With many branches in a step,
        a pass costs each of them little. Tried again now and then, because what was learned may be wrong by now."""
        if not self._tree_seconds or not branches:
            return True
        passes = self._confirmed / self._trees / branches  # that a tree saves
        spent = self._fed / self._trees * (costs(step + 1) - costs(step)) + median(self._tree_seconds)
        is_worth = passes * costs(branches) > spent  # a later pass is saved, which feeds no prompt
        tried = 0 if self._ahead is None else _TRIED
        self._skipped = 0 if is_worth or self._skipped >= _SKIPPED + tried else self._skipped + 1
        return not self._skipped or self._skipped > _SKIPPED

    def _now(self) -> float | None:
        return None if self.costs is None else self._clock()

    def _note_thought(self, began: float | None) -> None:
        if began is not None:
            self._thought += self._clock() - began

    def _note_trees(self, trees: int) -> None:
        if self._trees > _MEMORY:
            self._trees /= 2
            self._fed /= 2
            self._confirmed /= 2
        self._trees += trees

    def look(self, logits: torch.Tensor, probed: Sequence[tuple[DraftTree, Sequence[Sequence[int]]]]) -> None:
        """Read what the probes of a step predict, once all of its tokens are drawn."""
        if self._ahead is not None and probed:
            began = self._now()
            self._ahead.look(logits, probed)
            self._note_thought(began)

    def learn(self, tree: DraftTree) -> None:
        """What became of the guesses of a step."""
        if tree.is_weighed:
            self._confirmed += len(tree.confirmed)
            self._fed += len(tree.nodes)
        self._chances.learn(tree)
        if self._ahead is not None and tree.branch.pending.hole is None:
            self._ahead.end(tree.branch)

    def remember(self, request: RequestState) -> None:
        if request.drafts != {"off"} and _shares(request):
            self._values.note(request)
            for branch in request.live:
                self._ngrams.read(branch)

    def _tree(self, branch: BranchState) -> list[Guess]:
        shares = _shares(branch.request)
        tree = GuessTree(branch, self._values if shares else Values(), self._chances)
        tree.copy_from(self._texts)
        tree.remember()
        predicted = [] if self._ahead is None else self._ahead.predicted(branch)
        last = last_tokens(branch, len(branch.sequence.tokens))

        def likely(path: tuple[int, ...]) -> Iterator[tuple[int, int]]:
            if len(path) < len(predicted):
                for one in predicted[len(path)]:
                    yield one.token, kind_of(one.distance, one.probability)
            if shares:
                yield from self._ngrams.after((*last, *path)[-LONGEST:])

        tree.grow(likely)
        return tree.guesses


def _shares(request: RequestState) -> bool:
    """Whether a request knows what others wrote, and they what it writes. A keeper does not tell others anything, not
    even by the passes that they take."""
    return not request.options.keeper


def _without_draws(steps: Iterable[tuple[int, float]]) -> float:
    """What a step takes besides its forward pass and its draws, of which a longer step has more: the line through the
    times of some steps, where it has no draws."""
    draws, seconds = zip(*steps, strict=True)
    if min(draws) == max(draws):
        return 0.0
    return float(min(max(0.0, linear_regression(draws, seconds).intercept), min(seconds)))
