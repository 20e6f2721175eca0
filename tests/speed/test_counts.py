"""A gate on speed that counts instead of timing: what a fixed run of `pasta-mini` does, compared with a record.

The numbers are the same on every machine, however busy it is. A change that makes a run do half as much again fails.
One that makes it do a fifth less is noted after the tests; write the new record with `make speed-update`, which only
lowers numbers. To raise one on purpose, change it in the file.
"""

from __future__ import annotations

import cProfile
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

import pastalang

RECORD = Path(__file__).with_name("counts.json")
MOST, WORTH_NOTING = 1.5, 0.8

ATTRIBUTES = (
    "Brand", "Type", "Flavor", "Roast", "Form", "Country", "Content", "Count", "Color", "Material", "Size", "Model",
)  # fmt: skip
FIELDS = "\n".join(f"  {name}: verbatim(title, max=12) | null" for name in ATTRIBUTES)
PROGRAM = pastalang.compile(f'template t(title: text)\nuser """Title: {{title}}"""\nassistant json {{\n{FIELDS}\n}}\n')
TITLES = [{"title": f"Norvika Coffee, Dark Roast, {size} oz, ground, {size} bags"} for size in range(4, 20)]
MIXED = pastalang.compile('''
template t(title: text)
user """Title: {title}"""
assistant json {
  name: string(max=10)
  price: number(min=0, max_tokens=8) | null
  day: date | null
  kind: "coffee" | "tea" | "other"
  tags: ["new" | "used" | "rare"](max=3)
  lines: [{ what: string(max=6), count: integer(1..9) after what }](max=3)
  more: schema("""{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}""", max_tokens=16)
  summary: string(max=10) after name, kind
}
''')


@dataclass(frozen=True)
class Counts:
    """What a run did: masks that it asked for, operations of torch, functions of Python; and its passes."""

    masks: int
    operations: int
    functions: int
    passes: int


class Operations(TorchDispatchMode):
    """Counts the operations that torch carries out."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def counts_of(call: Callable[[], list[Any]]) -> Counts:
    """The call is made twice, because the two ways of counting would count one another."""
    with Operations() as operations:
        call()
    profile = cProfile.Profile(builtins=False)
    results = profile.runcall(call)
    called = [(entry.code, entry.callcount) for entry in profile.getstats()]
    masks = sum(
        count for code, count in called if "constraints" in code.co_filename and code.co_name in ("allowed", "mask")
    )
    passes = max(result.usage.forward_passes for result in results)
    return Counts(masks, operations.count, sum(count for _, count in called), passes)


@cache
def engine() -> pastalang.Engine:
    """Not packed, because the layout of packed weights is that of the processor."""
    return pastalang.Engine.load("pasta-mini", device="cpu", dtype="float32", packed=False, prefix_cells=0)


def one_title() -> list[Any]:
    return [engine().run(PROGRAM, TITLES[0], on_truncated="keep")]


def sixteen_titles() -> list[Any]:
    return engine().batch(PROGRAM, TITLES, on_truncated="keep")


def every_kind_of_value() -> list[Any]:
    return [engine().run(MIXED, TITLES[0], on_truncated="keep")]


def one_after_another() -> list[Any]:
    return [engine().run(PROGRAM, TITLES[0], mode="sequential", on_truncated="keep")]


def drafted() -> list[Any]:
    return [engine().run(PROGRAM, TITLES[0], drafts=4, on_truncated="keep")]


def a_new_program() -> list[Any]:
    """Compiled, planned and bound, with types that have no masks yet."""
    fields = f"{FIELDS}\n  x: /[a-z]{{3}}{next(NUMBERS)}/"
    text = f'template t(title: text)\nuser """Title: {{title}}"""\nassistant json {{\n{fields}\n}}\n'
    return [engine().run(pastalang.compile(text), TITLES[0], on_truncated="keep")]


NUMBERS = iter(range(1000))
RUNS = (one_title, sixteen_titles, every_kind_of_value, one_after_another, drafted, a_new_program)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_a_run_does_no_more_than_it_did(
    run: Callable[[], list[Any]], record_property: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pastalang.Engine, "checks_passes", False)  # only tests check them
    run()  # once before, so that tables and masks that are kept are there
    found = asdict(counts_of(run))
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    if os.environ.get("PASTA_UPDATE_SPEED"):
        least = {name: min(count, record.get(run.__name__, {}).get(name, count)) for name, count in found.items()}
        RECORD.write_text(json.dumps({**record, run.__name__: least}, indent=1) + "\n", encoding="utf-8")
        return
    for name, count in found.items():
        then = record[run.__name__][name]
        assert count > 0, f"no {name} were counted: the functions have other names now"
        assert count <= MOST * then, f"{run.__name__} takes {count:,} {name}, and {then:,} when it was recorded"
        if count < WORTH_NOTING * then:
            record_property("note", f"{run.__name__} takes {count:,} {name}, not {then:,}: `make speed-update`")
