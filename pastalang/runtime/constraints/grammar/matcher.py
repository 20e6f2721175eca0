"""llguidance with a small interface: matchers of a grammar, why a grammar is refused, and which part of a schema is to
blame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from pastalang.runtime.constraints.guide import GuideError, TokenMask
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.values.json import JsonValue

# Fuel for its lexer: bounds the time of a hostile document, far above what real ones take. The first is for all that
# the copies of a matcher learn together, as long as they live.
_LIMITS = {"initial_lexer_fuel": 20_000_000, "step_lexer_fuel": 2_000_000}


def compile_grammar(grammar: str, tokens: Tokens) -> Matcher:
    tokenizer = tokens.cached("llguidance", lambda: tokenizer_of(tokens))
    matcher = Matcher(LLMatcher(tokenizer, grammar, log_level=0, limits=LLParserLimits(**_LIMITS)), tokens.size)
    matcher.check()
    matcher.mask()  # some documents fail only here
    matcher.check()
    return matcher


class Matchers:
    """Matchers of one grammar. Copies share what their lexer has learnt; when that is too much, a new one is made."""

    def __init__(self, grammar: str, tokens: Tokens) -> None:
        self._grammar = grammar
        self._tokens = tokens
        self._first = compile_grammar(grammar, tokens)

    def copy(self) -> Matcher:
        return self._first.copy()

    def renew(self, spent: Matcher) -> None:
        """A lexer that has learnt nothing, unless there is a newer one than this matcher's already."""
        if spent.age == self._first.age:
            self._first = replace(compile_grammar(self._grammar, self._tokens), age=spent.age + 1)


def refusal_of(grammar: str, tokens: Tokens) -> str | None:
    """Why the grammar is refused; None where it is not."""
    tokenizer = tokens.cached("llguidance", lambda: tokenizer_of(tokens))
    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=LLParserLimits(**_LIMITS))
    return refusal_reason(str(matcher.get_error())) if matcher.is_error() else None


@dataclass(frozen=True)
class Matcher:
    """llguidance never raises: every answer has to be asked whether it is one. `age`: the how manieth lexer it has."""

    inner: Any
    size: int
    age: int = 0

    def copy(self) -> Matcher:
        return replace(self, inner=self.inner.deep_copy())

    @property
    def is_spent(self) -> bool:
        """Whether it can say nothing more, whatever is asked: its lexer has learnt as much as it may."""
        tried = self.copy()
        tried.mask()
        return bool(tried.inner.is_error())

    def check(self) -> None:
        if self.inner.is_error():
            raise GuideError(f"the grammar cannot be enforced: {refusal_reason(str(self.inner.get_error()))}")

    def mask(self) -> TokenMask:
        """The end of the model's turn is none of the tokens here: llguidance has one of its own, after all others."""
        words = (self.size + 1 + 31) // 32
        found = np.zeros(words, dtype=np.uint32)
        self.inner.unsafe_compute_mask_ptr(found.ctypes.data, words * 4)
        found[self.size >> 5] &= np.uint32((1 << (self.size & 31)) - 1)
        return found[: (self.size + 31) // 32]

    def take(self, tokens: Sequence[int]) -> bool:
        """Token by token, as a model would write them: the fuel of the lexer is for one call."""
        return all(self.inner.try_consume_tokens([token]) == 1 for token in tokens) and not self.inner.is_error()

    def would_take(self, token: int) -> bool:
        """Whether the token may come next; nothing changes."""
        return bool(self.inner.validate_tokens([token]) == 1)

    def take_all(self, tokens: Sequence[int]) -> bool:
        """All of them or none."""
        return bool(self.inner.validate_tokens(list(tokens)) == len(tokens)) and self.take(tokens)

    @property
    def accepts(self) -> bool:
        return bool(self.inner.is_accepting())

    @property
    def is_over(self) -> bool:
        return bool(self.inner.is_stopped())


class _Words:
    """A vocabulary as llguidance wants it, with an end of its own after all tokens."""

    def __init__(self, tokens: Tokens) -> None:
        spelling = tokens.vocabulary.spelling
        self.eos_token_id = len(spelling)
        self.bos_token_id = None
        never = [id for id, text in enumerate(spelling) if text is None]
        self.special_token_ids = [*never, self.eos_token_id]
        self.tokens = [text if text is not None else b"<never %d>" % id for id, text in enumerate(spelling)]
        self.tokens.append(b"<end of value>")
        self._tokens = tokens

    def __call__(self, text: bytes) -> list[int]:
        return list(self._tokens.shortest(text) or ())


def tokenizer_of(tokens: Tokens) -> Any:
    return LLTokenizer(TokenizerWrapper(_Words(tokens)), n_vocab=tokens.size + 1)


_MAX_TRIES = 60  # parts that are compiled by themselves, a millisecond each
_LISTS = ("prefixItems", "anyOf", "allOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLE = (
    "items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
_EMPTY = "Unsatisfiable"
_SHARED = ("$defs", "definitions", "$schema")


def find_refused_part(document: JsonValue, reason: str, refusal: Callable[[JsonValue], str | None]) -> tuple[str, str]:
    """The JSON pointer of the part, and its reason. `refusal` says why a document is refused, None where it is not.

    A part without values is what makes the whole without values, in other words.
    """
    pointer, here, left = "", document, _MAX_TRIES
    shared = {key: document[key] for key in _SHARED if key in document} if isinstance(document, dict) else {}
    descended = True
    while descended:
        descended = False
        for step, part in _parts(here):
            if not left:
                return pointer, reason
            left -= 1
            alone = {**shared, **part} if isinstance(part, dict) else part
            why = refusal(alone)
            if why is not None and (why == reason or (_EMPTY in why and _EMPTY in reason)):
                reason = why
                pointer, here, descended = f"{pointer}/{step}", part, True
                break
    return pointer, reason


def refusal_reason(error: str) -> str:
    """The refusal in one line, without places in a grammar that nobody wrote."""
    line = next(iter(error.strip().splitlines()), "unknown")
    return re.sub(r"^(at )?\d+\(\d+\): ", "", line).removeprefix("failed to compile JSON schema: ")


def _parts(schema: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if not isinstance(schema, dict):
        return
    for keyword in _NAMED:
        named = schema.get(keyword)
        for key, part in named.items() if isinstance(named, dict) else ():
            yield f"{keyword}/{key.replace('~', '~0').replace('/', '~1')}", part
    for keyword in _LISTS:
        listed = schema.get(keyword)
        for at, part in enumerate(listed) if isinstance(listed, list) else ():
            yield f"{keyword}/{at}", part
    for keyword in _SINGLE:
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword]
