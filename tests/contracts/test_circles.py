"""No module imports another one in a circle, imports for type checking included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx


def modules() -> dict[str, Path]:
    files = sorted(Path("pastalang").rglob("*.py"))
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in files}


def imported_by(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                inner = {f"{module}.{alias.name}" for alias in node.names}
                yield from (inner & known.keys()) or {module}
            case _:
                pass


def test_no_module_is_on_a_circle() -> None:
    known = modules()
    graph = networkx.DiGraph([(name, found) for name, path in known.items() for found in imported_by(path, known)])
    assert graph.has_edge("pastalang.runtime.scheduler.memory", "pastalang.runtime.scheduler.state")
    assert graph.has_edge("pastalang", "pastalang.extraction")
    assert [sorted(circle) for circle in networkx.strongly_connected_components(graph) if len(circle) > 1] == []
