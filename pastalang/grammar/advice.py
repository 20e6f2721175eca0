"""Advice for mistakes that people make, many of them habits from other languages."""

from __future__ import annotations

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.grammar.tokens import WORDS, Token


def advice_for(token: Token, expected: frozenset[str], tokens: list[Token], index: int) -> tuple[str, ...]:
    """What to write instead; at most one piece of advice."""
    before = tokens[index - 1].type if index else ""
    for fits, advice in (
        (token.type == "STRING" and "TEXT_OPEN" in expected, 'a message stands in triple quotes: """..."""'),
        (token.type == "LEFT_BRACE" and "JSON" in expected, "an answer in JSON is written `assistant json { ... }`"),
        (
            token.type == "EQUALS" and "COLON" in expected,
            "a field is written `name: TYPE`, a default follows: `= value`",
        ),
        (token.type == "NUMBER" and "TILDE" in expected, f"a length is announced with `~`: ~{token.text}"),
        (token.type == "NUMBER" and "DOTS" in expected, "a range is written with two dots: 1..5"),
        (token.text in ("or", "and") and "BAR" in expected, "alternatives are separated by `|`"),
        (before == "ASYNC" and "BAR" in expected, "`async` stands in front of the name: {async name: TYPE}"),
        (token.type == "COMMA" and "COLON" in expected, "an input is written `name: text`"),
    ):
        if fits:
            return (advice,)
    return _misspelt(token, expected)


def _misspelt(token: Token, expected: frozenset[str]) -> tuple[str, ...]:
    if token.type != "NAME" or "NAME" in expected:
        return ()
    known = did_you_mean(token.text, (kind.lower() for kind in expected if kind.lower() in WORDS))
    return (f"did you mean `{known}`?",) if known else ()
