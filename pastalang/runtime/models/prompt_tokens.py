"""Prompt tokens (parallel prompt decoding): trained embeddings whose logits predict tokens ahead.

    position      n        n+1       n+2       n+3
    fed           token    t1        t2        t3         t1, t2, t3 see what the token sees, the token, and one another
    logits of     n+1      n+2       n+3       n+4

They are kept next to the weights that they were trained for, with how often their predictions were right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers.utils import cached_file

from pastalang.runtime.errors import LoadError

FILE: Final = "ppd.safetensors"
BUCKETS: Final = 10  # of probabilities
_VERSION: Final = "1"
_SAMPLED: Final = 256  # weights by which a model is known again


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good the predictions are at each distance, as measured on texts of the model's own.

    `top`: how often the token is among the 1, 2, 3 ... likeliest ones. `runs`: how often the likeliest ones are right
    at this distance and at all before it. `by_chance`: how often a token is right that is predicted with a probability
    of the first tenth, of the second ...
    """

    top: tuple[tuple[float, ...], ...]
    runs: tuple[float, ...]
    by_chance: tuple[tuple[float, ...], ...]

    @staticmethod
    def unknown(distances: int) -> Accuracy:
        """Takes predictions at their word, with less trust the further they reach."""
        by_chance = tuple((bucket + 0.5) / BUCKETS for bucket in range(BUCKETS))
        runs = tuple(0.5 ** (1 + distance) for distance in range(distances))
        return Accuracy(((),) * distances, runs, (by_chance,) * distances)


@dataclass(frozen=True, slots=True, eq=False)
class PromptTokens:
    """`rows`: (distances, ensemble, hidden). The logits of an ensemble are averaged.

    A prompt token has an id after those of the vocabulary.
    """

    rows: torch.Tensor
    accuracy: Accuracy

    @property
    def distances(self) -> int:
        return self.rows.shape[0]

    @property
    def ensemble(self) -> int:
        return self.rows.shape[1]

    def save(self, folder: Path, model: Any) -> None:
        """Next to the weights of `model`."""
        accuracy = {name: getattr(self.accuracy, name) for name in ("top", "runs", "by_chance")}
        tensors = {"rows": self.rows.detach().float().cpu().contiguous(), "weights": sample_of(model)}
        save_file(tensors, folder / FILE, {"version": _VERSION, "accuracy": json.dumps(accuracy)})


def find_prompt_tokens(source: str | Path, model: Any) -> PromptTokens | None:
    """The prompt tokens next to weights in a folder or on the hub; None without any.

    Raises `LoadError` if they cannot be read, or were trained for other weights.
    """
    path = Path(source) / FILE
    if not Path(source).exists():
        found = cached_file(
            str(source), FILE, _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )  # fmt: skip
        path = Path(found) if found is not None else path
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about, rows, weights = file.metadata() or {}, file.get_tensor("rows"), file.get_tensor("weights")
        if about.get("version") != _VERSION:
            raise ValueError(f"it is of version {about.get('version')}, and version {_VERSION} can be read")
        accuracy = json.loads(about["accuracy"])
        top, runs, by_chance = accuracy["top"], accuracy["runs"], accuracy["by_chance"]
        found_accuracy = Accuracy(tuple(map(tuple, top)), tuple(runs), tuple(map(tuple, by_chance)))
        if rows.dim() != 3 or not len(rows) == len(top) == len(runs) == len(by_chance):
            raise ValueError("its parts do not fit together")
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
        raise LoadError(f"{path}, the prompt tokens of the model, cannot be read: {problem}") from problem
    ours = sample_of(model)
    if ours.shape != weights.shape or not torch.allclose(ours, weights, rtol=0.02, atol=1e-3):
        raise LoadError(
            f"{path} has prompt tokens for other weights: train them again with `pasta train ppd`, or delete the file"
        )
    embedding = model.get_input_embeddings().weight
    return PromptTokens(rows.to(embedding.device, embedding.dtype), found_accuracy)


def sample_of(model: Any) -> torch.Tensor:
    """A few weights of a model, by which it is known again. Rounding does not hide it."""
    weights = [weight for _, weight in sorted(model.named_parameters())]
    chosen = weights[:: max(1, -(-len(weights) // _SAMPLED))]
    return torch.stack([weight.detach().reshape(-1)[weight.numel() // 2].float().cpu() for weight in chosen])


@contextmanager
def with_prompt_tokens(
    model: Any, tokens: torch.Tensor, rows: torch.Tensor | None, vocabulary: int
) -> Iterator[torch.Tensor]:
    """Gives tokens of the vocabulary to feed, (lines, length). Where prompt tokens were, their embeddings are inserted
    as long as the context lasts."""
    is_prompt = tokens >= vocabulary
    if rows is None or not bool(is_prompt.any()):
        yield tokens
        return
    chosen = rows.flatten(0, 1)[tokens[is_prompt] - vocabulary]

    def insert(_: Any, __: Any, embedded: torch.Tensor) -> torch.Tensor:
        return embedded.masked_scatter(is_prompt[..., None], chosen.to(embedded.dtype))

    handle = model.get_input_embeddings().register_forward_hook(insert)
    try:
        yield tokens.masked_fill(is_prompt, 0)
    finally:
        handle.remove()
