"""The events of a run, reported as they happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pastalang.runtime.errors import RunError
from pastalang.runtime.result import Result
from pastalang.values.paths import place_of


@dataclass(frozen=True, slots=True)
class _OfField:
    """About a field, by the name of the plan and the 0-based numbers of its items in the loops around it."""

    field: str
    items: tuple[int, ...]

    @property
    def where(self) -> str:
        """The field as people write it: `lines[2].total`."""
        return place_of(self.field, self.items)


@dataclass(frozen=True, slots=True)
class FieldStarted(_OfField):
    """A field begins."""


@dataclass(frozen=True, slots=True)
class TextDelta(_OfField):
    """The value of a field has grown by this text."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldDone(_OfField):
    """A field is complete; `text` is its whole value. Threads inside a text are reported as fields of their own."""

    text: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class FieldAgain(_OfField):
    """All earlier events of this field, and of the fields that depend on it, are void.

    They are reported again: with new values as these are decoded, or with the old ones if the surer value stays.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A branch sees other branches from now on. `joined` are their places, as people write them."""

    branch: str
    items: tuple[int, ...]
    joined: tuple[str, ...]

    @property
    def where(self) -> str:
        """The branch as people write it; the one that everything starts from is `main`."""
        return place_of(self.branch, self.items)


@dataclass(frozen=True, slots=True)
class Done:
    """The run is complete."""

    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """The run has failed."""

    error: RunError


Event: TypeAlias = FieldStarted | TextDelta | FieldDone | FieldAgain | Joined | Done | Failed
