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


# What the parser says.
SYNTAX = (
    Code("syntax", "the text is not what the grammar expects here"),
)  # fmt: skip

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

CODES: Mapping[str, Code] = MappingProxyType({code.word: code for code in (*SYNTAX, *NAMES, *TYPES, *ORDER)})
