"""Adapters: a few million weights beside those of a model, which are added to them when the model is loaded (LoRA).

    W + scale · B A        A: (rank, in), B: (out, rank), one pair for each matrix that was adapted

The sum has the shape of W, so decoding costs what it cost before. A folder holds what `peft` writes and reads,
`adapter_config.json` and `adapter_model.safetensors`, and beside it the note of the modes that the weights were trained
for. Adapters that PastaLang has written also hold a sample of the weights that they belong to.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.source import ADAPTER_CONFIG, ADAPTER_WEIGHTS

Pairs: TypeAlias = Mapping[str, tuple[Tensor, Tensor]]  # A and B by the name of the matrix

_PREFIX: Final = "base_model.model."  # of names, as peft writes them
_A, _B = ".lora_A.weight", ".lora_B.weight"
_SAMPLE: Final = "sample"  # in the header of the file: weights of the model that the adapter belongs to
_SAMPLED: Final = 16  # values of each adapted matrix
_SAME: Final = 0.2  # of the norm of the sample: 4 bits change less, and other models have nothing in common
_UNKNOWN: Final[tuple[tuple[str, object], ...]] = (
    ("use_dora", False), ("bias", "none"), ("modules_to_save", None), ("fan_in_fan_out", False), ("alpha_pattern", {}),
    ("layer_replication", None), ("trainable_token_indices", None),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Adapter:
    """`alpha` is divided by the rank of a pair, or by its root if `by_root`. `sample`: see `sample_of`."""

    pairs: Pairs
    alpha: float
    by_root: bool = False
    sample: Tensor | None = None

    def scale(self, rank: int) -> float:
        return self.alpha / (math.sqrt(rank) if self.by_root else rank)


def read_adapter(folder: Path) -> Adapter:
    """Raises `LoadError` if there is none in the folder, or if it does what cannot be merged."""
    config = _read_config(folder)
    path = folder / ADAPTER_WEIGHTS
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
            sample = (file.metadata() or {}).get(_SAMPLE)
        return Adapter(
            dict(_pairs(tensors)), float(config["lora_alpha"]), config.get("use_rslora") is True,
            None if sample is None else torch.tensor(json.loads(sample)),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
        reason = f"its key {problem} is missing" if isinstance(problem, KeyError) else problem
        raise LoadError(f"the adapter in {folder} cannot be read: {reason}") from problem


def write_adapter(folder: Path, adapter: Adapter, *, base: str) -> None:
    """In bfloat16. `base` is the name of the model, for readers."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = {len(down) for down, _ in adapter.pairs.values()}
    assert len(ranks) == 1, "peft has one rank for all"
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "r": ranks.pop(),
        "lora_alpha": adapter.alpha, "use_rslora": adapter.by_root, "lora_dropout": 0.0, "bias": "none",
        "target_modules": sorted(adapter.pairs), "inference_mode": True,
    }  # fmt: skip
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {}
    for name, (down, up) in adapter.pairs.items():
        tensors[f"{_PREFIX}{name}{_A}"] = down.detach().to("cpu", torch.bfloat16).contiguous()
        tensors[f"{_PREFIX}{name}{_B}"] = up.detach().to("cpu", torch.bfloat16).contiguous()
    save_file(tensors, folder / ADAPTER_WEIGHTS, metadata=_header(adapter.sample))


def sign_adapter(folder: Path, model: Any) -> None:
    """Notes in an adapter that peft has written which weights it belongs to: those of `model`, not yet merged."""
    path = folder / ADAPTER_WEIGHTS
    adapter = read_adapter(folder)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
    save_file(tensors, path, metadata=_header(sample_of(model, adapter.pairs)))


def _header(sample: Tensor | None) -> dict[str, str]:
    known = {} if sample is None else {_SAMPLE: json.dumps([round(value, 4) for value in sample.tolist()])}
    return {"format": "pt", **known}


@torch.no_grad()
def merge_adapter(model: Any, folder: Path) -> None:
    """Adds the adapter to the weights of the model. Raises `LoadError` if it belongs to others."""
    adapter, matrices = adapter_for(model, folder), dict(_matrices(model))
    for name, (down, up) in adapter.pairs.items():
        weight = matrices[name]
        change = adapter.scale(len(down)) * (up.to(weight.device).float() @ down.to(weight.device).float())
        weight.copy_(weight.float() + change)


def adapter_for(model: Any, folder: Path) -> Adapter:
    """Raises `LoadError` if the adapter belongs to other weights than those of the model."""
    adapter = read_adapter(folder)
    _check_shapes(adapter, dict(_matrices(model)), folder)
    if adapter.sample is not None and not is_same_model(adapter.sample, sample_of(model, adapter.pairs)):
        raise LoadError(f"the adapter in {folder} was trained for other weights than these: load it with its own model")
    return adapter


def sample_of(model: Any, names: Mapping[str, Any]) -> Tensor:
    """Some weights of each of the matrices, by which a model is known again. Rounding does not hide it."""
    matrices = dict(_matrices(model))
    chosen = [matrices[name].detach().reshape(-1) for name in sorted(names)]
    return torch.cat([weight[:: max(1, len(weight) // _SAMPLED)][:_SAMPLED].float().cpu() for weight in chosen])


def is_same_model(sample: Tensor, other: Tensor) -> bool:
    """True if quantisation explains the difference of the samples."""
    return sample.shape == other.shape and bool((sample - other).norm() <= _SAME * sample.norm())


def _matrices(model: Any) -> Iterator[tuple[str, Tensor]]:
    """By the name of the module, but for a matrix that is the embedding as well: to change one would change both.

    A module that peft has wrapped is known by the name that it had before.
    """
    shared = model.get_input_embeddings().weight
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() == 2 and weight is not shared:
            yield name.removesuffix(".base_layer"), weight


def _check_shapes(adapter: Adapter, matrices: Mapping[str, Tensor], folder: Path) -> None:
    for name, (down, up) in adapter.pairs.items():
        weight = matrices.get(name)
        if weight is None:
            raise LoadError(f"the adapter in {folder} belongs to another model: this one has no matrix {name}")
        if (up.shape[0], down.shape[1]) != tuple(weight.shape):
            theirs, ours = f"{up.shape[0]} x {down.shape[1]}", " x ".join(map(str, weight.shape))
            raise LoadError(f"the adapter in {folder} belongs to another model: its {name} is {theirs}, not {ours}")


def _read_config(folder: Path) -> Mapping[str, Any]:
    path = folder / ADAPTER_CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise LoadError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from problem
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise LoadError(f"{path} describes no adapter of the kind LORA, the only one that can be merged")
    for name, plain in _UNKNOWN:
        if config.get(name) and config[name] != plain:
            raise LoadError(f"the adapter in {folder} sets {name}, which cannot be merged: merge it with peft first")
    return config


def _pairs(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Raises `ValueError` for what is no pair of matrices that fit each other."""
    for name, tensor in tensors.items():
        if name.endswith(_B) and name.removesuffix(_B) + _A in tensors:
            continue
        if not name.endswith(_A):
            raise ValueError(f"{name} is no part of a pair of low rank")
        other = tensors.get(name.removesuffix(_A) + _B)
        if other is None or other.dim() != 2 or tensor.dim() != 2 or other.shape[1] != tensor.shape[0]:
            raise ValueError(f"{name} and its second matrix do not fit")
        yield name.removeprefix(_PREFIX).removesuffix(_A), (tensor, other)
