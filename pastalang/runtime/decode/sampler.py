"""From logits to tokens: one row of logits and one `Ask` per hole come in, a `Choice` or what went wrong comes out.

    allowed tokens ── repetition penalty ── temperature ── top_k ── top_p ── min_p ──> one token

A choice depends on its own row and its own draw only: neither the other rows nor their number matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from pastalang.program.types import Sampling
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.decode.truncation import draw_columns
from pastalang.runtime.device_memory import in_short, is_shortage
from pastalang.runtime.sampling.candidates import BLOCK, Candidates, MaskCache, peaks_of
from pastalang.runtime.sampling.rng import RandomKey

_AT_ONCE = 1 << 19  # logits: what a CPU keeps at hand from one look at them to the next


@dataclass(frozen=True, slots=True)
class Ask:
    """How one row is to be drawn. `allowed` None lets every token through.

    `sampling` is settled: what is None in it is off, and without a temperature the likeliest token is taken.
    `before` are the tokens that a repetition penalty holds against.
    """

    draw: RandomKey
    sampling: Sampling = field(default_factory=Sampling)
    allowed: TokenMask | None = None
    before: tuple[int, ...] = ()

    @property
    def penalty(self) -> float:
        """The repetition penalty, 1 where there is nothing to penalise."""
        return (self.sampling.repetition_penalty or 1.0) if self.before else 1.0


@dataclass(frozen=True, slots=True)
class Choice:
    """The token, and the logarithm of the model's own probability for it among the allowed ones.

    Temperature, penalty and truncation are no part of that probability, so that it says what the model believes.
    """

    token: int
    log_probability: float


class CannotSample(Exception):
    """A row without an answer. It is returned, not raised: the other rows have theirs."""


class NotFinite(CannotSample):
    """The model gave NaN or infinity for an allowed token."""


class NoMemory(CannotSample):
    """The device has no memory left to draw from a single row."""


class NothingAllowed(CannotSample):
    """No token is allowed, or the model rules out all that are."""


Outcome: TypeAlias = Choice | NotFinite | NoMemory | NothingAllowed


class Sampler:
    """Draws for models of one vocabulary size. It keeps what masks let through, and no other state."""

    def __init__(self, vocabulary: int) -> None:
        self._masks = MaskCache(vocabulary)

    @torch.inference_mode()
    def choose(self, logits: torch.Tensor, asks: Sequence[Ask]) -> tuple[Outcome, ...]:
        """One outcome per row of `logits` (rows, vocabulary). Fewer rows at once where the memory is short."""
        assert logits.shape[0] == len(asks)
        try:
            return self._choose(logits, asks)
        except Exception as problem:
            if not is_shortage(problem):
                raise
            told = in_short(problem)
        if len(asks) == 1:
            return (NoMemory(f"the device has no memory left to draw a token: {told}"),)
        half = len(asks) // 2
        return (*self.choose(logits[:half], asks[:half]), *self.choose(logits[half:], asks[half:]))

    def _choose(self, logits: torch.Tensor, asks: Sequence[Ask]) -> tuple[Outcome, ...]:
        most = max(1, _AT_ONCE // logits.shape[1]) if logits.device.type == "cpu" else len(asks)
        if len(asks) > most:
            parts = [slice(first, first + most) for first in range(0, len(asks), most)]
            return tuple(outcome for part in parts for outcome in self._choose(logits[part], asks[part]))
        outcomes: dict[int, Outcome] = {}
        for candidates in self._masks.candidates(logits, [ask.allowed for ask in asks]):
            outcomes.update(_outcomes(candidates, [asks[row] for row in candidates.rows]))
        return tuple(outcomes[row] for row in range(len(asks)))


def _outcomes(candidates: Candidates, asks: Sequence[Ask]) -> dict[int, Outcome]:
    logits = candidates.logits
    likeliest = _likeliest(logits, candidates.peaks)
    highest = candidates.peaks.amax(dim=1)  # NaN wins over every number
    columns = likeliest.clone()
    for sampling, lines in _by_sampling(asks).items():
        columns[lines] = _drawn(candidates, lines, [asks[line] for line in lines], sampling)
    probabilities = logits.softmax(dim=1)  # one fused pass, where logsumexp takes three
    log_of_highest = probabilities.gather(1, likeliest[:, None])[:, 0].log()
    log_probabilities = logits.gather(1, columns[:, None])[:, 0] - highest + log_of_highest
    found = (highest.tolist(), candidates.token(columns).tolist(), log_probabilities.tolist())
    return {row: _outcome(*values) for row, *values in zip(candidates.rows, *found, strict=True)}


def _outcome(highest: float, token: int, log_probability: float) -> Outcome:
    if highest == float("-inf"):
        return NothingAllowed("no token is allowed here")
    if not highest < float("inf"):
        return NotFinite(f"the model gave {highest} as a logit")
    return Choice(token, log_probability)


def _likeliest(scores: torch.Tensor, peaks: torch.Tensor) -> torch.Tensor:
    """The first column with the highest score, found block by block: one argmax over long rows is ten times slower."""
    lines = torch.arange(len(scores), device=scores.device)
    block = peaks.argmax(dim=1)
    return block * BLOCK + scores.view(len(scores), -1, BLOCK)[lines, block].argmax(dim=1)


def _by_sampling(asks: Sequence[Ask]) -> dict[Sampling, list[int]]:
    """The lines that are drawn, by how; those that take the likeliest token as it is are left out."""
    groups: dict[Sampling, list[int]] = defaultdict(list)
    for line, ask in enumerate(asks):
        if ask.sampling.temperature or ask.penalty != 1.0:
            groups[ask.sampling].append(line)
    return groups


def _drawn(candidates: Candidates, lines: list[int], asks: Sequence[Ask], sampling: Sampling) -> torch.Tensor:
    """A column for each of these lines, all sampled alike."""
    scores = candidates.logits[lines]
    for line, (row, ask) in enumerate(zip(lines, asks, strict=True)):
        if ask.penalty != 1.0:
            columns = candidates.columns_of(row, ask.before)
            scores[line, columns] = _penalised(scores[line, columns], ask.penalty)
    if not sampling.temperature:
        return _likeliest(scores, peaks_of(scores))
    uniforms = torch.tensor([ask.draw.uniform() for ask in asks], dtype=torch.float64, device=scores.device)
    return draw_columns(scores / sampling.temperature, uniforms, sampling)


def _penalised(scores: torch.Tensor, penalty: float) -> torch.Tensor:
    return torch.where(scores > 0, scores / penalty, scores * penalty)
