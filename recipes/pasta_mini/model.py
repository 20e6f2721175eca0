"""The fresh model and its tokenizer, before any training.

The model has the shape of Llama. Among its random weights are circuits that repeat text:

    first layer     one head looks one place back and notes which token stands there, in directions of its own
    second layer    heads look for the places after earlier occurrences of this token, and say what stands there
    other layers    heads say what they look at, and have to learn where to look

Transformers find these circuits by themselves, after billions of tokens of text. A small model that extracts values
needs them before anything else, so it starts with them; training is free to change every weight.

A word has the same tokens wherever it stands: in a title, after a quote, before a comma. So white space, digits and
punctuation are tokens of their own, and copying a value is repeating its tokens. Only a line break takes the
indentation after it along: no value holds one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SIZE = 4096
BEGIN = "<|im_start|>"
END = "<|im_end|>"
PART = "<|endoftext|>"

_APART = r"\n *|\s|\p{N}|[^\s\p{L}\p{M}\p{N}]"
_TEMPLATE = (
    "{% for message in messages %}" + BEGIN + "{{ message['role'] }}\n{{ message['content'] }}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)

POSITIONS = 8192
_TURNS = 1_000_000.0  # slow rotations, so that a token is recognised however far away it stands

_WIDTH = 0.05  # of the embeddings
_STEADY = 4.0  # how far the one coordinate that all tokens share stands out
_SHARPNESS = 2.0  # of the head that looks one place back
_MATCH = 1.7  # of the heads that look for a token
_NOTE, _SAY, _HINT = 0.1, 0.5, 0.1  # how loud: the note, what follows the match, what other heads look at
_REPEATING = (0, 1)  # the heads of the second layer


def fresh_model(vocabulary: int, *, end: int, seed: int, hidden: int = 256, layers: int = 6, heads: int = 4) -> Any:
    """6 million parameters at the default sizes and a vocabulary of 4,096."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=POSITIONS,
        rope_theta=_TURNS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    give_head_start(model, seed=seed)
    return model


@torch.no_grad()
def give_head_start(model: Any, *, seed: int) -> None:
    """For models of Llama's shape with as many key heads as heads and tied embeddings."""
    config = model.config
    random = torch.Generator().manual_seed(seed)
    size = config.hidden_size // config.num_attention_heads
    assert config.num_key_value_heads == config.num_attention_heads and config.tie_word_embeddings
    embeddings = model.get_input_embeddings().weight
    embeddings.normal_(0, _WIDTH, generator=random)
    embeddings[:, 0] = _STEADY * _WIDTH
    for layer in model.model.layers:
        for head in range(config.num_attention_heads):
            _say_what_is_seen(layer.self_attn, head, size, random, loud=_HINT)
    note, noted = _orthonormal(size, config.hidden_size, random), _orthonormal(size, config.hidden_size, random)
    frequencies = float(config.rope_parameters["rope_theta"]) ** -(torch.arange(size // 2) * 2 / size)
    _look_one_back(model.model.layers[0].self_attn, size, note, noted, frequencies)
    for head in _REPEATING:
        _look_after_the_same(model.model.layers[1].self_attn, head, size, note, noted, frequencies)
        _say_what_is_seen(model.model.layers[1].self_attn, head, size, random, loud=_SAY)


def _look_one_back(attention: Any, size: int, note: Tensor, noted: Tensor, frequencies: Tensor) -> None:
    """Turned by one place, the shared coordinate meets itself at the place before; fast rotations tell it apart."""
    query, key = torch.zeros(size, note.shape[1]), torch.zeros(size, note.shape[1])
    fast = torch.arange(size // 4)
    query[fast, 0] = _SHARPNESS
    key[fast, 0] = _SHARPNESS * frequencies[fast].cos()
    key[fast + size // 2, 0] = _SHARPNESS * frequencies[fast].sin()
    attention.q_proj.weight[:size], attention.k_proj.weight[:size] = query, key
    attention.v_proj.weight[:size], attention.o_proj.weight[:, :size] = note, _NOTE * noted.T


def _look_after_the_same(
    attention: Any, head: int, size: int, note: Tensor, noted: Tensor, frequencies: Tensor
) -> None:
    """This token matches the note at the place after an earlier one; slow rotations keep that at any distance."""
    query, key = torch.zeros(size, note.shape[1]), torch.zeros(size, note.shape[1])
    slow = torch.arange(size // 2)[frequencies < 0.005]
    places = torch.cat((slow, slow + size // 2))
    query[places], key[places] = _MATCH * note[places], _MATCH * noted[places]
    here = slice(head * size, (head + 1) * size)
    attention.q_proj.weight[here], attention.k_proj.weight[here] = query, key


def _say_what_is_seen(attention: Any, head: int, size: int, random: torch.Generator, *, loud: float) -> None:
    seen = _orthonormal(size, attention.v_proj.weight.shape[1], random)
    here = slice(head * size, (head + 1) * size)
    attention.v_proj.weight[here], attention.o_proj.weight[:, here] = seen, loud * seen.T


def _orthonormal(rows: int, columns: int, random: torch.Generator) -> Tensor:
    """Rows at right angles to one another and to the shared coordinate."""
    drawn = torch.randn(columns, rows, generator=random)
    drawn[0] = 0
    turned: Tensor = torch.linalg.qr(drawn).Q.T
    return turned


def train_tokenizer(texts: Iterable[str], *, size: int = SIZE) -> Any:
    """The same texts give the same tokenizer."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = Sequence(
        [Split(Regex(_APART), behavior="isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = ByteLevelDecoder()
    control = [AddedToken(name, special=True, normalized=False) for name in (PART, BEGIN, END)]
    trainer = BpeTrainer(
        vocab_size=size, special_tokens=control, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=PART, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer
