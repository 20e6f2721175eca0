"""From the word of a diagnostic to what is known about it: its severity, its summary and its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pastalang.diagnostics.diagnostic import Severity

PAGES = Path(__file__).parent / "codes"


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding. Its page, `codes/<word>.md`, says what it is, why, and how to get rid of it."""

    word: str
    summary: str
    severity: Severity = Severity.ERROR

    @property
    def page(self) -> Path:
        return PAGES / f"{self.word}.md"


def _warning(word: str, summary: str) -> Code:
    return Code(word, summary, Severity.WARNING)


# What reading a file says, before anything is parsed.
READING = (
    Code("file-not-found", "a path that leads to no file"),
    Code("file-is-a-folder", "a folder where a file was expected"),
    Code("file-not-readable", "a file that the system does not let us read"),
    Code("file-too-large", "a file larger than a program can be"),
    Code("not-utf8", "a file that is not UTF-8 text"),
    _warning("byte-order-mark", "a mark before the first character, which programs do not need"),
)

# What the parser says.
SYNTAX = (
    Code("empty-file", "a file that declares nothing"),
    Code("unexpected-token", "a word or mark that the grammar does not expect here"),
    Code("unknown-declaration", "a word that begins no declaration"),
    Code("message-outside-template", "a message that belongs to no template"),
    Code("unclosed-string", "a string without its closing quote"),
    Code("unclosed-text", "a text without its closing three quotes"),
    Code("unclosed-tag", "a tag without its closing brace"),
    Code("unclosed-block", "a block of text without its `{end}`"),
    Code("unclosed-brace", "a `{` without its `}`"),
    Code("unclosed-bracket", "a `[` without its `]`"),
    Code("unclosed-parenthesis", "a `(` without its `)`"),
    Code("stray-brace", "a brace that closes nothing"),
    Code("stray-bracket", "a bracket that closes nothing"),
    Code("stray-end", "an `{end}` that closes nothing"),
    Code("unknown-tag", "a tag of running text that does not exist"),
    Code("misplaced-member", "a member where this kind of member cannot stand"),
    Code("misplaced-limits", "limits behind something that takes none"),
    Code("duplicate-clause", "a clause of a field given twice"),
    Code("bad-character", "a character that cannot stand in a program"),
    Code("hidden-character", "a character that cannot be seen, or that changes the order of others"),
    Code("bad-escape", "a backslash with something unknown behind it"),
    Code("bad-number", "a number that is not written as numbers are"),
    Code("name-too-long", "a name longer than the limit"),
    Code("nesting-too-deep", "brackets or blocks inside one another, deeper than the limit"),
)

# What the checker says about names and imports.
NAMES = (
    Code("unknown-name", "a name that nothing declares"),
    Code("duplicate-name", "two things with one name"),
    Code("duplicate-field", "an object with the same key twice"),
    Code("reserved-name", "a name that the language itself uses"),
    Code("bad-import", "an import that cannot be followed"),
    Code("import-cycle", "files that import one another in a circle"),
    _warning("input-never-used", "an input that no message reads"),
    _warning("type-never-used", "a type that no template needs"),
)

# ... about types.
TYPES = (
    Code("wrong-argument", "a limit that the type does not take, or of the wrong kind"),
    Code("contradictory-limits", "limits that leave no value"),
    Code("impossible-type", "a type that no value can have"),
    Code("unsupported-regex", "a regular expression that cannot be enforced token by token"),
    Code("wrong-default", "a default that does not fit its type"),
    Code("duplicate-arm", "a union that names the same value or type twice"),
    Code("bad-schema", "a JSON Schema that cannot be read or enforced"),
    Code("wrong-input-type", "an input of a type that callers cannot give"),
    Code("too-large", "a program that is larger than the limits allow"),
)

# ... about templates and the order of things.
ORDER = (
    Code("used-before-known", "something read where it cannot be seen yet"),
    Code("dependency-cycle", "parts that wait for one another in a circle"),
    Code("wait-against-order", "a field that waits for a later one inside a value written as a whole"),
    Code("sync-of-nothing", "a sync with nothing to wait for"),
    Code("promise-never-kept", "a promise without its async"),
    Code("promise-out-of-order", "a promise made twice, or after its async"),
    Code("unreachable-fork", "a fork that can never have an item"),
    Code("unbounded-fork", "a fork without a highest number of items"),
    _warning("reserve-too-small", "an announced length smaller than what may be written"),
    Code("sync-needs-text", "a sync with a hole directly behind it"),
    Code("touching-holes", "two holes with nothing between them"),
    Code("ambiguous-fork", "a fork whose next item cannot be told from its end"),
    Code("wrong-messages", "messages that do not end in one answer"),
    Code("hole-outside-answer", "a hole where the model does not write"),
    Code("several-each", "more than one input marked each"),
    Code("unknown-policy", "an auto policy that does not exist"),
    Code("unsupported-reference", "a reference that cannot be written out here"),
)

CODES: Mapping[str, Code] = MappingProxyType({code.word: code for code in (*READING, *SYNTAX, *NAMES, *TYPES, *ORDER)})
