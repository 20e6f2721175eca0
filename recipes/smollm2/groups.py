"""A batch is a group of documents that share the prompt of one program. Each of them attends to the prompt and itself.

    prompt  document  answers   document  answers   document  answers
    └──────── is fed once, and no document sees another ────────────┘

Tokens that carry no label are what a step costs, so the prompt is fed once, nothing is padded, and pairs of tokens that
do not see each other are not computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from pastalang.runtime.models.reference import attention_of
from pastalang.training.batches import Batch, logits_of
from pastalang.training.recording import IGNORED, TaughtToken, TrainingRow
from recipes.pasta_mini.batches import shared_prompt

_FIRST, _LAST = 2.5, 1.5  # how much the first token of a value counts, which has to be found, and the one that ends it
_BLOCKED: Final = -1e30
_BY_DOCUMENT: Final = "smollm2_by_document"


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a group that attends to the prompt and to itself. `mask`: (tokens, prompt + tokens)."""

    begin: int
    end: int
    mask: Tensor


Parts: TypeAlias = Sequence[Part]  # the first one is the prompt
_PARTS: ContextVar[Parts] = ContextVar("smollm2_parts")


@dataclass(frozen=True, slots=True)
class Group(Batch):
    """`allowed`: (labels, vocabulary), the tokens that the types allow; `weights`: what each label counts."""

    parts: Parts = ()
    allowed: Tensor | None = None
    weights: Tensor | None = None
    documents: int = 0

    def to(self, device: torch.device) -> Group:
        assert self.allowed is not None and self.weights is not None
        parts = [Part(part.begin, part.end, part.mask.to(device)) for part in self.parts]
        return Group(
            self.tokens.to(device), self.positions.to(device), self.labels.to(device), None, self.origins, None, parts,
            self.allowed.to(device), self.weights.to(device), self.documents,
        )  # fmt: skip


def group_of(rows: Sequence[TrainingRow], vocabulary: int) -> Group:
    """Rows of one program, of which each has its own document."""
    prompt = shared_prompt(rows)
    parts = [Part(0, prompt, _mask(rows[0].visible[:prompt, :prompt]))]
    for row in rows:
        begin = parts[-1].end
        parts.append(Part(begin, begin + len(row) - prompt, _mask(row.visible[prompt:])))
    names = ("tokens", "positions", "labels")
    tokens, positions, labels = (_joined([getattr(row, name) for row in rows], prompt) for name in names)
    by_row = [sorted(row.taught, key=lambda one: one.place) for row in rows]
    taught = [one for row in by_row for one in row]
    weights = [weight for row in by_row for weight in weights_of(row)]
    origins = (", ".join(row.origin for row in rows),)
    return Group(
        tokens, positions, labels, None, origins, None, parts, _allowed(taught, vocabulary), torch.tensor(weights),
        len(rows),
    )  # fmt: skip


def group_loss(model: Any, group: Group) -> Tensor:
    """What the labels cost among the tokens that their types allow: decoding never draws another one."""
    assert group.allowed is not None and group.weights is not None
    with _attending_by(group.parts, model):
        logits = logits_of(model, group, where=group.labels != IGNORED).float()
    logits = logits.masked_fill(~group.allowed, _BLOCKED)
    costs = cross_entropy(logits, group.labels[group.labels != IGNORED], reduction="none")
    return (costs * group.weights).sum() / group.weights.sum()


def _joined(parts: Sequence[Any], prompt: int) -> Tensor:
    """(1, tokens)"""
    joined = np.concatenate([parts[0][:prompt], *(part[prompt:] for part in parts)])
    return torch.from_numpy(joined.astype(np.int64))[None]


def _mask(visible: Any) -> Tensor:
    return torch.zeros(visible.shape).masked_fill_(~torch.from_numpy(visible), _BLOCKED)


def _allowed(taught: Sequence[TaughtToken], vocabulary: int) -> Tensor:
    everything = np.full(-(-vocabulary // 32), 0xFFFFFFFF, dtype=np.uint32)
    words = len(everything)
    bits = np.stack([everything if one.allowed is None else one.allowed[:words] for one in taught]).view(np.uint8)
    return torch.from_numpy(np.unpackbits(bits, axis=1, bitorder="little")[:, :vocabulary].astype(np.bool_))


def weights_of(taught: Sequence[TaughtToken]) -> list[float]:
    """By place. The tokens of a value are fed in their order."""
    places: dict[object, list[int]] = {}
    for number, one in enumerate(taught):
        places.setdefault((one.field, one.items), []).append(number)
    weights = [1.0] * len(taught)
    for numbers in places.values():
        weights[numbers[-1]] = _LAST
        weights[numbers[0]] = _FIRST
    return weights


# ── attention ────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _attending_by(parts: Parts, model: Any) -> Iterator[None]:
    reset = _PARTS.set(parts)
    try:
        with attention_of(model, _BY_DOCUMENT):
            yield
    finally:
        _PARTS.reset(reset)


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """Heads that share keys are rows of one product."""
    prompt, *documents = _PARTS.get()
    kinds, heads, width = key.shape[1], query.shape[1], query.shape[-1]
    asked = query[0].reshape(kinds, heads // kinds, -1, width)
    found = [_of_part(asked, key[0], value[0], prompt, slice(0, 0), scaling)]
    found += [_of_part(asked, key[0], value[0], part, slice(0, prompt.end), scaling) for part in documents]
    attended = torch.cat(found, dim=2).reshape(heads, -1, width)
    return attended.transpose(0, 1)[None], None


def _of_part(asked: Tensor, keys: Tensor, values: Tensor, part: Part, before: slice, scaling: float) -> Tensor:
    kinds, each, _, width = asked.shape
    own = slice(part.begin, part.end)
    queries = asked[:, :, own].reshape(kinds, -1, width)
    seen, held = (torch.cat((states[:, before], states[:, own]), dim=1) for states in (keys, values))
    scores = torch.baddbmm(part.mask.repeat(each, 1)[None], queries, seen.mT, alpha=scaling)
    return (scores.softmax(-1) @ held).reshape(kinds, each, -1, width)


AttentionInterface.register(_BY_DOCUMENT, _attend)
AttentionMaskInterface.register(_BY_DOCUMENT, sdpa_mask)
