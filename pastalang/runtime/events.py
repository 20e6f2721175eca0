"""The events of a run, reported as they happen, each one once.

A preempted request starts again and produces the same events, perhaps in another order; `EventLog` drops those
that the caller has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from threading import Lock
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


class EventLog:
    """The events of a request since they were last taken. A log that is not read keeps nothing."""

    def __init__(self, *, is_read: bool) -> None:
        self.is_read = is_read
        self._events: list[Event] = []
        self._known: Counter[Hashable] = Counter()  # in earlier attempts: characters of a field, or events of a kind
        self._now: Counter[Hashable] = Counter()  # in this attempt
        self._lock = Lock()  # one thread takes events while another one makes the steps of all requests

    def report(self, *events: Event) -> None:
        if self.is_read:
            with self._lock:
                self._events += events

    def take(self) -> list[Event]:
        """The events since the last call that the caller has not seen."""
        with self._lock:
            events, self._events = self._events, []
            return [news for event in events if (news := self._news(event)) is not None]

    def start_again(self) -> None:
        """The request was preempted. Events that the caller has not taken will be reported again."""
        with self._lock:
            self._events.clear()
            for key, count in self._now.items():
                self._known[key] = max(self._known[key], count)
            self._now.clear()

    def _news(self, event: Event) -> Event | None:
        if isinstance(event, TextDelta):
            key: Hashable = (event.field, event.items)
            before = self._now[key]
            self._now[key] += len(event.text)
            fresh = event.text[max(self._known[key] - before, 0) :]
            return replace(event, text=fresh) if fresh else None
        self._now[event] += 1
        return event if self._now[event] > self._known[event] else None
