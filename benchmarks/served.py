"""Structured answers over HTTP: `pasta serve` and llama.cpp's server, with the same weights, schema and documents.

    python -m benchmarks.served --llama-server BINARY --gguf WEIGHTS.f32.gguf [--clients 1 8 32] [--page]

Both servers run at the same time on the loopback interface, with two threads and in float32, and are asked in turn: a
round of one, then the same documents of the other. Clients send the next document as soon as they have an answer.
Every answer is checked against the schema. `--page` writes the results page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

import httpx
import jsonschema

from benchmarks.llama_cpp import KINDS, SYSTEM, document, schema_of
from benchmarks.serve_load import pasta_serve, serving

PAGE: Final = Path(__file__).parent / "results" / "served.md"
CHAT: Final = "/v1/chat/completions"
THREADS: Final = 2
NAME: Final = "notes"  # of both models, for clients


@dataclass
class Side:
    name: str
    command: Sequence[str]
    address: str = ""
    latencies: dict[tuple[str, int], list[float]] = field(default_factory=dict)  # by questions and clients
    rates: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    wrong: int = 0


@contextmanager
def running(side: Side) -> Iterator[None]:
    with serving(side.command, ready="/health", OMP_NUM_THREADS=str(THREADS)) as (side.address, _):
        yield


def body_of(kind: str, text: str) -> dict[str, Any]:
    return {
        "model": NAME,
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}],
        "temperature": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "note", "strict": True, "schema": schema_of(KINDS[kind])},
        },
    }


async def ask(client: httpx.AsyncClient, side: Side, kind: str, text: str) -> float:
    """Seconds to the whole answer."""
    began = time.monotonic()
    answer = await client.post(f"{side.address}{CHAT}", json=body_of(kind, text))
    seconds = time.monotonic() - began
    answer.raise_for_status()
    try:
        jsonschema.validate(json.loads(answer.json()["choices"][0]["message"]["content"]), schema_of(KINDS[kind]))
    except (ValueError, jsonschema.ValidationError):
        side.wrong += 1
    return seconds


async def round_of(side: Side, kind: str, texts: Sequence[str], clients: int) -> tuple[float, list[float]]:
    """Documents a second, and the seconds of each."""
    left, found = list(texts), []

    async def work(client: httpx.AsyncClient) -> None:
        while left:
            found.append(await ask(client, side, kind, left.pop()))

    began = time.monotonic()
    async with httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=clients)) as client:
        await asyncio.gather(*(work(client) for _ in range(clients)))
    return len(texts) / (time.monotonic() - began), found


def measure(sides: Sequence[Side], clients: Sequence[int], *, rounds: int) -> None:
    chance = Random(0)
    for number in range(rounds + 1):  # the first one warms up
        for kind in KINDS:
            for count in clients:
                texts = [document(chance) for _ in range(max(4, 2 * count))]
                for side in sides if number % 2 else reversed(sides):
                    rate, seconds = asyncio.run(round_of(side, kind, texts, count))
                    if number:
                        side.rates.setdefault((kind, count), []).append(rate)
                        side.latencies.setdefault((kind, count), []).extend(seconds)


def page_of(sides: Sequence[Side], clients: Sequence[int], command: str) -> str:
    rows = []
    for kind in KINDS:
        for count in clients:
            rates = [median(side.rates[kind, count]) for side in sides]
            for side, rate in zip(sides, rates, strict=True):
                seconds = sorted(side.latencies[kind, count])
                late = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]
                rows.append(
                    f"| {kind} | {count} | {side.name} | {median(seconds):.2f} s | {late:.2f} s | {rate:.2f} "
                    f"| {rate / rates[-1]:.2f}x |"
                )
    wrong = "; ".join(f"{side.name}: {side.wrong}" for side in sides)
    table = "\n".join(rows)
    return f"""# Structured answers over HTTP

`{command}`: SmolLM2-135M in float32, twelve fields of made-up notes of a
help desk, prompts of about 285 tokens, the same JSON schema in `response_format`, on {os.cpu_count()} cores of
{platform.machine()} that both servers may use, in turn.

| questions | clients | server | answer, median | p95 | documents a second | relative |
|---|---:|---|---:|---:|---:|---:|
{table}

Answers that do not fit the schema: {wrong}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--llama-server", required=True, metavar="BINARY")
    parser.add_argument("--gguf", required=True, type=Path, help="weights for llama.cpp's server, in float32")
    parser.add_argument("--model", default="smollm2", help="the same weights for pasta serve")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="write the results page")
    given = parser.parse_args()
    most = max(given.clients)
    ours = [*pasta_serve(given.model), "--name", NAME, "--dtype", "float32", "--adapter", "none"]
    theirs = [given.llama_server, "--model", str(given.gguf), "--parallel", str(most), "--ctx-size", str(640 * most)]
    sides = [
        Side("pasta serve", ours),
        Side("llama.cpp's server", [*theirs, "--threads", str(THREADS), "--host", "127.0.0.1"]),
    ]
    with ExitStack() as servers:
        for side in sides:
            servers.enter_context(running(side))
        measure(sides, given.clients, rounds=given.rounds)
    command = f"python -m benchmarks.served --clients {' '.join(map(str, given.clients))} --rounds {given.rounds}"
    page = page_of(sides, given.clients, command)
    if given.page:
        PAGE.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
