"""The log of a run that may be interrupted: its lines, and the processor hours it took in all."""

from __future__ import annotations

import json
import time
from pathlib import Path

from pastalang.training.run_folder import ReportLine


class RunLog:
    """Reports lines and keeps them in `log.txt`. A resumed run continues the log and the hours of the one before."""

    def __init__(self, folder: Path, report: ReportLine, processes: int = 1) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lines, self._spent = folder / "log.txt", folder / "hours.json"
        self._report, self._processes = report, processes
        self._before = float(json.loads(self._spent.read_text())) if self._spent.exists() else 0.0
        self._began = time.process_time()

    @property
    def hours(self) -> float:
        """Of this process and those beside it, and of runs that they resume. What records rows ahead is not in it."""
        return self._before + (time.process_time() - self._began) * self._processes / 3600

    def __call__(self, line: str) -> None:
        with self._lines.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")
        written = self._spent.with_suffix(".partial")
        written.write_text(json.dumps(self.hours))
        written.replace(self._spent)
        self._report(line)
