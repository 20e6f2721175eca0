"""The commands of the harness: `python -m benchmarks.rivals --help`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.rivals.catalogue import ENTRIES
from benchmarks.rivals.driver import SHARES, Driver, machine, run_module, save
from benchmarks.rivals.page import RECORD, write_pages
from benchmarks.rivals.side import Setup

RIVALS: Final = Path(".venvs/rivals")
GROWTH, PROFILE = 0.12, 0.04  # of the time
OVERHEAD: Final = 0.10  # of the time, for starting the sides


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals", description="Measure, and write the page.")
    commands = parser.add_subparsers(dest="command", required=True)
    asked = commands.add_parser("measure", help="ask all sides in turn; writes the record")
    asked.add_argument("--model", default="smollm2")
    asked.add_argument("--minutes", type=float, default=38.0, help="in all; more documents are asked for in more time")
    asked.add_argument("--tasks", nargs="+", choices=list(SHARES), default=list(SHARES))
    asked.add_argument("--sides", nargs="+", choices=list(ENTRIES), default=list(ENTRIES))
    asked.add_argument("--documents", type=int, default=60, help="of a task, at most")
    asked.add_argument("--rivals", type=Path, default=Path(os.environ.get("PASTALANG_RIVALS", RIVALS)),
                       help="the folder that `make rivals` has filled")  # fmt: skip
    asked.add_argument("--threads", type=int, default=1, help="of each side")
    asked.add_argument("--core", type=int, help="to which the sides are pinned; the last one, with one thread")
    asked.add_argument("--patience", type=float, default=1.0, help="multiplies the limits, for a machine that is busy")
    asked.add_argument("--only-sides", action="store_true", help="keep the growth and the profile of the last record")
    asked.add_argument("--small", action="store_true", help="growth with two points of each curve")
    asked.add_argument("--record", type=Path, default=RECORD)
    page = commands.add_parser("page", help="write docs/speed.md, its pictures and README's table from the record")
    page.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args(arguments)
    if given.command == "measure":
        measure(given)
    else:
        write_pages(json.loads(given.record.read_text(encoding="utf-8")))


def measure(given: argparse.Namespace) -> None:
    began, seconds = time.monotonic(), 60 * given.minutes
    core = given.core
    if core is None and given.threads == 1 and hasattr(os, "sched_getaffinity"):
        core = max(os.sched_getaffinity(0))
    setup = Setup(given.model, weights_of(given.model), str(given.rivals.absolute()), given.threads)
    about = {**machine(), "model": given.model, "threads": given.threads, "minutes": given.minutes}
    earlier = json.loads(given.record.read_text(encoding="utf-8")) if given.record.exists() else {}
    log_file = Path(tempfile.gettempdir()) / "pastalang-rivals.log"
    with log_file.open("w", encoding="utf-8") as log:
        entries = [ENTRIES[key] for key in given.sides]
        driver = Driver(setup, entries, core, log, most=given.documents, patience=given.patience)
        try:
            share = OVERHEAD + (0 if given.only_sides else GROWTH + PROFILE)
            for line in driver.run(given.tasks, seconds * (1 - share)):
                print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)
        finally:
            driver.close()
            record = {"about": about, **driver.record}
            record |= {key: earlier[key] for key in ("growth", "profile") if key in earlier}
            save(record, given.record)
    if not given.only_sides:
        environment = {"OMP_NUM_THREADS": str(given.threads)}
        profile = ["--small"] if given.small else []
        growth = ["--seconds", str(0 if given.small else GROWTH * seconds)]
        for name, options in (("profile", profile), ("growth", growth)):
            record[name] = run_module(name, ["--model", given.model, *options], core, environment)
            print(f"{time.monotonic() - began:6.0f} s  {name}", flush=True)
            save(record, given.record)
    print(f"{given.record}; what the sides had to say is in {log_file}")


def weights_of(model: str) -> str:
    """The folder that transformers reads: that of the model, or the one to which a GGUF file is converted."""
    from pastalang.runtime.models.gguf_weights import weights_of_gguf
    from pastalang.runtime.models.source import gguf_file, shipped_folder

    folder = shipped_folder(model)
    if folder is not None:
        return str(folder)
    file = gguf_file(model)
    return str(weights_of_gguf(file)) if file is not None else model


if __name__ == "__main__":
    main(sys.argv[1:])
