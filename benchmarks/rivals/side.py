"""A side: something that answers documents with JSON, in a process of its own.

A side is a small class that is made in `worker`, in the environment that it needs. No module of PastaLang is imported
here, and nothing that takes long.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.rivals.tasks import Document

CAP: Final = 1600  # tokens of an answer, of sides whose grammar ends it
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Setup:
    """Where everything is. `weights` is a folder that transformers loads, `model` the name that PastaLang knows."""

    model: str
    weights: str
    rivals: str  # the folder of `make rivals`
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """An answer. `tokens` were written or drawn one by one, in `passes` of the model, None where nobody says."""

    text: str
    tokens: int | None = None
    passes: float | None = None


class Side(Protocol):
    """`answer` is asked for as many documents as may go at once. `lengths` are the tokens to write, for sides that
    follow no schema: as many as another side needed for the same document."""

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]: ...

    def prepare(self, at_once: int) -> None:
        """What is not timed: a server may have to start anew for so many requests at once."""
        ...

    def processes(self) -> Sequence[int]:
        """Whose processor time and memory count besides those of this process."""
        ...

    def close(self) -> None: ...


class InProcess:
    """What sides have in common that run in this process."""

    def prepare(self, at_once: int) -> None:
        pass

    def processes(self) -> Sequence[int]:
        return ()

    def close(self) -> None:
        pass


class Server:
    """A server in a process of its own, on the loopback interface, and requests to it."""

    def __init__(self, command: Sequence[str], *, seconds: float = 180.0) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait(seconds)

    @property
    def process(self) -> int:
        return self._process.pid

    def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"{self.address}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            time.sleep(0.2)
        self._process.kill()
        raise RuntimeError(f"the server did not answer within {seconds:.0f} s: {self._process.args}")


def processor_seconds(process: int) -> float:
    """Of another process and of those that it has waited for, in hundredths."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / _TICKS


def peak_memory(process: int | str = "self") -> float:
    """The most memory that a process has had, in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
