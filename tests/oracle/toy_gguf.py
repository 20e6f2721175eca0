"""Tiny GGUF files for tests, with the weights of a toy model of the family Llama and a tokenizer of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.oracle.toy_models import toy_model

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(
    path: Path, *, kind: str = "F32", seed: int = 0, tokenizer: bool = True, renamed: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None, vocabulary: int = 320,
) -> Any:  # fmt: skip
    """Writes the file and returns the model whose weights it has. `renamed`: parts of names of its tensors."""
    import gguf

    model = toy_model(seed=seed, vocabulary=vocabulary)
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("toy")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    for name, value in (more or {}).items():
        writer.add_uint16(name, value)
    if tokenizer:
        _add_tokenizer(writer)
    chosen = gguf.GGMLQuantizationType[kind]
    for name, weight in model.state_dict().items():
        values = _permuted(name, weight.numpy(), config)
        type = chosen if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(_name(name, renamed or {}), gguf.quantize(values, type), raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _name(name: str, renamed: Mapping[str, str]) -> str:
    found = name.replace("model.layers.", "blk.")
    for part, its in _NAMES.items():
        found = found.replace(f"{part}.weight", f"{its}.weight")
    for part, its in renamed.items():
        found = found.replace(part, its)
    return found


def _permuted(name: str, weight: Any, config: Any) -> Any:
    """The queries and keys of Llama are stored with the halves of their rotation interleaved."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((count for part, count in heads.items() if part in name), None)
    if count is None:
        return np.ascontiguousarray(weight)
    halves = weight.reshape(count, 2, weight.shape[0] // count // 2, weight.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


def _add_tokenizer(writer: Any) -> None:
    known = byte_tokenizer(words=["ab"])  # a tokenizer without merges is refused
    tokens = known.convert_ids_to_tokens(range(len(known)))
    special = set(known.all_special_tokens) | set(known.get_added_vocab())
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(known.eos_token_id)
    writer.add_chat_template(known.chat_template or TEMPLATE)
