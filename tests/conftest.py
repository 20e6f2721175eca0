"""Hypothesis profiles: `ci` for every run, `long` for the make target of many cases. And what is said at the end."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: as many workers as cores share them already

import pytest
from hypothesis import HealthCheck, settings

from tests.properties.summary import pytest_sessionfinish, pytest_testnodedown, write_summary

__all__ = ["pytest_sessionfinish", "pytest_testnodedown"]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    write_summary(terminalreporter)
    passed = terminalreporter.stats.get("passed", ())
    for note in (text for report in passed for name, text in report.user_properties if name == "note"):
        terminalreporter.line(note)


settings.register_profile(
    "ci", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session", autouse=True)
def every_run_checks_its_passes() -> None:
    """Every run of the tests compares its forward passes with those that its plan asks for."""
    from pastalang import Engine

    Engine.checks_passes = True


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a small model for all tests that only read it."""
    from tests.oracle.toy_models import save_toy

    return save_toy(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_not_ignored() -> None:
    """A shell starts a command in the background with SIGINT ignored, and Python leaves it so."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
