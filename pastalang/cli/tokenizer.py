"""From a path on the command line to an encoder that counts the tokens of texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pastalang.cli.exit_codes import EXIT_UNREADABLE, Refused
from pastalang.plan.token_bounds import Encoder

FILE = "tokenizer.json"


def load_encoder(path: Path) -> Encoder:
    """A `tokenizer.json`, a folder that holds one, or a folder that transformers can read. Raises `Refused`."""
    if not path.exists():
        raise Refused(f"there is no tokenizer {path}", EXIT_UNREADABLE)
    if path.is_file():
        return _from_file(path)
    if (path / FILE).is_file():
        return _from_file(path / FILE)
    return _from_folder(path)


@dataclass(frozen=True, slots=True)
class _Fast:
    """A tokenizer of the tokenizers library."""

    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)


@dataclass(frozen=True, slots=True)
class _Slow:
    """A tokenizer of transformers."""

    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))


def _from_file(path: Path) -> Encoder:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more precise
        raise Refused(f"{path} is no tokenizer that can be read: {error}", EXIT_UNREADABLE) from error

    return _Fast(tokenizer)


def _from_folder(path: Path) -> Encoder:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise Refused(f"{path} holds no {FILE}, and transformers cannot read it: {reason}", EXIT_UNREADABLE) from error

    return _Slow(tokenizer)
