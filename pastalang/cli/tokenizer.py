"""From a path on the command line to a function that counts the tokens of a text."""

from __future__ import annotations

from pathlib import Path

from pastalang.cli.files import EXIT_UNREADABLE
from pastalang.cli.refused import Refused
from pastalang.plan.draw.stretches import Count

FILE = "tokenizer.json"


def load_counter(path: Path) -> Count:
    """A `tokenizer.json`, a folder that holds one, or a folder that transformers can read. Raises `Refused`."""
    if not path.exists():
        raise Refused(f"there is no tokenizer {path}", EXIT_UNREADABLE)
    if path.is_file():
        return _from_file(path)
    if (path / FILE).is_file():
        return _from_file(path / FILE)
    return _from_folder(path)


def _from_file(path: Path) -> Count:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more precise
        raise Refused(f"{path} is no tokenizer that can be read: {error}", EXIT_UNREADABLE) from error

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count


def _from_folder(path: Path) -> Count:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise Refused(f"{path} holds no {FILE}, and transformers cannot read it: {reason}", EXIT_UNREADABLE) from error

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return count
