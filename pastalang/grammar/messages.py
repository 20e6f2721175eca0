"""Messages for unexpected tokens: what was expected, what was found, and advice; also for types of other languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from pastalang.diagnostics.suggest import did_you_mean, one_of
from pastalang.grammar.tokens import (
    CLOSING,
    DECLARATION_WORDS,
    MARKS,
    NAME_TERMINALS,
    OPENING,
    WORDS,
    Problem,
    Token,
)
from pastalang.source import Span

SHOWN = {kind: f"`{mark}`" for mark, kind in MARKS.items()} | {
    "NAME": "a name",
    "STRING": "a quoted string",
    "NUMBER": "a number",
    "REGEX": "a /pattern/",
    "SEPARATOR": "a new line",
    "TEXT_OPEN": 'a text in `"""`',
    "TEXT_PIECE": "text",
    "TEXT_CLOSE": 'the closing `"""`',
    "TAG_OPEN": "a tag",
    "TAG_CLOSE": "`}`",
    "$END": "the end of the file",
}
# If all of the first set fit, the word in the middle replaces them and the second set.
TYPE_STARTS = frozenset({"NAME", "STRING", "NUMBER", "REGEX", "NULL", "LEFT_BRACKET", "LEFT_BRACE"})
VALUE_STARTS = frozenset({"NAME", "STRING", "NUMBER", "REGEX", "NULL", "LEFT_BRACKET", "DOTS"})
MEMBER_STARTS = frozenset({"NAME", "STRING", "ELLIPSIS"})
DECLARATION_STARTS = frozenset({"IMPORT", "TYPE", "TEMPLATE"})
MESSAGE_STARTS = frozenset({"SYSTEM", "USER", "ASSISTANT", "EXAMPLE"})
GROUPS = (
    (TYPE_STARTS, "a type", TYPE_STARTS | NAME_TERMINALS | {"BAR"}),
    (VALUE_STARTS, "a value", VALUE_STARTS | NAME_TERMINALS | {"LEFT_BRACE"}),
    (MEMBER_STARTS, "a field", MEMBER_STARTS | NAME_TERMINALS | {"REGEX", "SEPARATOR"}),
    (frozenset({"COLON", "AS"}), "`:`", frozenset({"COLON", "AS", "LEFT_PARENTHESIS"})),
    (frozenset({"SEPARATOR", "AFTER"}), "the end of the field", frozenset(SHOWN) | NAME_TERMINALS),
    (NAME_TERMINALS, "a name", NAME_TERMINALS),
    (DECLARATION_STARTS, "a declaration", DECLARATION_STARTS),
    (MESSAGE_STARTS, "a message", MESSAGE_STARTS),
)
MAX_SHOWN = 6
MAX_CHARACTERS = 40
TAG_WORDS = ("async", "promise", "sync", "fork", "for", "if", "else", "end")
KINDS_OF_TAGS = (
    "the tags are {name}, {schema}, {for ...}, {if ...}, {else} and {end}, and in an answer {name: TYPE}, {async ...},"
    " {promise ...}, {sync} and {fork ...}"
)
CONTENTS_OF_A_FILE = "a file consists of imports, types and templates with messages"
ITEMS_OF_A_LIST = "a name stands for the whole list; go through its items with {for item in items} ... {end}"
FOREIGN_TYPE = "a list is written `[T]`; limits are written in parentheses, as in `string(max=8)`"
TEMPLATE = 'a template is written `template name(inputs)`, with `user """..."""` and `assistant json { ... }` below it'
TYPE = 'a type is written `type Name = { field: TYPE }`, a choice `type Name = "a" | "b"`'
OTHER_DECLARATIONS = {
    **dict.fromkeys(("def", "function", "func", "fn", "fun", "prompt", "program"), TEMPLATE),
    **dict.fromkeys(("class", "struct", "interface", "record", "model", "schema", "object", "enum"), TYPE),
}
MESSAGE = 'write the message in triple quotes: """..."""'
OBJECT = "an object is written in braces alone: `{ field: TYPE }`"
BRACE = "to write a brace as text, double it: `{{`"


def unexpected(token: Token, expected: frozenset[str], tokens: list[Token], index: int) -> Problem:
    """The problem with the token at `index`, where the grammar expects something else."""
    if token.type in ("LEFT_BRACE", "COLON") and expected >= MESSAGE_STARTS:
        return block(token, token)
    special = (
        _at_top(token, expected)
        or _in_tag(token, tokens, index)
        or _missing_type(token, tokens, index)
        or foreign_type(tokens, index)
    )
    if special is not None:
        return special
    found, wanted = describe(token), describe_expected(expected)
    return Problem(
        "unexpected-token",
        f"expected {wanted}, found {found}" if wanted else f"{found} does not belong here",
        token.span,
        message=f"expected {wanted}" if wanted else "",
        help=advice_for(token, expected, tokens, index),
    )


def describe(token: Token) -> str:
    """The token as people would call it."""
    match token.type:
        case "SEPARATOR":
            return "a comma" if token.text == "," else "the end of the line"
        case "$END" | "TEXT_PIECE" | "TEXT_CLOSE" | "TAG_CLOSE" | "TEXT_OPEN":
            return SHOWN[token.type]
        case _:
            shown = token.text if len(token.text) <= MAX_CHARACTERS else token.text[:MAX_CHARACTERS] + "…"
            return f"`{shown}`".replace("\n", " ")


def describe_expected(expected: frozenset[str]) -> str:
    """The terminals in words, with one word for those that belong together: `a type`. Empty if too many fit."""
    rest = set(expected)
    words: list[str] = []
    for all_of, word, covered in GROUPS:
        if all_of <= rest:
            words.append(word)
            rest -= covered
    words += sorted(SHOWN.get(kind, f"`{kind.lower()}`") for kind in rest)
    words = list(dict.fromkeys(words))
    if len(words) > MAX_SHOWN:
        return ""
    return one_of(words)


def _at_top(token: Token, expected: frozenset[str]) -> Problem | None:
    """A token where a declaration should begin."""
    if not expected >= DECLARATION_STARTS:
        return None
    if token.type in MESSAGE_STARTS:
        headline = f"a `{token.text}` message outside a template"
        advice = "write the line of its template above it: template name(inputs)"
        return Problem("message-outside-template", headline, token.span, help=(advice,))
    return _unknown_declaration(token) if token.type in NAME_TERMINALS else None


def _unknown_declaration(word: Token) -> Problem:
    known = did_you_mean(word.text, DECLARATION_WORDS)
    advice = f"did you mean `{known}`?" if known else CONTENTS_OF_A_FILE
    advice = OTHER_DECLARATIONS.get(word.text.lower(), advice)
    return Problem("unknown-declaration", f"unknown declaration {describe(word)}", word.span, help=(advice,))


def block(head: Token, mark: Token) -> Problem:
    """The problem with the brace or the colon of a block in the declaration that the word `head` begins."""
    if head.type == "NAME":
        return _unknown_declaration(head)
    advice = "remove it" if mark.type == "COLON" else "remove it and the `}` that closes it"
    return Problem(
        "unexpected-token", "the messages of a template are not written in a block", mark.span, advice, (TEMPLATE,)
    )


def _in_tag(token: Token, tokens: list[Token], index: int) -> Problem | None:
    """A tag whose first word is not a kind of tag."""
    if index < 2 or tokens[index - 2].type != "TAG_OPEN" or token.type not in (NAME_TERMINALS | {"STRING"}):
        return None
    word = tokens[index - 1]
    if word.type != "NAME":
        return None
    known = did_you_mean(word.text, TAG_WORDS)
    advice = (f"did you mean `{known}`?",) if known else (KINDS_OF_TAGS, BRACE)
    return Problem("unknown-tag", f"unknown tag `{word.text}`", word.span, help=advice)


def _missing_type(token: Token, tokens: list[Token], index: int) -> Problem | None:
    """A field without a type, so that the parser has read the next field as its type."""
    if token.type != "COLON" or index < 3 or tokens[index - 2].type != "COLON":
        return None
    key = tokens[index - 3]
    if key.type not in NAME_TERMINALS | {"STRING"}:
        return None
    headline = f"{describe(key)} has no type"
    return Problem("unexpected-token", headline, tokens[index - 2].span, message="expected a type after this")


def advice_for(token: Token, expected: frozenset[str], tokens: list[Token], index: int) -> tuple[str, ...]:
    """What to write instead; at most one piece of advice."""
    before = tokens[index - 1].type if index else ""
    for fits, advice in (
        (token.type == "STRING" and "TEXT_OPEN" in expected, MESSAGE),
        (
            (token.type == "LEFT_BRACE" and "JSON" in expected) or (before == "JSON" and "LEFT_BRACE" in expected),
            "an answer in JSON is written `assistant json { ... }`",
        ),
        (token.type == "LEFT_BRACE" and "TEXT_OPEN" in expected, MESSAGE),
        (token.type in ("LEFT_BRACE", "COLON") and expected == {"EQUALS"}, TYPE),
        (token.type == "LEFT_BRACE" and before in NAME_TERMINALS and "BAR" in expected, OBJECT),
        (
            token.type == "EQUALS" and "COLON" in expected,
            "a field is written `name: TYPE`, with a default `name: TYPE = value`",
        ),
        (token.type == "NUMBER" and "TILDE" in expected, f"announce a length with `~`: ~{token.text}"),
        (token.type == "NUMBER" and "DOTS" in expected, "write a range with two dots: 1..5"),
        (token.text in ("or", "and") and "BAR" in expected, "separate alternatives with `|`"),
        (token.type == "LEFT_BRACKET" and before in CLOSING, "a list is written in brackets around its items: `[T]`"),
        (token.type == "LEFT_BRACKET" and index > 1 and tokens[index - 2].type == "TAG_OPEN", ITEMS_OF_A_LIST),
        (token.type == "LEFT_BRACKET" and before in NAME_TERMINALS, FOREIGN_TYPE),
        (before == "ASYNC" and "BAR" in expected, "write `async` before the name: {async name: TYPE}"),
        (
            index > 1 and tokens[index - 2].type == "PROMISE" and "STRING" in expected,
            f'a promise says what it is about: {{promise {tokens[index - 1].text} "topic" ~60}}',
        ),
        (token.type == "COMMA" and "COLON" in expected, "an input is written `name: text`"),
    ):
        if fits:
            return (advice,)
    return _misspelt(token, expected)


def _misspelt(token: Token, expected: frozenset[str]) -> tuple[str, ...]:
    if token.type != "NAME" or "NAME" in expected:
        return ()
    known = did_you_mean(token.text, (kind.lower() for kind in expected if kind.lower() in WORDS))
    return (f"did you mean `{known}`?",) if known else ()


# ── types of other languages ─────────────────────────────────────────────────────────────────────────────

OTHER_NAMES: Final = {
    "str": "string", "text": "string", "char": "string", "varchar": "string", "int": "integer", "long": "integer",
    "float": "number", "double": "number", "decimal": "number", "bool": "boolean", "none": "null", "nil": "null",
    "undefined": "null", "nullable": "T | null", "optional": "T | null", "maybe": "T | null",
    "object": "{ ... }", "list": "[T]", "array": "[T]", "set": "[T](unique=true)", "tuple": "[T, U]",
    "dict": "{string: T}", "map": "{string: T}", "enum": '"a" | "b"', "literal": '"a" | "b"', "union": "T | U",
    "timestamp": "datetime", "quote": "verbatim",
}  # fmt: skip
OTHER_INPUT_NAMES: Final = {
    "string": "text", "str": "text", "text": "text", "int": "integer", "float": "number", "bool": "boolean",
    "list": "[text]", "array": "[text]", "dict": "{ name: text }", "record": "{ name: text }",
    "object": "{ name: text }", "chat": "messages", "history": "messages",
}  # fmt: skip
BEFORE_A_TYPE: Final = frozenset({"COLON", "EQUALS", "BAR", "LEFT_BRACKET", "COMMA", "JSON"})

_Spelling = Callable[[list[str]], str | None]


def _of_one(spelling: str) -> _Spelling:
    return lambda parts: spelling.format(parts[0]) if len(parts) == 1 else None


def _tuple(parts: list[str]) -> str:
    return f"[{parts[0]}]" if parts[1:] == ["..."] else f"[{', '.join(parts)}]"


def _map(parts: list[str]) -> str | None:
    return f"{{string: {parts[1]}}}" if len(parts) == 2 and parts[0] == "string" else None


_SPELLINGS: Final[Mapping[str, _Spelling]] = {
    **dict.fromkeys(("list", "array", "sequence", "iterable", "vec"), _of_one("[{}]")),
    **dict.fromkeys(("set", "frozenset"), _of_one("[{}](unique=true)")),
    **dict.fromkeys(("optional", "option", "maybe", "nullable"), _of_one("{} | null")),
    **dict.fromkeys(("dict", "map", "mapping", "record", "hashmap"), _map),
    **dict.fromkeys(("union", "literal", "enum"), " | ".join),
    "tuple": _tuple,
    "annotated": lambda parts: parts[0],
}
MAX_TYPE_CHARS: Final = 200  # of a type of another language that is explained

_WORD = re.compile(r'"[^"]*"|[^\W\d]\w*(?!\w*\s*\[\s*[^\]\s])')  # a string, or a name without type arguments
_INNERMOST = re.compile(r"([^\[\],|]*)\[([^\[\]]*)\]")
_HIDE = str.maketrans("[],|", "\ue000\ue001\ue002\ue003")  # what has been spelled is not read again
_SHOW = str.maketrans("\ue000\ue001\ue002\ue003", "[],|")


def foreign_type(tokens: list[Token], index: int) -> Problem | None:
    """The problem with `list[str]` or `string[]`, of which the token at `index` is the first bracket."""
    kinds = [token.type for token in tokens[max(index - 2, 0) : index + 1]]
    if len(kinds) < 3 or kinds[0] not in BEFORE_A_TYPE or kinds[1] not in NAME_TERMINALS or kinds[2] != "LEFT_BRACKET":
        return None
    first, end, depth = tokens[index - 1], index, 0
    while end < len(tokens) and (depth or tokens[end].type == "LEFT_BRACKET"):
        depth += (tokens[end].type == "LEFT_BRACKET") - (tokens[end].type == "RIGHT_BRACKET")
        end += 1
        if tokens[end - 1].end - first.start > MAX_TYPE_CHARS:
            return None
    shown = first.text
    for before, token in pairwise(tokens[index - 1 : end]):
        shown += " " * (token.start > before.end) + token.text
    spelling = _spell(shown, _names_at(tokens, index))
    return None if spelling is None else _foreign_type("unexpected-token", shown, first.start, spelling)


def type_in_angles(tokens: list[Token], shown: str) -> Problem:
    """The problem with `List<string>`, whose first word is the last of the tokens."""
    spelling = _spell(shown.replace("<", "[").replace(">", "]"), _names_at(tokens, len(tokens)))
    return _foreign_type("bad-character", shown, tokens[-1].start, spelling)


def _foreign_type(code: str, shown: str, start: int, spelling: str | None) -> Problem:
    advice = FOREIGN_TYPE if spelling is None else f"in PastaLang this is `{spelling}`"
    return Problem(code, f"`{shown}` is a type of another language", Span(start, start + len(shown)), help=(advice,))


def _names_at(tokens: list[Token], index: int) -> Mapping[str, str]:
    """Names of other languages, and ours for them: those of inputs are not those of values."""
    depth = 0
    for place in range(index - 1, 1, -1):
        kind = tokens[place].type
        depth += (kind in CLOSING) - (kind in OPENING)
        if depth < 0:
            return OTHER_NAMES | OTHER_INPUT_NAMES if tokens[place - 2].text == "template" else OTHER_NAMES
    return OTHER_NAMES


def _spell(written: str, names: Mapping[str, str]) -> str | None:
    """`Optional[list[str]]` as `[string] | null`, spelled from the inside out; None if a part of it is unknown."""
    text = _WORD.sub(lambda word: names.get(word[0].lower(), word[0]).translate(_HIDE), written)
    while match := _INNERMOST.search(text):
        spelling = _spell_one(match[1].strip(), match[2].strip())
        if spelling is None:
            return None
        text = text[: match.start()] + spelling.translate(_HIDE) + text[match.end() :]
    return None if "[" in text or "]" in text else text.translate(_SHOW)


def _spell_one(name: str, inside: str) -> str | None:
    if not name or not inside:
        return f"[{name or inside}]" if name or inside else None  # `string[]`, `[string]`
    spelling = _SPELLINGS.get(name.lower())
    return None if spelling is None else spelling([part.strip() for part in inside.split(",")])
