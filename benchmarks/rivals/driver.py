"""Asks all sides for the same documents in turn, checks the answers, and keeps what they took."""

from __future__ import annotations

import json
import os
import platform
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import jsonschema

from benchmarks.rivals.catalogue import STRICT, Entry
from benchmarks.rivals.side import Setup
from benchmarks.rivals.tasks import TASKS, Document, Task

SHARES: Final = {"A": 6.0, "C": 3.0, "B": 4.5, "D": 1.5, "A=": 1.8, "E": 0.8, "F": 0.8}  # of the time, by task
START: Final = 240.0  # seconds in which a side has to be ready
LONGEST: Final = 150.0  # seconds for one document, the making of its masks included
KINDS: Final = 3  # of documents in A: the first one of each is not counted
COUNTED: Final = 6  # documents of a task that are counted, at least
JsonObject = dict[str, Any]


class SideFailed(Exception):
    """A side cannot be started, did not answer in time, or its process ended."""


class Remote:
    """A side in its own process."""

    def __init__(self, entry: Entry, setup: Setup, core: int | None, log: IO[str]) -> None:
        self.entry = entry
        given = Setup(**{**asdict(setup), "options": dict(entry.options)})
        self._process = subprocess.Popen(
            [
                entry.python(Path(setup.rivals)), "-m", "benchmarks.rivals.worker", entry.where,
                json.dumps(asdict(given)), *([] if core is None else [str(core)]),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": str(setup.threads), "TOKENIZERS_PARALLELISM": "false"},
            start_new_session=True,
        )  # fmt: skip
        self._versions: JsonObject | None = None

    def wait(self, seconds: float) -> JsonObject:
        """The versions of what it uses."""
        if self._versions is None:
            self._versions = dict(self._read(seconds)["versions"])
        return self._versions

    def ask(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int, *, seconds: float) -> JsonObject:
        assert self._process.stdin is not None
        request = {"documents": [asdict(one) for one in documents], "lengths": list(lengths), "at_once": at_once}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as problem:
            raise SideFailed(f"its process has ended: {problem}") from problem
        return self._read(seconds)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._kill()
        self._process.stdout.close()

    def _kill(self) -> None:
        """With the server that it may have started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self, seconds: float) -> JsonObject:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self._kill()
            raise SideFailed(f"no answer within {seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise SideFailed("its process has ended")
        found: JsonObject = json.loads(line)
        if "problem" in found:
            raise SideFailed(found["problem"])
        return found


@dataclass
class Driver:
    """`most`: documents of a task. `patience` multiplies the seconds that a side may take.

    `record` grows while it runs, so that what there is can be saved at any time.
    """

    setup: Setup
    entries: Sequence[Entry]
    core: int | None
    log: IO[str]
    most: int = 60
    patience: float = 1.0
    record: JsonObject = field(default_factory=dict)
    _remotes: dict[str, Remote] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.record |= {"answers": [], "batches": [], "skipped": {}, "failed": [], "versions": {}}

    def run(self, keys: Sequence[str], seconds: float) -> Iterator[str]:
        """Measures the tasks one after another, each in its share of the time. Yields a line about each step."""
        total = sum(SHARES[key] for key in keys)
        for at, key in enumerate(keys):
            yield from self._start(key)
            share = seconds * SHARES[key] / total
            yield from self._batch(TASKS[key], share) if TASKS[key].is_batch else self._alone(TASKS[key], share)
            for idle in [one for one in self._remotes if not set(self._remotes[one].entry.tasks) & set(keys[at + 1 :])]:
                self._remotes.pop(idle).close()

    def close(self) -> None:
        for remote in self._remotes.values():
            remote.close()
        self._remotes.clear()

    def _start(self, task: str) -> Iterator[str]:
        """The sides of a task that have not been started for another one."""
        known = self._remotes.keys() | self.record["skipped"].keys()
        entries = [entry for entry in self.entries if task in entry.tasks and entry.key not in known]
        for entry in entries:
            missing = entry.missing(Path(self.setup.rivals))
            if missing is None:
                self._remotes[entry.key] = Remote(entry, self.setup, self.core, self.log)
            else:
                self.record["skipped"][entry.key] = missing
        for key in [entry.key for entry in entries if entry.key in self._remotes]:
            try:
                self.record["versions"] |= self._remotes[key].wait(START * self.patience)
                yield f"{key} is ready"
            except SideFailed as problem:
                self._drop(key, str(problem))
                yield f"{key} is skipped: {problem}"

    def _drop(self, key: str, reason: str) -> None:
        self.record["skipped"][key] = reason
        self._remotes.pop(key).close()

    def _asked(self, task: Task) -> list[Remote]:
        return [remote for remote in self._remotes.values() if task.key in remote.entry.tasks]

    # ── one document at a time ───────────────────────────────────────────────────────────────────────────

    def _alone(self, task: Task, seconds: float) -> Iterator[str]:
        end, slowest, kinds = time.monotonic() + seconds, 0.0, len(_kinds_of(task))
        seen = set[tuple[str, str]]()
        for number, document in enumerate(islice(task.documents(), self.most)):
            begun = time.monotonic()
            if number >= kinds + COUNTED and begun + slowest > end:
                return
            self._round(task, number, document, number // kinds, seen)
            slowest = max(slowest, time.monotonic() - begun) if number >= kinds else slowest
            yield f"{task.key}, document {number}: {time.monotonic() - begun:.1f} s"

    def _round(
        self, task: Task, number: int, document: Document, turn_of_kind: int, seen: set[tuple[str, str]]
    ) -> None:
        """The side without options goes first: it says how much those write that follow no schema.

        Sides of less weight get the first document of each kind, which is not counted, and then one of so many.
        """
        due = [one for one in self._asked(task) if turn_of_kind == 0 or (turn_of_kind - 1) % one.entry.every == 0]
        turn = number % max(1, len(due) - 1)
        ours = [remote for remote in due if remote.entry.key == STRICT]
        others = [remote for remote in due if remote.entry.key != STRICT]
        length = 100
        for remote in (*ours, *others[turn:], *others[:turn]):
            try:
                reply = remote.ask([document], [length], 1, seconds=LONGEST * self.patience)
            except SideFailed as problem:
                self._fail(task, remote, str(problem))
                continue
            found = reply["answers"][0]
            if remote in ours:
                length = tokens_of(found["text"], self.setup)
            is_first = (remote.entry.key, document.kind) not in seen
            seen.add((remote.entry.key, document.kind))
            self.record["answers"].append({
                "task": task.key, "side": remote.entry.key, "number": number, "kind": document.kind,
                "is_first": is_first, "wall": reply["wall"], "processor": reply["processor"],
                "memory": reply["memory"], "tokens": found["tokens"], "passes": found["passes"],
                "characters": len(found["text"]), **checked(document, found["text"]),
            })  # fmt: skip

    def _fail(self, task: Task, remote: Remote, reason: str) -> None:
        """A side that fails in one task is started again for the others."""
        entry = remote.entry
        self.record["failed"].append({"task": task.key, "side": entry.key, "reason": reason})
        remote.close()
        rest = tuple(key for key in entry.tasks if key != task.key)
        if not rest:
            self._remotes.pop(entry.key)
            return
        again = Remote(replace(entry, tasks=rest), self.setup, self.core, self.log)
        self._remotes[entry.key] = again
        try:
            again.wait(START * self.patience)
        except SideFailed as problem:
            self._drop(entry.key, str(problem))

    # ── many at once ─────────────────────────────────────────────────────────────────────────────────────

    def _batch(self, task: Task, seconds: float) -> Iterator[str]:
        """All settings of all sides for the same documents, as many as there is time for.

        PastaLang goes first: it says how much those write that follow no schema. It runs the documents of a kind
        together, so each kind has as many as any side takes at once.
        """
        settings = [(remote, size) for remote in self._asked(task) for size in remote.entry.sizes]
        if not settings:
            return
        count = KINDS * max(size for remote, size in settings if remote.entry.is_ours or size <= 8)
        count = min(self.most, max(count, int(seconds / len(settings) / 1.5)))  # some 1.5 s for a document
        documents = list(islice(task.documents(), count))
        lengths = [100] * count
        warm = documents[:KINDS]
        for remote, size in settings:
            if remote not in self._remotes.values():
                continue  # it has failed before
            try:
                limit = max(LONGEST, 2 * seconds) * self.patience
                remote.ask(warm, lengths[: len(warm)], size, seconds=limit)
                reply = remote.ask(documents, lengths, size, seconds=limit)
            except SideFailed as problem:
                self._fail(task, remote, str(problem))
                continue
            if remote.entry.key == STRICT:
                lengths = [tokens_of(found["text"], self.setup) for found in reply["answers"]]
            pairs = zip(documents, reply["answers"], strict=True)
            fit = sum(checked(document, found["text"])["fits"] for document, found in pairs)
            self.record["batches"].append({
                "side": remote.entry.key, "at_once": size, "documents": count, "wall": reply["wall"],
                "processor": reply["processor"], "memory": reply["memory"], "fit": fit,
            })  # fmt: skip
            yield f"{task.key}, {remote.entry.key}, {size} at once: {reply['wall']:.1f} s"


def _kinds_of(task: Task) -> set[str]:
    return {document.kind for document in islice(task.documents(), KINDS)}


def tokens_of(text: str, setup: Setup) -> int:
    global _tokenizer
    if _tokenizer is None:
        from tokenizers import Tokenizer

        _tokenizer = Tokenizer.from_file(str(Path(setup.weights) / "tokenizer.json"))
    return len(_tokenizer.encode(text, add_special_tokens=False).ids)


_tokenizer: Any = None


def checked(document: Document, text: str) -> JsonObject:
    """Whether an answer parses and fits the type, and how many of the known values it has."""
    try:
        value = json.loads(text)
    except ValueError:
        return {"parses": False, "fits": False, "right": 0, "known": len(document.truth or {})}
    try:
        jsonschema.validate(value, document.schema)
        fits = True
    except jsonschema.ValidationError:
        fits = False
    known = document.truth or {}
    right = sum(isinstance(value, dict) and value.get(key) == expected for key, expected in known.items())
    return {"parses": True, "fits": fits, "right": right, "known": len(known)}


def machine() -> JsonObject:
    import torch
    import transformers

    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line.partition(":")[2].strip() for line in flags.splitlines() if line.startswith("model name")), "")
    return {
        "processor": model or platform.machine(), "has_avx512": "avx512f" in flags, "cores": os.cpu_count(),
        "python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
        "load": os.getloadavg()[0], "day": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def run_module(name: str, arguments: Sequence[str], core: int | None, environment: Mapping[str, str]) -> Any:
    """What a module of this package prints as JSON, run in a process of its own and pinned like a side."""
    pin = ["taskset", "-c", str(core)] if core is not None else []
    found = subprocess.run(
        [*pin, sys.executable, "-m", f"benchmarks.rivals.{name}", *arguments], capture_output=True, text=True,
        cwd=Path(__file__).parents[2], env={**os.environ, **environment},
    )  # fmt: skip
    if found.returncode:
        raise SystemExit(f"{name}: {found.stderr[-2000:]}")
    return json.loads(found.stdout.splitlines()[-1])


def save(record: JsonObject, path: Path) -> None:
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
