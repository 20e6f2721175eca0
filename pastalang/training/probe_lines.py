"""What prompt tokens are trained on: places in texts of the model's own, and what the model said further on.

A host is a token whose next one was drawn. Probes after it stand where the next tokens of its branch stand, and have to
say what the model says there:

    context    … a  b  c  d …         host a; the model's logits at b, c, d
    probes        t1 t2 t3            t1 stands where b stands and sees what a sees; so do t2, t3, and those before them
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from pastalang.runtime.models.cache_argument import cache_argument
from pastalang.runtime.models.probe_tokens import BUCKETS, EDGES, MIDDLES, Accuracy, with_probe_tokens
from pastalang.training.batches import collate, logits_of, masks_of, pack
from pastalang.training.recording import IGNORED, Sees, TrainingRow

TAUGHT: Final = 64  # tokens of the model's distribution that are kept at each place, the likeliest ones


class Probing(nn.Module):
    """The embeddings of probe tokens, (distances, ensemble, hidden), as a module of their own."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows)


@dataclass(frozen=True, slots=True)
class Host:
    """`places` are those of the host and of the next tokens of its branch; `drawn[i]` follows `places[i]`."""

    places: tuple[int, ...]
    drawn: tuple[int, ...]  # IGNORED where the type forced it


def hosts_of(row: TrainingRow, distances: int) -> list[Host]:
    """The tokens from which something was drawn, if the same branch drew something after that."""
    hosts = Hosts(row, distances)
    return [host for place in hosts.drawing if (host := hosts.at(place)) is not None]


class Hosts:
    """The hosts of a row, for those who do not need all of them."""

    def __init__(self, row: TrainingRow, distances: int) -> None:
        self.row, self._distances = row, distances
        self.visible = row.visible
        self._counts = self.visible.sum(axis=1)

    @property
    def drawing(self) -> list[int]:
        """The tokens from which something was drawn."""
        found: list[int] = np.flatnonzero(self.row.labels != IGNORED).tolist()
        return found

    def at(self, place: int) -> Host | None:
        """The host at a token from which something was drawn; None if its branch drew nothing after that."""
        places = [place]
        while len(places) <= self._distances and (then := self._next(places[-1])) is not None:
            places.append(then)
        drawn = tuple(int(self.row.labels[place]) for place in places)
        return Host(tuple(places), drawn) if any(token != IGNORED for token in drawn[1:]) else None

    def _next(self, place: int) -> int | None:
        """The next token of the branch; None where it was not fed, or where branches begin."""
        row, drawn = self.row, int(self.row.labels[place])
        found = self._following(place)
        if drawn != IGNORED:
            found = [then for then in found if row.tokens[then] == drawn]
        is_next = len(found) == 1 and row.positions[found[0]] == row.positions[place] + 1
        return found[0] if is_next or (found and drawn != IGNORED) else None

    def _following(self, place: int) -> list[int]:
        """The tokens that see one more than this one does: themselves."""
        seen, counts = self.visible, self._counts
        found = np.flatnonzero(seen[:, place] & (counts == counts[place] + 1))
        return [int(then) for then in found if not (seen[place] & ~seen[then]).any()]


@dataclass(frozen=True, slots=True)
class ProbeLine:
    """Rows one after another, none of which sees another, and the hosts in them."""

    rows: tuple[TrainingRow, ...]
    hosts: tuple[Host, ...]

    @property
    def is_windowed(self) -> bool:
        return any(row.sees_near is not None for row in self.rows)

    @staticmethod
    def of(rows: Sequence[TrainingRow], distances: int) -> ProbeLine:
        hosts, start = [], 0
        for row in rows:
            for host in hosts_of(row, distances):
                hosts.append(Host(tuple(start + place for place in host.places), host.drawn))
            start += len(row)
        return ProbeLine(tuple(rows), tuple(hosts))


def lines_of(rows: Sequence[TrainingRow], *, length: int, distances: int) -> list[ProbeLine]:
    found = (ProbeLine.of(line, distances) for line in pack(rows, length))
    return [line for line in found if line.hosts]


@dataclass(frozen=True, slots=True)
class ProbeBatch:
    """Probes after hosts of some lines. With lines, hosts, distances, ensemble:

    tokens, positions   (lines, hosts * ensemble * distances)
    visible             (lines, probes, context + probes)
    places              (lines, hosts, distances): where the model says what each distance has to say; -1: nowhere
    drawn               (lines, hosts, distances): what was drawn there

    `near` is what layers with a window see, None if that is the same.
    """

    lines: tuple[int, ...]
    tokens: Tensor
    positions: Tensor
    visible: Tensor
    places: Tensor
    drawn: Tensor
    origins: tuple[str, ...]
    near: Tensor | None = None

    @property
    def predicted(self) -> int:
        return int((self.places >= 0).sum())

    def to(self, device: torch.device) -> ProbeBatch:
        names = ("tokens", "positions", "visible", "places", "drawn")
        near = None if self.near is None else self.near.to(device)
        return replace(self, near=near, **{name: getattr(self, name).to(device) for name in names})


class ProbeBatches:
    """Batches by number, the same for the same number: `size` lines in turn, with `hosts` of each, drawn at random.

    `vocabulary` is the id of the first prompt token.
    """

    def __init__(
        self, lines: Sequence[ProbeLine], *, length: int, distances: int, ensemble: int, vocabulary: int, size: int,
        hosts: int, seed: int,
    ) -> None:  # fmt: skip
        self._lines, self._length, self._seed = lines, length, seed
        self._distances, self._ensemble, self._vocabulary = distances, ensemble, vocabulary
        self._size, self._hosts = min(size, len(lines)), hosts

    def __call__(self, number: int) -> ProbeBatch:
        chosen = []
        for one in range(number * self._size, (number + 1) * self._size):
            epoch, place = divmod(one, len(self._lines))
            order = np.random.default_rng((self._seed, epoch)).permutation(len(self._lines))
            line = int(order[place])
            some = np.random.default_rng((self._seed, epoch, line)).permutation(len(self._lines[line].hosts))
            chosen.append((line, [self._lines[line].hosts[index] for index in some[: self._hosts]]))
        return self.batch(chosen)

    def batch(self, chosen: Sequence[tuple[int, Sequence[Host]]]) -> ProbeBatch:
        width = max(len(hosts) for _, hosts in chosen)
        probes, shape = width * self._ensemble * self._distances, (len(chosen), width, self._distances)
        tokens = np.full((len(chosen), probes), self._vocabulary, dtype=np.int64)
        positions = np.zeros((len(chosen), probes), dtype=np.int64)
        visible = np.zeros((len(chosen), probes, self._length + probes), dtype=np.bool_)
        visible[:, np.arange(probes), self._length + np.arange(probes)] = True
        near = visible.copy() if any(line.is_windowed for line in self._lines) else None
        places, drawn = np.full(shape, -1, dtype=np.int64), np.full(shape, IGNORED, dtype=np.int64)
        for at, (number, hosts) in enumerate(chosen):
            line = _Context(self._lines[number], self._length)
            for index, host in enumerate(hosts):
                sees, after = line.visible[host.places[0]], line.positions[host.places[0]]
                first = line.positions[host.places[1]] if len(host.places) > 1 else after + 1
                for ensemble in range(self._ensemble):
                    start = (index * self._ensemble + ensemble) * self._distances
                    here = np.arange(start, start + self._distances)
                    tokens[at, here] = self._vocabulary + np.arange(self._distances) * self._ensemble + ensemble
                    positions[at, here] = first + np.arange(self._distances)
                    visible[at, start : start + self._distances, : self._length] = sees
                    among = np.tri(self._distances, dtype=np.bool_)
                    visible[at, here[:, None], self._length + here] |= among
                    if near is not None:
                        near[at, here[:, None], self._length + here] |= among
                        near[at, start : start + self._distances, : self._length] = line.near(host, self._distances)
                for distance, (place, token) in enumerate(zip(host.places[1:], host.drawn[1:], strict=True)):
                    if token != IGNORED:
                        places[at, index, distance], drawn[at, index, distance] = place, token
        origins = tuple(row.origin for number, _ in chosen for row in self._lines[number].rows)
        return ProbeBatch(
            tuple(number for number, _ in chosen), torch.from_numpy(tokens), torch.from_numpy(positions),
            torch.from_numpy(visible), torch.from_numpy(places), torch.from_numpy(drawn), origins,
            near=None if near is None else torch.from_numpy(near),
        )  # fmt: skip


class _Context:
    """The numbers of a line."""

    def __init__(self, line: ProbeLine, length: int) -> None:
        self.visible = np.zeros((length, length), dtype=np.bool_)
        self.positions = np.zeros(length, dtype=np.int64)
        self._near = self.visible.copy() if line.is_windowed else None
        start = 0
        for row in line.rows:
            here = slice(start, start + len(row))
            self.visible[here, here], self.positions[here] = row.visible, row.positions
            if self._near is not None:
                self._near[here, here] = row.near
            start += len(row)

    def near(self, host: Host, distances: int) -> Sees:
        assert self._near is not None
        return near_of(self._near, host, distances)


def near_of(near: Sees, host: Host, distances: int) -> Sees:
    """What probes see of the context in layers with a window: what the tokens in their places see of it."""
    following = [host.places[min(distance + 1, len(host.places) - 1)] for distance in range(distances)]
    seen = near[following].copy()
    seen[:, list(host.places[1:])] = False
    return seen


# ── contexts ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Computed:
    """A line in the model: keys and values of each layer, (heads, length, size), and the likeliest tokens after each
    place with their log-probabilities, (length, TAUGHT)."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    likeliest: Tensor
    log_probabilities: Tensor

    @property
    def bytes(self) -> int:
        tensors = [one for layer in self.layers for one in layer] + [self.likeliest, self.log_probabilities]
        return sum(one.numel() * one.element_size() for one in tensors)


class Contexts:
    """Lines in a model whose weights do not change: computed once, as long as `most` bytes hold them."""

    def __init__(self, model: Any, lines: Sequence[ProbeLine], *, length: int, most: int) -> None:
        self._model, self._lines, self._length = model, lines, length
        self._known: OrderedDict[int, Computed] = OrderedDict()
        self._left = most

    def of(self, number: int) -> Computed:
        known = self._known.get(number)
        if known is not None:
            return known
        computed = self._compute(number)
        if computed.bytes <= self._left:
            self._left -= computed.bytes
            self._known[number] = computed
        return computed

    @torch.no_grad()
    def _compute(self, number: int) -> Computed:
        batch = collate([self._lines[number].rows], self._length).to(self._model.device)
        cache = DynamicCache()
        logits = logits_of(self._model, batch, cache=cache)[0].float()
        found = torch.log_softmax(logits, dim=-1).topk(min(TAUGHT, logits.shape[-1]), dim=-1)
        layers = tuple((layer.keys[0], layer.values[0]) for layer in cache.layers)
        return Computed(layers, found.indices, found.values)


def ahead_logits(model: Any, rows: Tensor, batch: ProbeBatch, contexts: Contexts) -> Tensor:
    """What the probes say: (lines, hosts, distances, vocabulary), averaged over each ensemble. `rows`: (distances,
    ensemble, hidden)."""
    computed = [contexts.of(line) for line in batch.lines]
    cache = DynamicCache()
    for layer in range(len(computed[0].layers)):
        keys, values = (torch.stack([one.layers[layer][part] for one in computed]) for part in (0, 1))
        cache.update(keys, values, layer)
    vocabulary = int(model.config.get_text_config().vocab_size)
    with with_probe_tokens(model, batch.tokens, rows, vocabulary) as tokens:
        logits: Tensor = model(
            input_ids=tokens, position_ids=batch.positions, use_cache=True,
            attention_mask=masks_of(model, lambda window: _seen(batch, window)), **cache_argument(model, cache),
        ).logits  # fmt: skip
    lines, hosts, distances = batch.places.shape
    return logits.view(lines, hosts, rows.shape[1], distances, -1).mean(dim=2)


def _seen(batch: ProbeBatch, window: int | None) -> Tensor:
    return batch.visible if window is None or batch.near is None else batch.near


def distillation(model: Any, rows: Tensor, batch: ProbeBatch, contexts: Contexts, *, decay: float) -> Tensor:
    """How far the probes are from what the model says there (Kullback-Leibler, up to a constant). A distance counts
    `decay` times the one before it."""
    found = torch.log_softmax(ahead_logits(model, rows, batch, contexts).float(), dim=-1)
    where = batch.places >= 0
    lines, _, distances = where.nonzero(as_tuple=True)
    places = batch.places[where]
    computed = [contexts.of(line) for line in batch.lines]
    likeliest = torch.stack([one.likeliest for one in computed])[lines, places]
    wanted = torch.stack([one.log_probabilities for one in computed])[lines, places]
    costs = (wanted.exp() * (wanted - found[where].gather(1, likeliest))).sum(dim=-1)
    weights = decay ** distances.to(costs.dtype)
    return (costs * weights).sum() / weights.sum()


# ── accuracy ─────────────────────────────────────────────────────────────────────────────────────────────────


_TOP: Final = 8  # ranks of which the accuracy is measured: as many as decoding considers
_DOUBT: Final = 8  # what is believed of a bucket counts like so many predictions


class Tally:
    """Counts how often predictions are right, at each distance."""

    def __init__(self, distances: int) -> None:
        self._top = torch.zeros(distances, _TOP)
        self._judged = torch.zeros(distances)
        self._runs, self._hosts = torch.zeros(distances), 0
        self._right, self._seen = torch.zeros(distances, BUCKETS), torch.zeros(distances, BUCKETS)

    def add(self, drawn: Tensor, logits: Tensor) -> None:
        """`logits` (lines, hosts, distances, vocabulary) have to predict `drawn` (lines, hosts, distances). Where the
        type forced the token (`IGNORED`), nothing is judged, and a run of right ones goes on."""
        known = drawn != IGNORED
        found = torch.softmax(logits.float(), dim=-1).topk(_TOP, dim=-1)
        is_drawn = (found.indices == drawn[..., None]).cpu()
        known, chances = known.cpu(), found.values.cpu()
        right = is_drawn[..., 0]
        self._judged += known.sum(dim=(0, 1))
        self._top += (is_drawn.cumsum(dim=-1) * known[..., None]).sum(dim=(0, 1))
        in_a_row = (right | ~known).long().cumprod(dim=-1).bool()
        self._runs += (in_a_row & known).sum(dim=(0, 1))
        self._hosts += known.shape[0] * known.shape[1]
        buckets = torch.bucketize(chances, torch.tensor(EDGES), right=True)
        for distance in range(known.shape[-1]):
            where = known[..., distance]
            chosen = buckets[..., distance, :][where].flatten()
            self._seen[distance] += torch.bincount(chosen, minlength=BUCKETS)
            hits = is_drawn[..., distance, :][where].flatten().float()
            self._right[distance] += torch.bincount(chosen, weights=hits, minlength=BUCKETS)

    @property
    def accuracy(self) -> Accuracy:
        by_chance = (self._right + _DOUBT * torch.tensor(MIDDLES)) / (self._seen + _DOUBT)
        top = self._top / self._judged.clamp(min=1)[:, None]
        runs = self._runs / max(1, self._hosts)
        return Accuracy(_rounded(top), _rounded(runs[None])[0], _rounded(by_chance))


def _rounded(numbers: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(float(one), 4) for one in row) for row in numbers)


def table(accuracy: Accuracy) -> Iterator[str]:
    yield "tokens ahead  right  among 5  right in a row"
    for distance, (top, run) in enumerate(zip(accuracy.top, accuracy.runs, strict=True), start=1):
        yield f"{distance:>12}  {top[0]:>5.2f}  {top[4]:>7.2f}  {run:>14.2f}"
