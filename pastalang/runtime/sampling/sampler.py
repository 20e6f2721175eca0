"""The sampler: one token from each row of logits.

    allowed tokens ── repetition penalty ── temperature ── top_k ── top_p ── min_p ──> one token

A sample depends only on its own row and its own random key: the other rows and their number do not matter.
A choice is drawn between groups of tokens that leave the same options: what truncates and the temperature apply to the
probabilities of the groups first, and then to the tokens of each.
Every token runs for a random time, a hash of the key and the token, and the one with the smallest time in proportion to
its probability wins. So two similar distributions, sampled with the same key, nearly always give the same token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.program.types import Sampling
from pastalang.runtime.constraints.guide import TokenMask
from pastalang.runtime.constraints.option_groups import OptionGroups
from pastalang.runtime.constraints.tokens import Ints
from pastalang.runtime.device_memory import first_sentence, is_out_of_memory
from pastalang.runtime.sampling.candidates import BLOCK, Candidates, MaskCache, peaks_of
from pastalang.runtime.sampling.rng import RandomKey

Floats: TypeAlias = NDArray[np.float64]

_AT_ONCE = 1 << 19  # logits: as many as stay in a CPU's cache between two passes over them


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """How to sample one row. `allowed` None allows every token.

    `sampling` has no defaults left to apply: None is off, and without a temperature the likeliest token is taken.
    `before` are the tokens that a repetition penalty applies to. `options`: the tokens decide between options.
    """

    draw: RandomKey
    sampling: Sampling = field(default_factory=Sampling)
    allowed: TokenMask | None = None
    before: tuple[int, ...] = ()
    options: OptionGroups | None = None

    @property
    def penalty(self) -> float:
        """The repetition penalty; 1 if there is nothing to penalise."""
        return (self.sampling.repetition_penalty or 1.0) if self.before else 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The token, and the logarithm of the model's probability for it among the allowed tokens. If it decides between
    options, that is the probability of all tokens that leave the same options.

    Temperature, penalty and truncation do not change that probability: it is the model's own.
    """

    token: int
    log_probability: float


class CannotSample(Exception):
    """A row that cannot be sampled. It is returned, not raised, so that the other rows still get their samples."""


class NotFinite(CannotSample):
    """The model returned NaN or infinity for an allowed token."""


class NoMemory(CannotSample):
    """The device does not have enough memory to sample a single row."""


class NothingAllowed(CannotSample):
    """No token is allowed, or the model gives all allowed tokens a probability of 0."""


Outcome: TypeAlias = Sample | NotFinite | NoMemory | NothingAllowed


class Sampler:
    """Samples for models of one vocabulary size. Its only state is a cache of masks."""

    def __init__(self, vocabulary: int) -> None:
        self._masks = MaskCache(vocabulary)

    @torch.inference_mode()
    def sample(self, logits: torch.Tensor, requests: Sequence[SampleRequest]) -> tuple[Outcome, ...]:
        """One outcome per row of `logits` (rows, vocabulary). On a shortage of memory it samples fewer rows at once."""
        assert logits.shape[0] == len(requests)
        try:
            return self._sample(logits, requests)
        except Exception as problem:
            if not is_out_of_memory(problem):
                raise
            reason = first_sentence(problem)
        if len(requests) == 1:
            return (NoMemory(f"the device has no memory left to sample a token: {reason}"),)
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
    chosen = _chosen(candidates, requests)
    if chosen:
        given = torch.tensor(list(chosen), device=columns.device)
        columns[given] = torch.tensor([one.column for one in chosen.values()], device=columns.device)
    probabilities = logits.softmax(dim=1)  # one fused pass, where logsumexp takes three
    log_of_highest = probabilities.gather(1, likeliest[:, None])[:, 0].log()
    log_probabilities = logits.gather(1, columns[:, None])[:, 0] - highest + log_of_highest
    found = [highest.tolist(), candidates.token(columns).tolist(), log_probabilities.tolist()]
    for line, one in chosen.items():
        found[2][line] = one.log_probability
    return {row: _outcome(*values) for row, *values in zip(candidates.rows, *found, strict=True)}


def _outcome(highest: float, token: int, log_probability: float) -> Outcome:
    if highest == float("-inf"):
        return NothingAllowed("no token is allowed here")
    if not highest < float("inf"):
        return NotFinite(f"the model gave {highest} as a logit")
    return Sample(token, log_probability)


def _likeliest(scores: torch.Tensor, peaks: torch.Tensor) -> torch.Tensor:
    """The first column with the highest score. One argmax over long rows is ten times slower than block by block."""
    lines = torch.arange(len(scores), device=scores.device)
    block = peaks.argmax(dim=1)
    return block * BLOCK + scores.view(len(scores), -1, BLOCK)[lines, block].argmax(dim=1)


def _by_sampling(requests: Sequence[SampleRequest]) -> dict[Sampling, list[int]]:
    """The lines grouped by their sampling, without those that take the likeliest token as it is."""
    groups: dict[Sampling, list[int]] = defaultdict(list)
    for line, request in enumerate(requests):
        if request.options is None and (request.sampling.temperature or request.penalty != 1.0):
            groups[request.sampling].append(line)
    return groups


def _drawn(
    candidates: Candidates, lines: list[int], requests: Sequence[SampleRequest], sampling: Sampling
) -> torch.Tensor:
    """A column for each of these lines, which have the same `sampling`."""
    scores = candidates.logits[lines]
    for line, (row, request) in enumerate(zip(lines, requests, strict=True)):
        if request.penalty != 1.0:
            columns = candidates.columns_of(row, request.before)
            scores[line, columns] = _penalised(scores[line, columns], request.penalty)
    if not sampling.temperature:
        return _likeliest(scores, peaks_of(scores))
    weights = _truncated((scores / sampling.temperature).softmax(dim=1), sampling)
    few = candidates.tokens
    tokens = torch.arange(scores.shape[1], device=scores.device) if few is None else few[lines]
    times = waiting_times([request.draw for request in requests], tokens, dtype=scores.dtype)
    return weights.div_(times).argmax(dim=1)


def _penalised(scores: torch.Tensor, penalty: float) -> torch.Tensor:
    return torch.where(scores > 0, scores / penalty, scores * penalty)


# ── choices between options ────────────────────────────────────────────────────────────────────────────────


class _Chosen(NamedTuple):
    column: int
    log_probability: float  # of the option, in all its spellings, if it decides for one; of its token otherwise


def _chosen(candidates: Candidates, requests: Sequence[SampleRequest]) -> dict[int, _Chosen]:
    """For each line that decides between options: a group by its probability, and a column of the group.

    It is computed line by line and in float64, so that no sum depends on other lines.
    """
    lines = {line: options for line, one in enumerate(requests) if (options := one.options) is not None}
    if not lines:
        return {}
    width, known = candidates.logits.shape[1], {}
    for line, options in lines.items():
        tokens = options.tokens[: np.searchsorted(options.tokens, candidates.vocabulary)]
        known[line] = tokens if candidates.tokens is None else np.arange(len(tokens))
    places = np.concatenate([line * width + columns for line, columns in known.items()])
    logits = candidates.logits.view(-1)[torch.from_numpy(places).to(candidates.logits.device)].cpu().double().numpy()
    found, first = {}, 0
    for line, columns in known.items():
        own = logits[first : first + len(columns)]
        found[line] = _choose(own, lines[line], requests[line], columns)
        first += len(columns)
    return found


def _choose(logits: Floats, options: OptionGroups, request: SampleRequest, columns: Ints) -> _Chosen:
    tokens, groups, sampling = options.tokens[: len(columns)], options.groups[: len(columns)], request.sampling
    if not np.isfinite(peak := logits.max()):
        return _Chosen(int(columns[0]), 0.0)
    scores = logits
    if request.penalty != 1.0:
        lowered = np.where(logits > 0, logits / request.penalty, logits * request.penalty)
        scores = np.where(np.isin(tokens, request.before), lowered, logits)
    if sampling.temperature:
        at = _drawn_option(scores, groups, tokens, sampling, request.draw)
    else:
        likeliest = np.bincount(groups, np.exp(scores - scores.max())).argmax()
        at = int(np.where(groups == likeliest, scores, -np.inf).argmax())
    shares = np.exp(logits - peak)
    share = shares[groups == groups[at]].sum() if options.decides[groups[at]] else shares[at]
    return _Chosen(int(columns[at]), float(np.log(share / shares.sum())) if share < shares.sum() else 0.0)


def _drawn_option(scores: Floats, groups: Ints, tokens: Ints, sampling: Sampling, draw: RandomKey) -> int:
    weights = np.bincount(groups, np.exp(scores - scores.max()))
    chances = _tempered(np.log(weights, where=weights > 0, out=np.full(len(weights), -np.inf)), sampling)[groups]
    for group in np.flatnonzero(weights):
        own = groups == group
        chances[own] *= _tempered(scores[own], sampling)
    times = waiting_times([draw], torch.from_numpy(tokens), dtype=torch.float64)[0].numpy()
    return int((chances / times).argmax())


def _tempered(scores: Floats, sampling: Sampling) -> Floats:
    """The weights of a draw by these scores."""
    chances = (torch.from_numpy(scores) / (sampling.temperature or 1.0)).softmax(0)
    return np.asarray(_truncated(chances[None], sampling)[0].numpy())


def waiting_times(keys: Sequence[RandomKey], tokens: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
    """(keys, tokens): exponentially distributed, each a hash of its key and its token.

    Of tokens with weights w, the one with the smallest time / w comes with a probability in proportion to its weight.
    `tokens` are token ids, the same for all keys or a row for each.
    """
    words = np.array([key.words() for key in keys], dtype=np.uint32).view(np.int32)
    first, second = torch.from_numpy(words).to(tokens.device)[:, :, None].unbind(1)
    bits = (tokens.int() * -1640531535) ^ first
    bits = _mixed(bits, 16).mul_(-2048144777).bitwise_xor_(second)
    bits = _mixed(_mixed(bits, 13).mul_(-1028477379), 16)
    shares = bits.to(dtype).add_(0.5).mul_(2.0**-32).add_(bits < 0)  # above 0, and exact where they are small
    return shares.clamp_(max=1 - 2.0**-24).neg_().log1p_().neg_()


def _mixed(bits: torch.Tensor, places: int) -> torch.Tensor:
    """Changed in place. The shift of torch repeats the sign, and zeros are wanted."""
    return bits.bitwise_xor_((bits >> places).bitwise_and_((1 << (32 - places)) - 1))


_NUCLEUS = 256  # tokens to sort first for top_p: sorting a whole vocabulary takes longer than the model


def _truncated(chances: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The probabilities (lines, columns), 0 for tokens that top_k, top_p or min_p leave out."""
    if sampling.top_k is not None or sampling.top_p is not None:
        chances = _likeliest_first(chances, sampling, looked_at=sampling.top_k or _NUCLEUS)
    if not sampling.min_p:
        return chances
    return chances * (chances >= chances.amax(dim=1, keepdim=True) * sampling.min_p)


def _likeliest_first(chances: torch.Tensor, sampling: Sampling, *, looked_at: int) -> torch.Tensor:
    """Keep the nucleus among the `looked_at` likeliest tokens; for a line with a larger one, look at more of them."""
    looked_at = min(looked_at, chances.shape[1])
    ordered, columns = chances.topk(looked_at, dim=1)
    if sampling.top_k is not None:
        ordered = ordered / ordered.sum(dim=1, keepdim=True)
    if sampling.top_p is None:
        return torch.zeros_like(chances).scatter_(1, columns, ordered)
    reached = ordered.cumsum(dim=1, dtype=torch.float64)
    ordered = ordered.masked_fill(reached - ordered >= sampling.top_p, 0.0)
    kept = torch.zeros_like(chances).scatter_(1, columns, ordered)
    if sampling.top_k is None and looked_at < chances.shape[1]:
        larger = (reached[:, -1] < sampling.top_p).nonzero()[:, 0]
        if len(larger):
            kept[larger] = _likeliest_first(chances[larger], sampling, looked_at=16 * looked_at)
    return kept
