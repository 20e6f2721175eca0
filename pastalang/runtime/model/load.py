"""Weights from a folder or a hub name: a path comes in, a transformers causal model goes out, ready to be wrapped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from pastalang.runtime.model.packed import pack
from pastalang.runtime.model.refuse import refuse_config
from pastalang.runtime.model.shipped import shipped_folder
from pastalang.runtime.model.trained import TrainedFor, note_of


@dataclass(frozen=True, slots=True)
class Loaded:
    """A transformers model, its tokenizer, and what is noted beside them."""

    weights: Any
    tokenizer: Any
    trained_for: TrainedFor | None


def load_model(
    source: str | Path, *, device: str | None = None, dtype: torch.dtype | None = None, packed: bool = True
) -> Loaded:
    """From a folder, a name on the hub, or the name of a shipped model, for which nothing is ever fetched.

    On a CPU the weights are `packed`, which is quicker and takes the model its gradients.
    """
    path = shipped_folder(source) or source
    weights = load_weights(path, device=device, dtype=dtype)
    if packed:
        pack(weights)
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=Path(path).is_dir())
    return Loaded(weights, tokenizer, note_of(path))


def load_weights(path: str | Path, *, device: str | None = None, dtype: torch.dtype | None = None) -> Any:
    """Load a causal model, or raise `UnsupportedModel` before a single weight is read.

    Without a device the first GPU is taken if there is one. Without a dtype half precision is taken where the
    device computes in it, float32 elsewhere.
    """
    is_here = Path(path).is_dir()
    refuse_config(AutoConfig.from_pretrained(path, local_files_only=is_here))
    chosen = torch.device(device or default_device())
    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=dtype or default_dtype(chosen), local_files_only=is_here
    )  # fmt: skip
    return model.to(chosen).eval()


def default_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def default_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 halves what is read from memory, but a CPU without instructions for it only emulates it."""
    match device.type:
        case "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        case "cpu":
            return torch.bfloat16 if _cpu_computes_in_bfloat16() else torch.float32
        case _:
            return torch.float16


def _cpu_computes_in_bfloat16() -> bool:
    capabilities: dict[str, object] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # older versions of torch cannot tell
    return any(bool(capabilities.get(name)) for name in ("avx512_bf16", "amx_bf16", "bf16"))
