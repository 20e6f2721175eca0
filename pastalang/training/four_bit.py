"""Frozen weights in 4 bits next to LoRA adapters (QLoRA): NF4, with scales that are quantised as well.

The output head, embeddings and norms are not quantised. What is saved in the end is what was trained: the weights that
4 bits stand for, plus the adapters, in the type that the model came in.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import torch
from torch import Tensor, nn

from pastalang.training.errors import BadData
from pastalang.training.settings import Precision

_NEEDED: Final = ("bitsandbytes", "accelerate")
_BLOCK, _NESTED = 64, 256  # weights of a scale, and scales of a scale of scales


def check_four_bit() -> None:
    """Raises `BadData` if a package is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise BadData(f"--load-in-4bit needs the package {missing[0]}: pip install 'pastalang[qlora]'")


def options_for(device: str, precision: Precision) -> dict[str, Any]:
    """What `from_pretrained` needs to make 4 bits of each weight while it loads them."""
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=_product_dtype(precision),
    )  # fmt: skip
    return {"quantization_config": config, "device_map": {"": device}}


def keep_gradients(model: Any) -> None:
    """On some processors, validation would change the layout of the weights to one that has no gradients."""
    for module in model.modules():
        if _is_four_bit(module):
            module.support_avx512bf16_for_cpu = False


def _product_dtype(precision: Precision) -> torch.dtype:
    return torch.float32 if precision is Precision.FLOAT32 else torch.bfloat16


def is_four_bit(model: Any) -> bool:
    return any(map(_is_four_bit, model.modules()))


def _is_four_bit(module: Any) -> bool:
    return isinstance(module, nn.Linear) and getattr(module.weight, "quant_state", None) is not None


# ── in full precision ────────────────────────────────────────────────────────────────────────────────────


def merged(model: Any, dtype: torch.dtype) -> Any:
    """A model on the CPU with the weights of `model` plus its adapters, to be saved. Leaves `model` as it is."""
    from transformers import AutoModelForCausalLM

    bare = model.get_base_model()
    config = bare.config.__class__.from_dict(bare.config.to_dict())
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        whole = AutoModelForCausalLM.from_config(config, dtype=dtype)
    whole.load_state_dict(_whole_weights(bare, dtype), strict=False, assign=True)
    whole.tie_weights()
    return whole


@torch.no_grad()
def _whole_weights(bare: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """By the names that they have without adapters."""
    found: dict[str, Tensor] = {}
    for place, module in bare.named_modules():
        if place.endswith(".base_layer") or ".lora_" in place:
            continue
        inner = getattr(module, "base_layer", module)
        for name, value in (*inner.named_parameters(recurse=False), *inner.named_buffers(recurse=False)):
            whole = _dequantised(inner) if name == "weight" and _is_four_bit(inner) else value.detach()
            if name == "weight" and inner is not module:
                whole = whole.float() + module.get_delta_weight(module.active_adapters[0]).float()
            found[f"{place}.{name}"] = whole.to("cpu", dtype if whole.is_floating_point() else whole.dtype)
    return found


def _dequantised(module: Any) -> Tensor:
    from bitsandbytes.functional import dequantize_4bit

    found: Tensor = dequantize_4bit(module.weight.data, module.weight.quant_state)
    return found


# ── the same memory without the weights ──────────────────────────────────────────────────────────────────


def put_stand_ins(model: Any, precision: Precision) -> None:
    """In place of the matrices that would be quantised: modules whose steps take the same memory."""
    head = model.get_output_embeddings()
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear) and child is not head:
                setattr(module, name, _StandIn(child, _product_dtype(precision)))


class _StandIn(nn.Linear):
    def __init__(self, old: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__(old.in_features, old.out_features, bias=False, device="meta")
        self._dtype = dtype
        self.bias = old.bias
        count = old.weight.numel()
        scales = count // _BLOCK
        size = count // 2 + scales + 4 * (scales // _NESTED)
        self.weight = nn.Parameter(torch.empty(size, dtype=torch.uint8, device=old.weight.device), requires_grad=False)

    def forward(self, input: Tensor) -> Tensor:
        shape = self.out_features, self.in_features
        found: Tensor = _Product.apply(input.to(self._dtype), shape)  # type: ignore[no-untyped-call]
        found = found if self.bias is None else found + self.bias.to(self._dtype)
        return found.to(input.dtype).clone()  # as peft does


class _Product(torch.autograd.Function):
    """Makes the whole matrix for the product, and once more for the gradient. Keeps neither."""

    @staticmethod
    def forward(context: Any, given: Tensor, shape: tuple[int, int]) -> Tensor:
        context.shape = shape
        return given @ torch.empty(shape, dtype=given.dtype, device=given.device).t()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        [gradient] = gradients
        return gradient @ torch.empty(context.shape, dtype=gradient.dtype, device=gradient.device), None
