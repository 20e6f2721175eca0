"""Free text in which the model itself places control tags: a hole comes in, a guide that reads them goes out.

Texts of `auto(...)`, their threads, and thoughts, which `</think>` ends.

Every text may be written, line ends included, until the model's turn or the limit ends it. Where a tokenizer has tokens
that stand for a tag, or for its beginning, those may be drawn, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from pastalang.plan.plan import Form, Hole, Plan
from pastalang.program import types as t
from pastalang.program.program import AutoPolicy
from pastalang.runtime.chat import Encoder
from pastalang.runtime.constraints.guide import Accepted, Guide, State, TokenMask
from pastalang.runtime.constraints.masks import join_masks, mask_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.decode.guides import compile_guide
from pastalang.runtime.decode.tags import END, Reading, Tag, TagReader, reader_of, thought_reader
from pastalang.values.words import counted

Others: TypeAlias = Callable[[Hole, Plan, Mapping[str, str]], Guide]

THREAD = "thread[]"  # the field of a thread
_NEVER = "\x00\x00"  # a stop text, so that line ends do not stop
_BEGINNINGS = {
    (AutoPolicy.PASTA, False): ("<promise", "<sync"),
    (AutoPolicy.PASTA, True): ("</async",),
    (AutoPolicy.APAR, False): ("[Fork]",),
    (AutoPolicy.APAR, True): (),
}


class AutoGuides:
    """A `MakeGuide` for holes in which tags mean something; `others` makes those of all other holes."""

    def __init__(self, tokens: Tokens, encoder: Encoder, others: Others) -> None:
        self._tokens = tokens
        self._others = others
        self._added = {id: str(token.content) for id, token in encoder.tokenizer.added_tokens_decoder.items()}

    @cached_property
    def _text(self) -> Guide:
        return compile_guide(t.String(stop=(_NEVER,)), form=Form.TEXT, follow="", vocabulary=self._tokens)

    def __call__(self, hole: Hole, plan: Plan, sources: Mapping[str, str]) -> Guide:
        if hole.form is Form.THOUGHT:
            return self._guide(thought_reader(), ("</think",))
        if plan.auto is None:
            return self._others(hole, plan, sources)
        in_thread = hole.field == THREAD
        return self._guide(reader_of(plan.auto, in_thread=in_thread), _BEGINNINGS[plan.auto, in_thread])

    def _guide(self, reader: TagReader, beginnings: tuple[str, ...]) -> Guide:
        """`beginnings`: which added tokens may be drawn, by their text."""
        ends = self._tokens.vocabulary.ends
        tags = {
            id: text for id, text in self._added.items()
            if id not in ends and id < self._tokens.size and text.strip().startswith(beginnings or ("\0",))
        }  # fmt: skip
        return AutoGuide(self._text, reader, tags, self._tokens.size)


@dataclass(frozen=True)
class AutoGuide:
    text: Guide
    reader: TagReader
    tags: Mapping[int, str]  # tokens that are, or begin, a tag
    size: int

    @property
    def shortest(self) -> int:
        return 1

    def start(self, *, max_tokens: int) -> AutoState:
        return AutoState(self, self.text.start(max_tokens=max_tokens))

    def explain(self) -> str:
        return "any text, with control tags"


class AutoState:
    """See `guide.State`. `take_tags` gives what was found since it was last asked."""

    def __init__(self, guide: AutoGuide, inner: State) -> None:
        self._guide = guide
        self._inner = inner
        self._tokens = 0  # drawn that stand for tags
        self._reading = Reading()
        self._taken = 0
        self._has_ended = False
        self._before: list[tuple[int, Reading, int, bool, bool]] = []

    @property
    def is_finished(self) -> bool:
        return self._has_ended

    @property
    def text(self) -> str:
        """Without the tags."""
        return self._reading.text

    @property
    def is_closed(self) -> bool:
        """Whether a tag has ended it."""
        return any(tag is END for _, tag in self._reading.found)

    @property
    def truncated(self) -> bool:
        return self._has_ended and not self.is_closed and (self.remaining <= 0 or self._inner.truncated)

    @property
    def remaining(self) -> int:
        return self._inner.remaining - self._tokens

    def allowed(self) -> TokenMask:
        return self._with_tags(self._inner.allowed())

    def unlimited(self) -> TokenMask:
        return self._with_tags(self._inner.unlimited())

    def forced(self) -> tuple[int, ...]:
        return ()

    def advance(self, token: int) -> Accepted:
        assert not self._has_ended, "the text has ended"
        known, is_tag = self._reading, token in self._guide.tags
        self._before.append((self._tokens, known, self._taken, self._has_ended, is_tag))
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
            return Accepted(accepted.text, False, True)  # what was held back has been fed already
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

    def fork(self) -> AutoState:
        copied = AutoState(self._guide, self._inner.fork())
        copied._tokens, copied._reading, copied._taken = self._tokens, self._reading, self._taken
        copied._has_ended, copied._before = self._has_ended, list(self._before)
        return copied

    def roll_back(self, tokens: int) -> None:
        for _ in range(tokens):
            self._tokens, self._reading, self._taken, self._has_ended, was_tag = self._before.pop()
            if not was_tag:
                self._inner.roll_back(1)

    def explain(self) -> str:
        return f"{self._guide.explain()}; {self.text!r} so far, {counted(self.remaining, 'token')} left"

    def _with_tags(self, mask: TokenMask) -> TokenMask:
        tags: Iterable[int] = self._guide.tags
        return join_masks(self._guide.size, [mask, mask_of(self._guide.size, tags)]) if self._guide.tags else mask
