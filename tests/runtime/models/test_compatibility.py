"""Models that would be decoded wrongly are refused by name, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.masking_utils import create_sliding_window_causal_mask
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.mistral import modeling_mistral

from pastalang.runtime.attention.clusters import ON_CPU, ON_GPU
from pastalang.runtime.attention.kv_cache import KVCache
from pastalang.runtime.attention.masks import LastLayer
from pastalang.runtime.models.compatibility import UnsupportedModel, check_config, check_logits
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.step import CellId, Empty, RowId, Run, StepBatch, TokenId
from tests.oracle.toy_models import Family, toy_model

PROMPT = StepBatch(
    (TokenId(5), TokenId(6)), (0, 1), (CellId(3), CellId(1)), (Run(RowId(0), 0, 2),), (1,), edits=(Empty(RowId(0)),)
)

SMALL = {"vocab_size": 64, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
LLAMA = {
    **SMALL, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip
GPT = {**SMALL, "n_embd": 32, "n_layer": 2, "n_head": 4}
WIDE = {**SMALL, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


Mask = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # whether a query (by place) attends to a key


def build(family: str, **options: Any) -> Any:
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **options))


LINEAR = "layers of the kind linear_attention"
REFUSED = [
    ("gpt2", GPT, "its positions are a learned table of 1024 rows"),
    ("opt", {**WIDE, "ffn_dim": 32, "word_embed_proj_dim": 32}, "its positions are a learned table"),
    ("gpt_neo", {**SMALL, "hidden_size": 32, "num_layers": 2, "attention_types": [[["global"], 2]], "num_heads": 4},
     "its positions are a learned table"),
    ("bloom", {**SMALL, "hidden_size": 32, "n_layer": 2, "n_head": 4}, "its positions are ALiBi biases"),
    ("mpt", {**SMALL, "d_model": 32, "n_layers": 2, "n_heads": 4}, "its positions are ALiBi biases"),
    ("falcon", WIDE, "its attention does not go through the attention interface"),
    ("falcon", {**WIDE, "alibi": True}, "its positions are ALiBi biases"),
    ("mamba", {**SMALL, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, LINEAR),
    ("rwkv", {**SMALL, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32}, "recurrent layers"),
    ("recurrent_gemma", LLAMA, LINEAR),
    ("llama4_text", LLAMA, "layers of the kind chunked_attention"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # what transformers says about slow kernels of models that we refuse
@pytest.mark.parametrize(
    ("family", "options", "reason"), REFUSED, ids=[f"{case[0]}-{at}" for at, case in enumerate(REFUSED)]
)
def test_a_model_that_cannot_be_told_what_to_see_is_refused_by_name(
    family: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedModel, match=f"^{family} cannot be used: .*{reason}") as caught:
        TransformersModel(build(family, **options), cells=32)
    assert caught.value.model == family


ROPE = {"rope_theta": 10_000.0, "original_max_position_embeddings": 128, "factor": 2.0}


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "dynamic", **ROPE},
        {"rope_type": "longrope", **ROPE, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
    ],
    ids=lambda rope: str(rope["rope_type"]),
)
def test_positions_that_are_rescaled_with_the_length_are_refused(rope: dict[str, Any]) -> None:
    config = AutoConfig.for_model("llama", **LLAMA, rope_parameters=rope)
    with pytest.raises(UnsupportedModel, match=f"rescaled as the sequence grows \\({rope['rope_type']}\\)"):
        check_config(config)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", **ROPE},
        {"rope_type": "yarn", **ROPE},
        {"rope_type": "llama3", **ROPE, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ],
    ids=lambda rope: str(rope["rope_type"]),
)
def test_positions_that_are_scaled_once_and_for_all_are_welcome(rope: dict[str, Any]) -> None:
    TransformersModel(build("llama", **LLAMA, rope_parameters=rope), cells=32)


def test_positions_on_several_axes_are_refused() -> None:
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 1, 1]}
    with pytest.raises(UnsupportedModel, match="several axes"):
        check_config(AutoConfig.for_model("llama", **LLAMA, rope_parameters=rope))


def test_an_encoder_and_decoder_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="an encoder and a decoder"):
        check_config(AutoConfig.for_model("t5", vocab_size=64))


def test_the_name_in_the_refusal_is_where_the_model_was_loaded_from() -> None:
    config = AutoConfig.for_model("bloom", **SMALL)
    config.name_or_path = "company/model-7b"
    with pytest.raises(UnsupportedModel, match=r"^company/model-7b cannot be used"):
        check_config(config)


@pytest.mark.parametrize("family", ["llama", "qwen2", "phi", "gpt_neox", "stablelm", "olmo2", "granite", "cohere"])
def test_ordinary_families_pass_the_start_up_check(family: str) -> None:
    options = {key: value for key, value in LLAMA.items() if family != "gpt_neox" or key != "num_key_value_heads"}
    for costs in (ON_CPU, ON_GPU):  # a GPU reads more cells than there are tokens
        TransformersModel(build(family, **options), cells=32, costs=costs)


def test_the_start_up_check_leaves_no_trace() -> None:
    model = toy_model()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    fast = TransformersModel(model, cells=32)
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert not fast.kv_cache.is_initialized


# ── models that no list names ────────────────────────────────────────────────────────────────────────────


def test_a_model_that_attends_in_its_own_way_is_refused() -> None:
    model = toy_model()
    model.model.layers[1].self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    with pytest.raises(UnsupportedModel, match="does not go through the attention interface"):
        TransformersModel(model, cells=32)


def test_a_model_that_ignores_positions_it_is_given_is_refused() -> None:
    model = toy_model()
    angles = model.model.rotary_emb.forward
    counter = iter(range(1000))

    def by_order_of_arrival(states: torch.Tensor, position_ids: torch.Tensor) -> Any:
        return angles(states, torch.tensor([[next(counter) for _ in range(position_ids.shape[1])]]))

    model.model.rotary_emb.forward = by_order_of_arrival
    with pytest.raises(UnsupportedModel, match="the queries of its layer 0 are not those of a plain text"):
        TransformersModel(model, cells=32)


def test_a_model_that_lets_neighbours_mix_is_refused() -> None:
    model = toy_model()
    mlp = model.model.layers[0].mlp
    inner = mlp.forward
    mlp.forward = lambda states: inner(states) + states.mean(dim=1, keepdim=True)
    with pytest.raises(UnsupportedModel, match="its logits depend on more than what a branch sees"):
        TransformersModel(model, cells=32)


MASKS = [
    (lambda query, key: (key <= query) & (query - key < 5), "a window of 4 tokens .* attends to the last 5 tokens"),
    (lambda query, key: key <= query, "a window of 4 tokens for its layer 0, and the layer attends to all tokens"),
    (lambda query, key: (key <= query) & ((query - key < 4) | (key < 2)), "attends to 6 of 8,192 tokens"),
    (lambda query, key: (key <= query) & (query // 100 == key // 100), "attends to the last 92 tokens"),
    (lambda query, key: abs(query - key) < 4, "in its layer 0, tokens attend to tokens that come after them"),
    (lambda query, key: torch.where(key <= query, 0.5, -1e30), "its layer 0 adds a bias of its own to the mask"),
]  # fmt: skip


@pytest.mark.parametrize(("mask", "reason"), MASKS)
def test_a_model_whose_masks_are_not_those_of_its_configuration_is_refused(
    mask: Mask, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def own(inputs_embeds: torch.Tensor, **rest: Any) -> torch.Tensor:
        tokens, kv_cache = inputs_embeds.shape[1], cache_in(rest)
        start = kv_cache.get_seq_length() if kv_cache is not None else 0
        values = mask(torch.arange(start, start + tokens)[:, None], torch.arange(start + tokens)[None])
        return values.expand(1, 1, -1, -1) if values.dtype is torch.float32 else values[None, None]

    monkeypatch.setattr(modeling_mistral, "create_sliding_window_causal_mask", own)
    with pytest.raises(UnsupportedModel, match=f"^mistral cannot be used: .*{reason}"):
        TransformersModel(toy_model(Family.MISTRAL, window=4, positions=8192), cells=32)


@pytest.mark.parametrize("window", [4, 1000, 4096, 100_000])
def test_windows_of_every_size_are_compared_without_a_text_of_their_length(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wider = lambda config, **rest: create_sliding_window_causal_mask(_with(config, sliding_window=window + 1), **rest)  # noqa: E731
    TransformersModel(toy_model(Family.GEMMA3, window=window, positions=1 << 17), cells=32)
    monkeypatch.setattr(modeling_gemma3, "create_sliding_window_causal_mask", wider)
    with pytest.raises(UnsupportedModel, match=f"layer 0, and the layer attends to the last {window + 1:,} tokens"):
        TransformersModel(toy_model(Family.GEMMA3, window=window, positions=1 << 17), cells=32)


def cache_in(arguments: Mapping[str, Any]) -> Any:
    """By its name in this version of transformers."""
    return next((value for name, value in arguments.items() if name in ("cache", "past_key_values")), None)


def _with(config: Any, **changes: Any) -> Any:
    other = copy(config)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def test_a_family_that_never_applies_its_window_is_refused() -> None:
    model = build("moshi", **LLAMA, ffn_dim=32, sliding_window=8)
    reason = (
        "its configuration names a window of 8 tokens for its layer 0, and the layer attends to all tokens before it"
    )
    with pytest.raises(UnsupportedModel, match=f"^moshi cannot be used: {reason}"):
        TransformersModel(model, cells=32)


def test_a_model_that_scales_its_queries_deep_in_a_text_by_their_place_is_refused() -> None:
    model = toy_model()
    attention = model.model.layers[1].self_attn
    inner = attention.forward

    def tempered(hidden_states: torch.Tensor, **rest: Any) -> Any:
        kv_cache = cache_in(rest)
        seen = 0 if kv_cache is None else kv_cache.get_seq_length()
        return inner(hidden_states * (2.0 if seen > 1000 else 1.0), **rest)

    attention.forward = tempered
    with pytest.raises(
        UnsupportedModel, match="at position 65,532, the queries of its layer 1 are not those of a plain"
    ):
        TransformersModel(model, cells=32)


# ── models that fail, or are not what they seem ──────────────────────────────────────────────────────────


def test_a_model_that_returns_tuples_is_made_to_return_what_is_read() -> None:
    expected = TransformersModel(toy_model(), cells=32).forward(PROMPT)
    model = toy_model()
    model.config.return_dict = False
    assert torch.equal(TransformersModel(model, cells=32).forward(PROMPT), expected)


def test_a_model_that_cannot_compute_in_a_precision_says_so() -> None:
    model = build("xglm", **SMALL, d_model=32, ffn_dim=32, num_layers=2, attention_heads=4).double()
    with pytest.raises(
        UnsupportedModel, match=r"^xglm cannot be used: its own forward pass fails in float64: value cannot"
    ):
        TransformersModel(model, cells=32)


@pytest.mark.filterwarnings("ignore")  # torch is moving its quantization elsewhere
def test_a_model_quantized_dynamically_is_refused_for_its_quantization() -> None:
    model = torch.ao.quantization.quantize_dynamic(toy_model(), {torch.nn.Linear}, dtype=torch.qint8)
    with pytest.raises(UnsupportedModel, match="its weights are quantized dynamically to int8"):
        TransformersModel(model, cells=32)


def test_a_quantized_model_that_differs_is_refused_with_the_likely_cause() -> None:
    model = toy_model()
    model.config.quantization_config = {"quant_method": "some_8bit"}
    mlp = model.model.layers[0].mlp
    inner = mlp.forward
    mlp.forward = lambda states: inner(states) + states.mean(dim=1, keepdim=True)
    with pytest.raises(UnsupportedModel, match=r"of their range\); its weights are quantized \(some_8bit\)"):
        TransformersModel(model, cells=32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_memory_that_is_read_where_it_was_never_written_fails_the_start_up_check(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = KVCache.update

    def next_to_it(pool: KVCache, *states: Any, **options: Any) -> Any:
        keys, values = update(pool, *states, **options)
        return keys.roll(1, dims=2), values.roll(1, dims=2)

    fast, model = TransformersModel(toy_model(dtype=dtype), cells=32), toy_model(dtype=dtype)
    check_logits(fast, model)
    monkeypatch.setattr(KVCache, "update", next_to_it)
    with pytest.raises(UnsupportedModel):
        check_logits(fast, model)


def test_a_last_layer_that_leaves_out_the_wrong_tokens_fails_the_start_up_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spread = LastLayer.spread
    monkeypatch.setattr(LastLayer, "spread", lambda last, states: spread(last, states).roll(1, dims=1))
    with pytest.raises(UnsupportedModel):
        TransformersModel(toy_model(), cells=32)


class Routed(torch.nn.Linear):
    def forward(self, states: torch.Tensor) -> Any:
        return super().forward(states), states.sum(-1)


class Mixing(torch.nn.Linear):
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return super().forward(states).cumsum(dim=1)


class OfManyTokens(torch.nn.Linear):
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        assert states.shape[1] > 12
        return super().forward(states)


@pytest.mark.parametrize(
    ("part", "is_spared"), [(torch.nn.Linear, True), (Routed, False), (Mixing, False), (OfManyTokens, False)]
)
def test_the_last_layer_is_spared_only_if_it_sees_one_token_at_a_time(
    part: type[torch.nn.Linear], is_spared: bool
) -> None:
    model = toy_model()
    last = model.model.layers[-1]
    last.mlp = part(model.config.hidden_size, model.config.hidden_size)
    TransformersModel(model, cells=32, check=False)
    assert bool(last.mlp._forward_hooks) is is_spared
