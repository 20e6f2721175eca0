"""A request that is preempted starts again later. Whoever follows its events must not notice."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import pastalang
from pastalang import Done, Engine, Event, Failed, FieldAgain, FieldDone, FieldStarted, Joined, Sampling, TextDelta
from pastalang.runtime.events import EventLog
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model

PROGRAM = pastalang.compile('''
template t(title: text)
user """
{title}
"""
assistant json {
  brand: string(max=9)
  price: string(max=9)
  colours: [{ name: string(max=5) }](1..8)
  kind: "television" | "telephone" | "tea"
  headline: string(max=8) after brand, price
}
''')
TITLES = [{"title": "Sharp TV"}, {"title": "Nokia phone"}, {"title": "A pot of tea"}]
PLENTY = 1 << 12
WARM = Sampling(temperature=1.0)


def engine_of(cells: int, seed: int) -> tuple[Engine, FakeModel]:
    model = hashed_model(320, seed=seed)
    model.cells = cells
    return Engine(model, byte_tokenizer(), prefix_cells=0), model


def starts(model: FakeModel) -> int:
    """How often a prompt was fed from its beginning."""
    return sum(fed.position == 0 for fed in model.fed)


def at_once(streams: Sequence[Iterator[Event]]) -> list[list[Event]]:
    """The events of each stream, taken from all of them in turn."""
    columns: list[list[Event]] = [[] for _ in streams]
    for row in zip_longest(*streams):
        for column, event in zip(columns, row, strict=True):
            if event is not None:
                column.append(event)
    return columns


def history(events: Sequence[Event]) -> dict[Any, list[Any]]:
    """What was reported of each field, in order; pieces of text that follow each other are one text."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for event in events:
        match event:
            case TextDelta(field=field, items=items, text=text):
                reported = found[field, items]
                if reported and isinstance(reported[-1], str):
                    reported[-1] += text
                else:
                    reported.append(text)
            case FieldStarted(field=field, items=items) | FieldDone(field=field, items=items):
                found[field, items].append(event)
            case FieldAgain(field=field, items=items):
                found[field, items].append(event)
            case Joined(branch=branch, items=items):
                found["joined", branch, items].append(event)
            case Done(result=result):
                found["value"].append((result.value, result.text, [field.tokens for field in result.fields]))
            case Failed(error=error):
                raise error
    return dict(found)


def check_streams(requests: Sequence[dict[str, str]], cells: int, seed: int, **options: Any) -> int:
    """Says how often a request started again. `undisturbed` has memory for all of them at once."""
    undisturbed = [
        history(list(engine_of(PLENTY, seed)[0].stream(PROGRAM, inputs, seed=seed, **options))) for inputs in requests
    ]
    engine, model = engine_of(cells, seed)
    streams = [engine.stream(PROGRAM, inputs, seed=seed, **options) for inputs in requests]
    assert [history(events) for events in at_once(streams)] == undisturbed
    engine.check_integrity()
    return starts(model) - len(requests)


def test_requests_that_share_a_small_memory_report_everything_once() -> None:
    assert all(check_streams(TITLES, cells, seed, sampling=WARM) for cells, seed in ((195, 3), (360, 2), (390, 2)))


def test_a_request_that_goes_through_its_branches_one_at_a_time_reports_everything_once() -> None:
    assert all(check_streams(TITLES[:1], cells, seed, sampling=WARM) for cells, seed in ((130, 0), (150, 1), (160, 3)))


def test_fields_that_are_decoded_again_are_reported_as_often_as_without_preemption() -> None:
    assert check_streams(TITLES, 450, 0, sampling=WARM, retry_below=0.9)


def test_what_any_earlier_attempt_reported_is_not_reported_again() -> None:
    """The second attempt ends before it has come as far as the first."""
    log = EventLog(is_read=True)

    def report(text: str) -> list[Event]:
        log.report(FieldStarted("a", ()), *(TextDelta("a", (), letter) for letter in text))
        return log.take()

    assert history(report("abc")) == {("a", ()): [FieldStarted("a", ()), "abc"]}
    for text, news in (("ab", []), ("abcd", ["d"]), ("", []), ("abcde", ["e"])):
        log.start_again()
        assert history(report(text)).get(("a", ()), []) == news


def test_what_is_taken_while_another_thread_preempts_the_request_is_not_reported_again() -> None:
    class Slow(EventLog):
        def _news(self, event: Event) -> Event | None:
            if other.ident is None:
                other.start()
                other.join(0.2)
            return super()._news(event)

    log = Slow(is_read=True)
    log.report(TextDelta("a", (), "one "))
    other = threading.Thread(target=lambda: (log.start_again(), log.report(TextDelta("a", (), "one two"))))
    taken = log.take()
    other.join()
    assert history([*taken, *log.take()]) == {("a", ()): ["one two"]}
