"""`pasta train`: what it prints, what it leaves behind, and every way of misusing it."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pastalang import Mode
from pastalang.training import trainer
from pastalang.training.row_files import fingerprint_of
from tests.command import pasta
from tests.oracle.toy_models import Family, save_toy
from tests.rows import write_rows
from tests.tables import cases_of

PROGRAM = 'template word(word: text)\nuser """{word}"""\nassistant json { kind: "a" | "b", name: string(max=6) }\n'
AUTO = 'template t(word: text)\nuser """{word}"""\nassistant auto(pasta, max=40)\n'
TWO = PROGRAM + PROGRAM.replace("template word", "template other")
ROWS = [{"word": f"w{number}", "value": {"kind": "ab"[number % 2], "name": f"n{number}"}} for number in range(24)]


run = partial(pasta, "train")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with windows, in half precision."""
    return save_toy(tmp_path_factory.mktemp("model"), Family.GEMMA3, window=16, positions=1024, dtype=torch.bfloat16)


@pytest.fixture
def place(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program, rows and the things that people get wrong."""
    monkeypatch.chdir(tmp_path)
    files: dict[str, str | bytes] = {
        "p.pasta": PROGRAM, "two.pasta": TWO, "auto.pasta": AUTO,
        "each.pasta": AUTO.replace("word:", "each word:"), "broken.pasta": "template t(",
        "think.pasta": AUTO.replace("assistant", "assistant think(max=9)"),
        "empty.jsonl": "", "text.jsonl": "hello\n",
        "latin.jsonl": b"\xe9\n", "bad.toml": "steps = ", "wrong.toml": "stepps = 3\n", "typed.toml": 'rows = "many"\n',
        "file": "x", "array.jsonl": "[1]\n", "few.jsonl": json.dumps(ROWS[0]) + "\n",
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    write_rows(tmp_path / "rows.jsonl", ROWS)
    write_rows(tmp_path / "wrong.jsonl", [{"word": "x", "value": {"kind": "c", "name": "n"}}, *ROWS])
    write_rows(tmp_path / "accepted.jsonl", [{**ROWS[0], "accepted": {"name": "N0"}}])
    write_rows(tmp_path / "long.jsonl", [*ROWS, {"word": "x", "value": {"kind": "a", "name": "far too long"}}])
    write_rows(tmp_path / "deep.jsonl", [*ROWS, {"word": "x" * 1100, "value": {"kind": "a", "name": "n"}}])
    (tmp_path / "model").symlink_to(model)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "no-model").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text("{}")
    return tmp_path


GOOD = {"--model": "model", "--program": "p.pasta", "--data": "rows.jsonl", "--out": "out", "--device": "cpu"}


def words_of(*given: str) -> list[str]:
    """The words of a good command, changed: `--option value` replaces, `-option` takes away."""
    options: dict[str, str | None] = dict(GOOD)
    if "--epochs" not in given:
        options["--steps"] = "1"
    rest = list(given)
    method = rest.pop(0) if rest and not rest[0].startswith("-") else "hpd"
    while rest:
        name = rest.pop(0)
        if not name.startswith("--"):
            options.pop(f"-{name}")
            continue
        options[name] = rest.pop(0) if rest and not rest[0].startswith("--") else None
    return [method, *(word for pair in options.items() for word in pair if word is not None)]


@pytest.mark.parametrize(("given", "code", "message"), cases_of(Path(__file__).with_name("misuse.md")))
def test_misuse_is_refused_with_a_message_and_leaves_nothing_behind(
    given: str, code: str, message: str, place: Path
) -> None:
    before = sorted(place.rglob("*"))
    result = run(*words_of(*given.split()))
    shown = " ".join(result.stderr.replace("│", " ").split())
    assert " ".join(message.split()) in shown, result.stderr
    assert (str(result.exit_code), result.stdout) == (code, "")
    assert isinstance(result.exception, SystemExit) and "Traceback" not in result.stderr
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("given", "count", "message"),
    [
        (["--data", "-"], "2", "several processes cannot read one standard input: name a file in place of `-`"),
        (["bonbon", "--program", "auto.pasta"], "2", "bonbon trains in one process: start it without a launcher"),
        ([], "two", "WORLD_SIZE says how many processes train together: a number, not two"),
    ],
)
def test_what_one_process_alone_can_do_is_refused_to_several(
    given: list[str], count: str, message: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", count)
    result = run(*words_of(*given))
    assert message in " ".join(result.stderr.split()) and result.exit_code == 2


def test_a_run_from_rows_to_scores_can_be_repeated_from_its_toml(place: Path) -> None:
    result = run(*words_of("--steps", "3", "--judge-every", "2", "--rows", "2", "--mode", "mixture"))
    assert result.exit_code == 0, result.stderr
    first, *rest = result.stdout.splitlines()
    assert first.startswith("22 rows = ") and first.endswith("; 2 rows for validation") and "; 3 steps = " in first
    assert sum("validation score" in line for line in rest) == 2, "after step 2, and after the last one"
    assert rest[-1] == "saved to out"
    saved = load_file("out/model.safetensors")
    assert {value.dtype for value in saved.values()} == {torch.bfloat16}, "as the model came in"
    steps = [json.loads(line) for line in Path("out/training/metrics.jsonl").read_text().splitlines()]
    assert [one["step"] for one in steps if "loss" in one] == [1, 2, 3]
    judged = [one["validation"] for one in steps if "validation" in one]
    assert [set(one) for one in judged] == [{mode.value for mode in Mode}] * 3
    assert set(judged[0]["strict"]["fields"]) == {"kind", "name"}
    again = run("hpd", "--config", "out/run.toml", "--out", "again")
    assert again.exit_code == 0, again.stderr
    assert all(torch.equal(value, saved[name]) for name, value in load_file("again/model.safetensors").items())
    assert run(*words_of()).exit_code == 1
    assert "holds a finished run" in run(*words_of()).stderr


def test_rows_with_fractions_may_come_through_a_pipe(place: Path) -> None:
    (place / "priced.pasta").write_text(PROGRAM.replace("(word: text)", "(word: text, price: number)"))
    write_rows(place / "priced.jsonl", [row | {"price": 1.5} for row in ROWS])
    reading, writing = os.pipe()
    os.write(writing, (place / "priced.jsonl").read_bytes())
    os.close(writing)
    result = run(*words_of("--program", "priced.pasta", "--data", f"/dev/fd/{reading}"))
    os.close(reading)
    assert result.exit_code == 0, result.stderr
    data = tomllib.loads(Path("out/run.toml").read_text())["identity"]["data"]
    assert data == fingerprint_of(place / "priced.jsonl")


def test_ctrl_c_saves_and_says_how_to_go_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = words_of("--steps", "4", "--hold-out", "0", "--rows", "1")
    assert run(*whole, "--overwrite").exit_code == 0
    expected = load_file("out/model.safetensors")
    step, count = trainer._Run._update, iter(range(100))

    def pressed(*given: Any) -> Any:
        if next(count) == 1:
            signal.raise_signal(signal.SIGINT)
        return step(*given)

    monkeypatch.setattr(trainer._Run, "_update", pressed)
    result = run(*whole, "--overwrite")
    assert result.exit_code == 130
    assert "stopped after step 2 of 4; a checkpoint is saved in out: give the same command again" in result.stderr
    resumed = run(*whole)
    assert resumed.exit_code == 0 and "going on after step 2 of 4" in resumed.stdout
    assert all(torch.equal(value, expected[name]) for name, value in load_file("out/model.safetensors").items())


def test_rows_can_be_checked_without_training_and_bad_ones_left_out(place: Path) -> None:
    result = run(*words_of("--check", "--epochs", "2"))
    assert result.exit_code == 0, result.stderr
    assert (
        "22 rows = " in result.stdout
        and "2 rows for validation" in result.stdout
        and "nothing was trained" in result.stdout
    )
    assert not Path("out").exists()
    skipped = run(*words_of("--data", "long.jsonl", "--check", "--skip-bad"))
    assert skipped.exit_code == 0, skipped.stderr
    assert "rows are left out\n  long.jsonl:25: `name` cannot be written" in skipped.stdout
