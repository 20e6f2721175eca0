"""The tokenizer of pasta-mini: texts come in, a byte-level BPE with a chat template goes out.

A word has the same tokens wherever it stands: in a title, behind a quote, before a comma. So white space, digits and
punctuation are tokens of their own, and copying a value is repeating its tokens. Only a line break takes the
indentation behind it along: no value holds one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

SIZE = 4096
BEGIN = "<|im_start|>"
END = "<|im_end|>"
PART = "<|endoftext|>"

_APART = r"\n *|\s|\p{N}|[^\s\p{L}\p{M}\p{N}]"
_TEMPLATE = (
    "{% for message in messages %}" + BEGIN + "{{ message['role'] }}\n{{ message['content'] }}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)


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
