"""The model and the tokenizer of the benchmarks: random weights, about 135 M parameters, and a freshly trained BPE.

Random weights cost the same time as trained ones and need no download. The tokenizer is trained on the reference texts
that come with Python, so keys and English words take about as few tokens as with a real one.
"""

from __future__ import annotations

from pydoc_data.topics import topics
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 8192


def make_tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<end>"], initial_alphabet=alphabet)
    backend.train_from_iterator(topics.values(), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", pad_token="<end>")


def make_model(*, dtype: torch.dtype = torch.bfloat16, layers: int = 30, vocabulary: int = 49_152) -> Any:
    """The shape of a common 135 M model: 30 layers of 576, nine heads on three, a vocabulary of 49k, tied weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).to(dtype).eval()


def make_documents(count: int, *, tokens: int, tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """Different texts of about `tokens` tokens each, cut from the same reference."""
    ids = tokenizer("\n".join(topics.values()), add_special_tokens=False)["input_ids"]
    step = max(tokens, (len(ids) - tokens) // count)
    return [tokenizer.decode(ids[(n * step) % (len(ids) - tokens) :][:tokens]) for n in range(count)]
