"""Free text in which the model writes control tags: `auto(...)`, its threads, and thoughts.

    <promise topic="food" tokens="40"/>   starts a thread with a budget of that many tokens          (pasta)
    <sync/>                               waits for all threads started so far                       (pasta)
    </async>                              ends a thread, in the thread                               (pasta)
    [Fork]                                starts a thread                                            (apar)
    </think>                              ends a thought

Any text is allowed, including line ends, until a tag, the end of the model's turn or the limit ends it. If a tokenizer
has tokens for a tag, or for the beginning of one, those tokens are allowed, too. A tag is recognised by its characters,
wherever tokens begin and end. Anything else is text: a promise with another attribute or without a number, a tag that
is never closed, a tag in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from pastalang.limits import MAX_TAG_CHARS
from pastalang.plan.branches import Form, Hole
from pastalang.plan.plan import Plan
from pastalang.program import types as t
from pastalang.program.types import AutoPolicy
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import Accepted, Guide, State, TokenMask
from pastalang.runtime.constraints.masks import join_masks, mask_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.encoder import Encoder

GuideFactory: TypeAlias = Callable[[Hole, Plan, Mapping[str, str]], Guide]

_ATTRIBUTE = re.compile(r'[ \t]+([a-z]+)="([^"<>\n]*)"')
_PROMISE = re.compile(r'<promise((?:[ \t]+[a-z]+="[^"<>\n]*")*)[ \t]*/>')
_SYNC = "<sync/>"
_END = "</async>"
_FORK = "[Fork]"
_THOUGHT_END = "</think>"
_NEVER = "\x00\x00"  # a stop text, so that line ends do not stop
_BEGINNINGS = {
    (AutoPolicy.PASTA, False): ("<promise", "<sync"),
    (AutoPolicy.PASTA, True): ("</async",),
    (AutoPolicy.APAR, False): ("[Fork]",),
    (AutoPolicy.APAR, True): (),
}


class TaggedTextGuides:
    """Makes the guides of holes in which tags have a meaning; `others` makes the guides of all other holes."""

    def __init__(self, tokens: Tokens, encoder: Encoder, others: GuideFactory) -> None:
        self._tokens = tokens
        self._others = others
        self._added = {id: str(token.content) for id, token in encoder.tokenizer.added_tokens_decoder.items()}

    @cached_property
    def _text(self) -> Guide:
        return compile_guide(
            t.String(stop=(_NEVER,), may_be_empty=True), form=Form.TEXT, follow="", vocabulary=self._tokens
        )

    def __call__(self, hole: Hole, plan: Plan, sources: Mapping[str, str]) -> Guide:
        if hole.form is Form.THOUGHT:
            return self._guide(thought_reader(), ("</think",))
        if hole.auto is None:
            return self._others(hole, plan, sources)
        reader = reader_of(hole.auto, in_thread=hole.is_thread)
        return self._guide(reader, _BEGINNINGS[hole.auto, hole.is_thread])

    def _guide(self, reader: TagReader, beginnings: tuple[str, ...]) -> Guide:
        """`beginnings`: the model may write an added token whose text begins with one of these."""
        ends = self._tokens.vocabulary.ends
        tags = {
            id: text for id, text in self._added.items()
            if id not in ends and id < self._tokens.size and text.strip().startswith(beginnings or ("\0",))
        }  # fmt: skip
        return TaggedTextGuide(self._text, reader, tags, self._tokens.size)


@dataclass(frozen=True)
class TaggedTextGuide:
    text: Guide
    reader: TagReader
    tags: Mapping[int, str]  # added tokens that are a tag or the beginning of one, with their text
    size: int

    @property
    def shortest(self) -> int:
        return 1

    def after(self, space: str) -> TaggedTextGuide:
        assert not space, "text with tags begins without white space of its own"
        return self

    def start(self, *, max_tokens: int) -> TaggedTextState:
        return TaggedTextState(self, self.text.start(max_tokens=max_tokens))


class TaggedTextState:
    """See `guide.State`. `take_tags` returns the tags found since its last call."""

    def __init__(self, guide: TaggedTextGuide, inner: State) -> None:
        self._guide = guide
        self._inner = inner
        self._tokens = 0  # added tokens for tags: the inner state does not count them
        self._reading = Reading()
        self._taken = 0
        self._has_ended = False

    @property
    def is_finished(self) -> bool:
        return self._has_ended

    @property
    def text(self) -> str:
        """The text without its tags."""
        return self._reading.text

    @property
    def lead(self) -> str:
        return ""

    @property
    def is_closed(self) -> bool:
        """Whether a tag has ended the text."""
        return any(tag is END for _, tag in self._reading.found)

    @property
    def truncated(self) -> bool:
        return self._has_ended and not self.is_closed and (self.remaining <= 0 or self._inner.truncated)

    @property
    def remaining(self) -> int:
        return self._inner.remaining - self._tokens

    def allowed(self) -> TokenMask:
        return self._with_tags(self._inner.allowed())

    def forced(self) -> tuple[int, ...]:
        return ()

    def advance(self, token: int) -> Accepted:
        assert not self._has_ended, "the text has ended"
        known, is_tag = self._reading, token in self._guide.tags
        if is_tag:
            self._tokens += 1
            accepted = Accepted(self._guide.tags[token], kept=True, finished=False)
        else:
            accepted = self._inner.advance(token)
        self._reading = self._guide.reader.read(known, accepted.text)
        self._has_ended = accepted.finished or self.is_closed or self.remaining <= 0
        if self._has_ended:
            self._finish()
        if not accepted.kept and not self.is_closed:
            return Accepted(accepted.text, False, True)  # the text that was held back has been fed already
        return Accepted(self.text[len(known.text) :], True, self._has_ended)

    def _finish(self) -> None:
        closing = [at for at, tag in self._reading.found if tag is END]
        if closing:
            self._reading = Reading(self._reading.text[: closing[0]], "", self._reading.found)
        else:
            self._reading = self._guide.reader.finish(self._reading)

    def take_tags(self) -> tuple[tuple[int, Tag], ...]:
        new = self._reading.found[self._taken :]
        self._taken = len(self._reading.found)
        return new

    def fork(self) -> TaggedTextState:
        copied = TaggedTextState(self._guide, self._inner.fork())
        copied._tokens, copied._reading, copied._taken = self._tokens, self._reading, self._taken
        copied._has_ended = self._has_ended
        return copied

    def _with_tags(self, mask: TokenMask) -> TokenMask:
        tags: Iterable[int] = self._guide.tags
        return join_masks(self._guide.size, [mask, mask_of(self._guide.size, tags)]) if self._guide.tags else mask


@dataclass(frozen=True, slots=True)
class Begin:
    """Starts a thread. The text after the tag leaves `tokens` positions free for it, or as many as it may."""

    topic: str
    tokens: int


class Wait:
    """The text continues once all threads have ended."""


class End:
    """Ends the thread or the thought."""


Tag: TypeAlias = Begin | Wait | End
WAIT, END = Wait(), End()


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read so far: plain `text`, and the tags `found`, each with the length of the text before it.

    `held` is text that may be the beginning of a tag.
    """

    text: str = ""
    held: str = ""
    found: tuple[tuple[int, Tag], ...] = ()


@dataclass(frozen=True, slots=True)
class TagReader:
    """Finds tags in text. `parse` returns the tag at the start of a text and the tag's length.

    `may_grow` reports whether a text is the beginning of a tag.
    """

    first: str  # the first character of every tag
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
        """The text has ended: what was held back is not a tag."""
        return Reading(before.text + before.held, "", before.found)


def reader_of(policy: AutoPolicy, *, in_thread: bool) -> TagReader:
    """The tags of the main text, or of its threads: a thread cannot start threads."""
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
    found = _PROMISE.match(held[:MAX_TAG_CHARS])
    if found is None:
        return None
    pairs = _ATTRIBUTE.findall(found[1])
    attributes = dict(pairs)
    tokens = attributes.get("tokens", "0")
    is_known = len(attributes) == len(pairs) and attributes.keys() <= {"topic", "tokens"}
    if not is_known or re.fullmatch("[0-9]+", tokens) is None:
        return None
    return found.end(), Begin(attributes.get("topic", ""), int(tokens))


def _may_be_promise(text: str) -> bool:
    if len(text) >= MAX_TAG_CHARS or "\n" in text or ">" in text or "<" in text[1:]:
        return False
    return text.startswith("<promise") or "<promise".startswith(text)
