"""Load a server for minutes: how long fields take, what its memory does, and whether every answer is the engine's own.

    python -m benchmarks.serve_load [MODEL] [--clients 64] [--seconds 600] [--new 0.05] [--page]

Starts `pasta serve MODEL` on the loopback interface and asks it for JSON from as many clients at once, each of which
asks again as soon as it has its answer. The schemas are those below; the share `--new` of them has keys that the server
has never seen. Every answer is streamed with the events of its fields. After the run the engine decodes the same
requests by itself. `--page` writes the results page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

import pastalang
from benchmarks.rivals.driver import machine
from pastalang.program.types import Sampling
from pastalang.serve.tasks import task_of
from pastalang.serve.wire import read_chat

PAGE: Final = Path(__file__).parent / "results" / "serve-load.md"
CHAT: Final = "/v1/chat/completions"
WARM_UP: Final = 0.25  # of the run: memory is compared after it
BRANDS: Final = ("Norvika", "Sharp", "Bosch", "Miele", "Lavazza", "Illy", "Dell", "Kenko", "Acme", "Sony")
THINGS: Final = (
    "Coffee, Dark Roast, 12 oz", "42 inch TV, 4K, black", "espresso beans, 500 g", "USB-C monitor, 27 inch",
    "vacuum cleaner, 700 W, with three brushes and a spare bag", "green tea",
)  # fmt: skip


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def text(most: int, **more: Any) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, **more}


def whole(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


FLAG: Final = {"type": "boolean"}
SCHEMAS: Final[tuple[dict[str, Any], ...]] = (
    record(brand=text(16), roast={"enum": ["light", "medium", "dark", None]}, grams=whole(0, 5000)),
    record(
        name={"type": ["string", "null"], "maxLength": 20}, ok=FLAG,
        score={"type": "number", "minimum": 0, "maximum": 10},
    ),
    record(items={"type": "array", "items": record(title=text(12), size=whole(1, 99)), "minItems": 1, "maxItems": 3}),
    record(outer=record(inner=record(name=text(8), flag=FLAG), kind={"enum": ["x", "y", None]}), note=text(24)),
    record(code=text(5, pattern="^[A-Z]{2}[0-9]{3}$"), day=text(10, format="date")),
    {"anyOf": [record(kind={"const": "size"}, size=whole(0, 9)), record(kind={"const": "name"}, name=text(10))]},
    record(**{f"field_{number}": text(8) for number in range(8)}),
    record(tags={"type": "array", "items": text(6), "maxItems": 4}),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    body: dict[str, Any]
    text: str
    first: float  # seconds to the first complete field
    last: float


@dataclass
class Load:
    model: str
    seconds: float
    new: float
    answers: list[Answer] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds, MB
    started: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.started >= self.seconds


# ── the clients ──────────────────────────────────────────────────────────────────────────────────────────


def request_of(chance: random.Random, load: Load) -> dict[str, Any]:
    schema = chance.choice(SCHEMAS)
    if chance.random() < load.new:
        name = f"field_{chance.randrange(10**9)}"
        schema = record(**{name: text(chance.randrange(4, 40)), f"{name}_size": whole(0, chance.randrange(9, 10**6))})
    said = f"Title: {chance.choice(BRANDS)} {chance.choice(THINGS)}, no. {chance.randrange(1000)}"
    return {
        "model": load.model,
        "messages": [{"role": "user", "content": said}],
        "stream": True,
        "pasta": {"events": True},
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }


async def ask(client: httpx.AsyncClient, body: dict[str, Any], load: Load) -> None:
    begun, first, written = time.monotonic(), None, ""
    async with client.stream("POST", CHAT, json=body) as answer:
        load.statuses[answer.status_code] += 1
        if answer.status_code == 429:
            await asyncio.sleep(float(answer.headers["retry-after"]))
        if answer.status_code != 200:
            return
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            part = json.loads(line.removeprefix("data: "))
            if "error" in part:
                load.problems[part["error"]["message"]] += 1
                return
            written += "".join(one["delta"].get("content") or "" for one in part.get("choices", ()))
            events = part.get("pasta", {}).get("events", ())
            if first is None and any(event["event"] == "done" for event in events):
                first = time.monotonic() - begun
    last = time.monotonic() - begun
    load.answers.append(Answer(body, written, last if first is None else first, last))


async def run_client(number: int, address: str, load: Load) -> None:
    chance = random.Random(number)
    async with httpx.AsyncClient(base_url=address, timeout=600) as client:
        while not load.is_over:
            try:
                await ask(client, request_of(chance, load), load)
            except httpx.HTTPError as problem:
                load.problems[type(problem).__name__] += 1


async def watch(process: int, load: Load) -> None:
    while not load.is_over:
        load.memory.append((time.monotonic() - load.started, resident(process)))
        await asyncio.sleep(1)


def resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def run_load(address: str, process: int, clients: int, load: Load) -> None:
    load.started = time.monotonic()
    await asyncio.gather(watch(process, load), *(run_client(number, address, load) for number in range(clients)))


def pasta_serve(model: str) -> list[str]:
    return [sys.executable, "-c", "from pastalang.cli.main import main; main()", "serve", model]


@contextmanager
def serving(command: Sequence[str], *, ready: str = "/ready", **environment: str) -> Iterator[tuple[str, int]]:
    """The address of a server, once it answers at `ready`, and its process. `command` takes a `--port`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [*command, "--port", str(port)], env=os.environ | environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            wait_for(f"{address}{ready}", process)
            yield address, process.pid
        finally:
            process.terminate()


def wait_for(address: str, process: subprocess.Popen[Any], *, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        try:
            if httpx.get(address).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"the server did not answer at {address}")


# ── what came of it ──────────────────────────────────────────────────────────────────────────────────────


def different(load: Load, most: int) -> tuple[int, int]:
    """How many requests the engine was given alone, and how many of its answers are others. Raises no error for any."""
    engine = pastalang.Engine.load(load.model)
    known = {json.dumps(one.body): one for one in load.answers}
    chosen = random.Random(0).sample(sorted(known), min(most, len(known)))
    wrong = sum(alone(engine, known[key].body) != known[key].text for key in chosen)
    return len(chosen), wrong


def alone(engine: pastalang.Engine, body: dict[str, Any]) -> str:
    ask = read_chat(body)
    task = task_of(ask)
    sampling = Sampling(temperature=ask.temperature, top_p=ask.top_p)
    return engine.run(task.program, dict(task.inputs), sampling=sampling, on_truncated="keep").text


def share(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def growth(load: Load) -> tuple[float, float, float]:
    """MB after the warm-up, MB at the end, and per cent between them. Each is the median of a twentieth of the run."""
    width = max(load.seconds / 20, 3)  # seconds: memory is read every second

    def level(start: float) -> float:
        return median(size for at, size in load.memory if start <= at <= start + width)

    before, after = level(load.seconds * WARM_UP), level(load.seconds - width)
    return before, after, 100 * (after / before - 1)


def where() -> str:
    about = machine()
    processor = about["processor"] + (" with AVX-512" if about["has_avx512"] else "")
    return f"{about['cores']} cores of an {processor}, whose load was {about['load']:.0f} at the end"


def report(load: Load, clients: int, compared: tuple[int, int]) -> str:
    firsts, lasts = [one.first for one in load.answers], [one.last for one in load.answers]
    before, after, grown = growth(load)
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(load.statuses.items()))
    problems = ", ".join(f"{name}: {count}" for name, count in load.problems.items()) or "none"
    tenths = [max(size for at, size in load.memory if at <= load.seconds * part / 10) for part in range(1, 11)]
    rows = {
        "answers": f"{len(load.answers):,}",
        "answers per second": f"{len(load.answers) / load.seconds:.1f}",
        "statuses": statuses,
        "other problems": problems,
        "first field, p50 and p95": f"{share(firsts, 0.5):.2f} s, {share(firsts, 0.95):.2f} s",
        "last field, p50 and p95": f"{share(lasts, 0.5):.2f} s, {share(lasts, 0.95):.2f} s",
        f"memory after {100 * WARM_UP:.0f} % of the time and at the end": f"{before:,.0f} MB, {after:,.0f} MB",
        "growth between them": f"{grown:+.1f} %",
        "compared with the engine alone, different": f"{compared[0]}, {compared[1]}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""# A server under load

`pasta serve {load.model}` in float32, {clients} clients that ask again at once for {load.seconds:.0f} seconds,
{len(SCHEMAS)} schemas, and {100 * load.new:.0f} % of the requests with one never seen before.
On {where()}.

| | |
|---|---:|
{table}

The most memory up to each tenth of the run, in MB: {", ".join(f"{size:,.0f}" for size in tenths)}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="?", default="pasta-mini")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--new", type=float, default=0.05, help="the share of requests with a schema of their own")
    parser.add_argument("--compared", type=int, default=300, help="answers that the engine decodes again by itself")
    parser.add_argument("--page", action="store_true", help="write the results page")
    given = parser.parse_args()
    load = Load(given.model, given.seconds, given.new)
    with serving(pasta_serve(given.model)) as (address, process):
        asyncio.run(run_load(address, process, given.clients, load))
    page = report(load, given.clients, different(load, given.compared))
    if given.page:
        PAGE.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
