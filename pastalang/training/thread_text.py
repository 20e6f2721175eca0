"""Texts with threads, as rows of training data have them: every thread stands where its tag begins it.

pasta   Food: <promise topic="food" tokens="20"/><async>Goulash.</async> Bye.<sync/>
apar    Food.[Fork][Child] Goulash is a soup.[/Child] Bye.

In an `auto(...)` template, such a text is the `value` of a row. `[/Child]` exists in rows only: a model ends an APAR
thread as it ends its turn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pastalang.limits import MAX_THREADS
from pastalang.program.types import AutoPolicy
from pastalang.runtime.constraints.tagged_text import Begin, Reading, Tag, reader_of
from pastalang.training.errors import BadRow
from pastalang.values.describe import counted

_THREAD = {
    AutoPolicy.PASTA: re.compile(r"<async>(.*?)</async>", re.DOTALL),
    AutoPolicy.APAR: re.compile(r"\[Child\](.*?)\[/Child\]", re.DOTALL),
}
_MARKS = {
    AutoPolicy.PASTA: ("<async>", "</async>", "<promise", "<sync/>", "<sync"),
    AutoPolicy.APAR: ("[Child]", "[/Child]", "[Fork]"),
}
_OTHERS = {AutoPolicy.PASTA: ("[Child]", AutoPolicy.APAR), AutoPolicy.APAR: ("<async>", AutoPolicy.PASTA)}
_TAG = {AutoPolicy.PASTA: re.compile(r"(<promise[^<>\n]*/>|<sync/>)"), AutoPolicy.APAR: re.compile(r"(\[Fork\])")}
_BEGINS = {AutoPolicy.PASTA: "<promise .../>", AutoPolicy.APAR: "[Fork]"}


@dataclass(frozen=True, slots=True)
class ThreadText:
    """`main` has the tags, without their threads; `tags` are what acts in it, each with the length of the text before.

    `plain` is what a reader of the answer sees: each thread in the place of its tag, and no tags.
    """

    main: str
    threads: tuple[str, ...]
    tags: tuple[tuple[int, Tag], ...]
    plain: str

    @property
    def begins(self) -> tuple[Begin, ...]:
        return tuple(tag for _, tag in self.tags if isinstance(tag, Begin))

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where each thread stands in the plain text."""
        starts = [at for at, tag in self.tags if isinstance(tag, Begin)]
        before = [sum(map(len, self.threads[:number])) for number in range(len(starts))]
        return tuple((at + n, at + n + len(thread)) for at, n, thread in zip(starts, before, self.threads, strict=True))


def read_thread_text(text: str, policy: AutoPolicy) -> ThreadText:
    """Raises `BadRow` if a tag has no thread, a thread no tag, or a tag stands where it means nothing."""
    foreign, other = _OTHERS[policy]
    if foreign in text:
        mine = policy.value
        raise BadRow(f"value: {foreign} begins a thread of auto({other.value}), and the program has auto({mine})")
    pieces = _THREAD[policy].split(text)
    mains, threads = pieces[::2], tuple(pieces[1::2])
    reader = reader_of(policy, in_thread=False)
    main = "".join(mains)
    reading = reader.finish(reader.read(Reading(), main))
    begun = [at for at, tag in reading.found if isinstance(tag, Begin)]
    _check_threads(mains, threads, len(begun), policy)
    if mark := next((mark for mark in _MARKS[policy] if mark in reading.text), None):
        raise BadRow(f"value: {_around(reading.text, mark)} is not a tag that acts: it would stay in the answer")
    plain, done = "", 0
    for at, thread in zip(begun, threads, strict=True):
        plain, done = plain + reading.text[done:at] + thread, at
    return ThreadText(main, threads, reading.found, plain + reading.text[done:])


def tags_apart(text: str, policy: AutoPolicy) -> list[tuple[str, bool]]:
    """The parts of a text without its threads: (text, False) and (tag, True) in turn, as they stand."""
    pieces = _TAG[policy].split(text)
    return [(piece, bool(number % 2)) for number, piece in enumerate(pieces)]


def _check_threads(mains: list[str], threads: tuple[str, ...], begun: int, policy: AutoPolicy) -> None:
    reader = reader_of(policy, in_thread=False)
    for number, (before, thread) in enumerate(zip(mains, threads, strict=False)):
        found = reader.read(Reading(), before)
        last = [tag for at, tag in found.found if isinstance(tag, Begin) and at == len(found.text)]
        if not last or found.held or not before.endswith(("/>", "[Fork]")):
            place = f"does not follow a tag {_BEGINS[policy]}" + (f", but {_last(before)}" if before else "")
            raise BadRow(f"value: thread {number + 1}, {_short(thread)}, {place}")
        if mark := next((mark for mark in _MARKS[policy] if mark in thread), None):
            raise BadRow(f"value: thread {number + 1} has the tag {mark}: a thread cannot start or wait for threads")
        if not thread:
            raise BadRow(f"value: thread {number + 1} is empty")
    if begun != len(threads):
        raise BadRow(f"value: {counted(begun, 'tag')} {_BEGINS[policy]} and {counted(len(threads), 'thread')}")
    if begun > MAX_THREADS:
        raise BadRow(f"value: {begun} threads, and a text may have {MAX_THREADS}")


def _around(text: str, mark: str) -> str:
    at = text.index(mark)
    return _short(text[at : at + 60])


def _last(text: str) -> str:
    return repr(text if len(text) <= 40 else "..." + text[-37:])


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
