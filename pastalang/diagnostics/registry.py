"""The codes of diagnostics: each has a word, a severity, a summary and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pastalang.diagnostics.diagnostic import Severity

PAGES = Path(__file__).parent / "codes"


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of diagnostic. Its page, `codes/<word>.md`, says what it means, why it is reported and how to fix it."""

    word: str
    summary: str
    severity: Severity = Severity.ERROR

    @property
    def page(self) -> Path:
        return PAGES / f"{self.word}.md"


def _warning(word: str, summary: str) -> Code:
    return Code(word, summary, Severity.WARNING)


# Found while a file is read, before it is parsed.
READING = (
    Code("file-not-found", "a path that leads to no file"),
    Code("file-is-a-folder", "a folder where a file was expected"),
    Code("file-not-readable", "a file that cannot be opened or read"),
    Code("file-too-large", "a file larger than a program can be"),
    Code("not-utf8", "a file that is not UTF-8 text"),
    _warning("byte-order-mark", "a byte order mark before the first character"),
)

# Found by the parser.
SYNTAX = (
    Code("empty-file", "a file that declares nothing"),
    Code("unexpected-token", "a word or mark that the grammar does not expect here"),
    Code("unknown-declaration", "a word that does not begin a declaration"),
    Code("message-outside-template", "a message outside a template"),
    Code("unclosed-string", "a string without its closing quote"),
    Code("unclosed-text", "a text without its closing three quotes"),
    Code("unclosed-tag", "a tag without its closing brace"),
    Code("unclosed-block", "a block of text without its `{end}`"),
    Code("unclosed-brace", "a `{` without its `}`"),
    Code("unclosed-bracket", "a `[` without its `]`"),
    Code("unclosed-parenthesis", "a `(` without its `)`"),
    Code("stray-brace", "a brace that does not belong to a tag"),
    Code("stray-bracket", "a closing bracket without an opening one"),
    Code("stray-end", "an `{end}` without an open block"),
    Code("unknown-tag", "a tag of running text that does not exist"),
    Code("misplaced-member", "a member where its kind is not allowed"),
    Code("misplaced-auto", "a text with threads where the model cannot open any"),
    Code("misplaced-limits", "limits on a type that takes none"),
    Code("duplicate-clause", "a clause of a field given twice"),
    Code("bad-character", "a character that is not allowed here"),
    Code("hidden-character", "an invisible character, or one that re-orders others"),
    Code("bad-escape", "a backslash followed by an unknown letter"),
    Code("bad-number", "a number that is not written as JSON"),
    Code("name-too-long", "a name longer than the limit"),
    Code("nesting-too-deep", "brackets or blocks inside one another, deeper than the limit"),
)

# Found by the checker: names and imports.
NAMES = (
    Code("unknown-name", "a name that nothing declares"),
    Code("duplicate-name", "two things with one name"),
    Code("duplicate-field", "an object with the same key twice"),
    Code("reserved-name", "a name that the language itself uses"),
    Code("bad-import", "an import that cannot be followed"),
    Code("import-cycle", "files that import one another in a cycle"),
    _warning("input-never-used", "an input that no message reads"),
    _warning("description-not-shown", "descriptions that no message shows to the model"),
    _warning("type-never-used", "a type that no template needs"),
)

# Found by the checker: types.
TYPES = (
    Code("wrong-argument", "a limit that the type does not take, or of the wrong kind"),
    Code("contradictory-limits", "limits that leave no value"),
    Code("impossible-type", "a type that no value can have"),
    Code("not-enforceable", "a type that cannot be enforced while a value is written"),
    Code("unsupported-regex", "a regular expression that cannot be enforced token by token"),
    Code("wrong-default", "a default that does not fit its type"),
    Code("duplicate-arm", "a union that names the same value or type twice"),
    Code("bad-schema", "a JSON Schema that cannot be read or enforced"),
    _warning("checked-after-decoding", "a JSON Schema that the finished value is checked against"),
    Code("wrong-input-type", "an input of a type that callers cannot give"),
    Code("too-large", "a program that is larger than the limits allow"),
)

# Found by the checker: templates, and what waits for what.
ORDER = (
    Code("used-before-known", "a value used where it is not known yet"),
    Code("dependency-cycle", "parts that wait for one another in a cycle"),
    Code("wait-against-order", "a field that waits for a later one, in a value written in order"),
    Code("sync-of-nothing", "a sync with nothing to wait for"),
    Code("promise-never-kept", "a promise without its async"),
    Code("promise-out-of-order", "a promise made twice, or after its async"),
    Code("unreachable-fork", "a fork that can never have an item"),
    Code("unbounded-fork", "a fork without a highest number of items"),
    _warning("reserve-too-small", "an announced length smaller than what may be written"),
    Code("sync-needs-text", "a sync directly followed by a hole"),
    Code("touching-holes", "two holes with nothing between them"),
    Code("ambiguous-fork", "a fork whose next item and end begin alike"),
    Code("wrong-messages", "messages that do not end in one answer"),
    Code("wrong-example", "an example that does not fit the inputs or the answer"),
    Code("hole-outside-answer", "a hole where the model does not write"),
    Code("several-each", "more than one input marked each"),
    Code("unknown-policy", "an auto policy that does not exist"),
    Code("unsupported-reference", "a reference to a value that the model writes"),
)

CODES: Mapping[str, Code] = MappingProxyType({code.word: code for code in (*READING, *SYNTAX, *NAMES, *TYPES, *ORDER)})
