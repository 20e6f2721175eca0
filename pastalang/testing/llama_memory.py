"""The memory of llama.cpp without llama.cpp: which tokens its sequences let a token see, and which steps it refuses.

Tests decode with it to show that sequences which share their cells carry a program, as they do with `host="llama.cpp"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from pastalang.plan.branches import Placement
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.models.carried import Carried
from pastalang.runtime.models.sequences import Change, Remove, Sequences
from pastalang.runtime.step import StepBatch
from pastalang.testing.fakes import FakeModel, Score


class Refused(Exception):
    """llama.cpp would not decode this."""


@dataclass(eq=False, slots=True)
class _Cell:
    token: FedToken
    sequences: set[int] = field(default_factory=set)

    @property
    def position(self) -> int:
        return self.token.position


class LlamaMemory:
    """`cells` cells in one space for all `sequences`. A cell that no sequence holds is free."""

    def __init__(self, *, cells: int, sequences: int) -> None:
        self._capacity, self._sequences = cells, sequences
        self._cells: list[_Cell] = []

    def change(self, changes: Iterable[Change]) -> None:
        for one in changes:
            for cell in self._cells:
                if isinstance(one, Remove):
                    if cell.position >= one.since:
                        cell.sequences.discard(one.sequence)
                elif one.source in cell.sequences and one.since <= cell.position < one.until:
                    cell.sequences.add(one.target)
        self._cells = [cell for cell in self._cells if cell.sequences]

    def decode(self, tokens: Sequence[tuple[FedToken, tuple[int, ...]]]) -> list[set[FedToken]]:
        """What each token sees, itself included. Raises `Refused`, as `llama_decode` returns an error."""
        self._check_growth(tokens)
        self._check_coupled(tokens)
        if len(self._cells) + len(tokens) > self._capacity:
            raise Refused("no free cell")
        self._cells += [_Cell(token, set(sequences)) for token, sequences in tokens]
        return [
            {
                cell.token
                for cell in self._cells
                if sequences[0] in cell.sequences and cell.position <= token.position
            }
            for token, sequences in tokens
        ]  # fmt: skip

    def _ends(self, sequence: int) -> tuple[int, int]:
        """The lowest and the highest position that a sequence holds."""
        held = [cell.position for cell in self._cells if sequence in cell.sequences]
        return min(held, default=-1), max(held, default=-1)

    def _check_growth(self, tokens: Sequence[tuple[FedToken, tuple[int, ...]]]) -> None:
        """Each sequence goes on right behind what it holds, without a gap and never backwards."""
        last: dict[int, int] = {}
        for token, sequences in tokens:
            for one in sequences:
                if not 0 <= one < self._sequences:
                    raise Refused(f"there is no sequence {one}")
                if one not in last:
                    _, end = self._ends(one)
                    if end not in (-1, token.position - 1):
                        raise Refused(f"sequence {one} ends at {end} and goes on at {token.position}")
                elif not last[one] <= token.position <= last[one] + 1:
                    raise Refused(f"sequence {one} goes from {last[one]} to {token.position}")
                last[one] = token.position

    def _check_coupled(self, tokens: Sequence[tuple[FedToken, tuple[int, ...]]]) -> None:
        """Sequences that share a token of a call hold the same positions before it."""
        coupled = {(first, one) for _, (first, *others) in tokens for one in others}
        for first, one in coupled:
            if self._ends(first) != self._ends(one):
                raise Refused(f"sequence {one} is coupled to {first}, and they have diverged")
        shared: dict[int, set[int]] = {}
        for _, sequences in tokens:
            for one in sequences:
                shared[one] = shared.get(one, set(sequences)) & set(sequences)
                if not shared[one]:
                    raise Refused(f"sequence {one} belongs to incompatible sets")


class CarriedModel(FakeModel):
    """A `FakeModel` that also keeps its tokens as sequences, and asserts that each sees there what it should see.

    It stops with the first token that does not stand right behind all that it sees: such a plan is not dense, and
    nothing carries it. `calls` counts the calls of llama.cpp.
    """

    def __init__(
        self, score: Score, *, vocabulary: int, cells: int = 1 << 12, max_position: int = 1 << 20, rows: int = 128,
        spare: int = 128,
    ) -> None:  # fmt: skip
        super().__init__(score, vocabulary=vocabulary, cells=cells, max_position=max_position)
        self.carried = Carried("llama.cpp", Placement.DENSE, rows, drafts=spare // 2)
        self.sequences = Sequences(rows=rows, spare=spare)
        self.memory = LlamaMemory(cells=cells, sequences=rows + spare)
        self.is_carried = True
        self.calls = 0

    def forward(self, batch: StepBatch) -> torch.Tensor:
        logits = super().forward(batch)
        fed = self.fed[-len(batch) :]
        self.is_carried = self.is_carried and all(map(_is_dense, fed))
        for call in self.sequences.feed(batch) if self.is_carried else ():
            self.memory.change(call.changes)
            seen = self.memory.decode([(fed[index], sequences) for index, sequences in call.tokens])
            self.calls += 1
            for (index, _), found in zip(call.tokens, seen, strict=True):
                assert found == set(fed[index].path), f"{fed[index]} sees {len(found)} tokens"
        return logits


def _is_dense(token: FedToken) -> bool:
    return token.position == 1 + max((seen.position for seen in token.sees), default=-1)
