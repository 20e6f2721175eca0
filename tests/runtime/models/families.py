"""Every causal family of transformers as a tiny random model, and what becomes of it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from pastalang.runtime.attention.masks import layer_windows
from pastalang.runtime.models.compatibility import UnsupportedModel, check_config
from pastalang.runtime.models.reference import attention_of, reference_logits
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.step import CellId, Empty, RowId, Run, StepBatch, TokenId
from tests.runtime.walk import Walk

FAMILIES = tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
WINDOW = 4
CHAIN = 5 * WINDOW
CELLS = 320
EXACT, FLOAT32 = 1e-9, 1e-4  # the largest difference of the logits, relative to their range
MOST_WEIGHTS = 20_000_000

_LAYERS = 4
_SIZES: Mapping[str, Any] = {
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), _LAYERS),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "depth", "num_encoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim", "emb_dim"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"), 32),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(
        ("head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "hidden_size_per_layer_input"), 8
    ),
    **dict.fromkeys(("sliding_window", "attention_chunk_size", "index_topk"), WINDOW),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 64),
    "num_key_value_heads": 2,
    "num_kv_shared_layers": _LAYERS // 2,
    "use_sliding_window": True,
    "max_window_layers": _LAYERS // 2,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "image_size": 28,
    "patch_size": 14,
}
_CONVOLUTIONS = {"layer_types": ["conv", "full_attention"] * (_LAYERS // 2)}
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": "auto"}
_OWN: Mapping[str, Mapping[str, Any]] = {  # what the general sizes do not fit
    "bamba": _MAMBA,
    "dots1": {"n_shared_experts": 1},
    "gpt_neo": {"num_layers": _LAYERS, "attention_types": [[["global", "local"], _LAYERS // 2]]},
    "granitemoehybrid": {**_MAMBA, "layer_types": ["mamba", "attention"] * (_LAYERS // 2)},
    "lfm2": _CONVOLUTIONS,
    "lfm2_moe": _CONVOLUTIONS,
    "minimax_m3_vl_text": {"layer_types": ["full_attention", "minimax_m3_sparse"] * (_LAYERS // 2)},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "zaya": {"num_experts_per_tok": 1},
}


class Outcome(Enum):
    EXACT = "exact"
    FLOAT32 = "exact to float32"
    REFUSED = "refused"
    NOT_BUILT = "not built"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` says why a model is refused or was not built, how wrong it is, or with which layers it is right."""

    outcome: Outcome
    reason: str = ""


def verdict_of(family: str) -> Verdict:
    """Builds the family and compares it with the bare model in float64."""
    with quietly():
        try:
            model = build(family)
        except Exception as problem:  # anything: configurations that no general rule can shrink
            return _verdict_of_config(family) or Verdict(Outcome.NOT_BUILT, f"{type(problem).__name__}: {problem}")
        with wide():
            return _verdict(model.double())


def default_config(family: str) -> Any:
    """The configuration of a model of usual size."""
    return CONFIG_MAPPING[family]()


def build(family: str) -> Any:
    """A tiny random model of the family in float32."""
    config = AutoConfig.for_model(family, **_options(default_config(family)) | _OWN.get(family, {}))
    with torch.device("meta"):
        count = sum(weight.numel() for weight in AutoModelForCausalLM.from_config(config).parameters())
    if count > MOST_WEIGHTS:
        raise ValueError(f"{count:,} weights")
    if hasattr(config, "_experts_implementation"):
        config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.empty_like(weight).normal_(0.0, 0.15, generator=generator)
            weight.copy_(noise if weight.dim() > 1 else weight + noise)
    return model


@contextmanager
def wide() -> Iterator[None]:
    """float64 that is float64: what transformers converts to float32 on the way stays as it is."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Wide():
            yield
    finally:
        torch.set_default_dtype(before)


class _Wide(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        wider = torch.Tensor.double if func is torch.Tensor.float else func
        named = {name: _wider(value) for name, value in (kwargs or {}).items()}
        return wider(*map(_wider, args), **named)


def _wider(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def _verdict_of_config(family: str) -> Verdict | None:
    try:
        check_config(default_config(family))
    except UnsupportedModel as refusal:
        return Verdict(Outcome.REFUSED, refusal.reason)
    except Exception:  # anything: its own validation refuses its defaults
        return None
    return None


def _verdict(model: Any) -> Verdict:
    try:
        fast = TransformersModel(model, cells=CELLS)
    except UnsupportedModel as refusal:
        return Verdict(Outcome.REFUSED, refusal.reason)
    error = max(_chain_error(fast, model), _walk_error(fast, model))
    if not error <= FLOAT32:
        return Verdict(Outcome.WRONG, f"off by {error:.2g} of the range of the logits")
    windows = "with sliding windows" if any(layer_windows(model.config.get_text_config())) else ""
    return Verdict(Outcome.EXACT if error <= EXACT else Outcome.FLOAT32, windows)


def _chain_error(fast: TransformersModel, model: Any) -> float:
    """A text longer than the windows, in two chunks, against the bare model, which makes its own masks."""
    tokens = [TokenId(3 + 7 * index % 60) for index in range(CHAIN)]
    with attention_of(model, "eager"), torch.inference_mode():
        expected = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return _error(torch.cat([fast.forward(_chunk(tokens, start)) for start in range(0, CHAIN, CHAIN // 2)]), expected)


def _chunk(tokens: list[TokenId], start: int) -> StepBatch:
    here = range(start, start + CHAIN // 2)
    return StepBatch(
        tuple(tokens[index] for index in here),
        tuple(here),
        tuple(CellId(CHAIN - index) for index in here),
        (Run(RowId(0), 0, len(here)),),
        tuple(range(len(here))),
        edits=(Empty(RowId(0)),) if start == 0 else (),
    )


def _walk_error(fast: TransformersModel, model: Any) -> float:
    """Branches that fork, join and leave gaps, against the slow reference."""
    walk, worst = Walk(random.Random(0), cells=CELLS, vocabulary=fast.vocabulary), 0.0
    for _ in range(6):
        batch = walk.step()
        found = fast.forward(batch)
        for index, row in zip(batch.wanted, found, strict=True):
            worst = max(worst, _error(row, reference_logits(model, walk.fed[index])))
    return worst


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / (expected.max() - expected.min()))


def _options(base: Any) -> dict[str, Any]:
    """The sizes that a configuration has, made small, its parts included. A few layers, of every kind."""
    options = {name: size for name, size in _SIZES.items() if _can_set(base, name)}
    if "qk_rope_head_dim" in options:  # latent attention has a key head for each query head
        options["num_key_value_heads"] = options["num_attention_heads"]
    for name in ("layer_types", "mlp_layer_types"):
        kinds = getattr(base, name, None)
        if isinstance(kinds, list) and _can_set(base, name):
            several = list(dict.fromkeys(kinds))
            if len(several) > 1:
                options[name] = [several[layer % len(several)] for layer in range(_LAYERS)]
    for name in type(base).sub_configs:
        part = getattr(base, name, None)
        if part is not None:
            options[name] = {"model_type": part.model_type, **_options(part)}
    return options


def _can_set(base: Any, name: str) -> bool:
    described = getattr(type(base), type(base).attribute_map.get(name, name), None)
    if isinstance(described, property) and described.fset is None:
        return False
    try:
        return hasattr(base, name)
    except Exception:  # it differs between layers
        return False


@contextmanager
def quietly() -> Iterator[None]:
    """Without what transformers says about tiny and unusual models."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
