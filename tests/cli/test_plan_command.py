"""`pasta plan`: what it writes, where, and its exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from pastalang import PlanError
from pastalang.cli.plan import load_encoder
from pastalang.source import Span
from tests.command import pasta

ROOT = Path(__file__).parents[2]
TRAVEL = ROOT / "examples" / "04-travel-plan.pasta"
SMALL = """\
template small(title: text)

user \"\"\"{title}\"\"\"
assistant json { brand: string(max=12), price: number, line: string(max=9) after brand }
"""
TWO = """\
template first()
user \"\"\"Go.\"\"\"
assistant text \"\"\"{word: string(max=4)}\"\"\"

template second()
user \"\"\"Go.\"\"\"
assistant text \"\"\"{word: string(max=5)}\"\"\"
"""


plan = partial(pasta, "plan")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.pasta"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_a_program_is_shown_as_text(small: Path) -> None:
    result = plan(small)
    assert result.exit_code == 0
    assert result.stdout.startswith("small: JSON, strict: 3 values in 4 branches\n")
    assert "passes     21: brand → line" in result.stdout


def test_every_mode_can_be_shown(small: Path) -> None:
    assert "in lock-step" in plan(small, "--mode", "lockstep").stdout
    sequential = plan(small, "--mode", "sequential").stdout
    assert "one value after another: 3 values in 1 branch" in sequential
    assert "passes     33: brand → price → line" in sequential


def test_a_picture_goes_into_the_file_named(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.svg"
    result = plan(small, "--format", "svg", "-o", target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert ElementTree.fromstring(target.read_text(encoding="utf-8")).tag.endswith("svg")


def refusal(words: Sequence[str | Path]) -> tuple[int, str]:
    result = plan(*words)
    assert result.stdout == ""
    return result.exit_code, result.stderr


def test_no_file_at_all_is_wrong_usage() -> None:
    assert refusal([]) == (2, "pasta plan needs a program, or --diff with two\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    code, said = refusal([tmp_path / "nowhere.pasta"])
    assert code == 3 and "there is no file" in said and "nowhere.pasta" in said


def test_a_folder_is_not_a_program(tmp_path: Path) -> None:
    assert refusal([tmp_path]) == (2, f"{tmp_path} is a folder; this command takes one program\n")


def test_of_several_templates_one_has_to_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "two.pasta"
    path.write_text(TWO, encoding="utf-8")
    assert refusal([path]) == (2, f"{path} declares 2 templates; choose one with --template: first, second\n")
    assert refusal([path, "--template", "third"]) == (
        2,
        f"{path} has no template 'third'; it declares: first, second\n",
    )
    assert "second: running text" in plan(path, "--template", "second").stdout


def test_a_program_with_errors_is_not_planned_but_explained(tmp_path: Path) -> None:
    path = tmp_path / "wrong.pasta"
    path.write_text(SMALL.replace("after brand", "after brnad"), encoding="utf-8")
    code, said = refusal([path])
    assert code == 1 and "brnad" in said and "^" in said


def test_a_file_of_types_alone_has_nothing_to_plan(tmp_path: Path) -> None:
    path = tmp_path / "types.pasta"
    path.write_text('type Unit = "cm" | "in"\n', encoding="utf-8")
    assert refusal([path]) == (1, f"{path} declares no template\n")


def test_a_file_that_cannot_be_written_is_named(small: Path, tmp_path: Path) -> None:
    code, said = refusal([small, "-o", tmp_path / "no" / "such" / "folder.svg"])
    assert code == 3
    assert "could not be written: no such file or directory" in said


def test_a_terminal_without_block_characters_gets_ascii() -> None:
    command = [sys.executable, "-m", "pastalang", "plan", str(TRAVEL)]
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT), "PATH": ""}
    result = subprocess.run(command, capture_output=True, env=environment, cwd=ROOT, check=True)
    assert result.stdout.isascii()
    assert b"# on the longest path" in result.stdout


def test_planning_never_loads_the_machine_learning_libraries() -> None:
    code = (
        "import sys; from pastalang.cli.app import build_app; "
        f"build_app({{'plan'}})(['plan', {str(TRAVEL)!r}], standalone_mode=False); "
        "sys.exit(bool({'torch', 'transformers', 'llguidance'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """One token per word or mark."""
    words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    words.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("inside", [".", "tokenizer.json"])
def test_a_tokenizer_may_be_named_by_its_folder_or_its_file(small: Path, tokenizer: Path, inside: str) -> None:
    counted = plan(small, "--format", "svg", "--tokenizer", tokenizer / inside)
    assert counted.exit_code == 0
    assert counted.stdout != plan(small, "--format", "svg").stdout


def test_a_tokenizer_counts_without_special_tokens(tokenizer: Path) -> None:
    assert len(load_encoder(tokenizer).encode("three words here")) == 3


def test_a_missing_tokenizer_is_named(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    assert refusal([small, "--tokenizer", path]) == (3, f"there is no tokenizer {path}\n")


def test_a_file_that_is_not_a_tokenizer_is_named(small: Path) -> None:
    code, said = refusal([small, "--tokenizer", small])
    assert code == 3 and said.startswith(f"{small} could not be read as a tokenizer: ")


def test_a_folder_without_a_tokenizer_is_named(small: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, said = refusal([small, "--tokenizer", tmp_path / "empty"])
    assert code == 3 and "holds no tokenizer.json" in said


def test_a_program_that_cannot_be_planned_is_explained(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PlanError("this cannot be planned", Span(0, 8), help="ask for less")

    monkeypatch.setattr("pastalang.plan.build.build_plan", refuse)
    said = f"{small}:1:1: this cannot be planned\n    template small(title: text)\nhelp: ask for less\n"
    assert refusal([small]) == (1, said)


@pytest.mark.parametrize("words", ["mode strict lockstep", "overrun continue cap", "placement gaps dense"])
def test_a_saved_plan_is_shown_like_its_program(small: Path, tmp_path: Path, words: str) -> None:
    saved, (option, has, other) = tmp_path / "small.json", words.split()
    assert plan(small, "--format", "json", "-o", saved).exit_code == 0
    assert plan(saved, f"--{option}", has, "--template", "small").stdout == plan(small).stdout
    assert plan(saved, "--format", "json").stdout == saved.read_text(encoding="utf-8")
    said = f"--{option} is for programs: this saved plan has the {option} {has}\n"
    assert refusal([saved, f"--{option}", other]) == (2, said)
    assert refusal([saved, "--template", "big"]) == (2, f"{saved} is a saved plan, of the template 'small'\n")


@pytest.mark.parametrize("text", ["", "{}", '{"kind": "Plan"}', "[1]", '{"kind": "Span", "start": 1, "end": 2}'])
def test_json_that_is_not_a_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text, encoding="utf-8")
    code, said = refusal([path])
    assert code == 1 and said.startswith(f"{path}: this ")
    assert "Traceback" not in said


def test_two_programs_are_compared(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pasta"
    other.write_text(SMALL.replace("max=9", "max=7"), encoding="utf-8")
    result = plan("--diff", small, other)
    assert result.exit_code == 1 and "line: 'line' may take 7 tokens instead of 9\n" in result.stdout


def test_a_comparison_takes_no_further_program(small: Path) -> None:
    code, said = refusal([small, "--diff", small, small])
    assert (code, said) == (2, "pasta plan takes either one program or --diff with two, not both\n")


def test_a_plan_that_does_not_fit_a_model_is_refused_with_what_costs_most(small: Path) -> None:
    code, said = refusal([small, "--positions", "40"])
    assert code == 1
    assert "positions, and there are 40" in said
    assert "lower the limits of the fields whose gaps cost most: line (17), brand (12), price (12)" in said
    assert plan(small, "--positions", "4096").exit_code == 0


def test_a_plan_that_does_not_fit_into_memory_is_refused(small: Path) -> None:
    code, said = refusal([small, "--cells", "3"])
    assert code == 1
    assert "cells, and there are 3" in said
