"""What a caller has been told already: events come in, those that are news go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace

from pastalang.runtime.events import Event, TextDelta


class Told:
    """A request that starts again tells the same things, in another order perhaps."""

    def __init__(self) -> None:
        self._known: Counter[Hashable] = Counter()  # in earlier attempts: characters of a field, or events of a kind
        self._now: Counter[Hashable] = Counter()  # in this one

    def start_again(self) -> None:
        for key, count in self._now.items():
            self._known[key] = max(self._known[key], count)
        self._now.clear()

    def new(self, events: Iterable[Event]) -> list[Event]:
        return [news for event in events if (news := self._news(event)) is not None]

    def _news(self, event: Event) -> Event | None:
        if isinstance(event, TextDelta):
            key: Hashable = (event.field, event.items)
            before = self._now[key]
            self._now[key] += len(event.text)
            fresh = event.text[max(self._known[key] - before, 0) :]
            return replace(event, text=fresh) if fresh else None
        self._now[event] += 1
        return event if self._now[event] > self._known[event] else None
