"""The model of a run, from the folder or the hub that it comes from to the folder that it is saved to.

Frozen weights may have 4 bits next to LoRA adapters (QLoRA): NF4, with scales that are quantised as well. The output
head, embeddings and norms are not quantised. What is saved in the end is what was trained: the weights that 4 bits
stand for, plus the adapters, in the type that the model came in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from pastalang.runtime.attention.masks import layer_windows
from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.adapters import Adapter, adapter_for, read_adapter, sign_adapter
from pastalang.runtime.models.compatibility import check_config
from pastalang.runtime.models.load_errors import as_load_error, quietly
from pastalang.runtime.models.loading import default_device, place_of
from pastalang.runtime.models.source import check_source
from pastalang.runtime.models.training_note import FILE, TrainingNote
from pastalang.training.errors import BadData
from pastalang.training.run_folder import writing
from pastalang.training.settings import Precision


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters in place of whole weights. `targets` are names of modules; none: all linear ones."""

    rank: int
    alpha: float | None = None  # None: twice the rank
    dropout: float = 0.0
    targets: tuple[str, ...] = ()
    is_four_bit: bool = False  # the weights that they are added to
    start: Path | None = None  # an adapter that is gone on from

    @staticmethod
    def going_on(start: Path, *, dropout: float, is_four_bit: bool) -> Lora:
        """With the rank, the alpha and the modules of the adapter in a folder. Raises `LoadError`."""
        adapter = read_adapter(start)
        ranks = {len(down) for down, _ in adapter.pairs.values()}
        if len(ranks) != 1 or adapter.by_root:
            raise LoadError(f"the adapter in {start} cannot be gone on from: its scale is no plain alpha / rank")
        return Lora(ranks.pop(), adapter.alpha, dropout, tuple(sorted(adapter.pairs)), is_four_bit, start)

    def check(self) -> None:
        """Raises `BadData` if a package is missing, or for an adapter that does nothing."""
        if self.alpha == 0:
            raise BadData("--lora-alpha has to be above 0: the adapter is multiplied by it")
        if find_spec("peft") is None:
            raise BadData("--lora needs the package peft: pip install 'pastalang[lora]'")
        logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # peft imports it, and it recommends other packages
        if self.is_four_bit:
            check_four_bit()

    def __str__(self) -> str:
        bits = ", 4 bits" if self.is_four_bit else ""
        return f"{self.rank}, {self.alpha}, {self.dropout}, {' '.join(self.targets)}{bits}"


@dataclass(frozen=True, slots=True)
class Base:
    """What is known of a model before its weights are loaded."""

    source: str
    config: Any
    tokenizer: Any

    @property
    def window(self) -> int | None:
        """Of its sliding layers; None without such layers."""
        windows = layer_windows(self.config.get_text_config())
        return next((window for window in windows if window is not None), None)

    @property
    def last_position(self) -> int:
        return int(self.config.get_text_config().max_position_embeddings) - 1

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights, and of those that are saved."""
        found = getattr(self.config, "dtype", None)
        return found if isinstance(found, torch.dtype) else torch.float32

    def cache_bytes(self, cells: int) -> int:
        """Of the keys and values of so many tokens, in float32."""
        text = self.config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return int(cells * text.num_hidden_layers * 2 * heads * width * 4)

    def load(self, *, device: str | None, seed: int, lora: Lora | None, precision: Precision = Precision.MIXED) -> Any:
        """The model, ready for training: in float32, apart from the frozen weights of `Precision.BFLOAT16`."""
        from transformers import AutoModelForCausalLM

        dtype, place = self._dtype_to_load(lora, precision), device or default_device()
        is_four_bit = lora is not None and lora.is_four_bit
        with as_load_error(self.source), quietly():
            options = options_for(place, precision) if is_four_bit else {}
            model = AutoModelForCausalLM.from_pretrained(place_of(self.source), dtype=dtype, **options)
        if is_four_bit:
            keep_gradients(model)
        else:
            model = model.to(place)
        torch.manual_seed(seed)
        if lora is None or lora.start is None:
            return model if lora is None else _with_lora(model, lora)
        start = read_adapter(lora.start) if is_four_bit else adapter_for(model, lora.start)
        return _started(_with_lora(model, lora), start)

    def without_weights(self, lora: Lora | None, precision: Precision) -> Any:
        """The model as `load` gives it, with weights of any value."""
        from transformers import AutoModelForCausalLM

        config = deepcopy(self.config)  # in which transformers notes the type of the weights
        with quietly():
            model = AutoModelForCausalLM.from_config(config, dtype=self._dtype_to_load(lora, precision))
        if lora is not None and lora.is_four_bit:
            put_stand_ins(model, precision)
        return model if lora is None else _with_lora(model, lora)

    def _dtype_to_load(self, lora: Lora | None, precision: Precision) -> torch.dtype:
        """Raises `BadData` if weights that nobody trains would be rounded."""
        if lora is None or precision is not Precision.BFLOAT16:
            return torch.float32
        if self.dtype is not torch.bfloat16:
            name = str(self.dtype).removeprefix("torch.")
            raise BadData(
                f"--precision bfloat16 would round the weights of {self.source}, which are {name} and which --lora "
                "does not train: leave it out"
            )
        return torch.bfloat16


def read_base(source: str) -> Base:
    """Raises `LoadError` or `UnsupportedModel`."""
    from transformers import AutoConfig, AutoTokenizer

    check_source(source)
    place = place_of(source)
    with as_load_error(source):
        config = AutoConfig.from_pretrained(place)
        check_config(config)
        return Base(source, config, AutoTokenizer.from_pretrained(place))


def save(
    model: Any, tokenizer: Any, note: TrainingNote, folder: Path, *, dtype: torch.dtype | None = None,
    adapter: Path | None = None, besides: Callable[[Any], None] | None = None,
) -> Any:  # fmt: skip
    """Save whole weights and return the model that has them; LoRA adapters are merged.

    `adapter` is a folder for the adapters themselves; `besides` saves what belongs to the weights that it is given. A
    model in 4 bits is returned as it is.
    """
    with writing(folder, "make room and give the same command again"), quietly():
        (folder / FILE).unlink(missing_ok=True)  # written last: its presence says that the folder is complete
        saved = model
        if hasattr(model, "merge_and_unload"):
            if adapter is not None:
                _save_adapter(model, note, adapter)
            saved = merged(model, dtype or torch.float32) if is_four_bit(model) else model.merge_and_unload()
        saved = saved if dtype is None else saved.to(dtype)
        saved.save_pretrained(folder)
        if besides is not None:
            besides(saved)
        tokenizer.save_pretrained(folder)
        note.write(folder)
    return model if is_four_bit(model) else saved


def _save_adapter(model: Any, note: TrainingNote, folder: Path) -> None:
    """As peft writes it, with what `Engine.load(..., adapter=folder)` asks for. Weights in 4 bits leave no sample."""
    model.save_pretrained(folder)
    if not is_four_bit(model):
        sign_adapter(folder, model.get_base_model())
    note.write(folder)


def _with_lora(model: Any, lora: Lora) -> Any:
    lora.check()
    from peft import LoraConfig, get_peft_model

    found = LoraConfig(
        r=lora.rank, lora_alpha=2 * lora.rank if lora.alpha is None else lora.alpha, lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or "all-linear", task_type="CAUSAL_LM",
    )  # fmt: skip
    try:
        return get_peft_model(model, found)
    except ValueError as problem:  # a name of a module that the model does not have
        reason = next(iter(str(problem).splitlines()), "")
        raise BadData(f"--lora-targets: {reason}") from problem


def _started(model: Any, start: Adapter) -> Any:
    """The model with the pairs of an adapter in place of fresh ones."""
    modules = dict(model.get_base_model().named_modules())
    with torch.no_grad():
        for name, pair in start.pairs.items():
            for fresh, known in zip((modules[name].lora_A, modules[name].lora_B), pair, strict=True):
                fresh["default"].weight.copy_(known)
    return model


# ── weights in 4 bits ────────────────────────────────────────────────────────────────────────────────────────


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
