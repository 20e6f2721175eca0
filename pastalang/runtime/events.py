"""The events of a run, reported as they happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pastalang.runtime.errors import RunError
from pastalang.runtime.result import Result


@dataclass(frozen=True, slots=True)
class FieldStarted:
    """A field begins. `items` are the 0-based numbers of its items in the loops around it."""

    field: str
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The value of a field has grown by this text."""

    field: str
    items: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class FieldDone:
    """A field is complete; `text` is its whole value. Threads inside a text are reported as fields of their own."""

    field: str
    items: tuple[int, ...]
    text: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class FieldAgain:
    """All earlier events of this field, and of the fields that depend on it, are void.

    They are reported again: with new values as these are decoded, or with the old ones if the surer value stays.
    """

    field: str
    items: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A branch sees other branches from now on."""

    branch: str
    items: tuple[int, ...]
    joined: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The run is complete."""

    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """The run has failed."""

    error: RunError


Event: TypeAlias = FieldStarted | TextDelta | FieldDone | FieldAgain | Joined | Done | Failed
