"""The events that a request reports to its caller, each one once.

A preempted request starts again and produces the same events, perhaps in another order; `EventLog` drops those
that the caller has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace

from pastalang.plan.plan import Arm, Repeat, Text
from pastalang.runtime.events import Event, FieldDone, FieldStarted, TextDelta
from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.transcript import Field


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


def report_start(branch: BranchState, field: Field) -> None:
    branch.request.events.report(FieldStarted(field.path, field.items))


def report_text(branch: BranchState, field: Field, text: str) -> None:
    if text:
        branch.request.events.report(TextDelta(field.path, field.items, text))
        field.reported += len(text)


def report_end(branch: BranchState, field: Field) -> None:
    """Text that could have become a tag is reported only now."""
    report_text(branch, field, field.text[field.reported :])
    _report_done(branch, FieldDone(field.path, field.items, field.text, field.truncated))


def report_value(branch: BranchState, path: str, items: tuple[int, ...], text: str) -> None:
    """A value that was chosen and not decoded: the null of an optional object, an empty list."""
    branch.request.events.report(FieldStarted(path, items), TextDelta(path, items, text))
    _report_done(branch, FieldDone(path, items, text, truncated=False))


def report_again(branch: BranchState, fields: Iterable[FieldDone]) -> None:
    """Values that replace those that were decoded in their place."""
    for done in fields:
        branch.request.events.report(
            FieldStarted(done.field, done.items), TextDelta(done.field, done.items, done.text), done
        )


def _report_done(branch: BranchState, done: FieldDone) -> None:
    branch.request.events.report(done)
    branch.record.reported.append(done)


def report_arm(branch: BranchState, field: str, arm: Arm) -> None:
    """An arm without a hole is a value of its own; the holes of other arms report themselves."""
    texts = [segment.text for segment in arm.segments if isinstance(segment, Text)]
    if len(texts) == len(arm.segments):
        report_value(branch, field, branch.cursor.items, arm.lead + "".join(texts))


def report_empty_list(branch: BranchState, repeat: Repeat, items: int) -> None:
    """A JSON list that ends before its first item."""
    if items == 0 and repeat.empty is not None:
        report_value(branch, repeat.field, branch.cursor.items, "[]")
