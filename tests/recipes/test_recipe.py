"""The recipe of pasta-mini: held-out titles, and a run from end to end."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file

from pastalang import Engine, Mode
from pastalang.runtime.models.training_note import check_mode
from pastalang.training.errors import BadData, BadRow
from pastalang.training.trainer import Processes
from recipes.pasta_mini import __main__ as command
from recipes.pasta_mini.card import Facts
from recipes.pasta_mini.lessons import extraction_program, lesson_of
from recipes.pasta_mini.listings import made_up
from recipes.pasta_mini.real_listings import Split, read_oa_mine
from recipes.pasta_mini.recipe import Sizes, make_mini
from tests.training.test_processes import in_processes

TINY = Sizes(
    steps=3, save_every=1, listings=40, documents=20, meanings=2, rows=2, length=640, ahead=2, vocabulary=800,
    inner=32, layers=4, exam=4,
)  # fmt: skip


def oa_mine(path: Path) -> Path:
    rows = [
        {"input": f"Sony TV {number} inch", "category": "TV", "target_scores": {"Brand": {"Sony": 1}}}
        for number in range(40)
    ]
    rows[0]["target_scores"] = {"Brand": {"Sony": 1}, "Colour": {"n/a": 1}, "Size": {"0 inch": 1}}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_one_title_in_ten_is_held_out_and_unstated_attributes_are_null(tmp_path: Path) -> None:
    split = read_oa_mine(oa_mine(tmp_path / "train.jsonl"))
    assert len(split.train) + len(split.held_out) == 40
    assert 1 <= len(split.held_out) <= 10
    for listing in (*split.train, *split.held_out):
        assert listing.values["Brand"] == "Sony"
        assert listing.values.get("Colour") is None
    with pytest.raises(BadRow, match=r"bad\.jsonl:1: .*not a row of OA-Mine"):
        (tmp_path / "bad.jsonl").write_text("{}\n")
        read_oa_mine(tmp_path / "bad.jsonl")


def test_a_lesson_asks_for_what_its_listing_answers() -> None:
    [listing] = made_up(1, seed=3)
    lesson = lesson_of(listing, Random(0), origin="made up 1")
    assert lesson.value == dict(listing.values)
    assert lesson.plan(Mode.LOCKSTEP).mode is Mode.LOCKSTEP


def test_an_interrupted_recipe_goes_on_and_makes_a_folder_that_the_engine_runs_in_every_mode(tmp_path: Path) -> None:
    split = read_oa_mine(oa_mine(tmp_path / "train.jsonl"))
    lines: list[str] = []

    class PulledPlug(Exception):
        pass

    def report(line: str) -> None:
        lines.append(line)
        if [one.startswith("oa-mine, held out: F1") for one in lines] == [*[False] * (len(lines) - 1), True]:
            raise PulledPlug

    def make() -> None:
        make_mini(split, ["Once upon a time. " * 40], tmp_path / "mini", TINY, report=report, overwrite=False)

    with pytest.raises(PulledPlug):
        make()
    make()
    assert "going on after step 2 of 3" in lines
    log = (tmp_path / "mini" / "training" / "log.txt").read_text(encoding="utf-8")
    assert [line.partition("  ")[2] for line in log.splitlines()] == lines
    found = json.loads((tmp_path / "mini" / "scores.json").read_text())
    scores = found["scores"]
    assert 0 <= found["hours"] < 1
    assert scores["oa-mine, held out"]["documents"] == len(split.held_out)
    engine = Engine.load(tmp_path / "mini", device="cpu", dtype=torch.float32)
    program = extraction_program(["Brand", "Size"], limit=8, order="Extract.")
    for mode in Mode:
        check_mode(tmp_path / "mini", mode)
        assert set(engine.run(program, {"title": "Sony TV"}, mode=mode).value) == {"Brand", "Size"}
    goes_on(split, tmp_path)


def goes_on(split: Split, folder: Path) -> None:
    """From the weights of a run, with its tokenizer. What training leaves as it is stays the same."""
    begun = folder / "mini"
    make_mini(split, [], folder / "more", TINY, report=lambda _: None, overwrite=False, start=begun)
    before, after = (load_file(str(one / "model.safetensors")) for one in (begun, folder / "more"))
    first = "model.layers.0.self_attn.q_proj.weight"  # of one head that learns, and of four that look back
    assert torch.equal(before[first][64:], after[first][64:])
    assert not torch.equal(before[first], after[first])
    assert (begun / "tokenizer.json").read_bytes() == (folder / "more" / "tokenizer.json").read_bytes()
    with pytest.raises(BadData, match="mini have their tokenizer, so texts for another one would not be read"):
        make_mini(split, ["Once."], folder / "none", TINY, report=lambda _: None, overwrite=False, start=begun)
    with pytest.raises(BadData, match=r"nowhere holds no weights to go on from: there is no model\.safetensors in it"):
        make_mini(split, [], folder / "none", TINY, report=lambda _: None, overwrite=False, start=folder / "nowhere")
    with pytest.raises(BadData, match="has another shape"):
        wider = replace(TINY, inner=48)
        make_mini(split, [], folder / "wider", wider, report=lambda _: None, overwrite=False, start=begun)


@pytest.mark.long
def test_two_processes_make_one_folder_and_must_share_the_lines_of_a_batch(tmp_path: Path) -> None:
    split = read_oa_mine(oa_mine(tmp_path / "train.jsonl"))
    lines = tmp_path / "lines.txt"

    def say(line: str) -> None:
        with lines.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def make(processes: Processes) -> None:
        make_mini(split, ["Once."], tmp_path / "mini", TINY, report=say, overwrite=False, processes=processes)

    assert in_processes(2, make) == [None, None]
    said = lines.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("oa-mine, held out: F1") for line in said) == 1
    assert (tmp_path / "mini" / "model.safetensors").is_file()
    uneven = in_processes(3, make)
    assert all("3 processes cannot share the 2 lines of a batch" in str(problem) for problem in uneven)


def test_the_card_names_the_command_with_what_differs_from_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tales.txt").write_text("Once upon a time.", encoding="utf-8")
    cards: list[Facts] = []
    monkeypatch.setattr(command, "make_mini", lambda *given, **_: None)
    monkeypatch.setattr(command, "write_card", lambda _, facts: cards.append(facts))
    given = ["--oa-mine", str(oa_mine(tmp_path / "train.jsonl")), "--text", str(tmp_path / "tales.txt")]
    monkeypatch.setattr("sys.argv", ["mini", *given, "--out", str(tmp_path / "out"), "--layers", "2"])
    assert command.main() == 0
    [facts] = cards
    assert facts.command.endswith("--oa-mine train.jsonl --text tales.txt --layers 2 --out out")
    assert facts.command.startswith("python -m recipes.pasta_mini")
    assert facts.sources[-1].name == "tales.txt"
    monkeypatch.setattr("sys.argv", ["mini", "--oa-mine", str(tmp_path / "none"), "--out", str(tmp_path / "out")])
    assert command.main() == 1
    assert "there is no file" in capsys.readouterr().err


def test_the_card_names_how_many_processes_made_the_weights() -> None:
    given = Namespace(text=[], oa_mine=Path("data/train.jsonl"), out=Path("mini"), weights=None)
    made = command._facts(given, Sizes(seed=3), 2).command
    assert made == "torchrun --nproc-per-node 2 -m recipes.pasta_mini --oa-mine train.jsonl --seed 3 --out mini"
