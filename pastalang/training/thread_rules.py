"""Tags by rule, for texts that have structure: lists, sections under headings, paragraphs that begin with their point.

pasta   the items of a list, and the bodies of sections, become threads; text that needs them waits
apar    the first sentence of an item, a section or a paragraph stays in the text, the rest of it becomes a thread

An item is written in a thread only if nothing in it seems to refer to an earlier one, and if it is long enough to be
worth its tag. Text that seems to refer to open threads waits for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pastalang.program.types import AutoPolicy

CountTokens: TypeAlias = Callable[[str], int]

FEWEST = 2  # threads that a text has to have
_ROUNDED = 10  # announced lengths are multiples of it
_ITEM = re.compile(r"^ ?(?:\d{1,2}[.)]|[-*•])[ \t]+(?P<body>\S.*(?:\n[ \t]{2,}\S.*)*)", re.MULTILINE)
_SECTION = re.compile(
    r"^(?:#{1,4} .+|\*\*[^*\n]+\*\*:?)\n+(?P<body>(?:(?!#{1,4} |\*\*[^*\n]+\*\*:?\n).*\n?)+)", re.MULTILINE
)
_PARAGRAPH = re.compile(r"(?P<body>\S.*(?:\n.*\S.*)*)")
_SENTENCE_END = re.compile(r":(?=\s)|(?<!\b[A-Z])(?<!\b[DM]r)(?<!\b[MS][st])(?<!\bMrs)[.!?](?=\s+[A-Z\"'(\[])")
_UNFIT = ("```", "$$", "http://", "https://", "<async>", "<promise", "<sync/>", "[Fork]", "[Child]")
_REFERS = re.compile(
    r"\b(?:above|aforementioned|previous(?:ly)?|preceding|former|latter|earlier|respectively|(?:step|point|item|option|"
    r"number) (?:\d+|one|two|three|four|five)|as (?:mentioned|noted|described|said|before)|the (?:same|other) (?:one|"
    r"way))\b",
    re.IGNORECASE,
)
_REFERS_AT_START = re.compile(
    r"(?:this|these|those|it|they|them|he|she|its|their|such|also|then|next|after(?:wards| that| this)?|finally|lastly|"
    r"however|therefore|thus|hence|instead|again|another|similarly|likewise|moreover|furthermore|additionally|otherwise|"
    r"both|once|now|overall|in (?:conclusion|summary|short|addition|contrast)|on the other hand|together|all (?:of )?"
    r"(?:this|these|in all))\b",
    re.IGNORECASE,
)
_THREAD = {
    AutoPolicy.PASTA: re.compile(r"<async>(.*?)</async>", re.DOTALL),
    AutoPolicy.APAR: re.compile(r"\[Child\](.*?)\[/Child\]", re.DOTALL),
}
_STORY = re.compile(r"\b(?:he|she|him|her|his|hers|I|my|me|we|our|us)\b")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}")
_WORD = re.compile(r"[\w'-]+")


class Unfit(Exception):
    """Why a text gets no threads."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a text that may become a thread: text[begin:end]; `root` is where its first sentence ends."""

    begin: int
    root: int
    end: int


@dataclass(frozen=True, slots=True)
class Tagging:
    """`inputs` is the prompt: names in it are known everywhere. Threads have `least` tokens."""

    policy: AutoPolicy
    count: CountTokens
    least: int
    inputs: str = ""

    def tag(self, text: str) -> str:
        """The text with threads. Raises `Unfit`."""
        if mark := next((mark for mark in _UNFIT if mark in text), None):
            raise Unfit(f"it contains {mark}")
        units = units_of(text, paragraphs=self.policy is AutoPolicy.APAR)
        chosen = [unit for unit in units if self._is_long(text, unit)]
        if len(chosen) < FEWEST:
            raise Unfit(
                f"fewer than {FEWEST} of its parts have {self.least} tokens" if units else "it has no structure"
            )
        write = self._pasta if self.policy is AutoPolicy.PASTA else self._apar
        tagged, threads = write(text, chosen)
        if threads < FEWEST:
            raise Unfit("its parts seem to refer to one another")
        return tagged

    def _is_long(self, text: str, unit: Unit) -> bool:
        begin = unit.begin if self.policy is AutoPolicy.PASTA else unit.root
        return self.count(text[begin : unit.end]) >= self.least

    def _pasta(self, text: str, units: Sequence[Unit]) -> tuple[str, int]:
        """Waits before text that seems to need an open thread, and before text after the last one."""
        written, done, threads, opened = "", 0, 0, list[str]()
        for number, unit in enumerate(units):
            between, body = text[done : unit.begin], text[unit.begin : unit.end]
            if opened and (self._needs(between, opened) or self._needs(body, opened)):
                between, opened = _wait_in(between), []
            written += between + promise(topic_of(body), body, self.count)
            threads, done = threads + 1, unit.end
            opened.append(body)
            if number + 1 == len(units) and text[done:].strip():
                written += _wait_in(text[done:])
                done = len(text)
        return written + text[done:], threads if _is_parallel(written) else 0

    def _apar(self, text: str, units: Sequence[Unit]) -> tuple[str, int]:
        """What seems to need a detail that no text can see stays in the text, with that detail."""
        details = [text[unit.root : unit.end] for unit in units]
        needed = {
            number
            for number, detail in enumerate(details)
            for later in range(number + 1, len(units))
            if self._needs_name(text[units[later].begin : units[later].end], [detail])
        }
        written, done, threads = "", 0, 0
        for number, (unit, detail) in enumerate(zip(units, details, strict=True)):
            written += text[done : unit.root]
            done = unit.root
            if number in needed or _REFERS.search(detail):
                continue
            written, done, threads = f"{written}[Fork][Child]{detail}[/Child]", unit.end, threads + 1
        return written + text[done:], threads

    def _needs(self, text: str, opened: Sequence[str]) -> bool:
        return refers(text) or self._needs_name(text, opened)

    def _needs_name(self, text: str, opened: Sequence[str]) -> bool:
        """Whether it has a name that the open threads were the first to mention."""
        known = set(_WORD.findall(self.inputs))
        new = {name for body in opened for name in _NAME.findall(body)} - known
        return bool(new & set(_WORD.findall(text)))


def check_independence(text: str, policy: AutoPolicy) -> None:
    """Raises `Unfit` if a thread seems to refer to one that it cannot see, whoever wrote the tags."""
    opened = 0
    for part in re.split(r"(<sync/>)", text) if policy is AutoPolicy.PASTA else [text]:
        opened = 0 if part == "<sync/>" else opened
        for thread in _THREAD[policy].findall(part):
            if opened and refers(thread):
                raise Unfit(f"a thread seems to refer to one that it cannot see: {thread.strip()[:40]!r}")
            opened += 1


def refers(text: str) -> bool:
    """Whether a text seems to refer to what stands before it."""
    start = text.lstrip(" \t\n\"'(*")
    return bool(_REFERS_AT_START.match(start) or _REFERS.search(text))


def units_of(text: str, *, paragraphs: bool) -> tuple[Unit, ...]:
    """Items of a list, else sections, else paragraphs of several sentences: the first of which there are three or more.

    The paragraphs of a story need one another, so they are none.
    """
    for pattern in (_ITEM, _SECTION, _PARAGRAPH) if paragraphs and not _STORY.search(text) else (_ITEM, _SECTION):
        units = tuple(_unit(text, *found.span("body")) for found in pattern.finditer(text))
        if pattern is _PARAGRAPH:
            units = tuple(unit for unit in units if unit.root < unit.end)
        if len(units) >= 3:
            return units
    return ()


def _unit(text: str, begin: int, end: int) -> Unit:
    end = begin + len(text[begin:end].rstrip())
    found = _SENTENCE_END.search(text, begin, end)
    return Unit(begin, end if found is None else found.end(), end)


def topic_of(body: str) -> str:
    """Its first three words."""
    return " ".join(_WORD.findall(body.replace("*", ""))[:3])


def promise(topic: str, body: str, count: CountTokens) -> str:
    """The tag with its thread. The announced length has room for the thread's own tags, rounded up to ten."""
    room = -(-(count(body) + count("<async>") + count("</async>")) // _ROUNDED) * _ROUNDED
    return f'<promise topic="{topic}" tokens="{room}"/><async>{body}</async>'


def _wait_in(between: str) -> str:
    """The wait comes after the line end and before the words that may refer to a thread."""
    space = len(between) - len(between.lstrip())
    return f"{between[:space]}<sync/>{between[space:]}"


def _is_parallel(written: str) -> bool:
    """Whether two threads are ever open at the same time."""
    return any(part.count("<promise") >= FEWEST for part in written.split("<sync/>"))
