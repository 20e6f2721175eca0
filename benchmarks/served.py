"""Structured answers over HTTP, for one client and for many: `pasta serve`, llama.cpp's server, `transformers serve`.

    python -m benchmarks.served --rivals FOLDER [--transformers PYTHON] [--clients 1 8 32] [--rounds 2] [--page]

All servers have the same weights in float32 and the same threads, run at the same time on the loopback interface, and
are asked in turn: a round of one, then the same documents of the next. A client sends its next document as soon as it
has an answer. The first two are given the schema. `transformers serve` knows none, so it is asked for JSON in words,
as the others are too; its answers are what stands between the first and the last brace. `FOLDER` is that of
`make rivals`, and `PYTHON` that of an environment with `transformers[serving]`. `--page` writes the results page.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.rivals.__main__ import RIVALS, weights_of
from benchmarks.rivals.catalogue import F32
from benchmarks.rivals.driver import checked
from benchmarks.rivals.side import Server
from benchmarks.rivals.sides.ours import body_of
from benchmarks.rivals.tasks import TASKS, Document
from benchmarks.serve_load import pasta_serve, share, where

PAGE: Final = Path(__file__).parent / "results" / "served.md"
CHAT: Final = "/v1/chat/completions"
KINDS: Final = {"open": "A", "closed": "C"}  # of the twelve questions, and the tasks that ask them
MOST_TOKENS: Final = 200  # of an answer that no schema ends


@dataclass
class Side:
    name: str
    server: Server
    model: str
    knows_schemas: bool = True
    most: int = 1_000  # clients that it is asked by
    latencies: dict[tuple[str, int], list[float]] = field(default_factory=dict)  # by questions and clients
    rates: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    answers: int = 0
    parsed: int = 0
    fitting: int = 0

    def body(self, document: Document) -> Mapping[str, Any]:
        body = body_of(document) | {"model": self.model}
        if not self.knows_schemas:
            del body["response_format"]
            body["max_tokens"] = MOST_TOKENS
        return body

    def ask(self, document: Document) -> float:
        """Seconds to the whole answer."""
        began = time.monotonic()
        answer = self.server.ask(CHAT, self.body(document))
        seconds = time.monotonic() - began
        text = answer["choices"][0]["message"]["content"]
        found = checked(document, text if self.knows_schemas else text[text.find("{") : text.rfind("}") + 1])
        self.answers += 1
        self.parsed += found["parses"]
        self.fitting += found["fits"]
        return seconds


def measure(sides: Sequence[Side], kinds: Sequence[str], clients: Sequence[int], *, rounds: int) -> None:
    """The first document of each kind warms up."""
    for count in clients:
        for questions in kinds:
            documents = TASKS[KINDS[questions]].documents()
            warm, size = list(islice(documents, 1)), max(3, count)
            for number, texts in enumerate([warm, *(list(islice(documents, size)) for _ in range(rounds))]):
                for side in sides if number % 2 else reversed(sides):
                    if count <= side.most:
                        rate, seconds = round_of(side, texts, count)
                        print(f"{questions} {count} {side.name}: {median(seconds):.2f} s, {rate:.2f}/s", flush=True)
                    if number and count <= side.most:
                        side.rates.setdefault((questions, count), []).append(rate)
                        side.latencies.setdefault((questions, count), []).extend(seconds)


def round_of(side: Side, documents: Sequence[Document], clients: int) -> tuple[float, list[float]]:
    """Documents a second, and the seconds of each."""
    began = time.monotonic()
    with ThreadPoolExecutor(clients) as at_once:
        seconds = list(at_once.map(side.ask, documents))
    return len(documents) / (time.monotonic() - began), seconds


def rows_of(sides: Sequence[Side], kinds: Sequence[str], clients: Sequence[int]) -> list[str]:
    rows = []
    for questions in kinds:
        for count in sorted(clients):
            ours = median(sides[0].rates[questions, count])
            for side in sides:
                if (rates := side.rates.get((questions, count))) is None:
                    continue
                seconds, rate = side.latencies[questions, count], median(rates)
                rows.append(
                    f"| {questions} | {count} | {side.name} | {median(seconds):.2f} s | {share(seconds, 0.95):.2f} s "
                    f"| {rate:.2f} | {ours / rate:.1f}x |"
                )
    return rows


def page_of(sides: Sequence[Side], kinds: Sequence[str], clients: Sequence[int], *, rounds: int, threads: int) -> str:
    command = f"python -m benchmarks.served --clients {' '.join(map(str, clients))} --rounds {rounds}"
    fits = "\n".join(f"| {one.name} | {one.answers} | {one.parsed} | {one.fitting} |" for one in sides)
    rows = "\n".join(rows_of(sides, kinds, clients))
    return f"""# Structured answers over HTTP

`{command}`: SmolLM2-135M in float32, twelve questions about documents of some
300 tokens, {threads} threads for each server, which are asked in turn. On {where()}.

| questions | clients | server | answer, median | p95 | documents a second | pasta serve is faster by |
|---|---:|---|---:|---:|---:|---:|
{rows}

| server | answers | parse | fit the schema |
|---|---:|---:|---:|
{fits}

`transformers serve` does not constrain decoding. Its prompt describes the same JSON, for at most {MOST_TOKENS} tokens.
What stands around the object is forgiven, and nothing enforces what is in it.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rivals", type=Path, default=RIVALS, help="the folder that `make rivals` has filled")
    parser.add_argument("--transformers", type=Path, help="the Python of an environment with transformers[serving]")
    parser.add_argument("--questions", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--free-clients", type=int, default=32, help="of `transformers serve`, at most")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2, help="of each server")
    parser.add_argument("--page", action="store_true", help="write the results page")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = threads = str(given.threads)
    most, weights = max(given.clients), weights_of("smollm2")
    llama = given.rivals / "llama"
    with ExitStack() as servers:

        def started(command: Sequence[object]) -> Server:
            return servers.enter_context(closing(Server([*map(str, command)], seconds=600)))

        ours = [*pasta_serve("smollm2"), "--name", "model", "--dtype", "float32", "--adapter", "none"]
        theirs = [
            llama / "llama-server", "--model", llama / F32, "--parallel", most, "--ctx-size", 1024 * most, "--threads",
            threads, "--threads-batch", threads, "--host", "127.0.0.1",
        ]  # fmt: skip
        sides = [
            Side("pasta serve", started(ours), "model"),
            Side("llama.cpp's server", started(theirs), "model"),
        ]
        if given.transformers is not None:
            command = given.transformers.with_name("transformers")
            free = [command, "serve", weights, "--dtype", "float32", "--device", "cpu", "--host", "127.0.0.1"]
            sides.append(Side("transformers serve", started(free), weights, False, given.free_clients))
        measure(sides, given.questions, given.clients, rounds=given.rounds)
    page = page_of(sides, given.questions, given.clients, rounds=given.rounds, threads=given.threads)
    if given.page:
        PAGE.write_text(page, encoding="utf-8")
    print(json.dumps({one.name: one.answers for one in sides}), page, sep="\n")


if __name__ == "__main__":
    main()
