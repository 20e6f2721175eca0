"""What a page of the documentation asks its reader to do: files to save, code and commands to run, and what they print.

A block of `pasta`, `python` or `csv` is a file if the paragraph before it names one and ends with a colon: "Save this
as `coffee.pasta`:". If the paragraph says "After the run", it is a file that a command has written.
A line that begins with `$ pasta` is a command, and what follows it in its block is what it prints. A block of `text` or
`json` directly after code or a command is what that prints. So is the comment on a line of code that prints.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
_ENDINGS = {"pasta": "pasta", "python": "py", "csv": "csv"}
_COMMAND = re.compile(r"^\$ ", re.MULTILINE)
_TIME = re.compile(r"\b\d+\.\d+ s\b")


@dataclass(frozen=True, slots=True)
class SavedFile:
    """`is_written` if it is a command that has written it."""

    path: str
    text: str
    line: int
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    line: int
    output: str | None = None

    @property
    def printed(self) -> dict[int, str]:
        """The comments on lines that print, by the numbers of their lines in the block; in a loop, the last counts."""
        found = (re.search(r"^\s*print\(.*\)  # (.*)$", line) for line in self.text.splitlines())
        return {number: match[1] for number, match in enumerate(found, start=1) if match is not None}


@dataclass(frozen=True, slots=True)
class Command:
    """`arguments` are those of `pasta`. Nothing is said of what it prints if there is no output."""

    arguments: tuple[str, ...]
    line: int
    output: str | None = None


Step: TypeAlias = SavedFile | Code | Command


def steps_of(page: Path) -> tuple[Step, ...]:
    """In the order of the page. Other commands than `pasta`, such as `pip`, are left to the reader."""
    text = page.read_text(encoding="utf-8")
    steps: list[Step] = []
    end, is_left_out = 0, False
    for block in _BLOCK.finditer(text):
        kind, body, before = block[1], block[2], text[end : block.start()]
        line = text.count("\n", 0, block.start()) + 2
        follows = not before.strip() and bool(steps) and not is_left_out
        is_left_out = kind == "sh"
        name = _name(kind, before)
        end = block.end()
        match steps[-1:]:
            case [Code(output=None) | Command(output=None) as last] if follows and kind in ("text", "json"):
                steps[-1] = replace(last, output=body)
            case _ if name is not None:
                steps.append(SavedFile(name, body, line, is_written="After the run" in before))
            case _ if kind == "python":
                steps.append(Code(body, line))
            case _ if kind in ("text", "console"):
                steps += _commands(body, line)
            case _:
                pass
    return tuple(steps)


def _name(kind: str, before: str) -> str | None:
    paragraph = before.rstrip().rsplit("\n\n", 1)[-1]
    if kind not in _ENDINGS or not paragraph.endswith(":"):
        return None
    found = re.findall(rf"`([\w./-]+\.{_ENDINGS[kind]})`", paragraph)
    return found[-1] if found else None


def _commands(body: str, line: int) -> Iterator[Command]:
    edges = [*(found.start() for found in _COMMAND.finditer(body)), len(body)]
    for start, stop in pairwise(edges):
        call, _, output = body[start:stop].partition("\n")
        program, _, arguments = call.removeprefix("$ ").partition(" ")
        if program == "pasta":
            words = tuple(shlex.split(arguments, comments=True))
            yield Command(words, line + body.count("\n", 0, start), output or None)


def comparable(output: str) -> str:
    """Without what differs from one machine to another."""
    return _TIME.sub("0.00 s", output).rstrip()
