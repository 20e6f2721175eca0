"""The documents of the printer: texts and possible line breaks, laid out in lines of at most a given width.

A `Group` is written on one line if it fits there, otherwise its own breaks become line ends, from the
outermost group inwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

INDENTATION = "  "


@dataclass(frozen=True, slots=True)
class Break:
    """A line end where the group is broken, `flat` where it is not; `forced` breaks every group around it."""

    flat: str = " "
    forced: bool = False
    blank: bool = False  # leave a blank line


@dataclass(frozen=True, slots=True)
class IfBroken:
    broken: str
    flat: str = ""


@dataclass(frozen=True, slots=True)
class Suffix:
    """Text at the end of a line that does not count towards its width: a comment."""

    text: str


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text of several lines that must not be indented."""

    text: str


@dataclass(frozen=True, slots=True)
class Nest:
    content: Document
    is_forced: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_forced", is_forced(self.content))


@dataclass(frozen=True, slots=True)
class Group:
    content: Document
    is_forced: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_forced", is_forced(self.content))


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Document, ...]
    is_forced: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_forced", any(map(is_forced, self.parts)))


Document: TypeAlias = str | Break | IfBroken | Suffix | Verbatim | Nest | Group | Sequence

HARD = Break(forced=True)
BLANK = Break(forced=True, blank=True)


def sequence(*parts: Document) -> Sequence:
    return Sequence(parts)


def join(separator: Document, parts: Iterable[Document]) -> Sequence:
    joined: list[Document] = []
    for part in parts:
        if joined:
            joined.append(separator)
        joined.append(part)
    return Sequence(tuple(joined))


def is_forced(document: Document) -> bool:
    """Whether a line must end inside; kept by each part, so asking costs nothing."""
    match document:
        case Break():
            return document.forced
        case Suffix():
            return True
        case Nest() | Group() | Sequence():
            return document.is_forced
        case _:
            return False


def render(document: Document, *, width: int) -> str:
    """The lines of the document, without white space at their ends."""
    written: list[str] = []
    column = 0
    todo: list[tuple[int, bool, Document]] = [(0, True, document)]  # indentation, broken, what
    while todo:
        depth, broken, item = todo.pop()
        match item:
            case str():
                written.append(item)
                column += len(item)
            case Suffix(text=text):
                written.append(text)
            case Verbatim(text=text):
                written.append(text)
                column = len(text) - text.rfind("\n") - 1
            case IfBroken():
                written.append(item.broken if broken else item.flat)
                column += len(written[-1])
            case Break() if broken:
                written.append("\n\n" if item.blank else "\n")
                written.append(INDENTATION * depth)
                column = len(written[-1])
            case Break():
                written.append(item.flat)
                column += len(item.flat)
            case Nest(content=content):
                todo.append((depth + 1, broken, content))
            case Sequence(parts=parts):
                todo.extend((depth, broken, part) for part in reversed(parts))
            case Group(content=content):
                fits = not item.is_forced and _fits(content, width - column, todo)
                todo.append((depth, not fits, content))
    return "".join(written)


def _fits(content: Document, room: int, waiting: list[tuple[int, bool, Document]]) -> bool:
    """Whether the content on one line, with what follows it up to the next possible break, fits the room."""
    rest = len(waiting)
    todo: list[tuple[bool, Document]] = [(False, content)]
    while room >= 0:
        if not todo:
            if rest == 0:
                return True
            rest -= 1
            todo.append((True, waiting[rest][2]))
            if not waiting[rest][1]:
                todo[-1] = (False, waiting[rest][2])
        broken, item = todo.pop()
        match item:
            case str():
                room -= len(item)
            case Suffix() | Verbatim():
                pass
            case IfBroken():
                room -= len(item.broken if broken else item.flat)
            case Break() if broken:
                return True
            case Break():
                room -= len(item.flat)
            case Nest(content=inner) | Group(content=inner):
                todo.append((broken, inner))
            case Sequence(parts=parts):
                todo.extend((broken, part) for part in reversed(parts))
    return False
