"""The files that commands write: no source is overwritten, and a bad path is refused before any work is done."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.command import typed
from tests.oracle.toy_models import save_toy

PROGRAM = 'template t(title: text)\nuser """{title}"""\nassistant json { a: boolean }\n'
SCHEMA = (
    '{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false}'
)
ROW = '{"title": "x", "value": {"a": true}}\n'


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    texts = {"a.pasta": PROGRAM, "schema.json": SCHEMA, "in.json": '{"title": "x"}', "rows.jsonl": ROW}
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("link.json").symlink_to("in.json")
    save_toy("model")
    return texts


def run(line: str) -> tuple[int, str, str]:
    result = typed(line)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    "line",
    [
        "plan a.pasta -o a.pasta",
        "plan --diff a.pasta a.pasta -o a.pasta",
        "import schema.json -o schema.json",
        "run a.pasta --model model --inputs in.json --trace in.json",
        "run a.pasta --model model --inputs in.json --trace link.json",
        "run a.pasta --model model --input title=@in.json --trace in.json",
        "evaluate --program a.pasta --data rows.jsonl --model model --predictions rows.jsonl",
        "evaluate --program a.pasta --data rows.jsonl --model model --out a.pasta",
        "evaluate rows.jsonl rows.jsonl --out rows.jsonl",
    ],
)
def test_a_file_that_is_read_is_never_overwritten(line: str, files: dict[str, str]) -> None:
    code, answer, said = run(line)
    assert (code, answer) == (2, "")
    assert "would overwrite it: write to another file" in said
    assert {name: Path(name).read_text(encoding="utf-8") for name in files} == files


def test_one_file_does_not_take_two_results(files: dict[str, str]) -> None:
    assert run("evaluate --program a.pasta --data rows.jsonl --model model --out both --predictions ./both")[0] == 2
    assert not Path("both").exists()


@pytest.mark.parametrize(
    ("place", "why"),
    [("folder.html", "folder.html cannot be written: it is a folder"), ("no/x.html", "there is no folder no")],
)
def test_a_trace_that_cannot_be_written_is_refused_before_the_run(place: str, why: str, files: dict[str, str]) -> None:
    Path("folder.html").mkdir()
    code, answer, said = run(f"run a.pasta --model model --inputs in.json --trace {place}")
    assert (code, answer) == (3, "") and why in said


def test_if_the_trace_cannot_be_written_the_answer_is_still_the_only_object(files: dict[str, str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    Path("full.json").symlink_to("/dev/full")
    code, answer, said = run("run a.pasta --model model --inputs in.json --json --trace full.json")
    assert code == 3 and "full.json could not be written: no space left on device" in said
    assert set(json.loads(answer)) >= {"value", "text"}


@pytest.mark.parametrize(
    "line",
    [
        "check {}", "fmt {}", "plan {}", "run {}", "import {} -o x", "plan a.pasta --tokenizer {}",
        "plan a.pasta -o {}",
        "run a.pasta -i title=x --model {}", "run a.pasta -i title=x --trace {}.json", "evaluate {} {}",
        "train hpd --model model --program a.pasta --data rows.jsonl --out {}",
    ],
)  # fmt: skip
def test_a_name_that_is_too_long_for_a_file_is_an_error(line: str, files: dict[str, str]) -> None:
    code, answer, said = run(line.replace("{}", "n" * 5000))
    assert code in (2, 3) and answer == "" and len(said) < 6000
    assert "file name too long" in said.lower() or code == 2


def test_the_shipped_model_can_be_trained(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from pastalang.runtime.models import source

    shutil.copytree("model", "weights/pasta-mini")
    monkeypatch.setattr(source, "WEIGHTS", Path("weights").absolute())
    code, _, said = run("train hpd --model pasta-mini --program a.pasta --data rows.jsonl --out new --steps 1")
    assert code == 0, said
    assert Path("new/model.safetensors").is_file()
