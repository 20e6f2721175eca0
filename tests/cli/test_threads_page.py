"""The page about threads, followed from the first command to the measures, with a toy model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import typed
from tests.oracle.toy_models import save_toy

PAGE = Path(__file__).parents[2] / "docs" / "threads.md"
LIST = "Do this:\n- Eat a goulash at the market.\n- See the bridges at night.\n- Bathe in a warm bath.\nEnjoy it."


def commands() -> list[str]:
    return [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("pasta ")]


def run(command: str) -> str:
    result = typed(command.removeprefix("pasta "))
    assert result.exit_code == 0, (command, result.output)
    return result.stdout


def test_the_commands_of_the_page_lead_from_texts_to_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_toy("PATH", positions=4096)
    source = PAGE.read_text(encoding="utf-8").partition("```pasta\n")[2].partition("```")[0]
    Path("trip.pasta").write_text(source.replace("max=400", "max=300"), encoding="utf-8")
    plain = [{"city": city, "value": text} for city, text in (("Buda", LIST), ("Pest", "One line."))]
    Path("plain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in plain), encoding="utf-8")

    train, decode, make, measure = (
        next(command for command in commands() if command.startswith(f"pasta {name}"))
        for name in ("train pasta", "run", "data threads", "evaluate threads")
    )
    assert "theoretical speed-up" in run(f"{make} --least 20")
    rows = Path("rows.jsonl").read_text("utf-8")
    assert rows.count("<async>") == 3 and "<sync/>Enjoy" in rows
    assert "saved to trained" in run(f"{train} --device cpu")
    Path("held-out.jsonl").write_text(rows.splitlines()[0] + "\n", encoding="utf-8")
    report = run(measure.replace("--baseline linear", "--baseline PATH") + " --device cpu")
    assert "peak cells" in report and "realised, processor time" in report
    run(f"{decode} --device cpu")

    Path("other.pasta").write_text(source.replace("auto(pasta, max=400)", "auto(apar, max=300)"), encoding="utf-8")
    Path("untagged.jsonl").write_text('{"city": "Pest", "value": "One line."}\n', encoding="utf-8")
    wrong = "evaluate threads --model trained --program other.pasta --data untagged.jsonl --device cpu"
    refused = typed(wrong)
    assert refused.exit_code != 0 and "this program asks for auto(apar)" in refused.stderr
    run(f"pasta {wrong} --any-mode")
