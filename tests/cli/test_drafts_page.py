"""The page about drafts, followed from a model to one with prompt tokens, and to one with a mask token, with a toy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.command import typed
from tests.oracle.toy_models import save_toy

PAGE = Path(__file__).parents[2] / "docs" / "drafts.md"
TITLES = ("Norvika Coffee, Dark Roast, 12 oz", "Sony Bravia 55", "a phone")


def invoke(command: str) -> Result:
    return typed(command.removeprefix("pasta "))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_toy("PATH", positions=1024)
    source = PAGE.read_text(encoding="utf-8").partition("```pasta\n")[2].partition("```")[0]
    Path("note.pasta").write_text(source, encoding="utf-8")
    Path("titles.jsonl").write_text("".join(json.dumps({"title": one}) + "\n" for one in TITLES), encoding="utf-8")
    return tmp_path


def test_the_commands_of_the_page_lead_to_a_model_with_prompt_tokens(folder: Path) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    train, run = (next(line for line in lines if line.startswith(f"pasta {name}")) for name in ("train ppd", "run"))
    trained = invoke(train.replace("--steps 400", "--steps 3") + " --device cpu")
    assert trained.exit_code == 0, trained.output
    assert "tokens ahead  right  among 5  right in a row" in trained.output and "saved to ahead" in trained.output
    asked = [json.loads(invoke(f"{run} --device cpu --json --seed 3 {drafts}").stdout) for drafts in ("", "--drafts 6")]
    assert asked[0]["text"] == asked[1]["text"] and asked[1]["usage"]["drafted_tokens"] > 0
    again = invoke(train + " --device cpu")
    assert again.exit_code != 0 and "holds a finished run" in again.output


def test_the_commands_of_the_page_lead_to_weights_that_predict(folder: Path) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    [train] = (line for line in lines if line.startswith("pasta train space"))
    row = json.loads(next(line for line in lines if line.startswith('{"title"') and '"value"' in line))
    rows = [{**row, "title": f"{row['title']} {number}"} for number in range(24)]
    Path("notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    checked = invoke(train + " --check --device cpu")
    assert checked.exit_code == 0 and "all rows can be trained on" in checked.output, checked.output
    trained = invoke(train.replace("--epochs 2", "--steps 2") + " --device cpu --precision float32")
    assert trained.exit_code == 0, trained.output
    assert "tokens ahead  right  among 5  right in a row" in trained.output and "F1" in trained.output
    run = next(line for line in lines if line.startswith("pasta run") and "masked" in line)
    asked = [json.loads(invoke(f"{run} --device cpu --json --seed 3 {drafts}").stdout) for drafts in ("", "--drafts 6")]
    assert asked[0]["text"] == asked[1]["text"] and asked[1]["usage"]["drafted_tokens"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("train ppd --mode lockstep", "values in lock-step are never guessed"),
        ("train ppd --validation titles.jsonl", "--validation is for hpd, pasta, apar and space, not for ppd"),
        ("train hpd --distances 2", "--distances is for ppd and space, not for hpd"),
        ("train ppd --temperature -1", "--temperature"),
        ("train bonbon --samples 1", "is not one text of auto(...)"),
        (
            "train space --mode lockstep",
            "it takes strict, sequential or mixture, and values in lock-step are never guess",
        ),
        ("train space --ensemble 2", "--ensemble is for ppd, not for space"),
        ("train hpd --plain 1", "--plain is for space, not for hpd"),
        ("train space --plain 2", "--plain"),
    ],
)
def test_what_is_not_for_a_method_is_refused(folder: Path, options: str, said: str) -> None:
    refused = invoke(f"pasta {options} --model PATH --program note.pasta --data titles.jsonl --out out")
    assert refused.exit_code == 2 and said in refused.output.replace("\n", " "), refused.output
    assert not (folder / "out").exists()
