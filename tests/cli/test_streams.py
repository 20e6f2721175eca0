"""The command as a process: streams that are full, closed or broken, and Ctrl-C while modules are imported."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")

PASTA = f"{sys.executable} -m pastalang"
TRAVEL = "examples/04-travel-plan.pasta"
FULL = "the standard output could not be written: no space left on device\n"
CLOSED = "the standard output could not be written: it is closed\n"


def shell(line: str) -> tuple[int, str, str]:
    """Run a line in bash, with `pasta` as the command. Returns the exit code, the output and the errors."""
    result = subprocess.run(
        ["bash", "-c", re.sub(r"(?<![.])\bpasta ", f"{PASTA} ", line)], capture_output=True, text=True
    )
    return result.returncode, result.stdout, result.stderr


LINES = (
    "pasta --version", "pasta --help", "pasta explain", f"pasta check {TRAVEL}", f"pasta plan {TRAVEL}",
    f"pasta plan --diff {TRAVEL} {TRAVEL}", "echo 'type  A = string' | pasta fmt --diff -",
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [*((line, "> /dev/full", FULL) for line in LINES), *((line, ">&-", CLOSED) for line in LINES[::3])],
)
def test_an_answer_that_cannot_be_written_is_an_error(line: str, where: str, message: str) -> None:
    code, _, errors = shell(f"{line} {where}")
    assert (code, errors) == (3, message)


@cache
def what_is_printed(line: str) -> str:
    return shell(line)[1]


@pytest.mark.parametrize("where", ["2> /dev/full", "2>&-"])
def test_a_closed_standard_error_does_not_lose_the_answer(where: str) -> None:
    expected = what_is_printed(f"pasta plan {TRAVEL} --cells 100000")
    code, answer, _ = shell(f"pasta plan {TRAVEL} --cells 100000 {where}")
    assert (code, answer) == (0, expected)
    assert shell(f"pasta plan nowhere.pasta {where}")[0] == 3


@pytest.mark.parametrize("command", ["run", "plan", "check", "fmt", f"extract {TRAVEL} --dry-run"])
def test_a_closed_standard_input_is_an_error(command: str) -> None:
    assert shell(f"pasta {command} - <&-") == (3, "", "the standard input could not be read: it is closed\n")


@pytest.mark.parametrize("line", ["pasta explain", "pasta --help", "pasta --version", f"pasta plan {TRAVEL}"])
def test_a_reader_that_has_gone_ends_a_command_quietly(line: str) -> None:
    code, _, errors = shell(f"{line} | true; exit ${{PIPESTATUS[0]}}")
    assert code in (0, 141) and errors == ""  # short output may be read before the reader goes
    reading, writing = os.pipe()
    os.close(reading)
    words = line.removeprefix("pasta ").split()
    with os.fdopen(writing, "wb") as gone:
        result = subprocess.run([*PASTA.split(), *words], stdout=gone, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.parametrize(
    "line", ["pasta fmt -", "pasta fmt --diff -", "pasta check --format json -", "pasta plan --format json -"]
)
def test_documents_are_utf_8_whatever_the_terminal(line: str) -> None:
    program = 'template t(x: text)\nuser """{x} → 漢"""\nassistant json { \u00e9: "漢" | "\U0001f600", b: nö }\n'
    program = program if "check" in line else program.replace(", b: nö", "")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path.cwd())}
    words = [*PASTA.split(), *line.split()[1:]]
    found = subprocess.run(words, capture_output=True, input=program.encode(), env=environment)
    said = found.stdout.decode("utf-8")
    assert {letter for letter in said if not letter.isascii()} <= set(program) and not said.isascii()


def test_wrong_usage_with_json_is_an_object() -> None:
    code, answer, _ = shell(f"pasta run {TRAVEL} --json --mode best")
    assert code == 2
    assert json.loads(answer)["error"]["code"] == "usage"
    assert "'best'" in json.loads(answer)["error"]["message"]


NOTHING = "stopped before the first row: nothing is written"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run a.pasta -i x=y", "stopped"),
        ("run a.pasta -i x=y --json", "stopped"),
        ("extract a.pasta t.txt -o o.jsonl", NOTHING),
    ],
)
def test_ctrl_c_while_modules_are_imported_stops_with_a_message(words: str, said: str, tmp_path: Path) -> None:
    """A module named torch stands in for the real one: it leaves a file to show that its import began, then waits."""
    slow = "from pathlib import Path\nimport time\nPath(__file__).with_name('begun').touch()\ntime.sleep(60)\n"
    (tmp_path / "torch.py").write_text(slow, encoding="utf-8")
    program = 'template t(x: text)\nuser """{x}"""\nassistant json { a: boolean }\n'
    for name in ("a.pasta", "t.txt"):
        (tmp_path / name).write_text(program, encoding="utf-8")
    before = {*tmp_path.iterdir()}
    running = subprocess.Popen(
        [*PASTA.split(), *(str(tmp_path / word) if "." in word else word for word in words.split())],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in the background
    )  # fmt: skip
    while not (tmp_path / "begun").exists() and running.poll() is None:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    answer, errors = running.communicate()
    assert (running.returncode, errors.splitlines()[-1]) == (130, said)
    assert [json.loads(line)["error"]["code"] for line in answer.splitlines()] == ["stopped"] * ("--json" in words)
    assert {path.name for path in {*tmp_path.iterdir()} - before} <= {"begun", "__pycache__"}
