"""Engines of these tests: a model that writes a script, models that hash what they see, and `pasta-mini`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pastalang
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model, scripted_model, uniform_model

VOCABULARY = 320
END = 256  # the token that ends a turn
WARM = pastalang.Sampling(temperature=1.0)


def writing(answers: Mapping[str, str] | Callable[[str], str], **options: Any) -> pastalang.Engine:
    """After the text of a key, the model writes its value, then the end of its turn. The latest key counts.

    A function gets all the text that a token sees, and returns what the model would like to write next.
    """

    def next_token(fed: Any) -> int:
        seen = bytes(one.token for one in fed.path if one.token < END)
        left = (
            _left(answers, seen) if isinstance(answers, Mapping) else answers(seen.decode("utf-8", "ignore")).encode()
        )
        return left[0] if left else END

    return pastalang.Engine(scripted_model(next_token, VOCABULARY), byte_tokenizer(), **options)


def _left(answers: Mapping[str, str], seen: bytes) -> bytes:
    """What is left to write of the answer to the latest key."""
    known = max(answers, key=lambda key: seen.rfind(key.encode()))
    written, answer = seen.rpartition(known.encode())[2], answers[known].encode()
    return answer.removeprefix(written) if known.encode() in seen and answer.startswith(written) else b""


def hashing(seed: int = 0, *, cells: int = 1 << 16, max_position: int = 1 << 20, **options: Any) -> pastalang.Engine:
    """Random logits that depend on everything that a token sees."""
    model = hashed_model(VOCABULARY, seed=seed)
    model.cells, model.max_position = cells, max_position
    return pastalang.Engine(model, byte_tokenizer(), **options)


def uniform(**options: Any) -> pastalang.Engine:
    """Every token is as likely as every other. The first that a type allows is taken."""
    return pastalang.Engine(uniform_model(VOCABULARY), byte_tokenizer(), **options)


@cache
def mini() -> pastalang.Engine:
    return pastalang.Engine.load("pasta-mini")


def json_program(fields: str, *, before: str = "", inputs: str = "", says: str = "Go.") -> pastalang.Program:
    """A template `t` whose answer is an object with these fields."""
    return pastalang.compile(f'{before}\ntemplate t({inputs})\nuser """{says}"""\nassistant json {{\n{fields}\n}}\n')


def text_program(text: str, *, inputs: str = "", says: str = "Go.") -> pastalang.Program:
    """A template `t` whose answer is running text."""
    return pastalang.compile(f'template t({inputs})\nuser """{says}"""\nassistant text """\n{text}\n"""\n')
