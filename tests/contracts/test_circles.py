"""No module of the scheduler imports another one in a circle, imports for type checking included."""

import ast
from pathlib import Path

import networkx

MODULES = {".".join(path.with_suffix("").parts): path for path in Path("pastalang").rglob("*.py")}


def test_no_module_of_the_scheduler_is_on_a_circle() -> None:
    graph: networkx.DiGraph = networkx.DiGraph()
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in MODULES:
                graph.add_edge(module, node.module)
    assert graph.has_edge("pastalang.runtime.scheduler.memory", "pastalang.runtime.scheduler.state")
    circles = [circle for circle in networkx.strongly_connected_components(graph) if len(circle) > 1]
    assert [name for circle in circles for name in circle if name.startswith("pastalang.runtime.scheduler.")] == []
