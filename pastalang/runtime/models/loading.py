"""Loads a model from a folder, from a GGUF file, from the hub, or from the package itself."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

import torch
from torch import nn

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.adapters import merge_adapter
from pastalang.runtime.models.gguf_weights import tokenizer_of_gguf, weights_of_gguf
from pastalang.runtime.models.hub import check_hub
from pastalang.runtime.models.llama import LlamaModel, LlamaWeights, load_llama, plain_llama
from pastalang.runtime.models.load_errors import as_load_error, quietly
from pastalang.runtime.models.packed import can_pack, pack
from pastalang.runtime.models.probe_tokens import ProbeTokens, find_probe_tokens
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.models.quantized import INT8, kernels_here, quantise
from pastalang.runtime.models.rotation import rotate
from pastalang.runtime.models.source import (
    DEFAULT,
    OWN,
    Adapter,
    DTypeName,
    adapter_folder,
    ahead_folder,
    check_source,
    gguf_file,
    name_on_hub,
    shipped_folder,
)
from pastalang.runtime.models.training_note import TrainingNote, find_note, read_note

_SHORT: Final = {
    "bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32", "q8_0": INT8,
    "8bit": INT8, "int4": INT8,
}  # fmt: skip
DType: TypeAlias = torch.dtype | DTypeName
_LOG: Final = logging.getLogger("pastalang.load")


def load_model(
    source: str | Path, *, device: str | None = None, dtype: DType | None = None, packed: bool = True,
    adapter: Adapter = OWN, with_transformers: bool = True,
) -> LoadedModel:  # fmt: skip
    """Loads from a folder, a GGUF file, a name on the hub, or the name of a model known here.

    The weights are a model of transformers, or `LlamaWeights` if these suffice and it need not be one.

    `adapter` is merged into the weights. `packed` makes a CPU faster and leaves the model without gradients. A shipped
    model is small, so a CPU computes it in float32: in half precision, one seed could sample different tokens in
    different batches. In int8, weights are loaded in float32, and those of linear layers are quantised then.
    """
    in_int8 = dtype in (INT8, torch.int8)
    if in_int8:
        _check_int8(device, packed=packed)
        dtype = torch.float32
    check_source(source)
    folder = adapter_folder(source, adapter)
    check_hub(str(source))
    path = place_of(source)
    if source == DEFAULT and dtype is None and check_device(device or default_device()).type == "cpu":
        dtype = torch.float32
    weights = None if with_transformers else _plain_weights(path, device=device, dtype=dtype)
    if weights is None:
        weights = load_weights(path, device=device, dtype=dtype)
    probe_tokens = find_probe_tokens(path, weights)
    if folder is not None:
        merge_adapter(weights, folder)
        probe_tokens = find_probe_tokens(folder, weights) or probe_tokens
    else:
        probe_tokens = probe_tokens or _shipped_probe_tokens(source, weights)
    if in_int8:
        probe_tokens = _made_for_int8(weights, path, probe_tokens)
    if packed and not isinstance(weights, LlamaWeights):
        pack(weights)
    if is_slow_in_bfloat16(weights.device, weights.dtype):
        _LOG.warning("bfloat16 is slow on this processor, which has no kernels for it; float32 is faster here")
    return LoadedModel(weights, load_tokenizer(path), _note_of(path, folder), probe_tokens, in_int8)


def _check_int8(device: str | None, *, packed: bool) -> None:
    """Raises `LoadError` if nothing can be multiplied in int8."""
    chosen = check_device(device or default_device())
    if chosen.type != "cpu":
        raise LoadError(
            f"`dtype` int8 is for a CPU, and this model would be on {chosen.type}: choose the device cpu, or the type "
            "float16 or bfloat16"
        )
    if not packed:
        raise LoadError("weights in int8 are always packed: leave out `packed=False`, or choose another `dtype`")
    if kernels_here() is None:
        raise LoadError(
            "`dtype` int8 is not for this processor and build of torch, which have no fast and exact products of int8: "
            "choose float32"
        )


def _made_for_int8(weights: Any, path: str | Path, probe_tokens: ProbeTokens | None) -> ProbeTokens | None:
    """Weights of the Llama shape are quantised when they are packed. Returns the probe tokens that fit them then."""
    if not isinstance(weights, LlamaWeights):
        _quantised(weights, path)
        return probe_tokens
    rotation = rotate(weights)
    return probe_tokens and replace(probe_tokens, rows=rotation(probe_tokens.rows))


def _quantised(model: nn.Module, path: str | Path) -> None:
    """Says how many weights are not those of a plain linear layer. Raises `LoadError` if all of them are not."""
    count, rest = quantise(model)
    if count == 0:
        raise LoadError(f"{path} cannot be computed in int8: it has no plain linear layers; choose another `dtype`")
    if rest:
        _LOG.warning(
            "int8: %s of %s million weights stay in float32, because their layers are not plain linear ones",
            f"{rest / 1e6:,.1f}", f"{(rest + count) / 1e6:,.1f}",
        )  # fmt: skip


def _shipped_probe_tokens(source: str | Path, weights: Any) -> ProbeTokens | None:
    """Those that come with PastaLang. The weights of the hub are not quantised, so they may be for others."""
    folder = ahead_folder(source)
    return None if folder is None else find_probe_tokens(folder, weights, may_be_of_others=True)


def _note_of(path: str | Path, adapter: Path | None) -> TrainingNote | None:
    """The note of an adapter goes before that of the weights, which it changes."""
    own = None if adapter is None else read_note(adapter)
    return own or find_note(path)


def place_of(source: str | Path) -> str | Path:
    """The folder, or the name on the hub, whose files are loaded. Converts a GGUF file that is named first now."""
    file = gguf_file(source)
    if file is not None:
        return weights_of_gguf(file)
    folder = shipped_folder(source)
    return folder or (name_on_hub(source) if isinstance(source, str) else source)


def load_tokenizer(source: str | Path) -> Any:
    """Loads the tokenizer alone from where `load_model` loads it."""
    check_source(source, with_weights=False)
    file = gguf_file(source)
    path = place_of(source) if file is None else tokenizer_of_gguf(file)
    with as_load_error(path, "the tokenizer of"):
        if _is_plain_tokenizer(Path(path)):
            from transformers import PreTrainedTokenizerFast

            return PreTrainedTokenizerFast.from_pretrained(path, local_files_only=True)
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(path, local_files_only=Path(path).is_dir())


def _is_plain_tokenizer(folder: Path) -> bool:
    """Whether a tokenizer says that it needs no class of its own, of which transformers would import hundreds."""
    try:
        about = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        return about.get("tokenizer_class") == "TokenizersBackend" and "auto_map" not in about
    except (OSError, ValueError, AttributeError):
        return False


def _plain_weights(path: str | Path, *, device: str | None, dtype: DType | None) -> LlamaWeights | None:
    """None if the weights need transformers."""
    shape = plain_llama(path) if Path(path).is_dir() else None
    if shape is None:
        return None
    chosen = check_device(device or default_device())
    with as_load_error(path):
        return load_llama(
            path, shape, device=chosen, dtype=default_dtype(chosen) if dtype is None else check_dtype(dtype)
        )


def load_weights(path: str | Path, *, device: str | None = None, dtype: DType | None = None) -> Any:
    """Loads a causal model. Raises `UnsupportedModel` before any weight is read, `LoadError` if loading fails.

    `device` defaults to the first GPU if there is one. `dtype` defaults to half precision if the device computes in
    it, else to float32.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    from pastalang.runtime.models.compatibility import check_config

    is_here = Path(path).is_dir()
    chosen = check_device(device or default_device())
    wanted = default_dtype(chosen) if dtype is None else check_dtype(dtype)
    with as_load_error(path):
        config = AutoConfig.from_pretrained(path, local_files_only=is_here)
    check_config(config)
    with as_load_error(path), quietly():
        model, found = AutoModelForCausalLM.from_pretrained(
            path, dtype=wanted, local_files_only=is_here,
            output_loading_info=True, ignore_mismatched_sizes=True,
        )  # fmt: skip
    absent = sorted((*found["missing_keys"], *(name for name, *_ in found["mismatched_keys"])))
    if absent:
        raise LoadError(
            f"the weights in {path} do not match its config.json: {len(absent)} are missing or of another shape, "
            f"{absent[0]} among them"
        )
    return model.to(chosen).eval()


def check_tokenizer(model: Model, encoder: Encoder) -> None:
    """Raises `LoadError` if the tokenizer does not belong to the model or has no token that ends a turn."""
    if encoder.size > model.vocabulary:
        raise LoadError(
            f"the tokenizer has {encoder.size} tokens and the model knows {model.vocabulary}: "
            "they do not belong together"
        )
    if not encoder.ends:
        raise LoadError("the tokenizer names no token that ends the model's turn")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A transformers model or `LlamaWeights`, its tokenizer, and what stands next to them."""

    weights: Any
    tokenizer: Any
    trained_for: TrainingNote | None
    probe_tokens: ProbeTokens | None = None
    in_int8: bool = False

    def model(self, *, cells: int, packed: bool = True) -> Model:
        """What the engine runs. Loads the modules of transformers only for weights that need them."""
        if isinstance(self.weights, LlamaWeights):
            return LlamaModel(
                self.weights, cells=cells, packed=packed, in_int8=self.in_int8, probe_tokens=self.probe_tokens
            )
        from pastalang.runtime.models.transformers import TransformersModel

        return TransformersModel(self.weights, cells=cells, probe_tokens=self.probe_tokens)


def check_device(device: str) -> torch.device:
    """Raises `LoadError` for a device that does not exist or that this machine lacks."""
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as problem:
        raise LoadError(f"a device is cpu, cuda or mps, not {device!r}") from problem
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(chosen.type, False):
        raise LoadError(f"this machine has no device {device!r}; without one, the best available is taken")
    return chosen


def check_dtype(dtype: object) -> torch.dtype:
    """A type of torch, or its name. Raises `LoadError` for anything else."""
    if isinstance(dtype, torch.dtype):
        return dtype
    names: tuple[str, ...] = get_args(DTypeName)
    if dtype in names:
        found: torch.dtype = getattr(torch, str(dtype))
        return found
    hint = _SHORT.get(str(dtype)) or did_you_mean(str(dtype), names)
    raise LoadError(
        f"`dtype` is one of {', '.join(names)}, not {dtype!r:.60}" + (f"; did you mean {hint}?" if hint else "")
    )


def check_handed_over(dtype: object) -> None:
    """Raises `LoadError` for a type that a model which is passed as it is does not take."""
    if dtype in (INT8, torch.int8):
        raise LoadError(
            "weights are quantised to int8 when they are loaded, and a model that you pass is never changed: pass the "
            "folder that it came from"
        )


def default_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def default_dtype(device: torch.device) -> torch.dtype:
    """Half precision halves the memory traffic, but a CPU without bfloat16 instructions only emulates it."""
    match device.type:
        case "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        case "cpu":
            return torch.bfloat16 if _cpu_computes_in_bfloat16() else torch.float32
        case _:
            return torch.float16


def _cpu_computes_in_bfloat16() -> bool:
    return _cpu_has("avx512_bf16", "amx_bf16", "bf16")


def is_faster_in_bfloat16(weights_on: torch.device, dtype: torch.dtype) -> bool:
    """Whether weights of this type would take far less time in bfloat16: on a CPU with units for its products (AMX)."""
    return weights_on.type == "cpu" and dtype is torch.float32 and _cpu_has("amx_bf16")


def is_slow_in_bfloat16(weights_on: torch.device, dtype: torch.dtype) -> bool:
    """True if the weights are in bfloat16 on a CPU whose kernels take float32 alone."""
    return weights_on.type == "cpu" and dtype is torch.bfloat16 and can_pack() and not can_pack(torch.bfloat16)


def _cpu_has(*names: str) -> bool:
    # Older versions of torch have no `get_capabilities`.
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(bool(capabilities.get(name)) for name in names)
