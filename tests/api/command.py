"""The `pasta` command in this process, found as an installation finds it: by its entry point."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Pasta:
    """Calls the command as a shell would: `pasta("check", "a.pasta")`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capfd = capfd
        module, _, name = tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["scripts"]["pasta"].partition(":")
        self._main = getattr(import_module(module), name)

    def __call__(self, *words: object) -> Ended:
        self._monkeypatch.setattr(sys, "argv", ["pasta", *map(str, words)])
        self._capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            self._main()
        out, error = self._capfd.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else int(bool(code)), out, error)
