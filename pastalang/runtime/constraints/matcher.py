"""A small interface to llguidance: matchers of a grammar, and the reason and the part of a schema if it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from pastalang.runtime.constraints.guide import GuideError, TokenMask
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.values.json import JsonValue, pointer_step

# Fuel of the lexer: it bounds the time for a hostile document, far above what real documents need. The first limit is
# for everything that all copies of a matcher learn.
# The rows of the parser hold one item for each alternative that is still possible.
_LIMITS = {
    "initial_lexer_fuel": 20_000_000,
    "step_lexer_fuel": 2_000_000,
    "max_items_in_row": 20_000,
    "step_max_items": 200_000,
}

_MAX_TRIES = 60  # parts to compile separately, about a millisecond each
_LISTS = ("prefixItems", "anyOf", "allOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLE = (
    "items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
_EMPTY = "Unsatisfiable"
_SHARED = ("$defs", "definitions", "$schema")


class Matchers:
    """Matchers of one grammar. Copies share a lexer and its fuel; when the fuel is used up, `renew` makes a new one."""

    def __init__(self, grammar: str, tokens: Tokens) -> None:
        self._grammar = grammar
        self._tokens = tokens
        self._first = _compile_grammar(grammar, tokens)

    def copy(self) -> Matcher:
        return self._first.copy()

    def renew(self, spent: Matcher) -> None:
        """Make a new lexer for further copies, unless there is already one newer than this matcher's."""
        if spent.age == self._first.age:
            self._first = replace(_compile_grammar(self._grammar, self._tokens), age=spent.age + 1)


def refusal_of(grammar: str, tokens: Tokens) -> str | None:
    """The reason why llguidance refuses the grammar; None if it accepts it."""
    matcher = _start(grammar, tokens)
    return _refusal_reason(str(matcher.get_error())) if matcher.is_error() else None


@dataclass(frozen=True)
class Matcher:
    """A matcher of llguidance, which never raises: callers check for errors. `age` counts the lexers before its own."""

    inner: Any
    size: int
    age: int = 0

    def copy(self) -> Matcher:
        return replace(self, inner=self.inner.deep_copy())

    @property
    def is_spent(self) -> bool:
        """Whether every further call fails, because the lexer has used up its fuel."""
        tried = self.copy()
        tried.mask()
        return bool(tried.inner.is_error())

    def check(self) -> None:
        if self.inner.is_error():
            raise GuideError(f"the grammar cannot be enforced: {_refusal_reason(str(self.inner.get_error()))}")

    def mask(self) -> TokenMask:
        """The allowed tokens, never the end of the model's turn: llguidance gets an end token of its own."""
        words = (self.size + 1 + 31) // 32
        found = np.zeros(words, dtype=np.uint32)
        self.inner.unsafe_compute_mask_ptr(found.ctypes.data, words * 4)
        found[self.size >> 5] &= np.uint32((1 << (self.size & 31)) - 1)
        return found[: (self.size + 31) // 32]

    def take(self, tokens: Sequence[int]) -> bool:
        """Take the tokens one by one, as a model writes them, because each call of llguidance has its own fuel."""
        return all(self.inner.try_consume_tokens([token]) == 1 for token in tokens) and not self.inner.is_error()

    def would_take(self, token: int) -> bool:
        """Whether the token may come next; nothing changes."""
        return bool(self.inner.validate_tokens([token]) == 1)

    def take_all(self, tokens: Sequence[int]) -> bool:
        """Take all of the tokens or none."""
        return bool(self.inner.validate_tokens(list(tokens)) == len(tokens)) and self.take(tokens)

    @property
    def accepts(self) -> bool:
        return bool(self.inner.is_accepting())

    @property
    def is_over(self) -> bool:
        return bool(self.inner.is_stopped())


def _compile_grammar(grammar: str, tokens: Tokens) -> Matcher:
    matcher = Matcher(_start(grammar, tokens), tokens.size)
    matcher.check()
    matcher.mask()  # some documents fail only here
    matcher.check()
    return matcher


def _start(grammar: str, tokens: Tokens) -> LLMatcher:
    tokenizer = tokens.cached("llguidance", lambda: llguidance_tokenizer(tokens))
    return LLMatcher(tokenizer, grammar, log_level=0, limits=LLParserLimits(**_LIMITS))


class _Words:
    """The vocabulary in llguidance's format, with an additional end token."""

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


def llguidance_tokenizer(tokens: Tokens) -> Any:
    return LLTokenizer(TokenizerWrapper(_Words(tokens)), n_vocab=tokens.size + 1)


def find_refused_part(document: JsonValue, reason: str, refusal: Callable[[JsonValue], str | None]) -> tuple[str, str]:
    """The JSON pointer of the smallest part that is refused, and the reason.

    `refusal` returns the reason why a document is refused, None if it is not. A part and the whole document have the
    same problem if their reasons are equal, or if neither has a value.
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


def _refusal_reason(error: str) -> str:
    """The error in one line, without positions in the generated grammar."""
    line = next(iter(error.strip().splitlines()), "unknown")
    if line.startswith("panic: ") or line.endswith("schema too large"):
        return "its alternatives are too many for one grammar; split it into several fields"
    return re.sub(r"^(at )?\d+\(\d+\): ", "", line).removeprefix("failed to compile JSON schema: ")


def _parts(schema: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if not isinstance(schema, dict):
        return
    for keyword in _NAMED:
        named = schema.get(keyword)
        for key, part in named.items() if isinstance(named, dict) else ():
            yield f"{keyword}/{pointer_step(key)}", part
    for keyword in _LISTS:
        listed = schema.get(keyword)
        for at, part in enumerate(listed) if isinstance(listed, list) else ():
            yield f"{keyword}/{at}", part
    for keyword in _SINGLE:
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword]
