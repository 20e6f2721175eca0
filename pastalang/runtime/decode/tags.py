"""Control tags in text that a model writes: pieces of text come in, the text without its tags and the tags go out.

    <promise topic="food" tokens="40"/>   a thread begins here; the text behind it leaves so much room      (pasta)
    <sync/>                               waits for all threads that have begun                             (pasta)
    </async>                              ends a thread, in the thread                                      (pasta)
    [Fork]                                a thread begins here                                              (apar)
    </think>                              ends a thought

A tag is told by its characters, wherever the borders of tokens are. What is not exactly a tag is text: a promise with
another attribute or without a number, a tag that is never closed, one that has no meaning where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.program.program import AutoPolicy

LONGEST = 200  # characters of a promise; what is longer is text

_ATTRIBUTE = re.compile(r'[ \t]+([a-z]+)="([^"<>\n]*)"')
_PROMISE = re.compile(r'<promise((?:[ \t]+[a-z]+="[^"<>\n]*")*)[ \t]*/>')
_SYNC = "<sync/>"
_END = "</async>"
_FORK = "[Fork]"
_THOUGHT_END = "</think>"


@dataclass(frozen=True, slots=True)
class Begin:
    """A thread begins; `tokens` is the room that the text behind it leaves for it."""

    topic: str
    tokens: int


class Wait:
    """The text goes on once all threads have ended."""


class End:
    """The thread has ended."""


Tag: TypeAlias = Begin | Wait | End
WAIT, END = Wait(), End()


@dataclass(frozen=True, slots=True)
class Reading:
    """`held` may be the beginning of a tag. `found` are tags, each with the length of the text before it."""

    text: str = ""
    held: str = ""
    found: tuple[tuple[int, Tag], ...] = ()


@dataclass(frozen=True, slots=True)
class TagReader:
    """`parse` gives the tag that a whole text is, `may_grow` says whether more may make one of it."""

    first: str  # what tags begin with
    parse: Callable[[str], tuple[int, Tag] | None]
    may_grow: Callable[[str], bool]

    def read(self, before: Reading, text: str) -> Reading:
        held = before.held + text
        shown, found = before.text, list(before.found)
        while held:
            start = held.find(self.first) if self.first else -1
            if start < 0:
                return Reading(shown + held, "", tuple(found))
            shown, held = shown + held[:start], held[start:]
            parsed = self.parse(held)
            if parsed is not None:
                length, tag = parsed
                found.append((len(shown), tag))
                held = held[length:]
            elif self.may_grow(held):
                break
            else:
                shown, held = shown + held[0], held[1:]
        return Reading(shown, held, tuple(found))

    def finish(self, before: Reading) -> Reading:
        """Nothing more comes: what was held back is text."""
        return Reading(before.text + before.held, "", before.found)


def reader_of(policy: AutoPolicy, *, in_thread: bool) -> TagReader:
    """What means something in the text itself, and what in its threads: threads begin no threads."""
    match policy, in_thread:
        case AutoPolicy.PASTA, False:
            return TagReader("<", _pasta, lambda text: _SYNC.startswith(text) or _may_be_promise(text))
        case AutoPolicy.PASTA, True:
            return _fixed(_END, END)
        case AutoPolicy.APAR, False:
            return _fixed(_FORK, Begin("", 0))
        case _:
            return TagReader("", lambda _: None, lambda _: False)


def thought_reader() -> TagReader:
    return _fixed(_THOUGHT_END, END)


def _fixed(text: str, tag: Tag) -> TagReader:
    def parse(held: str) -> tuple[int, Tag] | None:
        return (len(text), tag) if held.startswith(text) else None

    return TagReader(text[0], parse, text.startswith)


def _pasta(held: str) -> tuple[int, Tag] | None:
    if held.startswith(_SYNC):
        return len(_SYNC), WAIT
    found = _PROMISE.match(held[:LONGEST])
    if found is None:
        return None
    pairs = _ATTRIBUTE.findall(found[1])
    attributes = dict(pairs)
    tokens = attributes.get("tokens", "0")
    is_known = len(attributes) == len(pairs) and attributes.keys() <= {"topic", "tokens"}
    if not is_known or re.fullmatch("[0-9]{1,6}", tokens) is None:
        return None
    return found.end(), Begin(attributes.get("topic", ""), int(tokens))


def _may_be_promise(text: str) -> bool:
    if len(text) >= LONGEST or "\n" in text or ">" in text or "<" in text[1:]:
        return False
    return text.startswith("<promise") or "<promise".startswith(text)
