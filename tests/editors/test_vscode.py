"""The extension for VS Code: what it declares, and what it does in Node with a stand-in for VS Code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pastalang

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"
PACKAGE = json.loads((EXTENSION / "package.json").read_text("utf-8"))
COLOURS = ROOT / "pastalang" / "grammar" / "pasta.tmLanguage.json"
TWO = """template first

assistant json { x: string(max=3) }

template second

assistant json { y: string(max=3) }
"""


def test_the_extension_has_the_version_and_the_licence_of_the_package() -> None:
    assert PACKAGE["version"] == pastalang.__version__
    assert f'license = "{PACKAGE["license"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_every_file_that_the_extension_declares_is_there_or_copied_by_its_build() -> None:
    contributed = PACKAGE["contributes"]
    files = [PACKAGE["main"], contributed["languages"][0]["configuration"], contributed["grammars"][0]["path"]]
    build = (ROOT / "Makefile").read_text("utf-8")
    copied = {f"{folder}/{Path(file).name}" for file, folder in re.findall(r"cp (\S+) editors/vscode/(\w+)/", build)}
    assert copied == {"syntaxes/pasta.tmLanguage.json"} and COLOURS.is_file()
    made = {*copied, *re.findall(r"extension\.js .*--outfile=(\S+)", build)}
    assert [file for file in files if not (EXTENSION / file).is_file() and file.removeprefix("./") not in made] == []
    assert contributed["grammars"][0]["scopeName"] == json.loads(COLOURS.read_text("utf-8"))["scopeName"]
    json.loads((EXTENSION / "language-configuration.json").read_text("utf-8"))


def test_every_command_and_setting_that_is_declared_is_one_of_the_code() -> None:
    code = (EXTENSION / "extension.js").read_text("utf-8")
    contributed = PACKAGE["contributes"]
    declared = {one["command"] for one in contributed["commands"]}
    assert set(re.findall(r'registerCommand\("([^"]+)"', code)) == declared
    assert {one["command"] for menu in contributed["menus"].values() for one in menu} == declared
    assert set(re.findall(r'affectsConfiguration\("([^"]+)"', code)) == set(contributed["configuration"]["properties"])


@pytest.fixture
def command(tmp_path: Path) -> str:
    """The command of this checkout, as the setting names it."""
    script = tmp_path / "bin" / "pasta"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom pastalang.cli.main import main\nmain()\n", "utf-8")
    script.chmod(0o755)
    return str(script)


def host(command: str, file: Path, line: int) -> dict[str, Any]:
    pytest.importorskip("pygls")
    if shutil.which("node") is None or os.name == "nt":
        pytest.skip("node is not installed, or a script cannot be started here")
    call = ["node", str(Path(__file__).with_name("host.cjs")), str(EXTENSION / "extension.js"), command, str(file)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [*call, str(line)], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_problems_of_a_program_arrive_and_its_plan_says_what_is_wrong(command: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.pasta"
    file.write_text("template a\n\nassistant json { x: strng }\n", "utf-8")
    found = host(command, file, 0)
    assert [(one["code"], one["range"]["start"]["line"]) for one in found["problems"]] == [("unknown-name", 2)]
    assert {one["language"] for one in found["selector"]} == {PACKAGE["contributes"]["languages"][0]["id"]}
    assert "<pre>error[unknown-name]" in found["page"] and "<svg" not in found["page"]
    assert found["errors"] == []


@pytest.mark.parametrize(("line", "name"), [(0, "first"), (2, "first"), (4, "second"), (6, "second")])
def test_the_plan_is_that_of_the_template_at_the_cursor(command: str, tmp_path: Path, line: int, name: str) -> None:
    file = tmp_path / "two.pasta"
    file.write_text(TWO, "utf-8")
    found = host(command, file, line)
    assert found["problems"] == [] and found["errors"] == []
    assert f"<title>The plan of {name}</title>" in found["page"] and found["title"] == f"Plan of {name}"
    assert "(saved)" not in found["page"]  # drawn anew when the file was saved
    assert "default-src 'none'" in found["page"]


def test_a_command_that_is_not_there_is_named_with_advice(tmp_path: Path) -> None:
    file = tmp_path / "two.pasta"
    file.write_text(TWO, "utf-8")
    found = host(str(tmp_path / "no-pasta"), file, 0)
    [message] = found["errors"]
    assert "no-pasta lsp` does not start" in message and "pastalang.command" in message
    assert "<pre>" in found["page"] and "no-pasta" in found["page"]
