"""Every limit of the language and its tools. A program over a limit is refused with a message at its place.

The limits keep hostile input from taking time or memory; they are far above what people write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

# ── reading and syntax ───────────────────────────────────────────────────────────────────────────────────

# The size of one source file. A thousand lines of a program are about 50,000 bytes.
MAX_FILE_BYTES: Final = 1_000_000

# Words, marks and comments in one source file; about 6,000 lines. Bounds the time of a parse.
MAX_TOKENS: Final = 60_000

# Brackets, objects, arrays and blocks of text inside one another. Everything that walks a tree may recurse
# to this depth.
MAX_NESTING: Final = 64

# Characters of one name, and of one key or name in a message. Longer ones are shortened when they are shown.
MAX_NAME_CHARS: Final = 200

# Problems shown for one file, followed by the number of the others.
MAX_SYNTAX_ERRORS: Final = 50

# ── checking ─────────────────────────────────────────────────────────────────────────────────────────────

# Files that one program may consist of, itself included.
MAX_FILES: Final = 100

# Places of one type with every name in it written out, and how deep they are nested.
MAX_TYPE_PLACES: Final = 20_000
MAX_TYPE_DEPTH: Final = 64

# Items of one array, one map or one fork; arms of one union (values of one enum).
MAX_ITEMS: Final = 10_000
MAX_ARMS: Final = 5_000

# Branches of one template when every fork has as many items as it may have.
MAX_BRANCHES: Final = 100_000

# Tokens of one hole, characters of one string, digits of one number.
MAX_HOLE_TOKENS: Final = 100_000
MAX_STRING_CHARS: Final = 1_000_000
MAX_NUMBER_DIGITS: Final = 100

# Bytes of a JSON Schema, in a file or in the program.
MAX_SCHEMA_BYTES: Final = 200_000

# Problems that the checker reports for one program.
MAX_DIAGNOSTICS: Final = 200

# A number as written. Longer ones have no use and cost time to turn into values.
MAX_NUMBER_CHARS: Final = 100
MAX_NUMBER_EXPONENT: Final = 400

# ── values ───────────────────────────────────────────────────────────────────────────────────────────────

# Tokens of a hole whose type names no limit and has no longest value.
DEFAULT_NUMBER_TOKENS: Final = 12  # billions with cents, at a token for each digit

# Characters of a token of ordinary text, on average: a string of at most 400 characters is reckoned at 100 tokens.
CHARS_PER_TOKEN: Final = 4

# Inside a list the defaults of strings and lists are divided by this.
LISTED_DIVISOR: Final = 2


@dataclass(frozen=True, slots=True)
class DefaultLimits:
    """The limits of types that set none: tokens of a string, items of a list of objects, tokens of other structures."""

    string: int
    items: int
    structure: int
    is_asked: bool = False  # whether the caller has chosen the limit of strings

    def with_texts_of(self, max_tokens: int) -> DefaultLimits:
        return replace(self, string=max_tokens, is_asked=True)

    @property
    def in_a_list(self) -> DefaultLimits:
        """The limits inside a list, where each limit counts once for every item. One that is asked for stays."""
        string, items, structure = (part // LISTED_DIVISOR for part in (self.string, self.items, self.structure))
        return DefaultLimits(self.string if self.is_asked else string, items, structure, self.is_asked)


# From the roomiest to the tightest. The first is taken with which an answer with open lists needs at most
# `ANSWER_POSITIONS`, else the last. An answer that needs more than `WIDE_POSITIONS` even so, or that has no open lists,
# gets the first of all rows with which it needs no more than these.
DEFAULT_LIMITS: Final = tuple(
    DefaultLimits(*row)
    for row in (
        (64, 16, 256), (64, 12, 192), (64, 10, 160), (64, 8, 128), (48, 8, 128), (48, 6, 96), (48, 5, 80), (32, 5, 80),
        (32, 4, 64),
    )
)  # fmt: skip
TIGHT_LIMITS: Final = tuple(DefaultLimits(*row) for row in ((24, 4, 48), (16, 3, 32), (12, 2, 32)))
ANSWER_POSITIONS: Final = 1_250
WIDE_POSITIONS: Final = 4_096  # half of what many small models have

# What a model may ask for itself, in `auto(...)`: threads of one text (later tags start nothing), positions that they
# reserve together, as a multiple of the text's `max`, and characters of one tag (a longer one is text).
MAX_THREADS: Final = 64
MAX_THREAD_ROOMS: Final = 4
MAX_TAG_CHARS: Final = 1_000

# Digits up to which a number is written without an exponent.
PLAIN_NUMBER_DIGITS: Final = 40

# A number in JSON that is read: its digits and its exponent.
MAX_JSON_DIGITS: Final = 4_300
MAX_JSON_EXPONENT: Final = 4_300

# JSON that is read: brackets inside one another.
MAX_JSON_NESTING: Final = 64

# The same of a plan that was saved; a type of as many levels as there may be takes fewer.
MAX_PLAN_NESTING: Final = 400

# Problems reported about one value.
MAX_MISMATCHES: Final = 20

# A JSON Schema that is imported: its depth, its places, and the values of one enum with their bytes.
MAX_SCHEMA_NESTING: Final = 64
MAX_SCHEMA_PLACES: Final = 10_000
MAX_SCHEMA_ENUM: Final = 1_000
MAX_SCHEMA_ENUM_BYTES: Final = 64_000

# Parts of a JSON Schema once its alternatives are written out. A grammar merges schemas that hold together, each
# alternative of one with each of the others: 10 next to 10 are 100.
MAX_SCHEMA_MERGED: Final = 200_000

# Steps in which the alternatives of one JSON Schema are compared, and the keys of an object with its patterns. After
# these, `oneOf` is left to the check of the finished value, and the object is one hole.
MAX_SCHEMA_WORK: Final = 10_000

# Parts of a JSON Schema that become one hole each hold copies of what they refer to. If all copies together are more
# than this many times the schema, or a schema of so many bytes, the whole schema is one hole.
MAX_SCHEMA_COPIES: Final = 3
SMALL_SCHEMA_BYTES: Final = 4_000
