"""The parts of a long run. Each part is made once and kept as a file, where the next run finds it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class OutOfTime(Exception):
    """The minutes are over. Parts that have not started wait for the next run."""


@dataclass(frozen=True, slots=True)
class Work:
    """`folder` belongs to one base model, data file and budget. `scope` names a set of figures within it."""

    folder: Path
    scope: str
    minutes: float | None
    report: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)

    def part(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of `make`, or of an earlier run that kept it. Raises `OutOfTime`."""
        known = self.known(name)
        if known is not None:
            return known
        self.check_time()
        began = time.monotonic()
        self.report(f"── {name}")
        made = make()
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(made, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(path)
        self.report(f"   {time.monotonic() - began:.1f} s")
        return made

    def known(self, name: str) -> dict[str, Any] | None:
        path = self._path(name)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def check_time(self) -> None:
        if self.minutes is not None and time.monotonic() - self.began > 60 * self.minutes:
            raise OutOfTime

    def _path(self, name: str) -> Path:
        return self.folder / self.scope / f"{name}.json"


def fingerprint(*parts: object) -> str:
    """A fingerprint of everything that the figures depend on."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.read_bytes() if isinstance(part, Path) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:12]
