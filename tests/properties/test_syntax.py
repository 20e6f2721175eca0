"""What holds for every program: printing and parsing undo each other, and formatting twice changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang.grammar.format import format_source, says_the_same
from pastalang.grammar.nodes import Comment, File
from pastalang.grammar.parser import parse, parse_text
from pastalang.grammar.printer import print_file
from pastalang.grammar.scanner import scan
from pastalang.source import Source, Span
from tests.properties.syntax_trees import Program, programs, without_spans


def parsed(text: str) -> File:
    result = parse_text(text)
    assert result.file is not None, [(d.code, d.headline, d.source.place(d.span.start)) for d in result.diagnostics]
    return result.file


def assert_round_trip(program: Program) -> None:
    text = print_file(program.tree)
    tree = parsed(text)
    assert without_spans(tree) == program.tree
    assert print_file(tree) == text


@settings(max_examples=50)
@given(programs())
def test_a_printed_tree_parses_to_the_same_tree(program: Program) -> None:
    assert_round_trip(program)


@pytest.mark.long
@settings(max_examples=10_000)
@given(programs())
def test_ten_thousand_printed_trees_parse_to_the_same_trees(program: Program) -> None:
    assert_round_trip(program)


def spans(node: Any) -> Iterator[Span]:
    """The span of every node of a tree."""
    if isinstance(node, tuple):
        for part in node:
            yield from spans(part)
    elif dataclasses.is_dataclass(node) and not isinstance(node, Span):
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if isinstance(value, Span):
                yield value
            else:
                yield from spans(value)


@settings(max_examples=30)
@given(programs())
def test_every_span_lies_in_the_text_and_names_are_written_where_their_spans_say(program: Program) -> None:
    text = print_file(program.tree)
    tree = parsed(text)
    assert all(span.end <= len(text) for span in spans(tree))
    for declaration in tree.declarations:
        for name in getattr(declaration, "names", None) or (declaration.name,):  # type: ignore[union-attr]
            assert text[name.span.start : name.span.end] == name.text


def comments(node: Any) -> Iterator[Comment]:
    if isinstance(node, Comment):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from comments(part)
    elif dataclasses.is_dataclass(node):
        for field in dataclasses.fields(node):
            yield from comments(getattr(node, field.name))


def respaced(text: str, draw: Any) -> str:
    """The text with more white space between words, where the scanner says that words end."""
    scanned = scan(Source("x", text))
    places = sorted({token.start for token in scanned.tokens})
    outside = [place for place in places if not any(span.start < place < span.end for span in scanned.quoted)]
    chosen = draw(st.lists(st.sampled_from(outside), max_size=6, unique=True)) if outside else []
    for place in sorted(chosen, reverse=True):
        text = text[:place] + draw(st.sampled_from([" ", "\t", "   "])) + text[place:]
    return text


@settings(max_examples=30)
@given(programs(), st.data())
def test_spaces_between_words_mean_nothing(program: Program, data: st.DataObject) -> None:
    text = respaced(print_file(program.tree), data.draw)
    tree = parse(Source("x", text)).file
    assert tree is not None
    assert says_the_same(tree, parsed(print_file(program.tree)))
    assert sorted(one.text for one in comments(tree)) == sorted(one.text for one in comments(program.tree))
    formatted = format_source(Source("x", text)).text
    assert formatted is not None
    assert format_source(Source("x", formatted)).text == formatted
