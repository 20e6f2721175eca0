"""How often the border between a key and its value makes a text that a tokenizer would have written otherwise.

    python -m benchmarks.seams [FOLDER OF TEXT] > benchmarks/results/seams.md

Answers are assembled as the runtime does it, literal and value each tokenised apart, and compared with the tokens of
the whole line. "with lead": the white space at the end of the literal is written together with the value instead.
"""

from __future__ import annotations

import json
import random
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks.guides import _texts

LINES = 2_000
Encode: TypeAlias = Callable[[str], list[int]]
Seam: TypeAlias = tuple[str, str, str]  # literal, value, what follows

_MODERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_KEYS = ("brand", "model", "name", "title", "color", "weight", "price", "quantity", "status", "city", "note", "date")
_SPLITS = {
    "byte-level, words split as by GPT-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "byte-level, words split as by newer models": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_MODERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}


def train(split: pre_tokenizers.PreTokenizer, folder: Path) -> Encode:
    """On the folder's text, and on as much JSON: models of our day have read plenty of it."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = split
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=32_000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    texts = list(_texts(folder))
    words = [word for text in texts for word in text.split() if word.isalpha()]
    rng = random.Random(1)
    documents = ["".join("".join(seam) for seam in json_seams(words, rng, 400)) for _ in range(20)]
    backend.train_from_iterator([*texts, *documents], trainer)
    return lambda text: list(backend.encode(text).ids)


def json_seams(words: list[str], rng: random.Random, count: int) -> Iterator[Seam]:
    for _ in range(count):
        value = rng.choice([_text(words, rng), rng.randrange(10_000), rng.random() * 100, True, None])
        if isinstance(value, float):
            value = round(value, 2)
        yield f'\n  "{rng.choice(_KEYS)}": ', json.dumps(value), ","


def text_seams(words: list[str], rng: random.Random, count: int) -> Iterator[Seam]:
    for _ in range(count):
        yield f"The {rng.choice(_KEYS)} is ", _text(words, rng), "."


def _text(words: list[str], rng: random.Random) -> str:
    return " ".join(rng.choice(words) for _ in range(rng.randint(1, 4)))


def with_lead(seam: Seam) -> Seam:
    literal, value, follow = seam
    bare = literal.rstrip(" ")
    return bare, literal[len(bare) :] + value, follow


def shares(encode: Encode, seams: list[Seam]) -> tuple[float, float]:
    """Per cent of lines whose tokens are not the tokenizer's own: as it is, and with lead."""
    odd = [0, 0]
    for seam in seams:
        whole = encode("".join(seam))
        for at, parts in enumerate((seam, with_lead(seam))):
            literal, value, follow = parts
            # behind the value a token may cross the border, so what follows is tokenised with it
            odd[at] += encode(literal) + encode(value + follow) != whole
    return 100 * odd[0] / len(seams), 100 * odd[1] / len(seams)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sysconfig.get_path("stdlib")) / "email"
    words = [word for text in _texts(folder) for word in text.split() if word.isalpha()]
    print("# Lines whose tokens are not the tokenizer's own, per cent\n")
    print(f"{LINES:,} lines each; vocabularies of up to 32,000 tokens trained here.\n")
    print("| tokenizer | seam | literal and value apart | with lead |")
    print("|---|---|---:|---:|")
    for name, split in _SPLITS.items():
        encode = train(split, folder)
        kinds: dict[str, Callable[[list[str], random.Random, int], Iterator[Seam]]] = {
            "a string in JSON": lambda *args: (seam for seam in json_seams(*args) if seam[1].startswith('"')),
            "another value in JSON": lambda *args: (seam for seam in json_seams(*args) if not seam[1].startswith('"')),
            "text in a sentence": text_seams,
        }
        for kind, make in kinds.items():
            apart, lead = shares(encode, list(make(words, random.Random(2), LINES)))
            print(f"| {name} | {kind} | {apart:.1f} | {lead:.1f} |")


if __name__ == "__main__":
    main()
