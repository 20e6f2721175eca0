"""The playground in a browser, against servers that listen on a port. `playground.mjs` has what a visitor does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.serve.running import listening

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROGRAM: Final = """
template greet(name: text, tone: "warm" | "dry")

assistant json { hello: string(max=5), size: integer(0..9) }
"""


def test_a_visitor_runs_schemas_and_programs_and_sees_what_is_wrong(tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None or shutil.which("node") is None:
        pytest.skip("Chromium or Node is not installed")
    (tmp_path / "greet.pasta").write_text(PROGRAM)
    script = Path(__file__).with_name("playground.mjs")
    with listening(programs=tmp_path) as address, listening(api_keys=("secret",)) as guarded:
        done = subprocess.run(
            ["node", script, browser, tmp_path / "browser", address, guarded], capture_output=True, text=True,
            timeout=600,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
