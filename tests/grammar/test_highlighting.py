"""Every program of the corpus and of the examples is coloured without a gap, by Pygments and by editors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, _TokenType

import pastalang.grammar
from pastalang.check.built_in_types import BUILT_IN_TYPES, INPUT_TYPES
from pastalang.grammar.highlight import PastaLexer
from pastalang.grammar.tokens import DECLARATION_WORDS, WORDS

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted([*(ROOT / "tests/corpus/valid").rglob("*.pasta"), *(ROOT / "examples").rglob("*.pasta")])
EDITORS = json.loads(Path(pastalang.grammar.__file__).with_name("pasta.tmLanguage.json").read_text(encoding="utf-8"))


def coloured(text: str) -> list[tuple[_TokenType, str]]:
    return list(PastaLexer().get_tokens(text))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_pygments_knows_every_word_of_a_valid_program(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [value for kind, value in coloured(text) if kind in Error] == []
    assert "".join(value for _, value in coloured(text)).strip() == text.strip()


def test_a_key_that_is_called_like_a_keyword_is_coloured_as_a_key() -> None:
    words = coloured("assistant json {\n  type: string\n  after: integer after type\n}\n")
    assert (Name.Attribute, "type") in words
    assert (Name.Attribute, "after") in words
    assert (Keyword, "after") in words
    assert (Keyword.Type, "string") in words


def test_a_tag_in_a_text_is_code_and_a_doubled_brace_is_not() -> None:
    words = coloured('user """\n# {{x}} {async food ~60: string} {end}\n"""\n')
    assert (String.Escape, "{{") in words
    assert (Keyword, "async") in words
    assert (Keyword, "end") in words
    assert (Punctuation, "}") in words
    assert not [value for kind, value in words if kind in Comment]


def test_pygments_finds_the_lexer_by_its_name_once_the_package_is_installed() -> None:
    try:
        version("pastalang")
    except PackageNotFoundError:
        pytest.skip("the package is not installed here")
    assert type(get_lexer_by_name("pasta")).__name__ == "PastaLexer"


@pytest.mark.parametrize("name", sorted({*BUILT_IN_TYPES, *INPUT_TYPES}))
def test_every_built_in_type_is_coloured(name: str) -> None:
    words = dict(map(reversed, coloured(f"type A = [{name}]\n")))
    assert words[name] in Keyword
    assert re.search(rf"[:|]{name}[|)]", "\n".join(patterns(EDITORS)))


def patterns(node: Any) -> Iterator[str]:
    """Every regular expression of the editors' grammar."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("match", "begin", "end"):
                yield value
            else:
                yield from patterns(value)
    elif isinstance(node, list):
        for value in node:
            yield from patterns(value)


def test_every_expression_of_the_editors_grammar_is_one() -> None:
    found = list(patterns(EDITORS))
    assert len(found) > 20
    for pattern in found:
        re.compile(pattern)


def test_every_word_of_the_language_is_in_the_editors_grammar() -> None:
    declared = re.findall(r"^%declare (.+)", (ROOT / "pastalang/grammar/pasta.lark").read_text("utf-8"), re.MULTILINE)
    words = {word for word in " ".join(declared).lower().split() if word in DECLARATION_WORDS | WORDS}
    assert words == DECLARATION_WORDS | WORDS
    assert words <= set(re.findall(r"[a-z]+", " ".join(patterns(EDITORS)).replace(r"\b", " ")))


def test_every_rule_that_the_editors_grammar_includes_exists() -> None:
    assert set(re.findall(r'"include": "#([\w-]+)"', json.dumps(EDITORS))) == set(EDITORS["repository"])


# ── a small interpreter of the editors' grammar: enough to see which scope each character gets ───────────


def scopes(text: str) -> list[str]:
    """For each character, the names of the rules around it."""
    found = [""] * len(text)
    stack: list[dict[str, Any]] = [{"patterns": EDITORS["patterns"], "name": ""}]
    position = 0
    while position < len(text):
        match, rule = _first(text, position, stack[-1])
        line_end = text.find("\n", position)
        until = match.start() if match else len(text) if line_end < 0 else line_end + 1
        found[position:until] = [" ".join(one["name"] for one in stack if one.get("name"))] * (until - position)
        if match is None:
            position = until
            continue
        is_end = rule is stack[-1]
        if is_end:
            stack.pop()
        around = [one.get("name", "") for one in stack]
        captures = rule.get("captures") or rule.get("beginCaptures") or {}
        for group, name in [("0", rule.get("name", "")), *((group, one["name"]) for group, one in captures.items())]:
            if match.re.groups >= int(group):
                start, end = match.span(int(group))
                found[max(start, 0) : max(end, 0)] = [" ".join(filter(None, [*around, name]))] * (end - start)
        if "begin" in rule and not is_end:
            stack.append(rule)
        position = max(match.end(), position + (match.end() == match.start()))
    return found


def _first(text: str, position: int, state: dict[str, Any]) -> tuple[re.Match[str] | None, dict[str, Any]]:
    """The earliest match on the rest of this line; the end of the block before its rules."""
    line_end = text.find("\n", position)
    until = len(text) if line_end < 0 else line_end
    candidates = [(state["end"], state)] if "end" in state else []
    candidates += [(rule.get("match") or rule["begin"], rule) for rule in _rules(state["patterns"])]
    best: tuple[re.Match[str] | None, dict[str, Any]] = (None, state)
    for pattern, rule in candidates:
        match = re.compile(pattern, re.MULTILINE).search(text, position, until)
        if match is not None and (best[0] is None or match.start() < best[0].start()):
            best = (match, rule)
    return best


def _rules(patterns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for pattern in patterns:
        if "include" in pattern:
            included = EDITORS["repository"][pattern["include"][1:]]
            yield from _rules(included["patterns"]) if set(included) == {"patterns"} else iter([included])
        else:
            yield pattern


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_editors_colour_every_word_outside_texts_and_close_every_text(path: Path) -> None:
    text = path.read_bytes().decode("utf-8").replace("\r\n", "\n") + "\nimport END"
    found = scopes(text)
    assert found[text.rindex("import END")] == "keyword.declaration.pasta"
    assert {word[0] for word in re.finditer(r"\w+", text) if found[word.start()] == ""} == set()


# What editors call each kind of word that Pygments knows; the first that holds it.
SAME = {
    Keyword.Declaration: "keyword.declaration",
    Keyword.Type: "support.type",
    Keyword.Constant: "constant.language",
    Keyword: "keyword.(other|control)",
    Name.Class: "entity.name.type",
    Name.Attribute: "entity.other.attribute-name|variable.parameter",
    Name: "variable.other",
    Number: "constant.numeric",
    Comment: "comment.line",
    String.Heredoc: "string.quoted.triple",
    String.Double: "string.quoted.double|constant.character.escape",
    String.Escape: "constant.character.escape",
    String.Regex: "string.regexp",
    Operator: "keyword.operator",
    Punctuation: "punctuation|meta.embedded.tag",
}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_editors_and_pygments_agree_on_every_character(path: Path) -> None:
    text = path.read_bytes().decode("utf-8").replace("\r\n", "\n").strip() + "\n"
    kinds = [kind for kind, value in coloured(text) for _ in value]
    assert len(kinds) == len(text)
    places = zip(text, kinds, scopes(text), strict=True)
    inner = {(kind, around.split(" ")[-1]) for character, kind, around in places if not character.isspace()}
    expected = {kind: next(names for same, names in SAME.items() if kind in same) for kind, _ in inner}
    assert {(kind, name) for kind, name in inner if not re.match(expected[kind], name)} == set()
