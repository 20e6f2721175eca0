"""What the benchmarks measure with: a random model of about 135 M parameters and a tokenizer trained on the spot.

Random weights cost what trained ones cost, and no file has to be fetched. The tokenizer is trained on the
reference texts that come with Python, so that keys and English words take as few tokens as they would elsewhere.
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
    """The shape of a well-known 135 M model: 30 layers of 576, nine heads on three, 49k vocabulary, tied."""
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
