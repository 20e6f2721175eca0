"""The engines that runs are recorded with: small random models in float64, and tokenizers built on the spot.

Nothing here comes from inside the package, so that a recorded run means the same before and after its modules move.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import AutoConfig

import pastalang

END = "<end>"
VOCABULARY = 512
HIDDEN = 32
CONTROL = ("<|im_start|>", "<|im_end|>", "<think>", "</think>")
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
TAGS = ('<promise topic="food" tokens="12"/>', '<promise topic="b" tokens="4"/>', "</async>", "<sync/>", "[Fork]")
LIKED = {'"': 1.5, ",": 1.0, "]": 1.0, "}": 1.0, " ": 1.0, END: 1.5, "</think>": 1.5, **dict.fromkeys(TAGS, 1.5)}

TEXT = """
The Norvik Aurora brings a 55 inch panel into a frame of brushed aluminium. Three HDMI inputs, one USB port. In stores
since 2024-03-18 for 649.00 EUR. The name of the brand is written on the box; the price is not. Ada Keller moved forty
pipelines to one scheduler and cut the nightly run from six hours to fifty minutes. The first answer is the right one,
the second answer is the other one. {"name": "tea", "price": 12.50, "kind": null, "in_stock": true, "tags": ["a", "b"]}
He said: "yes", and she said: "no". One, two, three, four. All that the waiter wanted was the water of the winter.
"""


@dataclass(frozen=True, slots=True)
class Rig:
    """`tokens`: `byte`, `bpe`, `chat` (bytes with a chat template that knows thoughts) or `tags` (bytes, and the
    tags of `auto` as words). `kept`: cells for prompts that outlive their request."""

    tokens: str = "byte"
    family: str = "llama"
    weights: int = 0
    cells: int = 8192
    kept: int = 0
    chunk: int | None = None
    requests: int | None = None

    def __str__(self) -> str:
        parts = [self.tokens, self.family, f"weights={self.weights}"]
        parts += [f"cells={self.cells}"] if self.cells != 8192 else []
        parts += [f"{name}={n}" for name in ("kept", "chunk", "requests") if (n := getattr(self, name))]
        return " ".join(parts)


def new_engine(rig: Rig) -> pastalang.Engine:
    tokenizer = tokenizer_of(rig.tokens)
    return pastalang.Engine.load(
        (model_of(rig.family, rig.weights, tokenizer), tokenizer), cells=rig.cells, prefix_cells=rig.kept,
        limits=pastalang.Limits(chunk=rig.chunk, requests=rig.requests),
    )  # fmt: skip


@cache
def shared_engine(rig: Rig) -> pastalang.Engine:
    """For runs that leave nothing behind: an engine that keeps prompts is not shared."""
    assert not rig.kept
    return new_engine(rig)


# ── tokenizers ───────────────────────────────────────────────────────────────────────────────────────────────


@cache
def tokenizer_of(kind: str) -> Any:
    backend = _trained() if kind == "bpe" else _bytes()
    backend.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    more = {"chat": CONTROL, "tags": TAGS}.get(kind, ())
    backend.add_tokens([AddedToken(one, special=False, normalized=False) for one in more])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, clean_up_tokenization_spaces=False)
    tokenizer.chat_template = CHAT if kind == "chat" else None
    return tokenizer


def _bytes() -> Any:
    backend = Tokenizer(BPE(vocab={letter: byte for byte, letter in enumerate(_spelling())}, merges=[]))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = ByteLevelDecoder()
    return backend


def _trained() -> Any:
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False)
    backend.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(vocab_size=400, initial_alphabet=sorted(_spelling()), show_progress=False)
    backend.train_from_iterator(TEXT.splitlines(), trainer)
    return backend


def _spelling() -> tuple[str, ...]:
    """How byte-level vocabularies write each byte."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte) if byte in printable else chr(next(others)) for byte in range(256))


# ── models ───────────────────────────────────────────────────────────────────────────────────────────────────


def model_of(family: str, seed: int, tokenizer: Any) -> Any:
    """Random weights under which plain letters are likelier than other bytes, so that answers can be read and end."""
    sizes = {
        "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 2 * HIDDEN, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": HIDDEN // 4, "tie_word_embeddings": False,
        "max_position_embeddings": 1 << 16, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
    }  # fmt: skip
    window = {"sliding_window": 24} if family == "mistral" else {}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes, **window), dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.empty_like(weight).normal_(0.0, 0.25, generator=generator)
            weight.copy_(noise if weight.dim() > 1 else 1.0 + 0.1 * noise)
        _prefer(model, dict(_liking(tokenizer)))
    return _in_float64(model)


def _prefer(model: Any, liking: dict[int, float]) -> None:
    """The first number of a state is the same for all tokens and never changes, so the head makes a bias of it."""
    for name, module in model.named_modules():
        if name.endswith(("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")):
            module.weight[:, 0] = 0.0
        if name.endswith(("v_proj", "o_proj")):
            module.weight.mul_(2.0)  # so that what is seen matters
        if name.endswith(("o_proj", "down_proj")):
            module.weight[0] = 0.0
    embeddings = model.get_input_embeddings().weight.mul_(4.0)
    embeddings[:, 0] = 4.0
    head = model.get_output_embeddings().weight.mul_(1.5)
    head[:, 0] = -4.0
    for token, weight in liking.items():
        head[token, 0] = weight


def _liking(tokenizer: Any) -> Iterator[tuple[int, float]]:
    for token in range(len(tokenizer)):
        text = tokenizer.decode([token])
        yield token, LIKED.get(text, 0.5 if text.isascii() and text.isprintable() else -4.0)


def _in_float64(model: Any) -> Any:
    """transformers computes norms in float32 whatever the dtype; here they are as wide as the weights."""
    model.double().eval()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = types.MethodType(_norm, module)
    return model


def _norm(self: Any, states: torch.Tensor) -> torch.Tensor:
    return torch.mul(self.weight, states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))
