"""The parse tables of `pasta.lark`, and a parse state that is fed tokens."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer

from pastalang.grammar.tokens import Token
from pastalang.grammar.tree_builder import TreeBuilder

GRAMMAR = Path(__file__).with_name("pasta.lark")
LAST = "$END"


class NoLexer(Lexer):  # type: ignore[misc]  # untyped base
    """Lark wants a lexer; tokens are fed by hand, so this one never runs."""

    def __init__(self, configuration: object) -> None:
        pass

    def lex(self, data: object) -> Iterator[Any]:
        return iter(())


class ParseState:
    """A stack of states of the LALR automaton. Feeding changes it; `copy` is cheap."""

    __slots__ = ("_state",)

    def __init__(self, state: Any) -> None:
        self._state = state

    def copy(self) -> ParseState:
        return ParseState(self._state.copy(deepcopy_values=False))

    def feed(self, token: Token) -> bool:
        """Take the token. False if it does not fit; the state is then no longer usable."""
        try:
            self._state.feed_token(token)
        except UnexpectedToken:
            return False
        return True

    def finish(self, token: Token) -> Any:
        """The whole tree at the end of the tokens; None where something is missing."""
        try:
            return self._state.feed_token(token._replace(type=LAST), is_end=True)
        except UnexpectedToken:
            return None

    def expected(self) -> frozenset[str]:
        """The terminals that fit here."""
        row = self._state.parse_conf.states[self._state.position]
        return frozenset(kind for kind in row if kind.isupper() and self.fits(kind))

    def fits(self, kind: str) -> bool:
        """Whether a token of this kind could be fed now."""
        trial = self._state.copy(deepcopy_values=False)
        trial.parse_conf = copy(trial.parse_conf)
        trial.parse_conf.callbacks = {}  # nothing is built
        try:
            trial.feed_token(Token(kind, "", 0, 0), is_end=kind == LAST)
        except UnexpectedToken:
            return False
        return True


def start() -> ParseState:
    """The state before the first token."""
    return ParseState(_lark().parse_interactive().parser_state)


@cache
def _lark() -> Lark:
    return Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        lexer=NoLexer,
        start="file",
        keep_all_tokens=True,
        transformer=TreeBuilder(),
    )
