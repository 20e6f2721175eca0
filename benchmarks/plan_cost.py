"""Measure planning: python benchmarks/plan_cost.py writes benchmarks/results/plan.md.

Each part grows one quantity and shows the seconds per unit, which reveals anything worse than linear.
"""

from __future__ import annotations

import gc
import platform
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pastalang.plan.branches import Mode
from pastalang.plan.build import build_plan
from pastalang.plan.forecast import forecast, longest_run
from pastalang.plan.plan import Plan
from pastalang.plan.serialise import from_json, to_json
from pastalang.plan.simulate import simulate
from pastalang.plan.token_bounds import Lengths
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import (
    Body,
    Input,
    InputKind,
    JsonBody,
    ListOf,
    Message,
    Program,
    Role,
    Template,
    TextBody,
)
from pastalang.source import Source, Span

RESULTS = Path(__file__).parent / "results" / "plan.md"
NOWHERE = Span(0, 0)
PLAIN = t.Sampling()
FIELDS = (10, 100, 1_000, 10_000)
ITEMS = (100, 1_000, 10_000, 100_000)


@dataclass(frozen=True)
class Row:
    count: int
    seconds: float
    megabytes: float


def program(body: Body) -> Program:
    messages = (Message(Role.USER, TextBody((p.Text("Go."),)), NOWHERE), Message(Role.ASSISTANT, body, NOWHERE))
    points = Input("points", ListOf(InputKind.TEXT), None, False, NOWHERE)
    template = Template("bench", (points,), messages, PLAIN, None, NOWHERE)
    return Program(Source("bench.pasta", ""), {}, {"bench": template}, {})


def plan(body: Body, mode: Mode = Mode.STRICT) -> Plan:
    it = program(body)
    return build_plan(it.only_template, it, mode=mode)


def skeleton(count: int) -> JsonBody:
    return JsonBody(t.Object(tuple(t.Field(f"f{n}", t.String(8)) for n in range(count))), PLAIN)


def chain(count: int) -> JsonBody:
    fields = (t.Field(f"f{n}", t.String(8), after=(f"f{n - 1}",) if n else ()) for n in range(count))
    return JsonBody(t.Object(tuple(fields)), PLAIN)


def asides(count: int) -> TextBody:
    """Asynchronous blocks, all joined at once."""
    names = tuple(f"a{n}" for n in range(count))
    blocks = [
        piece
        for name in names
        for piece in (p.Async(name, 20, (p.Hole(name, t.String(8), PLAIN, NOWHERE),), False, NOWHERE), p.Text("\n"))
    ]
    return TextBody((*blocks, p.Sync(names, NOWHERE), p.Text("So: "), p.Hole("end", t.String(8), PLAIN, NOWHERE)))


def fan_out() -> TextBody:
    body = (p.Text("- "), p.InputValue(("point",), NOWHERE), p.Text(": "), p.Hole("x", t.String(8), PLAIN, NOWHERE))
    return TextBody((p.Each("point", ("points",), False, None, body, NOWHERE),))


def run_fan_out(pattern: Plan, count: int) -> None:
    lengths = Lengths(items={"points": count})
    done = simulate(pattern, longest_run(pattern, lengths, most_items=count))
    assert done.draws == 8 * count and done.passes == 8


def measure(work: Callable[[], object], count: int) -> Row:
    """The best time of three runs. The memory is measured in another run, because measuring it slows everything."""
    seconds = []
    for _ in range(3):
        gc.collect()
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    tracemalloc.start()
    kept = work()
    megabytes = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    del kept
    return Row(count, min(seconds), megabytes)


def table(title: str, unit: str, rows: Iterable[Row]) -> str:
    lines = [f"## {title}", "", f"| {unit} | seconds | µs each | kept, MB |", "|--:|--:|--:|--:|"]
    lines += [
        f"| {row.count:,} | {row.seconds:.4f} | {row.seconds / row.count * 1e6:.1f} | {row.megabytes:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    big = plan(skeleton(1_000))
    pattern = plan(fan_out())
    parts = [
        "# What planning costs",
        "",
        f"Python {platform.python_version()}, {platform.machine()}, one core; `python benchmarks/plan_cost.py`.",
        "Best of three; verification is part of planning. Memory is what the result keeps.",
        "",
        table("Planning a skeleton", "fields", (measure(lambda n=n: plan(skeleton(n)), n) for n in FIELDS)),
        "",
        table(
            "The same in lock-step",
            "fields",
            (measure(lambda n=n: plan(skeleton(n), Mode.LOCKSTEP), n) for n in FIELDS),
        ),
        "",
        table("Fields that wait in a chain", "fields", (measure(lambda n=n: plan(chain(n)), n) for n in FIELDS[:3])),
        "",
        table(
            "Blocks beside a text, one sync", "blocks", (measure(lambda n=n: plan(asides(n)), n) for n in FIELDS[:3])
        ),
        "",
        table(
            "Running a fan-out (one pattern; the simulator makes the instances, eight draws each)",
            "items",
            (measure(lambda n=n: run_fan_out(pattern, n), n) for n in ITEMS),
        ),
        "",
        table("Forecast, writing and reading of 1,000 fields", "fields", [
            measure(lambda: forecast(big), 1_000),
            measure(lambda: to_json(big), 1_000),
            measure(lambda: from_json(to_json(big)), 1_000),
        ]),
        "",
        "The rows of the last table are `forecast`, `to_json`, and `to_json` with `from_json`.",
        "",
    ]  # fmt: skip
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(parts), encoding="utf-8")
    print("\n".join(parts))


if __name__ == "__main__":
    main()
