"""Many inputs through one engine: when the next one begins, and what is not kept. The rest is in `tests/api`."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pastalang
from pastalang import Engine
from pastalang.runtime.scheduler.state import RequestState
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

PRODUCT = pastalang.compile('''
template product(title: text)
user """{title}"""
assistant json {
  kind: "tv" | "phone"
  tags: ["new" | "used"](max=3)
  name: string(max=4)
}
''')
TITLES = [{"title": "ab" * (number % 7)} for number in range(24)]


def engine(seed: int = 0, **options: Any) -> Engine:
    return Engine(hashed_model(320, seed=seed), byte_tokenizer(), **options)


def test_the_next_begins_as_soon_as_one_ends() -> None:
    runner, batches = engine(), engine()
    for start in range(0, len(TITLES), 4):
        batches.batch(PRODUCT, TITLES[start : start + 4])
    assert len(list(runner.map(PRODUCT, TITLES, in_flight=4))) == len(TITLES)
    assert runner.scheduler.forward_passes < batches.scheduler.forward_passes  # none waits for the slowest of a batch


def test_requests_that_have_ended_are_not_kept() -> None:
    requests = weakref.WeakSet[RequestState]()

    class Watched(Engine):
        def _request(self, *arguments: Any, **options: Any) -> RequestState:
            request = super()._request(*arguments, **options)
            requests.add(request)
            return request

    results = Watched(hashed_model(320), byte_tokenizer()).map(PRODUCT, TITLES, in_flight=2)
    for _ in range(15):
        next(results)
    gc.collect()
    assert len(requests) <= 3
