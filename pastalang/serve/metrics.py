"""What a server counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pastalang.runtime.result import Result
from pastalang.serve.driver import Driver

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """One registry for each server, so that two of them in a process do not count together."""

    def __init__(self, driver: Driver) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "pastalang_requests_total", "Requests by endpoint and status.", ["endpoint", "status"], registry=registry
        )
        self._latency = Histogram(
            "pastalang_request_seconds",
            "From accepting a request to its last token.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._first = Histogram(
            "pastalang_first_text_seconds", "From accepting a streamed request to its first text.", buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self._tokens = Counter("pastalang_tokens_total", "Tokens by kind.", ["kind"], registry=registry)
        gauges = {
            "pastalang_in_flight": ("Requests that are being decoded.", lambda: driver.in_flight),
            "pastalang_waiting": ("Requests that wait for a place.", lambda: driver.waiting),
            "pastalang_passes_total": ("Forward passes so far.", lambda: driver.passes),
        }
        for name, (about, read) in gauges.items():
            Gauge(name, about, registry=registry).set_function(read)

    def finished(self, result: Result, *, seconds: float, first_text: float | None) -> None:
        self._latency.observe(seconds)
        if first_text is not None:
            self._first.observe(first_text)
        usage = result.usage
        for kind, count in (
            ("prompt", usage.input_tokens), ("cached", usage.reused_tokens), ("drawn", usage.output_tokens),
            ("known", usage.forced_tokens),
        ):  # fmt: skip
            self._tokens.labels(kind).inc(count)

    def text(self) -> bytes:
        return generate_latest(self._registry)
