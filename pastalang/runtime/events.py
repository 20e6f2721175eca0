"""The events of a run, reported as they happen, each one once.

A preempted request starts again and produces the same events, perhaps in another order; `EventLog` drops those
that the caller has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
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

    They are reported again: with new values as these are decoded, or with the old ones if the surer value stays, or if
    there is no room for another attempt.
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


_Key: TypeAlias = tuple[str, tuple[int, ...]]
Event: TypeAlias = FieldStarted | TextDelta | FieldDone | FieldAgain | Joined | Done | Failed


@dataclass(frozen=True, slots=True)
class _Complete:
    """The answer of a run is complete."""

    run: int


@dataclass(frozen=True, slots=True)
class _GivenUp:
    """There is no room for an attempt: the answer of a document is what it was when a run was complete."""

    run: int
    document: tuple[int, ...]


class EventLog:
    """The events of a request since they were last taken. A log that is not read keeps nothing."""

    def __init__(self, *, is_read: bool) -> None:
        self.is_read = is_read
        self._events: list[Event | _Complete | _GivenUp] = []
        self._known: Counter[Hashable] = Counter()  # in earlier attempts: characters of a field, or events of a kind
        self._now: Counter[Hashable] = Counter()  # in this attempt
        self._given_up = 0  # runs: each may have gone further in an earlier attempt, and what follows is counted anew
        self._done: dict[_Key, FieldDone] = {}  # the fields in this attempt
        self._answers: dict[int, dict[_Key, FieldDone]] = {}  # the fields of each run of it
        self._seen: dict[_Key, FieldDone | None] = {}  # the fields as the caller knows them; None: it grows
        self._lock = Lock()  # one thread takes events while another one makes the steps of all requests

    def report(self, *events: Event) -> None:
        self._append(events)

    def complete(self, run: int) -> None:
        self._append([_Complete(run)])

    def give_up(self, run: int, document: tuple[int, ...]) -> None:
        """What the caller has seen of a document since a run was complete is void."""
        self._append([_GivenUp(run, document)])

    def take(self) -> list[Event]:
        """The events since the last call that the caller has not seen."""
        with self._lock:
            events, self._events = self._events, []
            return [self._see(news) for event in events for news in self._news(event)]

    def start_again(self) -> None:
        """The request was preempted. Events that the caller has not taken will be reported again."""
        with self._lock:
            self._events.clear()
            for key, count in self._now.items():
                self._known[key] = max(self._known[key], count)
            self._now.clear()
            self._done.clear()
            self._given_up = 0

    def _append(self, events: Iterable[Event | _Complete | _GivenUp]) -> None:
        if self.is_read:
            with self._lock:
                self._events += events

    def _news(self, event: Event | _Complete | _GivenUp) -> Iterable[Event]:
        match event:
            case _Complete(run=run):
                self._answers[run] = dict(self._done)
                return ()
            case _GivenUp():
                self._given_up += 1
                return self._restored(event)
            case TextDelta():
                key: Hashable = (event.field, event.items, self._given_up)
                before = self._now[key]
                self._now[key] += len(event.text)
                fresh = event.text[max(self._known[key] - before, 0) :]
                return (replace(event, text=fresh),) if fresh else ()
            case FieldDone(field=field, items=items):
                self._done[field, items] = event
            case FieldAgain(field=field, items=items):
                self._done.pop((field, items), None)
        key = (event, self._given_up)
        self._now[key] += 1
        return (event,) if self._now[key] > self._known[key] else ()

    def _restored(self, given_up: _GivenUp) -> Iterator[Event]:
        document, answer = given_up.document, self._answers[given_up.run]
        for key in [one for one in answer | self._done | self._seen if one[1][: len(document)] == document]:
            self._done.pop(key, None)
            done = answer.get(key)
            if done is not None:
                self._done[key] = done
            if done is None or self._seen.get(key) != done:
                yield FieldAgain(*key, "there is no room for another attempt")
                if done is not None:
                    yield from (FieldStarted(*key), TextDelta(*key, done.text), done)

    def _see(self, event: Event) -> Event:
        match event:
            case FieldStarted(field=field, items=items):
                self._seen[field, items] = None
            case FieldDone(field=field, items=items):
                self._seen[field, items] = event
            case FieldAgain(field=field, items=items):
                self._seen.pop((field, items), None)
        return event
