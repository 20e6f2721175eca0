"""Where parsing goes on behind a mistake: at the next member, tag or declaration.

Every place where a member, tag or declaration may begin is an anchor: the state of the parser there is kept.
After a mistake the parser skips to the next place of the same kind and goes on from the kept state, as if
what lies between had not been written.
"""

from __future__ import annotations

from dataclasses import dataclass

from pastalang.grammar.parse_tables import ParseState, start
from pastalang.grammar.text import closes_block, opens_block
from pastalang.grammar.tokens import CLOSING, OPENING, Token

TOP = frozenset({"IMPORT", "TYPE", "TEMPLATE"})
MESSAGES = frozenset({"SYSTEM", "USER", "ASSISTANT"})
DECLARATIONS = TOP | MESSAGES
OPENS = frozenset({*OPENING, "TEXT_OPEN"})
CLOSES = CLOSING | {"TEXT_CLOSE"}


@dataclass(frozen=True, slots=True)
class Anchor:
    state: ParseState
    index: int
    depth: int
    is_tag: bool = False


class Recovery:
    """The anchors around the token that is fed now."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._depths = _depths(tokens)  # before each token
        self._anchors: list[Anchor] = []

    def remember(self, index: int, state: ParseState) -> None:
        """Keep the state if something may begin at this token."""
        kind, depth = self._tokens[index].type, self._depths[index]
        before = self._tokens[index - 1].type if index else ""
        begins_tag = kind == "TAG_OPEN"
        begins_member = before in ("SEPARATOR", "LEFT_BRACE")
        if index and not begins_member and not begins_tag and not (kind in DECLARATIONS and state.fits(kind)):
            return
        while self._anchors and self._anchors[-1].depth >= depth:
            self._anchors.pop()
        self._anchors.append(Anchor(state.copy(), index, depth, is_tag=begins_tag))

    def replay(self, index: int) -> ParseState:
        """The state before the token at `index`, as it was until that token did not fit."""
        anchor = self._anchors[-1]
        state = anchor.state.copy()
        for token in self._tokens[anchor.index : index]:
            state.feed(token)
        return state

    def region_start(self, index: int) -> int:
        """Where the thing began in which the token at `index` stands."""
        return self._tokens[self._anchor(index).index].start

    def resume(self, index: int) -> tuple[ParseState, int]:
        """The state to go on from and the token to go on with, behind the mistake at `index`."""
        anchor = self._anchor(index)
        if anchor.depth == 0:
            return self._resume_declaration(anchor, index)
        for position in range(index, len(self._tokens)):
            depth, kind = self._depths[position], self._tokens[position].type
            if anchor.is_tag and kind == "TAG_CLOSE" and depth == anchor.depth + 1:
                return anchor.state.copy(), max(self._behind_tag(anchor.index, position), position + 1)
            if depth == anchor.depth and kind == "SEPARATOR":
                return anchor.state.copy(), position + 1
            if depth == anchor.depth and kind in CLOSES:
                if anchor.state.fits(kind):
                    return anchor.state.copy(), position
                self._anchors.remove(anchor)  # what the anchor stands in is wrong as well
                return self.resume(index)
        return anchor.state.copy(), len(self._tokens)

    def _anchor(self, index: int) -> Anchor:
        """The innermost anchor whose brackets are still open at the token."""
        depth = self._depths[index]
        while len(self._anchors) > 1 and self._anchors[-1].depth > depth:
            self._anchors.pop()
        return self._anchors[-1]

    def _resume_declaration(self, anchor: Anchor, index: int) -> tuple[ParseState, int]:
        state = anchor.state.copy()
        position = index if index > anchor.index else index + 1
        while position < len(self._tokens) and not self._begins_declaration(position):
            position += 1
        kind = self._tokens[position].type if position < len(self._tokens) else ""
        if kind in MESSAGES and not state.fits(kind):
            return _inside_template(self._tokens[position]), position
        return state, position

    def _begins_declaration(self, position: int) -> bool:
        return self._depths[position] == 0 and self._tokens[position].type in DECLARATIONS

    def _behind_tag(self, start: int, close: int) -> int:
        """Behind the tag, and behind its `{end}` if it opens a block."""
        position, level = start, 0
        while position < len(self._tokens):
            if self._tokens[position].type == "TAG_OPEN":
                tag_end = self._tag_end(position)
                tag = self._tokens[position : tag_end + 1]
                level += opens_block(tag) - (closes_block(tag) if level else 0)
                position = tag_end
                if level == 0:
                    return position + 1
            elif self._tokens[position].type == "TEXT_CLOSE":
                return close + 1
            position += 1
        return close + 1

    def _tag_end(self, position: int) -> int:
        depth = self._depths[position]
        position += 1
        while position + 1 < len(self._tokens) and self._depths[position + 1] > depth:
            position += 1
        return position


def _depths(tokens: list[Token]) -> list[int]:
    depths, depth = [], 0
    for token in tokens:
        depths.append(depth)
        depth += (token.type in OPENS) - (token.type in CLOSES)
    return depths


def _inside_template(before: Token) -> ParseState:
    """Pretend that a template begins, so that its messages are read although its first line was not."""
    state = start()
    state.feed(before._replace(type="TEMPLATE"))
    state.feed(before._replace(type="NAME"))
    return state
