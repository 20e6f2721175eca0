"""A Pygments lexer, which colours programs in terminals, notebooks and documentation."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups, include, words
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
)

DECLARATIONS = ("import", "type", "template", "system", "user", "assistant", "example")
TYPES = (
    "string", "integer", "number", "boolean", "any", "date", "datetime", "time", "uuid", "verbatim", "schema", "text",
    "messages",
)  # fmt: skip
STRING = r'"(?:[^"\\\n]|\\.)*"'


class PastaLexer(RegexLexer):  # type: ignore[misc]  # untyped base
    """Colours `.pasta` files."""

    name = "PastaLang"
    aliases = ("pasta", "pastalang")
    filenames = ("*.pasta",)
    mimetypes = ("text/x-pasta",)
    url = "https://pypi.org/project/pastalang/"

    tokens = {  # noqa: RUF012  # Pygments' own way
        "root": [
            (r"(?m)^([ \t]*)(type|template)\b(?=[ \t]+\w)", bygroups(Whitespace, Keyword.Declaration), "name"),
            (
                rf"(?m)^([ \t]*)({'|'.join(DECLARATIONS)})\b(?![ \t]*(?::|as\b))",
                bygroups(Whitespace, Keyword.Declaration),
            ),
            include("code"),
        ],
        "name": [
            (r"[ \t]+", Whitespace),
            (r"[^\W\d]\w*", Name.Class, "#pop"),
            (r"", Text, "#pop"),
        ],
        "code": [
            (r"\s*\n|[^\S\n]+", Whitespace),  # stops where a line begins, as declarations do
            (r"#[^\n]*", Comment.Single),
            (r'(?<=[(=,:\[])([ \t]*)(""")', bygroups(Whitespace, String.Heredoc), "quoted value"),
            (r'"""', String.Heredoc, "text"),
            (rf"({STRING})([ \t]*)(?=:|as\b)", bygroups(Name.Attribute, Whitespace)),
            (STRING, String.Double),
            (r"/(?:[^/\\\n]|\\.)+/", String.Regex),
            (r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", Number),
            (r"~", Operator),
            (r"\.\.\.|\.\.", Operator),
            (r"(sequential)(\s*)(?=\{)", bygroups(Keyword, Whitespace)),
            (r"(each)(\s+)(?=[^\W\d]\w*\s*:)", bygroups(Keyword, Whitespace)),
            (r"([^\W\d]\w*)([ \t]*)(?=:|as\b)", bygroups(Name.Attribute, Whitespace)),
            (r"([^\W\d]\w*)(=)", bygroups(Name.Attribute, Operator)),
            (words(("null", "true", "false"), suffix=r"\b"), Keyword.Constant),
            (words(("json", "auto", "think", "from", "as", "after", "with"), suffix=r"\b"), Keyword),
            (words(TYPES, suffix=r"\b"), Keyword.Type),
            (r"[^\W\d]\w*", Name),
            (r"[=|]", Operator),
            (r"[()\[\]{},:.]", Punctuation),
        ],
        "text": [
            (r'\\"""', String.Escape),
            (r'"""', String.Heredoc, "#pop"),
            (r"\{\{|\}\}", String.Escape),
            (r"\{", Punctuation, ("tag", "tag word")),
            (r'[^"\\{}]+', String.Heredoc),
            (r'["\\]', String.Heredoc),
        ],
        "tag word": [
            (r"\s+", Whitespace),
            (r"(async|promise|fork|for|if)(\s+)(?=[^\W\d])", bygroups(Keyword, Whitespace), "#pop"),
            (r"(sync|end|else)\b(?!\s*[:.])", Keyword, "#pop"),
            (r"", Text, "#pop"),
        ],
        "tag": [
            (r"\}", Punctuation, "#pop"),
            (r"\{", Punctuation, "braces"),
            (r"(in|not)(\s+)(?=[^\W\d])", bygroups(Keyword, Whitespace)),
            include("code"),
        ],
        "braces": [
            (r"\}", Punctuation, "#pop"),
            (r"\{", Punctuation, "#push"),
            include("code"),
        ],
        "quoted value": [
            (r'\\"""', String.Escape),
            (r'"""', String.Heredoc, "#pop"),
            (r'[^"\\]+', String.Heredoc),
            (r'["\\]', String.Heredoc),
        ],
    }
