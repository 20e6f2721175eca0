"""What a hole may hold: the closed union of hole types, after checking.

A type says which *values* are right. How a value is decoded (as one hole, as a skeleton of holes, item by
item) is the planner's business; how each token is constrained is the runtime's.
Limits named `max_tokens` count tokens of the model's own tokenizer; `*_chars` count Unicode characters of
the value (not of its JSON spelling). Bounds are inclusive unless their name begins with `exclusive_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Final, TypeAlias, get_args
from typing import Literal as Word

Scalar: TypeAlias = "str | bool | int | Decimal | None"


class AutoPolicy(Enum):
    """The set of tags with which a model opens threads in its text."""

    PASTA = "pasta"
    APAR = "apar"


@dataclass(frozen=True, slots=True)
class String:
    """Free text. In running text it ends before the first of `stop`; in JSON it is a quoted string.

    In running text it has at least one character, unless it `may_be_empty`, as an explicit `min_chars=0` says.

    With `auto`, the model may open threads in it. Then it has any number of lines, and ends with the model's turn.
    """

    max_tokens: int | None = None
    min_chars: int = 0
    max_chars: int | None = None
    pattern: str | None = None  # a regular expression that the whole value matches
    format: str | None = None  # "email", "uri", ...: see `values.formats`
    stop: tuple[str, ...] = ()  # running text only; empty: the end of the line
    auto: AutoPolicy | None = None
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class Integer:
    minimum: int | None = None
    maximum: int | None = None
    exclusive_minimum: int | None = None
    exclusive_maximum: int | None = None
    multiple_of: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    minimum: Decimal | None = None
    maximum: Decimal | None = None
    exclusive_minimum: Decimal | None = None
    exclusive_maximum: Decimal | None = None
    multiple_of: Decimal | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Boolean:
    pass


@dataclass(frozen=True, slots=True)
class Null:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """Exactly this value. An enum is a `Union` of literals."""

    value: Scalar

    # Python holds that True == 1; as JSON values, and as keys of a cache of guides, they differ.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[bool, Scalar]:
        return isinstance(self.value, bool), self.value


@dataclass(frozen=True, slots=True)
class Regex:
    """Text that a regular expression matches from end to end; a quoted string in JSON."""

    pattern: str
    max_tokens: int | None = None


class Moment(Enum):
    DATE = "date"
    DATETIME = "datetime"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Temporal:
    """An ISO 8601 date, time or both; days exist in their month."""

    kind: Moment


@dataclass(frozen=True, slots=True)
class Uuid:
    pass


class QuoteUnit(Enum):
    """What a quotation is made of: it begins and ends at the border of one."""

    WORDS = "words"
    GRAPHEMES = "graphemes"
    CHARACTERS = "characters"


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A span copied exactly from the named input (or from an earlier hole)."""

    source: str
    max_tokens: int | None = None
    at: QuoteUnit = QuoteUnit.WORDS


@dataclass(frozen=True, slots=True)
class Array:
    item: Type
    min_items: int = 0
    max_items: int | None = None
    unique: bool = False
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Tuple:
    """A JSON array of fixed length, each place with a type of its own."""

    items: tuple[Type, ...]
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """A JSON object with free keys and values of one type."""

    value: Type
    key_pattern: str | None = None
    min_items: int = 0
    max_items: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One key of an object, in the order written.

    `after` names sibling keys whose values this one waits for and sees. `group` numbers the sequential
    group it belongs to (None: decoded in parallel with its siblings).
    """

    key: str
    type: Type
    name: str | None = None  # the Python name, where it differs from the key
    description: str | None = None
    default: Default | None = None
    after: tuple[str, ...] = ()
    group: int | None = None
    sampling: Sampling | None = None


@dataclass(frozen=True, slots=True)
class Default:
    """A value for a key that may be left out when an object is *read*; decoding always writes the key.

    `is_absent`: the value is null and means that the key is left out. The answer that a caller gets is without the key.
    """

    json: str  # the value as JSON text, so that it stays hashable and exact
    is_absent: bool = False


ABSENT: Final = Default("null", is_absent=True)


@dataclass(frozen=True, slots=True)
class Object:
    """A JSON object with exactly these keys."""

    fields: tuple[Field, ...]
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types; with a `discriminator`, the object arms differ in that literal key."""

    arms: tuple[Type, ...]
    discriminator: str | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """A reference to `Program.types[name]`. Left in place only where a type is recursive."""

    name: str


@dataclass(frozen=True, slots=True)
class Schema:
    """Any JSON Schema document as one hole; `document` is its canonical JSON text."""

    document: str
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Anything:
    """Any JSON value."""

    max_tokens: int | None = None


Type: TypeAlias = (
    String | Integer | Number | Boolean | Null | Literal | Regex | Temporal | Uuid | Verbatim
    | Array | Tuple | Map | Object | Union | Named | Schema | Anything
)  # fmt: skip

Patterned: TypeAlias = String | Regex | Temporal | Uuid  # strings; `values.patterns` has the patterns of each
Plain: TypeAlias = Boolean | Temporal | Uuid
PLAIN_TYPES: Final[Mapping[str, Plain]] = {  # by the names that programs write, without any arguments
    "boolean": Boolean(),
    "date": Temporal(Moment.DATE),
    "datetime": Temporal(Moment.DATETIME),
    "time": Temporal(Moment.TIME),
    "uuid": Uuid(),
}


# What becomes of a value that its limit has cut: it stays as it is, the run fails, or the value is null.
OnTruncated: TypeAlias = Word["keep", "raise", "null"]
ON_TRUNCATED: Final[tuple[OnTruncated, ...]] = get_args(OnTruncated)

# How many tokens are guessed ahead: as many as are worth their time, none, or at most so many. No answer depends on it.
DraftWord: TypeAlias = Word["auto", "off"]
Drafts: TypeAlias = DraftWord | int
DRAFT_WORDS: Final[tuple[DraftWord, ...]] = get_args(DraftWord)


@dataclass(frozen=True, slots=True)
class Sampling:
    """The options of `with (...)`: how the tokens of one hole are drawn and guessed ahead, and what becomes of a value
    that its limit has cut. None: what the template or the run sets.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    on_truncated: OnTruncated | None = None
    drafts: Drafts | None = None

    def over(self, base: Sampling) -> Sampling:
        """This sampling, with `base` for whatever it leaves open."""

        def first(mine: object, theirs: object) -> object:
            return theirs if mine is None else mine

        names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "on_truncated", "drafts")
        return Sampling(**{name: first(getattr(self, name), getattr(base, name)) for name in names})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SamplingBounds:
    """From `low` (excluded if `is_above`) to `high`, without the numbers between 0 and `smallest`, which overflow."""

    high: int
    low: int = 0
    is_above: bool = False
    is_whole: bool = False
    smallest: Decimal | None = None

    def accepts(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.is_whole else int | float | Decimal):
            return False
        if self.smallest is not None and 0 < value < float(self.smallest):
            return False
        return self.low <= value <= self.high and not (self.is_above and value == self.low)

    @property
    def expected(self) -> str:
        if self.is_whole:
            return f"a whole number from {self.low} to {self.high}"
        if self.smallest is not None:
            from_least = f"a number from {self.smallest:f} to {self.high}"
            return from_least if self.is_above else f"{self.low} or {from_least}"
        return (
            f"a number above {self.low} and up to {self.high}"
            if self.is_above
            else f"a number from {self.low} to {self.high}"
        )


SAMPLING_BOUNDS = {
    "temperature": SamplingBounds(100, smallest=Decimal("0.000001")),
    "top_k": SamplingBounds(1_000_000, low=1, is_whole=True),
    "top_p": SamplingBounds(1, is_above=True),
    "min_p": SamplingBounds(1),
    "repetition_penalty": SamplingBounds(100, is_above=True, smallest=Decimal("0.01")),
}
