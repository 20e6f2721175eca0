"""What is told while a program runs, as it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pastalang.runtime.errors import RunError
    from pastalang.runtime.result import Result


@dataclass(frozen=True, slots=True)
class FieldStarted:
    """A hole begins. `items` are the 0-based numbers of the loops around it."""

    field: str
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What the value's text has grown by."""

    field: str
    items: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class FieldDone:
    """`text` is all of the value. Where the model began threads inside a text, theirs are told apart from it."""

    field: str
    items: tuple[int, ...]
    text: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class FieldAgain:
    """What was told of this field, and of all that depends on it, is void: it is told again, as it is decoded again,
    or as it was before where the surer value stays."""

    field: str
    items: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A branch sees others from here on."""

    branch: str
    items: tuple[int, ...]
    joined: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    error: RunError


Event: TypeAlias = FieldStarted | TextDelta | FieldDone | FieldAgain | Joined | Done | Failed
