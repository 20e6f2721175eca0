"""Few files walk the segments of a plan: `plan/machine.py` in the order of a run, and the others for a reason.

What counts is a file of the product that enters what a list holds: it reads the `body` of a `Repeat`. Files that make
segments (policies, follow texts, white space and keys as they are fed) or write them down (JSON) do not walk, and the
rules are written a second time on purpose.
"""

from __future__ import annotations

import ast
from pathlib import Path

BUILDERS = ("plan/policies/", "plan/follow_text.py", "runtime/binding/whitespace.py", "runtime/binding/shown_keys.py")
EXEMPT = (*BUILDERS, "plan/verify.py", "plan/serialise.py")
WALKERS = {
    "plan/machine.py",  # what a branch does next
    "plan/structure.py",  # every segment with its address; sizes
    "plan/dependencies.py",  # what has to be known before what
    "plan/forecast.py",  # totals of every run
    "plan/draw/timeline.py",
}


def enters_lists(path: Path) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    imported = {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "pastalang.plan.branches"
        for name in node.names
    }
    return "Repeat" in imported and any(
        (isinstance(node, ast.Attribute) and node.attr == "body")
        or (isinstance(node, ast.MatchClass) and "body" in node.kwd_attrs)
        for node in ast.walk(tree)
    )


def test_nothing_else_walks_the_segments_of_a_plan() -> None:
    product = Path("pastalang")
    files = {str(path.relative_to(product)) for path in product.rglob("*.py") if enters_lists(path)}
    assert {path for path in files if not path.startswith(EXEMPT)} <= WALKERS
