"""The formatter: the canonical text of a source. Text between `# fmt: off` and `# fmt: on` stays as it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.grammar import nodes
from pastalang.grammar.nodes import Trivia
from pastalang.grammar.parser import ParseResult, parse, tokens_of
from pastalang.grammar.printer import print_file
from pastalang.grammar.tokens import Token
from pastalang.reading import read_text
from pastalang.source import Source, Span

OFF, ON = "fmt: off", "fmt: on"


@dataclass(frozen=True, slots=True)
class Formatting:
    """`text` is None where the source has errors; the diagnostics say which."""

    text: str | None
    diagnostics: tuple[Diagnostic, ...]


def format_source(source: Source) -> Formatting:
    """The canonical text of a source. The result has been read back, and means the same."""
    return format_parsed(source, parse(source))


def format_parsed(source: Source, parsed: ParseResult) -> Formatting:
    """The canonical text of a source that has been parsed."""
    if parsed.file is None:
        return Formatting(None, parsed.diagnostics)
    text = "".join(_blocks(source, parsed.file))
    return _problem_of(text, source, parsed) or Formatting(text, parsed.diagnostics)


def _problem_of(text: str, source: Source, parsed: ParseResult) -> Formatting | None:
    """Read the result back. The same words make the same tree; where some changed, the trees are compared."""
    if text == source.text:
        return None
    reading = read_text(source.name, text)
    if not reading.is_usable:
        return Formatting(None, reading.diagnostics)
    if _words(tokens_of(reading.source)) == _words(parsed.tokens):
        return None
    again = parse(reading.source)
    if again.file is None:
        # Only a file that is just below a limit can get above it by being laid out.
        return Formatting(None, (*reading.diagnostics, *again.diagnostics))
    assert says_the_same(parsed.file, again.file), "formatting must not change what a program says"
    return None


def _words(tokens: Sequence[Token]) -> list[tuple[str, str, str]]:
    """All that a tree is made of, places left out."""
    return [(token.type, "" if token.type == "SEPARATOR" else token.text, token.value) for token in tokens]


def _blocks(source: Source, file: nodes.File) -> list[str]:
    """The file in stretches that are laid out and stretches that are kept, a blank line between them."""
    kept = _kept(file)
    if not any(kept):
        return [print_file(file)]
    blocks: list[str] = []
    for is_kept, group in groupby(zip(kept, file.declarations, strict=True), key=lambda pair: pair[0]):
        declarations = tuple(declaration for _, declaration in group)
        if blocks:
            blocks.append("\n")
        if is_kept:
            blocks.append(_slice(source, declarations))
        else:
            blocks.append(print_file(nodes.File(declarations, file.span)))
    if file.closing.comments:
        blocks.append("\n" if file.closing.comments[0].blank_before else "")
        blocks.append(print_file(replace(file, declarations=())))
    return blocks


def _kept(file: nodes.File) -> list[bool]:
    """For each declaration, whether the last `fmt` comment before it says `off`."""
    kept: list[bool] = []
    is_off = False
    for declaration in file.declarations:
        for comment in declaration.trivia.comments:
            is_off = comment.text == OFF or (is_off and comment.text != ON)
        kept.append(is_off)
    return kept


def _slice(source: Source, declarations: tuple[nodes.Declaration, ...]) -> str:
    """The declarations as written, with their comments, up to the end of their last line."""
    first, last = declarations[0], declarations[-1]
    start = min([first.span.start, *(comment.span.start for comment in first.trivia.comments)])
    end = source.text.find("\n", last.span.end)
    return source.text[start : end if end >= 0 else len(source.text)] + "\n"


IGNORED = (Span, Trivia)


def says_the_same(left: object, right: object) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, IGNORED):
        return True
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(says_the_same, left, right))
    if dataclasses.is_dataclass(left) and not isinstance(left, type):
        names = (field.name for field in dataclasses.fields(left))
        return all(says_the_same(getattr(left, name), getattr(right, name)) for name in names)
    return left == right
