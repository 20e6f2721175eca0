"""A class of the runtime has at most sixteen fields: one that has more is several objects in one."""

import ast
from collections.abc import Iterator
from pathlib import Path

MOST = 16
USAGE = "Usage"  # what users read: the numbers of a run, next to each other


def fields_of(node: ast.ClassDef) -> Iterator[str]:
    """What the body of a class declares, and what its methods assign to `self`."""
    for inner in ast.walk(node):
        match inner:
            case ast.AnnAssign(target=ast.Name(id=name)) if inner in node.body and "ClassVar" not in ast.unparse(inner):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def test_no_class_of_the_runtime_is_several_objects_in_one() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in Path("pastalang/runtime").rglob("*.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    counts = [(node.name, len(set(fields_of(node)))) for node in classes]
    assert ("BranchState", MOST) in counts, "write here how many fields the largest class has"
    assert [one for one in counts if one[1] > MOST and one[0] != USAGE] == []
