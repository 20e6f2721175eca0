"""Probes: branches that are fed once, for the probability of an option that the value did not take.

    main     … ── `"` ── `ph` ── …          the value, as ever
    probe          ├──── `t`                no branch sees a probe, nothing is sampled after it:
                   └──── `t` `e`            only the logits of its last token are read

All probes of a choice are fed in the next pass, so the distribution is exact from there on. Constraint details cost a
softmax over the whole vocabulary for every drawn token; they are computed only for runs with `details=True`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

import torch

from pastalang.runtime.constraints.guide import State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.option_groups import choice_position, options_left
from pastalang.runtime.sampling.confidence import Shares, masked_probability, shares_of
from pastalang.runtime.scheduler.hole import OpenHole
from pastalang.runtime.scheduler.memory import Memory, drop
from pastalang.runtime.scheduler.state import BranchMemory, BranchState, Stage, TokenSequence, view_from
from pastalang.runtime.scheduler.transcript import Details

WAYS = 64  # probes of one choice: the likeliest spellings, by a guess
OPTIONS = 256  # a longer list of options is not probed
_UNLIKELY = 1e-9
_LETTER = 4.0  # a token is guessed to be so many times likelier than one with a letter less; decides the order only


def probe_options(branch: BranchState, shares: Shares) -> None:
    """Probe the options of a choice once the logits of its first token are there.

    Not in lock-step: a value sees others token by token there, which a probe cannot do.
    """
    hole = branch.pending.hole
    assert hole is not None and hole.field.decoding.details is not None
    standing = choice_position(hole.state)
    if standing is None or len(standing.machine.options) > OPTIONS or branch.spec.lockstep is not None:
        return
    for way, tokens in _ways(hole, shares):
        _add_probe(branch, way, tokens)


def end_probe(branch: BranchState, memory: Memory) -> None:
    """End a probe: its logits have been read, or are not worth waiting for."""
    branch.stage = Stage.ENDED
    branch.memory.waiting.clear()
    branch.request.pending.drawing -= 1
    del branch.request.pending.probes[branch]
    drop(branch, memory)


def _ways(hole: OpenHole, shares: Shares) -> Iterator[tuple[OpenHole, tuple[int, ...]]]:
    """Spellings that lead into the options, the likeliest first: the hole after each, and the tokens to feed."""
    order = count()
    heap: list[tuple[float, int, OpenHole, tuple[int, ...], int]] = []
    for token, chance in shares.open.items():
        if chance > _UNLIKELY:
            heapq.heappush(heap, (-chance, next(order), hole, (), token))
    left = WAYS
    while heap and left:
        chance, _, before, fed, token = heapq.heappop(heap)
        way = before.copy_for_probe()
        fill = way.take(token, 0.0)
        if way.is_finished or not fill.is_kept:
            continue
        left -= 1
        tokens = (*fed, *fill.feed)
        yield way, tokens
        for share, following in _open_tokens(way.state):
            heapq.heappush(heap, (chance * share, next(order), way, tokens, following))


def _open_tokens(state: State) -> list[tuple[float, int]]:
    """The tokens after which several options are left, with a guess at their shares."""
    standing = choice_position(state)
    assert standing is not None
    weights: dict[int, float] = {}
    for token in tokens_of(state.allowed()).tolist():
        left = options_left(token, state, standing)
        if left is not None and left.high - left.low > 1:
            weights[token] = _LETTER ** (left.depth - standing.at.depth)
    total = sum(weights.values())
    return [(weight / total, token) for token, weight in weights.items()]


def _add_probe(branch: BranchState, hole: OpenHole, tokens: tuple[int, ...]) -> None:
    request, before = branch.request, branch.sequence
    sequence = TokenSequence(branch.last, view_from(branch), before.position, before.position, before.highest)
    probe = BranchState(
        spec=branch.spec, items=branch.items, number=branch.number, names={}, parent=branch,
        draw_items=branch.draw_items, cursor=branch.cursor, sequence=sequence, memory=BranchMemory(request.memory),
    )  # fmt: skip
    probe.pending.hole = hole
    probe.append(tokens)
    probe.stage = Stage.DRAWING
    request.add_probe(probe)


def note_details(branch: BranchState, logits: torch.Tensor) -> None:
    """Note what the type does to one row of `logits`, (vocabulary,). Call it before the sampled token is accepted."""
    hole = branch.pending.hole
    if hole is None:
        return
    decoding = hole.field.decoding
    decoding.details = details = decoding.details or Details()
    state = hole.state
    details.masked_probability.append(min(max(masked_probability(logits, state), 0.0), 1.0))
    standing = choice_position(state)
    if standing is not None:
        rows = details.weights.rows
        is_first = not rows
        shares = rows[tuple(decoding.tokens)] = shares_of(logits, state, standing)
        if is_first:
            probe_options(branch, shares)
