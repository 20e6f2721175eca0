"""From a token that does not fit, and those that would, to a message in the user's words."""

from __future__ import annotations

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.grammar.problems import Problem
from pastalang.grammar.tokens import DECLARATION_WORDS, MARKS, NAME_TERMINALS, WORDS, Token

SHOWN_MARKS = {kind: f"`{mark}`" for mark, kind in MARKS.items()}
SHOWN = SHOWN_MARKS | {
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
TYPES = frozenset({"NAME", "STRING", "NUMBER", "REGEX", "NULL", "LEFT_BRACKET", "LEFT_BRACE"})
VALUES = frozenset({"NAME", "STRING", "NUMBER", "REGEX", "NULL", "LEFT_BRACKET", "DOTS"})
DECLARATIONS = frozenset({"IMPORT", "TYPE", "TEMPLATE"})
MESSAGES = frozenset({"SYSTEM", "USER", "ASSISTANT"})
KINDS_OF_TAGS = "the tags are {name}, {name: TYPE}, {async ...}, {promise ...}, {sync}, {fork ...} and {end}"
BRACE = "a brace that is text is written `{{`"
MOST_SHOWN = 6
MOST_CHARACTERS = 40


def unexpected(token: Token, expected: frozenset[str], tokens: list[Token], index: int) -> Problem:
    """What to say about a token where something else is expected."""
    found = describe(token)
    wanted = describe_expected(expected)
    special = _in_tag(token, tokens, index) or _at_top(token, expected)
    if special is not None:
        return special
    advice = _advice(token, expected, tokens, index)
    return Problem(
        "unexpected-token",
        f"expected {wanted}, found {found}" if wanted else f"{found} does not belong here",
        token.span,
        message=f"expected {wanted}" if wanted else "",
        help=advice,
    )


def describe(token: Token) -> str:
    """The token as people would call it."""
    match token.type:
        case "SEPARATOR":
            return "a comma" if token.text == "," else "the end of the line"
        case "$END" | "TEXT_PIECE" | "TEXT_CLOSE" | "TAG_CLOSE" | "TEXT_OPEN":
            return SHOWN[token.type]
        case _:
            shown = token.text if len(token.text) <= MOST_CHARACTERS else token.text[:MOST_CHARACTERS] + "…"
            return f"`{shown}`".replace("\n", " ")


def describe_expected(expected: frozenset[str]) -> str:
    """The terminals in words, those that belong together under one word: `a type`, `:` or `as`."""
    rest = set(expected)
    words: list[str] = []
    for group, shown in ((TYPES, "a type"), (VALUES, "a value"), (NAME_TERMINALS, "a name")):
        if group <= rest:
            words.append(shown)
            rest -= group | NAME_TERMINALS | {"BAR", "DOTS"}
            if shown == "a type":
                rest -= {"STRING", "NUMBER", "REGEX", "LEFT_BRACKET", "LEFT_BRACE"}
            if shown == "a value":
                rest -= {"LEFT_BRACE"}
    if rest >= DECLARATIONS:
        words.append("a declaration")
        rest -= DECLARATIONS
    if rest >= MESSAGES:
        words.append("a message")
        rest -= MESSAGES
    words += sorted(SHOWN.get(kind, f"`{kind.lower()}`") for kind in rest)
    words = list(dict.fromkeys(words))
    if len(words) > MOST_SHOWN:
        return ""
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _at_top(token: Token, expected: frozenset[str]) -> Problem | None:
    """What stands where a declaration should begin."""
    if not expected >= DECLARATIONS:
        return None
    if token.type in MESSAGES:
        return Problem(
            "message-outside-template",
            f"a `{token.text}` message that belongs to no template",
            token.span,
            help=("begin a template before it: template name(inputs)",),
        )
    if token.type in NAME_TERMINALS:
        known = did_you_mean(token.text, DECLARATION_WORDS)
        advice = f"did you mean `{known}`?" if known else "a file holds imports, types and templates with messages"
        return Problem("unknown-declaration", f"{describe(token)} begins no declaration", token.span, help=(advice,))
    return None


def _in_tag(token: Token, tokens: list[Token], index: int) -> Problem | None:
    """A tag whose first word is misspelt, or no tag at all."""
    start = index - 1
    if start >= 1 and tokens[start - 1].type == "TAG_OPEN" and token.type in (NAME_TERMINALS | {"STRING"}):
        word = tokens[start]
        if word.type == "NAME":
            known = did_you_mean(word.text, ("async", "promise", "sync", "fork", "end"))
            advice = (f"did you mean `{known}`?",) if known else ()
            return Problem(
                "unknown-tag", f"`{word.text}` is no kind of tag", word.span, help=(*advice, KINDS_OF_TAGS, BRACE)
            )
    return None


def _advice(token: Token, expected: frozenset[str], tokens: list[Token], index: int) -> tuple[str, ...]:
    if token.type == "NAME":
        words = [kind.lower() for kind in expected if kind.lower() in WORDS and "NAME" not in expected]
        known = did_you_mean(token.text, words)
        if known:
            return (f"did you mean `{known}`?",)
    if token.type == "STRING" and "TEXT_OPEN" in expected:
        return ('a message stands in triple quotes: """..."""',)
    if token.type == "EQUALS" and "COLON" in expected:
        return ("a field is written `name: TYPE`; a default follows the type: `name: TYPE = value`",)
    if token.type == "SEPARATOR" and token.text == "," and "NAME" in expected:
        return ()
    return ()
