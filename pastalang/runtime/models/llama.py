"""Runs weights of the Llama shape with a forward pass of our own, which reads less and is ready sooner.

    states ── norm ── queries, keys, values ── rotated ── attention ── + ── norm ── gate, up ── down ── + ── next layer

Queries, keys and values are one product, and so are gate and up. A step of a few tokens does little more than read all
weights, so the fewer calls around that the better. No module of transformers is needed: importing them takes longer
than loading a small model. Whatever deviates from the plain shape is left to `TransformersModel`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm, silu

from pastalang.runtime.attention.attention import attend, ready_kernels
from pastalang.runtime.attention.clusters import Costs
from pastalang.runtime.attention.kv_cache import AttentionMemory, KVCache
from pastalang.runtime.attention.masks import StepMasks
from pastalang.runtime.models.carried import EVERYTHING, Carried
from pastalang.runtime.models.packed import PACKED_TYPES, PackedLinear, can_pack, compile_kernels
from pastalang.runtime.models.probe_tokens import ProbeTokens
from pastalang.runtime.models.quantized import MixedLinear, QuantizedLinear
from pastalang.runtime.step import StepBatch

Product: TypeAlias = Callable[[Tensor], Tensor]

_FILE: Final = "model.safetensors"
EMBEDDING, NORM, HEAD = "model.embed_tokens", "model.norm", "lm_head"
_PLAIN: Final[Mapping[str, object]] = {
    "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
    "pretraining_tp": 1, "quantization_config": None, "auto_map": None, "rope_scaling": None,
    "partial_rotary_factor": 1.0, "layer_types": None, "sliding_window": None,
}  # fmt: skip
_THETA: Final = 10_000.0


@dataclass(frozen=True, slots=True)
class LlamaShape:
    vocabulary: int
    positions: int
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    epsilon: float
    theta: float
    is_tied: bool


def plain_llama(folder: str | Path) -> LlamaShape | None:
    """The shape of the weights in a folder; None if they have another one, or if that cannot be read here."""
    path = Path(folder)
    try:
        config = json.loads((path / "config.json").read_text("utf-8"))
        if not (path / _FILE).is_file() or any(config.get(key, plain) != plain for key, plain in _PLAIN.items()):
            return None
        rope = config.get("rope_parameters") or {}
        if "architectures" not in config or not rope.keys() <= {"rope_type", "rope_theta"}:
            return None
        if rope.get("rope_type", "default") != "default":
            return None
        shape = _shape(config, rope)
        with safe_open(path / _FILE, framework="pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except Exception:  # anything: whoever reads it with transformers says what is wrong with it
        return None
    return shape if found == dict(_tensors(shape)) else None


def _shape(config: Mapping[str, Any], rope: Mapping[str, Any]) -> LlamaShape:
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    return LlamaShape(
        vocabulary=config["vocab_size"], positions=config["max_position_embeddings"], hidden=hidden,
        inner=config["intermediate_size"], layers=config["num_hidden_layers"], heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads, head=config.get("head_dim") or hidden // heads,
        epsilon=config["rms_norm_eps"], theta=rope.get("rope_theta") or config.get("rope_theta") or _THETA,
        is_tied=config.get("tie_word_embeddings", False),
    )  # fmt: skip


def _tensors(shape: LlamaShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names and shapes of all tensors."""
    hidden, queries, keys = shape.hidden, shape.heads * shape.head, shape.kv_heads * shape.head
    yield f"{EMBEDDING}.weight", (shape.vocabulary, hidden)
    for layer in map(name_of_layer, range(shape.layers)):
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield f"{layer}.self_attn.q_proj.weight", (queries, hidden)
        yield f"{layer}.self_attn.k_proj.weight", (keys, hidden)
        yield f"{layer}.self_attn.v_proj.weight", (keys, hidden)
        yield f"{layer}.self_attn.o_proj.weight", (hidden, queries)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        yield f"{layer}.mlp.gate_proj.weight", (shape.inner, hidden)
        yield f"{layer}.mlp.up_proj.weight", (shape.inner, hidden)
        yield f"{layer}.mlp.down_proj.weight", (hidden, shape.inner)
    yield f"{NORM}.weight", (hidden,)
    if not shape.is_tied:
        yield f"{HEAD}.weight", (shape.vocabulary, hidden)


class LlamaWeights(nn.Module):
    """The tensors as modules, under the names that transformers and adapters have for them."""

    def __init__(self, shape: LlamaShape, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.shape = shape
        for name, _ in _tensors(shape):
            self._place(name, nn.Parameter(tensors[name], requires_grad=False))
        if shape.is_tied:
            self._place(f"{HEAD}.weight", self.get_input_embeddings().weight)
        self.dtype, self.device = tensors[f"{EMBEDDING}.weight"].dtype, tensors[f"{EMBEDDING}.weight"].device

    def get_input_embeddings(self) -> Any:
        return self.get_submodule(EMBEDDING)

    def take(self, *names: str) -> Tensor:
        """The tensors of these modules as one, which are no longer here."""
        found = [self.get_submodule(name)._parameters.pop("weight") for name in names]
        tensors = [one.detach() for one in found if one is not None]
        return tensors[0] if len(tensors) == 1 else torch.cat(tensors)

    def put(self, name: str, weight: Tensor) -> None:
        """Gives a module the tensor that was taken from it, or another."""
        self.get_submodule(name).register_parameter("weight", nn.Parameter(weight, requires_grad=False))

    def _place(self, name: str, weight: nn.Parameter) -> None:
        *modules, last = name.split(".")
        here: nn.Module = self
        for part in modules:
            if part not in here._modules:
                here.add_module(part, nn.Module())
            here = here.get_submodule(part)
        here.register_parameter(last, weight)


def load_llama(folder: str | Path, shape: LlamaShape, *, device: torch.device, dtype: torch.dtype) -> LlamaWeights:
    with safe_open(Path(folder) / _FILE, framework="pt", device=str(device)) as file:
        return LlamaWeights(shape, {name: file.get_tensor(name).to(dtype) for name in file.keys()})  # noqa: SIM118


def name_of_layer(number: int) -> str:
    return f"model.layers.{number}"


class _Layer(NamedTuple):
    first_norm: Tensor
    queries_keys_values: Product
    out: Product
    second_norm: Tensor
    gate_up: Product
    down: Product


class LlamaModel:
    """Owns the KV cache and the view rows. Takes the tensors out of `weights`, layer by layer, so that few of them are
    in memory twice. `packed`: in the layout that the kernels of a CPU read fastest; `in_int8`: with these weights."""

    carried: Carried = EVERYTHING

    def __init__(
        self, weights: LlamaWeights, *, cells: int, packed: bool = True, in_int8: bool = False,
        probe_tokens: ProbeTokens | None = None, costs: Costs | None = None,
    ) -> None:  # fmt: skip
        self.shape = shape = weights.shape
        self.cells, self.vocabulary, self.max_position = cells, shape.vocabulary, shape.positions - 1
        self.dtype, self.device = weights.dtype, weights.device
        self.probe_tokens, self.in_int8 = probe_tokens, in_int8
        packed = packed and self.device.type == "cpu" and self.dtype in PACKED_TYPES and can_pack(self.dtype)
        product = QuantizedLinear if in_int8 else PackedLinear if packed else _plain
        self._embedding: Tensor = weights.get_input_embeddings().weight
        down = MixedLinear if in_int8 else product
        self._layers = tuple(_layer_of(weights, number, product, down) for number in range(shape.layers))
        self._norm = weights.take(NORM)
        self._head = product(weights.take(HEAD))
        self._rows_for: Callable[[int], int] = self._head.rows_for if isinstance(self._head, PackedLinear) else int
        exponents = torch.arange(0, shape.head, 2, dtype=torch.int64).float() / shape.head
        self._frequencies = (1.0 / shape.theta**exponents).to(self.device)
        self._memory = AttentionMemory(
            (None,) * shape.layers, cells=cells, dtype=self.dtype, device=self.device, costs=costs
        )

    @property
    def kv_cache(self) -> KVCache:
        return self._memory.kv_cache

    def compile_kernels(self) -> Iterator[None]:
        return compile_kernels([self._head, *chain(*self._layers)])

    @torch.inference_mode()
    def forward(self, batch: StepBatch) -> Tensor:
        """Feeds one step. Returns the logits of the wanted tokens: (wanted, vocabulary)."""
        visibility, masks = self._memory.begin(batch)
        added = self._rows_for(len(batch)) - len(batch)  # once, and not for each product
        has_probes = self.probe_tokens is not None and max(batch.tokens) >= self.vocabulary
        states = self._embedded(torch.tensor((*batch.tokens, *(0,) * added), device=self.device), has_probes=has_probes)
        rotary = self._rotary(torch.tensor(batch.positions, device=self.device))
        last = len(self._layers) - 1
        with ready_kernels(self.device):
            for index, layer in enumerate(self._layers):
                states = self._fed(layer, index, states, rotary, masks, is_last=index == last)
        if masks.last is None:
            states = states[torch.tensor(batch.wanted, dtype=torch.long, device=self.device)]
        logits = self._head(self._normed(states, self._norm))
        self._memory.end(batch, visibility)
        return logits

    def _fed(
        self, layer: _Layer, index: int, states: Tensor, rotary: tuple[Tensor, Tensor], masks: StepMasks,
        *, is_last: bool,
    ) -> Tensor:  # fmt: skip
        """What a layer makes of the states, (tokens, hidden); the last one only of those whose logits are wanted.

        States after those of the tokens see nothing, and are not seen."""
        shape, placed = self.shape, self.shape.heads + self.shape.kv_heads
        parts = layer.queries_keys_values(self._normed(states, layer.first_norm))[: masks.tokens]
        parts = parts.view(masks.tokens, -1, shape.head)
        turned = _at_positions(parts[:, :placed], *rotary).transpose(0, 1)[None]
        queries = turned[:, : shape.heads]
        keys, values = self.kv_cache.update(
            turned[:, shape.heads :], parts[:, placed:].transpose(0, 1)[None], index
        )  # fmt: skip
        if is_last and masks.last is not None:
            wanted, masks = masks.last.wanted, masks.last.masks
            queries, states = queries.index_select(2, wanted), states.index_select(0, wanted)
        found = attend(masks, None, queries, keys, values, scaling=shape.head**-0.5)
        states[: len(found)].add_(layer.out(found.flatten(1)))
        gate, up = layer.gate_up(self._normed(states, layer.second_norm)).chunk(2, dim=-1)
        return layer.down(silu(gate).mul_(up)).add_(states)

    def _embedded(self, tokens: Tensor, *, has_probes: bool) -> Tensor:
        if self.probe_tokens is None or not has_probes:
            return self._embedding[tokens]
        probes = self.probe_tokens.rows.flatten(0, 1)
        is_probe = tokens >= self.vocabulary
        states = self._embedding[tokens.masked_fill(is_probe, 0)]
        states[is_probe] = probes[tokens[is_probe] - self.vocabulary].to(states.dtype)
        return states

    def _rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and signed sine, (tokens, 1, head). Angles are in float32, as the weights were trained with."""
        angles = positions[:, None].float() * self._frequencies
        cosine, sine = angles.cos(), angles.sin()
        return (
            torch.cat([cosine, cosine], dim=-1)[:, None].to(self.dtype),
            torch.cat([-sine, sine], dim=-1)[:, None].to(self.dtype),
        )

    def _normed(self, states: Tensor, weight: Tensor) -> Tensor:
        if self.dtype in (torch.float32, torch.float64) or self.device.type == "cuda":  # there, one kernel
            return rms_norm(states, (self.shape.hidden,), weight, self.shape.epsilon)
        full = states.float()  # half precision is rounded where the weights were trained to be
        return weight * (full * torch.rsqrt(full.square().mean(-1, keepdim=True) + self.shape.epsilon)).to(self.dtype)


def _at_positions(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = states.chunk(2, dim=-1)
    return torch.cat([second, first], dim=-1).mul_(sine).add_(states * cosine)


def _layer_of(
    weights: LlamaWeights, number: int, product: Callable[[Tensor], Product], down: Callable[[Tensor], Product]
) -> _Layer:
    name = name_of_layer(number)
    attention, forward = f"{name}.self_attn", f"{name}.mlp"
    projections = (f"{attention}.q_proj", f"{attention}.k_proj", f"{attention}.v_proj")
    return _Layer(
        weights.take(f"{name}.input_layernorm"), product(weights.take(*projections)),
        product(weights.take(f"{attention}.o_proj")), weights.take(f"{name}.post_attention_layernorm"),
        product(weights.take(f"{forward}.gate_proj", f"{forward}.up_proj")),
        down(weights.take(f"{forward}.down_proj")),
    )  # fmt: skip


def _plain(weight: Tensor) -> Product:
    return lambda states: linear(states, weight)
