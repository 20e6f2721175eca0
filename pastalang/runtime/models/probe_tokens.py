"""Probe tokens: trained embeddings whose logits predict tokens ahead.

    position      n        n+1       n+2       n+3
    fed           token    t1        t2        t3         t1, t2, t3 see what the token sees, the token, and one another
    logits of     n+1      n+2       n+3       n+4

They are prompt tokens (parallel prompt decoding), different ones at each distance, or the mask token (SPACE), the same
one at each. They are kept next to the weights that they were trained for, with how often their predictions were right.
None of them is part of the vocabulary: no text is read as one, and none is ever drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.source import file_beside

EDGES: Final = (0.003, 0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.35, 0.5, 0.7, 0.9)  # between the buckets of probabilities
BUCKETS: Final = len(EDGES) + 1
MIDDLES: Final = tuple((low + high) / 2 for low, high in pairwise((0.0, *EDGES, 1.0)))
BREAK: Final = -1  # between two texts
_VERSION: Final = "2"
_SAMPLED: Final = 256  # weights by which a model is known again


class Kind(Enum):
    """What is trained, by the name of its command. The value: the file next to the weights, and what it holds."""

    PPD = ("ppd.safetensors", "the prompt tokens")
    SPACE = ("space.safetensors", "the mask token")

    @property
    def file(self) -> str:
        return self.value[0]

    @property
    def holds(self) -> str:
        return self.value[1]

    @property
    def command(self) -> str:
        return f"pasta train {self.name.lower()}"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good the predictions are at each distance, as measured on texts of the model's own.

    `top`: how often the token is among the 1, 2, 3 ... likeliest ones. `runs`: how often the likeliest ones are right
    at this distance and at all before it. `by_chance`: how often a token is right that is predicted with a probability
    of the first bucket, of the second ... They are small where probabilities are: most guesses are runners-up.
    """

    top: tuple[tuple[float, ...], ...]
    runs: tuple[float, ...]
    by_chance: tuple[tuple[float, ...], ...]

    @staticmethod
    def unknown(distances: int) -> Accuracy:
        """Takes predictions at their word, with less trust the further they reach."""
        runs = tuple(0.5 ** (1 + distance) for distance in range(distances))
        return Accuracy(((),) * distances, runs, (MIDDLES,) * distances)


@dataclass(frozen=True, slots=True, eq=False)
class ProbeTokens:
    """`rows`: (distances, ensemble, hidden), or (1, ensemble, hidden) if they are the same at each distance.

    The logits of an ensemble are averaged. A probe token has an id after those of the vocabulary. `written`: tokens of
    answers that they were trained on, `BREAK` between texts; what followed there may follow again.
    """

    rows: torch.Tensor
    accuracy: Accuracy
    written: torch.Tensor | None = None

    @property
    def distances(self) -> int:
        return len(self.accuracy.runs)

    @property
    def ensemble(self) -> int:
        return self.rows.shape[1]

    def ids(self, vocabulary: int) -> tuple[tuple[int, ...], ...]:
        """The tokens of each distance."""
        rows = [min(distance, len(self.rows) - 1) for distance in range(self.distances)]
        return tuple(tuple(vocabulary + row * self.ensemble + one for one in range(self.ensemble)) for row in rows)

    def save(self, folder: Path, model: Any, kind: Kind) -> None:
        """Next to the weights of `model`."""
        accuracy = {name: getattr(self.accuracy, name) for name in ("top", "runs", "by_chance")}
        tensors = {"rows": self.rows.detach().float().cpu().contiguous(), "weights": sample_of(model)}
        if self.written is not None:
            tensors["written"] = self.written.to(torch.int32)
        save_file(tensors, folder / kind.file, {"version": _VERSION, "accuracy": json.dumps(accuracy)})


def find_probe_tokens(source: str | Path, model: Any, *, may_be_of_others: bool = False) -> ProbeTokens | None:
    """The probe tokens next to weights in a folder or on the hub; None without any.

    Raises `LoadError` if they cannot be read, were trained for other weights, or if there are two kinds of them. Those
    of other weights are left out if the folder `may_be_of_others`.
    """
    found = [(kind, path) for kind in Kind if (path := file_beside(source, kind.file)) is not None]
    if not found:
        return None
    if len(found) > 1:
        raise LoadError(
            f"{source} holds {' and '.join(kind.file for kind, _ in found)}, and only one of them can predict what is "
            "drawn: delete the other"
        )
    [(kind, path)] = found
    try:
        tokens, weights = _read(path, kind)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
        raise LoadError(f"{path}, {kind.holds} of the model, cannot be read: {problem}") from problem
    ours, embedding = sample_of(model), model.get_input_embeddings().weight
    is_ours = ours.shape == weights.shape and torch.allclose(ours, weights, rtol=0.02, atol=1e-3)
    if not is_ours or tokens.rows.shape[-1] != embedding.shape[-1]:
        if may_be_of_others:
            return None
        raise LoadError(
            f"{path} holds {kind.holds} of other weights: train again with `{kind.command}`, or delete the file"
        )
    return replace(tokens, rows=tokens.rows.to(embedding.device, embedding.dtype))


def _read(path: Path, kind: Kind) -> tuple[ProbeTokens, torch.Tensor]:
    """The tokens, and the weights that they were trained for."""
    with safe_open(path, framework="pt") as file:
        about, rows, weights = file.metadata() or {}, file.get_tensor("rows"), file.get_tensor("weights")
        written = file.get_tensor("written") if "written" in file.keys() else None  # noqa: SIM118, it is no mapping
    if about.get("version") != _VERSION:
        said = f"it is of version {about.get('version')}, and version {_VERSION} can be read"
        raise ValueError(f"{said}: train again with `{kind.command}`, or delete the file")
    accuracy = json.loads(about["accuracy"])
    top, runs, by_chance = accuracy["top"], accuracy["runs"], accuracy["by_chance"]
    expected = 1 if kind is Kind.SPACE else len(runs)
    widths = {len(row) for row in by_chance}
    if (
        rows.dim() != 3
        or len(rows) != expected
        or not 0 < len(runs) == len(top) == len(by_chance)
        or widths != {BUCKETS}
        or (written is not None and not _are_texts(written))
    ):
        raise ValueError("its parts do not fit together")
    measured = Accuracy(tuple(map(tuple, top)), tuple(runs), tuple(map(tuple, by_chance)))
    return ProbeTokens(rows, measured, written), weights


def _are_texts(written: torch.Tensor) -> bool:
    return written.dim() == 1 and written.dtype is torch.int32 and not bool((written < BREAK).any())


def sample_of(model: Any) -> torch.Tensor:
    """A few weights of a model, by which it is known again. Rounding does not hide it."""
    weights = [weight for _, weight in sorted(model.named_parameters())]
    chosen = weights[:: max(1, -(-len(weights) // _SAMPLED))]
    return torch.stack([weight.detach().reshape(-1)[weight.numel() // 2].float().cpu() for weight in chosen])


@contextmanager
def with_probe_tokens(
    model: Any, tokens: torch.Tensor, rows: torch.Tensor | None, vocabulary: int
) -> Iterator[torch.Tensor]:
    """Gives tokens of the vocabulary to feed, (lines, length). Where probe tokens were, their embeddings are inserted
    as long as the context lasts."""
    is_probe = tokens >= vocabulary
    if rows is None or not bool(is_probe.any()):
        yield tokens
        return
    chosen = rows.flatten(0, 1)[tokens[is_probe] - vocabulary]

    def insert(_: Any, __: Any, embedded: torch.Tensor) -> torch.Tensor:
        return embedded.masked_scatter(is_probe[..., None], chosen.to(embedded.dtype))

    handle = model.get_input_embeddings().register_forward_hook(insert)
    try:
        yield tokens.masked_fill(is_probe, 0)
    finally:
        handle.remove()
