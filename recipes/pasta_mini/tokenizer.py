"""The tokenizer: words joined to the space before them, in the same pieces with and without it.

    title     · Norvika Coffee, 12.5 oz        ` Nor` `vika` ` Coffee` `,` ` 12` `.` `5` ` oz`
    answer    "Brand": "Norvika",              `"` `Brand` `":` ` "` `Nor` `vika` `"`

Copying a value has to repeat its tokens. So the pieces of words are learned without spaces, and only then are pieces
that begin words joined to the space: the merges with a space come last, and a word is cut at the same places wherever
it stands. They are also learned in small letters: `due`, `Due` and `DUE` are cut alike, as far as the vocabulary goes.
`Twins` and `Writing` say which tokens are written differently and mean the same, so that a model can begin with them
alike.

Digits are read in threes from the right, so `1,250` and `1250` are both `1` and `250`. The text around the values of a
JSON answer is few tokens, and so are many spaces in a row. The quote that ends a value is always a token of its own,
and so is each tag of a thread.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import Any, TypeAlias

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

Twins: TypeAlias = dict[int, int]  # a token that begins with a space -> the same token without it


SIZE = 8192
BEGIN = "<|im_start|>"
END = "<|im_end|>"
PART = "<|endoftext|>"
TAGS = ("<promise", "<sync/>", "<async>", "</async>", "[Fork]")
CONTROL = (PART, BEGIN, END, *TAGS)

OPENINGS = ('"', ' "', '":', " [")  # the texts before the first token of a value, the bracket of a list included
_COLONS = (":", '":', " :")
_SPACE = "Ġ"  # how byte-level vocabularies write a space
_BYTES = 256 + len(CONTROL)  # tokens of every vocabulary
_PIECES, _CASED = 0.3387, 0.248  # of the others: pieces in small letters, and those with capitals; the rest has a space
_RUNS = (2, 4, 8, 16)  # of spaces: in columns, what stands far to the left is few tokens away
_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
_SEAMS = r',?\n *"|":|\n *'
_THREES = (
    r"{space}\p{N}{1,3}(?=(?:\p{N}{3}){0,4}(?!\p{N}))"  # looks ahead 12 digits at most, so that no text takes long
)
_WORDS = (
    r"'(?:[sdmtSDMT]|ll|LL|re|RE|ve|VE)(?![\p{L}\p{M}])", r"{space}[\p{L}\p{M}]+", _THREES, r"{space}\p{N}{1,3}",
    r"{space}(?:-+|=+|\*+|_+|\.+|#+)", r"{space}[^\s\p{L}\p{M}\p{N}]",
)  # fmt: skip
_TEMPLATE = (
    "{% for message in messages %}" + BEGIN + "{{ message['role'] }}\n{{ message['content'] }}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Writing:
    """Which tokens without a space are the same ones with other letters, and which ones have a part in every prompt."""

    capital: Twins  # begins with a capital -> in small letters
    capitals: Twins  # has other capitals -> in small letters
    signs: tuple[int, ...]  # are no part of a word
    colons: tuple[int, ...]  # follow the name of a field, or end a line
    lines: tuple[int, ...]  # end a line
    begin: int  # of a message
    end: int
    answer: int  # the word that only the last message begins with
    null: int
    asks: tuple[int, ...]  # come before a value in an answer
    quote: int  # that a text begins with


def train_tokenizer(texts: Iterable[str], *, size: int = SIZE) -> Any:
    """The same texts give the same tokenizer."""
    known = list(texts)
    learned_size, cased_size = (_BYTES + int(share * (size - _BYTES)) for share in (_PIECES, _PIECES + _CASED))
    learned = json.loads(_learn_pieces(map(_small, known), size=learned_size).to_str())["model"]
    pieces = _Pieces(learned["vocab"], [(first, second) for first, second in learned["merges"]])
    words = Counter(
        chunk
        for text in known
        for chunk, _ in _backend(BPE(), space=" ?").pre_tokenizer.pre_tokenize_str(text)
        if chunk.strip(_SPACE)
    )
    cased, spaced = pieces.ways_of_writing(words)
    pieces.add_cased(cased, until=cased_size)
    pieces.add_runs()
    pieces.add_spaced(spaced, until=size)
    backend = _backend(BPE(pieces.vocabulary, pieces.merges), space=" ?")
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in CONTROL])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=PART, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


class _Pieces:
    """The pieces of small letters that were learned, and the same ones with capitals and after a space."""

    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
        self.vocabulary = dict(vocabulary)
        self._parts = {first + second: (rank, first, second) for rank, (first, second) in enumerate(merges)}
        self._cut = _backend(BPE(vocabulary, merges), space="").model
        self._merges = [(rank, 0, merge) for rank, merge in enumerate(merges)]
        self._spaced: list[tuple[str, str]] = []

    @property
    def merges(self) -> list[tuple[str, str]]:
        """A piece with capitals is put together as the same piece without; spaces come last."""
        return [merge for _, _, merge in sorted(self._merges)] + self._spaced

    def ways_of_writing(self, words: Counter[str]) -> tuple[Counter[str], Counter[str]]:
        """Pieces with capitals, and first pieces of words after a space, and how often each of them occurs."""
        cased: Counter[str] = Counter()
        spaced: Counter[str] = Counter()
        for chunk, count in words.items():
            is_spaced = len(chunk) > 1 and chunk[0] == _SPACE
            word, place = chunk[is_spaced:], 0
            for token in self._cut.tokenize(_small(word)):
                piece = word[place : place + len(token.value)]
                if piece != token.value and len(piece) > 1:
                    cased[piece] += count
                if is_spaced and not place:
                    spaced[piece] += count
                place += len(piece)
        return cased, spaced

    def add_cased(self, counts: Counter[str], *, until: int) -> None:
        for piece in _most_often(counts):
            if len(self.vocabulary) >= until:
                return
            self._add_cased(piece)

    def _add_cased(self, piece: str) -> None:
        """It, and the pieces that it is put together from."""
        if piece in self.vocabulary:
            return
        rank, first, _ = self._parts[_small(piece)]
        before, behind = piece[: len(first)], piece[len(first) :]
        self._add_cased(before)
        self._add_cased(behind)
        self.vocabulary[piece] = len(self.vocabulary)
        self._merges.append((rank, len(self._merges), (before, behind)))

    def add_spaced(self, counts: Counter[str], *, until: int) -> None:
        for piece in _most_often(counts):
            if len(self.vocabulary) >= until:
                return
            if piece in self.vocabulary and _SPACE + piece not in self.vocabulary:
                self.vocabulary[_SPACE + piece] = len(self.vocabulary)
                self._spaced.append((_SPACE, piece))

    def add_runs(self) -> None:
        learned = {merge for _, _, merge in self._merges}
        for length in _RUNS:
            half = _SPACE * (length // 2)
            self.vocabulary.setdefault(half * 2, len(self.vocabulary))
            if (half, half) not in learned:
                self._spaced.append((half, half))


def _most_often(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda piece: (-counts[piece], piece))


def _small(text: str) -> str:
    """Letters of ASCII alone: others are several bytes."""
    return text.translate(_SMALL)


def twins_of(tokenizer: Any) -> Twins:
    known = tokenizer.get_vocab()
    return {
        id: known[token[1:]]
        for token, id in known.items()
        if token.strip(_SPACE) and token[:1] == _SPACE and token[1:] in known
    }


def writing_of(tokenizer: Any) -> Writing:
    known = tokenizer.get_vocab()
    capital: Twins = {}
    capitals: Twins = {}
    for token, id in known.items():
        small = _small(token)
        if small != token and small in known and token[0] != _SPACE and token not in CONTROL:
            is_first_alone = token == small[0].upper() + small[1:]
            (capital if is_first_alone else capitals)[id] = known[small]
    read = {id: tokenizer.decode([id]) for id in sorted(known.values())}
    lines = tuple(id for id, text in read.items() if text[:1] == "\n" and _is_sign(text))
    null = tokenizer.encode(" null", add_special_tokens=False)[0]
    return Writing(
        capital, capitals, signs=tuple(id for id, text in read.items() if _is_sign(text)),
        colons=(*(id for id, text in read.items() if text in _COLONS), *lines), lines=lines, begin=known[BEGIN],
        end=known[END], answer=tokenizer.encode(f"{BEGIN}assistant", add_special_tokens=False)[1], null=null,
        asks=tuple(sorted({tokenizer.encode(text, add_special_tokens=False)[-1] for text in OPENINGS})),
        quote=tokenizer.encode(' "', add_special_tokens=False)[-1],
    )  # fmt: skip


def _is_sign(text: str) -> bool:
    return text in CONTROL or (text.isascii() and not any(map(str.isalnum, text)))


def _learn_pieces(texts: Iterable[str], *, size: int) -> Tokenizer:
    backend = _backend(BPE(), space="")
    trainer = BpeTrainer(
        vocab_size=size, special_tokens=list(CONTROL), initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def _backend(model: BPE, *, space: str) -> Tokenizer:
    """`space`: what may stand before a word. Where it may, a run of others is cut from it."""
    runs = [r" +(?= )"] if space else []
    pattern = "|".join([_SEAMS, *_WORDS, *runs, r"\s"]).replace("{space}", space)
    backend = Tokenizer(model)
    backend.pre_tokenizer = Sequence(
        [Split(Regex(pattern), behavior="isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = ByteLevelDecoder()
    return backend
