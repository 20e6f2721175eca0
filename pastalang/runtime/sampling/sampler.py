"""The sampler: one token from each row of logits.

    allowed tokens ── repetition penalty ── temperature ── top_k ── top_p ── min_p ──> one token

A sample depends on its own row and its own random key only: neither the other rows nor their number matter.
The number of the key points at one of the tokens, which stand side by side, each as wide as its probability. Without
top_k and top_p they stand in the order of their columns, so nothing is sorted. With them, the likeliest comes first.
A line of NaN gets some column; `NotFinite` is found elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from pastalang.program.types import Sampling
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.device_memory import first_sentence, is_out_of_memory
from pastalang.runtime.sampling.candidates import BLOCK, Candidates, MaskCache, peaks_of
from pastalang.runtime.sampling.rng import RandomKey

_AT_ONCE = 1 << 19  # logits: what a CPU keeps at hand from one look at them to the next


@dataclass(frozen=True, slots=True)
class SampleRequest:
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
class Sample:
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


Outcome: TypeAlias = Sample | NotFinite | NoMemory | NothingAllowed


class Sampler:
    """Draws for models of one vocabulary size. It keeps what masks let through, and no other state."""

    def __init__(self, vocabulary: int) -> None:
        self._masks = MaskCache(vocabulary)

    @torch.inference_mode()
    def sample(self, logits: torch.Tensor, requests: Sequence[SampleRequest]) -> tuple[Outcome, ...]:
        """One outcome per row of `logits` (rows, vocabulary). Fewer rows at once where the memory is short."""
        assert logits.shape[0] == len(requests)
        try:
            return self._sample(logits, requests)
        except Exception as problem:
            if not is_out_of_memory(problem):
                raise
            told = first_sentence(problem)
        if len(requests) == 1:
            return (NoMemory(f"the device has no memory left to draw a token: {told}"),)
        half = len(requests) // 2
        return (*self.sample(logits[:half], requests[:half]), *self.sample(logits[half:], requests[half:]))

    def _sample(self, logits: torch.Tensor, requests: Sequence[SampleRequest]) -> tuple[Outcome, ...]:
        most = max(1, _AT_ONCE // logits.shape[1]) if logits.device.type == "cpu" else len(requests)
        if len(requests) > most:
            parts = [slice(first, first + most) for first in range(0, len(requests), most)]
            return tuple(outcome for part in parts for outcome in self._sample(logits[part], requests[part]))
        outcomes: dict[int, Outcome] = {}
        for candidates in self._masks.candidates(logits, [request.allowed for request in requests]):
            outcomes.update(_outcomes(candidates, [requests[row] for row in candidates.rows]))
        return tuple(outcomes[row] for row in range(len(requests)))


def _outcomes(candidates: Candidates, requests: Sequence[SampleRequest]) -> dict[int, Outcome]:
    logits = candidates.logits
    likeliest = _likeliest(logits, candidates.peaks)
    highest = candidates.peaks.amax(dim=1)  # NaN wins over every number
    columns = likeliest.clone()
    for sampling, lines in _by_sampling(requests).items():
        columns[lines] = _drawn(candidates, lines, [requests[line] for line in lines], sampling)
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
    return Sample(token, log_probability)


def _likeliest(scores: torch.Tensor, peaks: torch.Tensor) -> torch.Tensor:
    """The first column with the highest score, found block by block: one argmax over long rows is ten times slower."""
    lines = torch.arange(len(scores), device=scores.device)
    block = peaks.argmax(dim=1)
    return block * BLOCK + scores.view(len(scores), -1, BLOCK)[lines, block].argmax(dim=1)


def _by_sampling(requests: Sequence[SampleRequest]) -> dict[Sampling, list[int]]:
    """The lines that are drawn, by how; those that take the likeliest token as it is are left out."""
    groups: dict[Sampling, list[int]] = defaultdict(list)
    for line, request in enumerate(requests):
        if request.sampling.temperature or request.penalty != 1.0:
            groups[request.sampling].append(line)
    return groups


def _drawn(
    candidates: Candidates, lines: list[int], requests: Sequence[SampleRequest], sampling: Sampling
) -> torch.Tensor:
    """A column for each of these lines, all sampled alike."""
    scores = candidates.logits[lines]
    for line, (row, request) in enumerate(zip(lines, requests, strict=True)):
        if request.penalty != 1.0:
            columns = candidates.columns_of(row, request.before)
            scores[line, columns] = _penalised(scores[line, columns], request.penalty)
    if not sampling.temperature:
        return _likeliest(scores, peaks_of(scores))
    uniforms = torch.tensor([request.draw.uniform() for request in requests], dtype=torch.float64, device=scores.device)
    return draw_columns(scores / sampling.temperature, uniforms, sampling)


def _penalised(scores: torch.Tensor, penalty: float) -> torch.Tensor:
    return torch.where(scores > 0, scores / penalty, scores * penalty)


_NUCLEUS = 256  # tokens that are looked at first for top_p: sorting a whole vocabulary takes longer than the model


def draw_columns(scores: torch.Tensor, uniforms: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """`scores` (lines, columns), already divided by the temperature; `uniforms` (lines,). Returns (lines,)."""
    probabilities = scores.softmax(dim=1)
    if sampling.top_k is not None or sampling.top_p is not None:
        return _draw_ordered(probabilities, uniforms, sampling, looked_at=sampling.top_k or _NUCLEUS)
    return _draw_in_place(_without_unlikely(probabilities, sampling), uniforms)


def _draw_ordered(
    probabilities: torch.Tensor, uniforms: torch.Tensor, sampling: Sampling, *, looked_at: int
) -> torch.Tensor:
    """Among the likeliest `looked_at`; lines whose nucleus is larger are drawn again among more of them."""
    looked_at = min(looked_at, probabilities.shape[1])
    ordered, columns = probabilities.topk(looked_at, dim=1)
    if sampling.top_k is not None:
        ordered = ordered / ordered.sum(dim=1, keepdim=True)
    reached = ordered.cumsum(dim=1, dtype=torch.float64)
    if sampling.top_p is not None:
        ordered = ordered.masked_fill(reached - ordered >= sampling.top_p, 0.0)
    places = _draw_in_place(_padded(_without_unlikely(ordered, sampling)), uniforms).clamp(max=looked_at - 1)
    drawn = columns.gather(1, places[:, None])[:, 0]
    if sampling.top_k is None and looked_at < probabilities.shape[1]:
        larger = (reached[:, -1] < (sampling.top_p or 0.0)).nonzero()[:, 0]
        if len(larger):
            more = 16 * looked_at
            drawn[larger] = _draw_ordered(probabilities[larger], uniforms[larger], sampling, looked_at=more)
    return drawn


def _without_unlikely(probabilities: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """0 for what is less than `min_p` times as likely as the likeliest."""
    if not sampling.min_p:
        return probabilities
    least = probabilities.amax(dim=1, keepdim=True) * sampling.min_p
    return probabilities * (probabilities >= least)


def _padded(weights: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(weights, (0, -weights.shape[1] % BLOCK))


def _draw_in_place(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Find the block that the number falls into, then the column inside it."""
    lines = torch.arange(len(weights), device=weights.device)
    blocks = weights.view(len(weights), -1, BLOCK)
    reached = blocks.sum(dim=2, dtype=weights.dtype).cumsum(dim=1, dtype=torch.float64)
    target = uniforms * reached[:, -1]
    block = _first_beyond(reached, target)
    start = torch.where(block > 0, reached[lines, block - 1], 0.0)
    inside = blocks[lines, block].cumsum(dim=1, dtype=torch.float64)
    return block * BLOCK + _first_beyond(inside, target - start)


def _first_beyond(reached: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The first column where `reached` exceeds the target; rounding may leave none: then the last that grows."""
    beyond = torch.searchsorted(reached, target[:, None], right=True)[:, 0]
    last = torch.searchsorted(reached, reached[:, -1:].contiguous())[:, 0]
    return torch.minimum(beyond, last).clamp(max=reached.shape[1] - 1)
