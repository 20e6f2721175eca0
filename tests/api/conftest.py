"""The `pasta` command in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.command import Pasta


@pytest.fixture
def pasta(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Pasta:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("PASTALANG_MODEL", raising=False)
    return Pasta(monkeypatch, capfd)
