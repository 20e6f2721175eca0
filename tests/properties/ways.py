"""Ways of running the same requests: memory, pauses, limits, company. None of them may change what comes out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from hypothesis import strategies as st

from pastalang import Engine, Invalid, Limits, OutOfMemory, PastaError, Result
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.scheduler.draft_tree import FROM_BRANCH, PROBE, DraftTree, Guess
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.step import StepBatch
from tests.properties.models import VOCABULARY, guides_of, tokenizer_of

PLENTY = 1 << 14
Outcome = Result | PastaError
E = TypeVar("E", bound=Engine)


@dataclass(frozen=True)
class Way:
    """`kept`: cells for prompts. `pauses`: a seed for who rests when. `cells`: few, or None for plenty of them.

    `chunk` and `requests` are the engine's limits; `again`: how often the same is run before, so that prompts are kept.
    `shortage`: a seed for the steps that the device has no memory for. `drafts`: a seed for guesses, mostly right.
    """

    kept: int = 0
    pauses: int | None = None
    cells: int | None = None
    chunk: int | None = None
    requests: int | None = None
    again: int = 0
    shortage: int | None = None
    drafts: int | None = None

    @property
    def runs_before(self) -> int:
        """What was drawn before is what can be guessed."""
        return self.again if self.drafts is None else max(1, self.again)


def ways() -> st.SearchStrategy[Way]:
    def maybe(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
        return st.one_of(st.none(), strategy)

    seeds = st.integers(0, 1 << 16)
    return st.builds(
        Way,
        kept=st.sampled_from((0, 40, 4096)),
        pauses=maybe(seeds),
        cells=maybe(st.integers(60, 400)),
        chunk=maybe(st.sampled_from((1, 4, 9, 9, 20, 20, 40))),
        requests=maybe(st.integers(1, 2)),
        again=st.sampled_from((0, 0, 0, 1)),
        shortage=st.one_of(st.none(), st.none(), seeds),
        drafts=st.one_of(st.none(), st.none(), seeds),
    )


class Scarce:
    """A model on a device that has no memory for some of its larger steps."""

    def __init__(self, inner: Model, seed: int) -> None:
        self._inner = inner
        self._chance = random.Random(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        if len(batch) > 8 and self._chance.random() < 0.2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return self._inner.forward(batch)


def engine_for(model: Model, way: Way, *, words: str = "bytes", kind: type[E] = Engine) -> E:  # type: ignore[assignment]
    engine = kind(
        model if way.shortage is None else Scarce(model, way.shortage),  # type: ignore[arg-type]
        tokenizer_of(words),
        limits=Limits(chunk=way.chunk, requests=way.requests),
        prefix_cells=way.kept,
        guides=guides_of(words),
        schedule_filter=None if way.pauses is None else resting(way.pauses),
        drafts="off" if way.drafts is None else 8,
    )
    if way.drafts is not None and way.drafts % 3:  # else the engine's own, which looks values up
        engine.scheduler.drafting.drafter = Remembering(way.drafts)
    return engine


class Remembering:
    """Guesses what the same branch of the same request drew before, wrong tokens next to it, and probes anywhere."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._known: dict[object, BranchState] = {}

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        trees = []
        for branch in branches:
            run = branch.request
            key = (repr(run.values), run.options.seed, branch.name, branch.items, run.again and run.again.number)
            before = self._known.setdefault(key, branch)
            tree = [] if before is branch else self._tree(before.sequence.tokens[len(branch.sequence.tokens) :])
            trees.append(tree[:most])
            most -= len(trees[-1])
        return trees

    def _tree(self, coming: Sequence[int]) -> list[Guess]:
        tree: list[Guess] = []
        right = FROM_BRANCH
        for token in coming[: self._chance.randrange(7)]:
            for wrong in range(self._chance.choice((0, 0, 1, 2))):
                tree.append(Guess((token + 1 + wrong) % 256, right, 0.5))
            if self._chance.random() < 0.1:
                break
            tree.append(Guess(token, right, 0.5))
            right = len(tree) - 1
            if self._chance.random() < 0.3:
                probes = self._chance.choice(((0,), (0, 1)))
                tree += [Guess(VOCABULARY, right + number, 0.0, PROBE) for number in probes]
        return tree

    def learn(self, tree: DraftTree) -> None:
        pass

    def remember(self, request: RequestState) -> None:
        pass


def check_nothing_is_left(engine: Engine) -> None:
    engine.check_integrity()
    assert engine.scheduler.is_idle
    kept = sum(len(node.memory.cells) for node in engine.scheduler.prefix.nodes)
    assert engine.scheduler.memory.cells.in_use == kept <= engine.scheduler.prefix.limit


def is_excused(found: Outcome, way: Way) -> bool:
    """Too small a memory may be refused; whatever is answered in it is the same, unless it could not be repaired."""
    result = found.result if isinstance(found, Invalid) else found
    has_no_room = result.usage.given_up > 0 if isinstance(result, Result) else isinstance(found, OutOfMemory)
    return way.cells is not None and has_no_room


def resting(seed: int) -> Any:
    """Branches stand still now and then; some seeds let them move seldom."""
    chance = random.Random(seed)
    share = chance.choice((0.3, 0.6, 0.9))
    return lambda branch: chance.random() < share
