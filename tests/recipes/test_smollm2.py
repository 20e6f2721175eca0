"""The recipe of adapters: groups with one prompt, what they cost, and a run from end to end on a toy model."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer

from benchmarks import asked, attributes
from pastalang import Engine
from pastalang.plan.branches import Mode
from pastalang.runtime.models.adapters import merge_adapter, read_adapter, write_adapter
from pastalang.runtime.models.source import WEIGHTS
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.training.batches import collate, logits_of
from pastalang.training.errors import BadData
from pastalang.training.recording import IGNORED, TrainingRow
from recipes.pasta_mini.batches import with_one_prompt
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import draw_form, with_examples
from recipes.pasta_mini.listings import Listing
from recipes.pasta_mini.real_listings import read_oa_mine
from recipes.smollm2 import __main__ as command
from recipes.smollm2 import mean, scores
from recipes.smollm2.groups import group_loss, group_of
from recipes.smollm2.lessons import DrawGroup, lessons_of_titles
from recipes.smollm2.lora import adapt, adapter_of, fresh_adapter, widened
from recipes.smollm2.recipe import RUNS, Sizes, make_adapter
from recipes.smollm2.stream import lines_loss, lines_of
from tests.oracle.toy_models import toy_model
from tests.recipes.test_recipe import oa_mine

TOKENIZER = AutoTokenizer.from_pretrained(WEIGHTS / "pasta-mini")
TINY = Sizes(steps=3, save_every=1, longest=900, rank=2, first_layer=1, warmup=1)


def small_model() -> Any:
    return toy_model(vocabulary=len(TOKENIZER), heads=4, kv_heads=2, layers=2, positions=8192)


@pytest.fixture(scope="module")
def titles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Listing, ...]:
    return read_oa_mine(oa_mine(tmp_path_factory.mktemp("oa") / "train.jsonl")).train


@pytest.fixture(scope="module")
def groups(titles: tuple[Listing, ...]) -> list[list[TrainingRow]]:
    draw = DrawGroup(TOKENIZER, titles, longest=900)
    [row, *_] = DrawGroup(TOKENIZER, titles, longest=900, title_share=1.0)(Random(0))
    assert row.origin in {one.title for one in titles} | {one.category for one in titles}, "only titles are drawn"
    return [draw(Random(number)) for number in range(8)]


def test_a_group_costs_what_its_rows_cost_with_a_mask_of_all_pairs(groups: list[list[TrainingRow]]) -> None:
    model = small_model()
    several = 0
    for rows in groups:
        group = group_of(rows, len(TOKENIZER))
        assert group.weights is not None
        assert group.predicted == sum(len(row.taught) for row in rows) == len(group.weights)
        [joined] = with_one_prompt(rows, 5000)
        assert group.tokens.shape == (1, len(joined)) and group.documents == len(rows)
        dense = collate([[joined]], len(joined))
        with torch.no_grad():
            logits = logits_of(model, dense, where=dense.labels != IGNORED)
            assert group.allowed is not None and group.weights is not None
            costs = cross_entropy(
                logits.masked_fill(~group.allowed, -1e30), group.labels[group.labels != IGNORED], reduction="none"
            )
            expected = (costs * group.weights).sum() / group.weights.sum()
            assert torch.allclose(group_loss(model, group), expected, rtol=1e-4)
        several += len(rows) > 1
    assert several, "groups share prompts"
    lines, alone = lines_of(groups, len(TOKENIZER)), [group_of(rows, len(TOKENIZER)) for rows in groups]
    with torch.no_grad():
        costs = [(group_loss(model, one), one.weights.sum()) for one in alone if one.weights is not None]
        mean = sum(cost * count for cost, count in costs) / sum(count for _, count in costs)
        assert torch.allclose(lines_loss(model, lines), mean, rtol=1e-4) and len(lines.tokens) == len(groups)
    assert {row.mode for rows in groups for row in rows} > {Mode.STRICT}


def test_what_decoding_may_draw_is_allowed(groups: list[list[TrainingRow]]) -> None:
    for rows in groups:
        group = group_of(rows, len(TOKENIZER))
        labels = group.labels[group.labels != IGNORED]
        assert group.allowed is not None and bool(group.allowed[torch.arange(len(labels)), labels].all())
        assert group.weights is not None and set(group.weights.tolist()) <= {1.0, 1.5, 2.5}


def test_only_the_pairs_learn_and_what_they_learnt_is_what_is_merged(groups: list[list[TrainingRow]]) -> None:
    model, bare = small_model(), small_model()
    start = fresh_adapter(model, rank=2, first_layer=1, seed=0)
    assert all(name.startswith("model.layers.1.") for name in start.pairs) and len(start.pairs) == 7
    wide = widened(start, fresh_adapter(model, rank=2, first_layer=0, seed=1))
    assert len(wide.pairs) == 14 and all(wide.pairs[name] is pair for name, pair in start.pairs.items())
    adapt(model, start)
    group = group_of(groups[0], len(TOKENIZER))
    before = group_loss(model, group)
    assert torch.allclose(before, group_loss(bare, group)), "a fresh adapter changes nothing"
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=2e-2)
    for _ in range(4):
        optimizer.zero_grad()
        group_loss(model, group).backward()
        optimizer.step()
    assert group_loss(model, group) < before - 0.05
    assert all(
        torch.equal(one, other)
        for one, other in zip(model.model.layers[0].parameters(), bare.model.layers[0].parameters(), strict=True)
    )
    learnt = adapter_of(model, start)
    for name, (down, up) in learnt.pairs.items():
        bare.get_submodule(name).weight.data += learnt.scale(2) * (up @ down)
    assert torch.allclose(group_loss(model, group), group_loss(bare, group), rtol=1e-4)


def test_products_in_bfloat16_teach_the_same(groups: list[list[TrainingRow]]) -> None:
    model = small_model()
    group = group_of(groups[0], len(TOKENIZER))
    exact = group_loss(model, group)
    adapt(model, fresh_adapter(model, rank=2, first_layer=1, seed=0), torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = group_loss(model, group)
    rounded.backward()
    assert 0 < abs(rounded - exact) < 0.02 * exact, "the products are rounded"
    trained = [one for one in model.parameters() if one.requires_grad]
    assert all(one.dtype == torch.float32 and one.grad is not None and one.grad.isfinite().all() for one in trained)


@pytest.fixture
def base(tmp_path: Path) -> str:
    small_model().save_pretrained(tmp_path / "base")
    TOKENIZER.save_pretrained(tmp_path / "base")
    return str(tmp_path / "base")


def test_a_run_that_is_resumed_equals_an_unbroken_one_and_is_gone_on_with(
    base: str, titles: tuple[Listing, ...], tmp_path: Path
) -> None:
    class PulledPlug(Exception):
        pass

    def pull(line: str) -> None:
        if line.startswith("step 2/"):
            raise PulledPlug

    options: Any = {"command": "python -m recipes.smollm2"}
    make_adapter(base, titles, tmp_path / "whole", TINY, report=str, **options)
    with pytest.raises(PulledPlug):
        make_adapter(base, titles, tmp_path / "parts", TINY, report=pull, **options)
    make_adapter(base, titles, tmp_path / "parts", TINY, report=str, **options)
    whole, parts = read_adapter(tmp_path / "whole"), read_adapter(tmp_path / "parts")
    assert all(
        torch.equal(one, other)
        for name in whole.pairs
        for one, other in zip(whole.pairs[name], parts.pairs[name], strict=True)
    )

    engine = Engine.load(base, adapter=tmp_path / "whole", cells=2048)
    assert engine.trained_for is not None and engine.trained_for.modes == tuple(Mode)
    once = replace(TINY, steps=1)
    make_adapter(base, titles, tmp_path / "more", once, report=str, start=tmp_path / "whole", **options)
    runs = json.loads((tmp_path / "more" / RUNS).read_text())
    assert [run["sizes"]["steps"] for run in runs] == [3, 1] and runs[0]["documents"] > 0 and runs[0]["tokens"] > 500
    merge_adapter(small_model(), tmp_path / "more")
    with pytest.raises(BadData, match="holds a finished run"):
        make_adapter(base, titles, tmp_path / "more", TINY, report=str, **options)
    wrong: Any = {"documents called `nowhere`": {"written_files": "nowhere"}, "of one whole": {"titles": 0.9}}
    for why, sizes in wrong.items():
        with pytest.raises(BadData, match=why):
            make_adapter(base, titles, tmp_path / "none", replace(TINY, **sizes), report=str, **options)
    assert not (tmp_path / "none").exists()


def test_keys_are_spelled_as_programs_spell_them_and_stay_apart() -> None:
    listing = Listing("TV", "Sony TV", "", {"Brand name": "Sony", "Brand_name": None})
    found = set()
    for seed in range(12):
        [lesson] = lessons_of_titles([listing], ["Brand name"], Random(seed))
        assert isinstance(lesson.value, dict) and list(lesson.value.values()) == ["Sony"]
        found |= set(lesson.value)
        [both] = lessons_of_titles([listing], ["Brand name", "Brand_name"], Random(seed))
        assert isinstance(both.value, dict) and len(both.value) == 2
    assert found == {"Brand name", "brand_name", "brandName"}


def test_a_prompt_may_show_examples_which_are_not_asked_about() -> None:
    one, two = (Listing("TV", f"{brand} TV", "", {"Brand": brand}) for brand in ("Sony", "Loewe"))
    [lesson] = lessons_of_titles([one], ["Brand"], Random(0), examples=[two])
    assert lesson.origin == one.title and "Loewe TV" in str(lesson.plan(Mode.STRICT).branches[0].segments)
    form = draw_form(Random(1), Part.TRAIN)
    shown = with_examples(form, Random(2), Part.TRAIN, count=2).program.only_template.messages
    assert len(shown) == len(form.program.only_template.messages) + 2 * 2  # a question and an answer each


@pytest.mark.parametrize("share", [0.5, 0.75])
def test_the_mean_of_two_adapters_lies_between_them(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [fresh_adapter(small_model(), rank=2, first_layer=1, seed=seed) for seed in (0, 1)]
    for name, end in zip("ab", ends, strict=True):
        write_adapter(tmp_path / name, end, base="toy")
        TrainingNote(tuple(Mode), "", "", "", {}).write(tmp_path / name)
        (tmp_path / name / RUNS).write_text(json.dumps([{"command": "x"}, {"command": name}]), "utf-8")
    given = [str(tmp_path / "a"), str(tmp_path / "b"), "--share", str(share), "--out", str(tmp_path / "c")]
    monkeypatch.setattr(sys, "argv", ["mean", *given])
    assert mean.main() == 0
    monkeypatch.setattr(sys, "argv", ["mean", *given, "--share", "7"])
    with pytest.raises(SystemExit):
        mean.main()
    assert [run["command"] for run in json.loads((tmp_path / "c" / RUNS).read_text())] == ["x", "a", "b"]
    for name, (down, _) in read_adapter(tmp_path / "c").pairs.items():
        a, b = (end.pairs[name][0] for end in ends)
        assert torch.allclose(down.float(), (1 - share) * a + share * b, atol=2e-2)


def test_the_command_makes_an_adapter(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--oa-mine", str(oa_mine(tmp_path / "train.jsonl")), "--model", base, "--out", str(tmp_path / "extract")]
    small = ["--steps", "1", "--rank", "1", "--longest", "900", "--groups", "2", "--recorders", "1"]
    monkeypatch.setattr(sys, "argv", ["smollm2", *words, *small, "--first-layer", "1"])
    assert command.main() == 0
    [run] = json.loads((tmp_path / "extract" / RUNS).read_text())
    assert run["command"] == (
        f"python -m recipes.smollm2 --oa-mine train.jsonl --model {base} --steps 1 --groups 2 --longest 900 "
        "--rank 1 --first-layer 1 --recorders 1 --out extract"
    )
    monkeypatch.setattr(sys, "argv", ["smollm2", *words, "--start", str(tmp_path)])
    assert command.main() == 1


def test_a_model_is_scored_as_it_comes_in_every_mode(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--ae-110k", str(oa_mine(tmp_path / "train.jsonl")), "--model", base, "--adapter", "none"]
    monkeypatch.setattr(sys, "argv", ["attributes", *words, "--documents", "3", "--dtype", "float32"])
    assert attributes.main() == 0
    said = capsys.readouterr()
    rows = [line.split(" | ") for line in said.out.splitlines() if line.startswith("| none, ")]
    assert [row[0] for row in rows] == [f"| none, {mode.value}" for mode in Mode] and {row[1] for row in rows} == {"3"}
    assert float(rows[0][5]) < float(rows[-1][5]) and "lockstep - strict" in said.err, "one after another takes longer"


def test_untrained_weights_are_asked_in_every_way(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--oa-mine", str(oa_mine(tmp_path / "train.jsonl")), "--model", base, "--count", "1"]
    monkeypatch.setattr(sys, "argv", ["asked", *words])
    assert asked.main() == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[:2] for row in rows][:3] == [["| everyday, 1", "0"], ["| written, 1", "0"], ["| written, 1", "1"]]


def test_scores_are_of_titles_and_documents_that_no_training_has_seen(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--oa-mine", str(oa_mine(tmp_path / "train.jsonl")), "--model", base, "--count", "2"]
    monkeypatch.setattr(sys, "argv", ["scores", *words])
    assert scores.main() == 0
    said = capsys.readouterr().out
    assert "titles, held out: fields right" in said and "documents, unseen layouts and names: fields right" in said
    monkeypatch.setattr(sys, "argv", ["scores", *words, "--adapter", "other"])
    assert scores.main() == 1
