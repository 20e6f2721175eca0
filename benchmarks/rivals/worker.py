"""The process of one side: reads requests as lines of JSON, and writes a line for each.

    python -m benchmarks.rivals.worker MODULE:CLASS SETUP [CORE]

What libraries print does not come between: the lines go where standard output went when the process began.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from benchmarks.rivals.side import Setup, Side, peak_memory, processor_seconds
from benchmarks.rivals.tasks import Document

LIBRARIES: Final = ("guidance", "llama-cpp-python", "openvino-genai", "outlines", "torch", "transformers", "xgrammar")


def made(name: str, setup: Setup) -> Side:
    module, _, kind = name.partition(":")
    side: Side = getattr(import_module(module), kind)(setup)
    return side


def answered(side: Side, request: dict[str, Any]) -> dict[str, Any]:
    documents = [Document(**one) for one in request["documents"]]
    side.prepare(request["at_once"])
    processes = side.processes()
    before, wall = sum(map(processor_seconds, processes)) + time.process_time(), time.perf_counter()
    found = side.answer(documents, request["lengths"], request["at_once"])
    wall = time.perf_counter() - wall
    processor = sum(map(processor_seconds, processes)) + time.process_time() - before
    memory = sum(map(peak_memory, processes)) or peak_memory()
    return {"answers": [asdict(one) for one in found], "wall": wall, "processor": processor, "memory": memory}


def main() -> None:
    name, setup, *core = sys.argv[1:]
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=lines, flush=True)

    try:
        side = made(name, Setup(**json.loads(setup)))
    except BaseException as problem:
        traceback.print_exc()
        say({"problem": described(problem)})
        return
    if core:  # only now: sides that are started at the same time may use all cores for that
        for process in (os.getpid(), *side.processes()):
            pin(process, int(core[0]))
    say({"versions": versions()})
    try:
        for line in sys.stdin:
            try:
                say(answered(side, json.loads(line)))
            except Exception as problem:
                traceback.print_exc()
                say({"problem": described(problem)})
    finally:
        side.close()


def versions() -> dict[str, str]:
    """Of the libraries that are here, by their names."""
    found = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def pin(process: int, core: int) -> None:
    """All threads of a process, to one core."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def described(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}"[:300]


if __name__ == "__main__":
    main()
