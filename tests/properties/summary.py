"""Hooks of pytest that say behind the tests how many cases of each invariant there were, in all processes together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.properties.tally import ALL


def pytest_sessionfinish(session: Any) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["invariants"] = ALL.seen


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    ALL.add(getattr(node, "workeroutput", {}).get("invariants", {}))


def write_summary(terminalreporter: Any) -> None:
    counts = {one: number for one, number in ALL.counts.items() if number}
    if counts:
        terminalreporter.section("cases of the invariants")
        for one, number in counts.items():
            terminalreporter.line(f"{number:8,}  {one.value}")
        terminalreporter.line(f"{sum(counts.values()):8,}  together")
