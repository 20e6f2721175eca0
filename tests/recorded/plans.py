"""What is kept of a plan: what `pasta plan --format json` writes of it, and its values whatever they are called."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from unittest import mock

import pastalang
from tests.recorded.record import digest, values_of
from tests.recorded.runs import HERE, MODES, ROOT

PLANNED = (
    *sorted(path.relative_to(ROOT) for path in (ROOT / "examples").glob("*.pasta")),
    *(HERE / "programs" / f"{name}.pasta" for name in ("holes", "texts", "stacks", "repairs")),
    Path("examples/demo/listings.pasta"),
)


def plan_records(path: Path) -> Iterator[dict[str, Any]]:
    """By mode. `json`, of examples, changes with the names in a saved plan, `values` only with what it says."""
    program = pastalang.load(ROOT / path)
    for mode in MODES:
        for name, template in program.templates.items():
            plan = pastalang.build_plan(template, program, mode=mode)
            found = {"run": f"{path.stem} {name}", "how": mode, "branches": len(plan.branches)}
            found |= {"values": digest(values_of([plan.mode, plan.branches]))}
            yield found if path.parent == HERE / "programs" else found | {"json": digest(_written(path, name, mode))}


def _written(path: Path, template: str, mode: str) -> str:
    """The output of the command that is installed as `pasta`."""
    [command] = entry_points(group="console_scripts", name="pasta")
    words = ["pasta", "plan", str(path), "--template", template, "--mode", mode, "--format", "json"]
    with (
        contextlib.chdir(ROOT),
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.suppress(SystemExit),
    ):
        command.load()()
    return output.getvalue()
