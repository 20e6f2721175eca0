"""The events that a request reports to its caller, each one once.

A preempted request starts again and produces the same events, perhaps in another order; `EventLog` drops those
that the caller has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace

from pastalang.runtime.events import Event, TextDelta


class EventLog:
    """The events of a request since they were last taken. A log that is not read keeps nothing."""

    def __init__(self, *, is_read: bool) -> None:
        self.is_read = is_read
        self._events: list[Event] = []
        self._known: Counter[Hashable] = Counter()  # in earlier attempts: characters of a field, or events of a kind
        self._now: Counter[Hashable] = Counter()  # in this attempt

    def report(self, *events: Event) -> None:
        if self.is_read:
            self._events += events

    def take(self) -> list[Event]:
        """The events since the last call that the caller has not seen."""
        events, self._events = self._events, []
        return [news for event in events if (news := self._news(event)) is not None]

    def start_again(self) -> None:
        """The request was preempted. Events that the caller has not taken will be reported again."""
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
