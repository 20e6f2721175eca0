"""What the tests import: the suite of the public API nothing but public names, and all of them few internal modules.

A test of an internal module breaks when that module moves, and says nothing to a user. So their number only falls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "pastalang"

PUBLIC = {
    "pastalang",
    "pastalang.errors",
    "pastalang.testing",
    "pastalang.testing.byte_tokenizer",
    "pastalang.testing.fakes",
    "pastalang.testing.llama_memory",
}

# Whoever gets a tenth below a number writes the new one here.
MOST_LINES = 48_288
MOST_INTERNAL_MODULES = 195
SLACK = 0.9


def imported_by(path: Path) -> Iterator[str]:
    """The modules that a file imports, by their full names."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    yield inner if is_module(inner) else module


def attributes_of(path: Path) -> Iterator[str]:
    """The attributes that a file reads of anything but `self`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield node.attr


def is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_the_suite_of_the_public_api_uses_public_names_only() -> None:
    files = sorted((TESTS / "api").rglob("*.py"))
    assert len(files) > 10
    for path in files:
        found = {name for name in imported_by(path) if name.split(".")[0] in ("pastalang", "tests")}
        assert found <= PUBLIC | {name for name in found if name.startswith("tests.api")}, path
        assert not [name for name in attributes_of(path) if name.startswith("_") and not name.endswith("_")], path


def test_the_tests_get_no_longer_and_know_no_more_of_the_inside() -> None:
    files = sorted(TESTS.rglob("*.py"))
    lines = sum(path.read_text("utf-8").count("\n") for path in files)
    inside = {name for path in files for name in imported_by(path) if name.startswith("pastalang.")} - PUBLIC
    inside = {name for name in inside if is_module(name)}
    assert lines <= MOST_LINES, f"the tests have {lines:,} lines: find what another test says already"
    assert len(inside) <= MOST_INTERNAL_MODULES, f"the tests import {len(inside)} internal modules: test what users see"
    for found, most in ((lines, MOST_LINES), (len(inside), MOST_INTERNAL_MODULES)):
        assert found > most * SLACK, f"{found} is well below {most}: write the smaller number here"
