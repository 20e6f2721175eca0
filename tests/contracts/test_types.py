"""Pyright agrees with mypy about the types of the public calls, and of the examples."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="needs basedpyright, of the extra `dev`")
def test_pyright_knows_the_types_of_the_public_calls() -> None:
    """Its files are named in pyproject.toml. In them, a wrong call without an error is an error too."""
    call = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    found = subprocess.run(call, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
