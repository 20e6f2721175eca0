"""The tokenizer: every word of the task, every number and every part of a tag is one token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

BEGIN: Final = "<|im_start|>"
END: Final = "<|im_end|>"
PART: Final = "<|endoftext|>"
TAGS: Final = ('<promise topic="', "<async>", "</async>", "<sync/>", "[Fork]", "[Child]")

_PIECES = r'" tokens="|"/>| ?\p{L}+| ?[#+]?\p{N}{1,3}|-[A-Z](?!\p{L})|\n|\s|[^\s\p{L}\p{N}]'
_TEMPLATE = (
    "{% for message in messages %}" + BEGIN + "{{ message['role'] }}\n{{ message['content'] }}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)


def train_tokenizer(texts: Iterable[str], *, size: int = 4096) -> Any:
    """The vocabulary is as large as the texts need, `size` at most. The same texts give the same tokenizer."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = Sequence(
        [Split(Regex(_PIECES), behavior="isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = ByteLevelDecoder()
    control = [PART, BEGIN, END, *TAGS]
    trainer = BpeTrainer(
        vocab_size=size, special_tokens=control, initial_alphabet=ByteLevel.alphabet(), show_progress=False,
        min_frequency=1,
    )  # fmt: skip
    backend.train_from_iterator(texts, trainer)
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in control])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=PART, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer
