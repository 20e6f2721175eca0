"""The tokenizer: words joined to the space before them, in the same pieces with and without it.

    title     · Norvika Coffee, 12.5 oz        ` Nor` `vika` ` Coffee` `,` ` 12` `.` `5` ` oz`
    answer    "Brand": "Norvika",              `"` `Brand` `":` ` "` `Nor` `vika` `"`

Copying a value has to repeat its tokens. So the pieces of words are learned without spaces, and only then are pieces
that begin words joined to the space: the merges with a space come last, and a word is cut at the same places wherever
it stands. `Twins` says which token is which other one with a space, so that a model can begin with both alike.

Digits are read in threes from the right, so `1,250` and `1250` are both `1` and `250`. The text around the values of a
JSON answer is few tokens. The quote that ends a value is always a token of its own, and so is each tag of a thread.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

Twins: TypeAlias = dict[int, int]  # a token that begins with a space -> the same token without it

SIZE = 6144
BEGIN = "<|im_start|>"
END = "<|im_end|>"
PART = "<|endoftext|>"
TAGS = ("<promise", "<sync/>", "<async>", "</async>", "[Fork]")
CONTROL = (PART, BEGIN, END, *TAGS)

_SPACE = "Ġ"  # how byte-level vocabularies write a space
_PIECES = 0.62  # of the vocabulary are learned without spaces; the others are those pieces with a space
_SEAMS = r',?\n *"|":|\n *'
_THREES = (
    r"{space}\p{N}{1,3}(?=(?:\p{N}{3}){0,4}(?!\p{N}))"  # looks ahead 12 digits at most, so that no text takes long
)
_WORDS = (
    r"'(?:[sdmtSDMT]|ll|LL|re|RE|ve|VE)(?![\p{L}\p{M}])", r"{space}[\p{L}\p{M}]+", _THREES, r"{space}\p{N}{1,3}",
    r"{space}(?:-+|=+|\*+|_+|\.+|#+)", r"{space}[^\s\p{L}\p{M}\p{N}]", r"\s",
)  # fmt: skip
_TEMPLATE = (
    "{% for message in messages %}" + BEGIN + "{{ message['role'] }}\n{{ message['content'] }}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)


def train_tokenizer(texts: Iterable[str], *, size: int = SIZE) -> Any:
    """The same texts give the same tokenizer."""
    known = list(texts)
    learned = json.loads(_learn_pieces(known, size=int(_PIECES * size)).to_str())["model"]
    vocabulary, merges = dict(learned["vocab"]), [tuple(merge) for merge in learned["merges"]]
    counts = Counter(dict(_words_after_spaces(known, vocabulary, merges)))
    for piece, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        if len(vocabulary) == size:
            break
        if _SPACE + piece not in vocabulary:
            vocabulary[_SPACE + piece] = len(vocabulary)
            merges.append((_SPACE, piece))
    backend = _backend(BPE(vocabulary, merges), space=" ?")
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in CONTROL])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=PART, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def twins_of(tokenizer: Any) -> Twins:
    known = tokenizer.get_vocab()
    return {id: known[token[1:]] for token, id in known.items() if token[:1] == _SPACE and token[1:] in known}


def _learn_pieces(texts: Iterable[str], *, size: int) -> Tokenizer:
    backend = _backend(BPE(), space="")
    trainer = BpeTrainer(
        vocab_size=size, special_tokens=list(CONTROL), initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def _words_after_spaces(texts: Iterable[str], vocabulary: dict[str, int], merges: Any) -> Iterable[tuple[str, int]]:
    """The first piece of every word that follows a space, and how often."""
    joined = _backend(BPE(vocabulary, merges), space=" ?")
    chunks = Counter(chunk for text in texts for chunk, _ in joined.pre_tokenizer.pre_tokenize_str(text))
    firsts: Counter[str] = Counter()
    for chunk, count in chunks.items():
        if len(chunk) > 1 and chunk[0] == _SPACE:
            space, *pieces = joined.model.tokenize(chunk)
            firsts[pieces[0].value if space.value == _SPACE else space.value[1:]] += count
    return firsts.items()


def _backend(model: BPE, *, space: str) -> Tokenizer:
    pattern = "|".join([_SEAMS, *_WORDS]).replace("{space}", space)
    backend = Tokenizer(model)
    backend.pre_tokenizer = Sequence(
        [Split(Regex(pattern), behavior="isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = ByteLevelDecoder()
    return backend
