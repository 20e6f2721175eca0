"""Masks are trained on what decoding feeds, next to what a method teaches anyway, and save passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import pastalang
from pastalang import Mode
from pastalang.runtime.models.probe_tokens import Kind
from pastalang.training.batches import PackedBatches, collate
from pastalang.training.errors import CheckpointError, Interrupted
from pastalang.training.fine_tune import Job, fine_tune
from pastalang.training.method import ParallelValues
from pastalang.training.model_files import Base, Lora
from pastalang.training.probe_lines import Probing, hosts_of
from pastalang.training.probe_methods import Masking, Masks, with_masks
from pastalang.training.recording import IGNORED
from pastalang.training.settings import Precision, Settings
from tests.oracle.toy_models import Family, save_toy, toy_model
from tests.training.lessons import TOKENIZER, product, row_of, silent
from tests.training.watched import DISTANCES, PROGRAM, TEXT, VOCABULARY, context_of, decoded


@pytest.mark.parametrize(
    ("family", "window", "program", "mode"),
    [
        (Family.LLAMA, None, PROGRAM, Mode.STRICT),
        (Family.QWEN3, 9, PROGRAM, Mode.SEQUENTIAL),
        (Family.GEMMA3, None, PROGRAM, Mode.STRICT),
        (Family.QWEN3, 9, TEXT, Mode.STRICT),
    ],
)
def test_what_training_computes_is_what_decoding_computes(
    family: Family, window: int | None, program: Any, mode: Mode
) -> None:
    rows = torch.randn(1, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    network, watched, row = decoded(family, window, program, mode, embeddings=rows)
    masks = Masks(Masking(DISTANCES), ParallelValues(program, (mode,)), Base("", network.config, TOKENIZER), seed=0)
    network.add_module("mask_token", Probing(rows))
    hosts = hosts_of(row, DISTANCES)
    masked = with_masks(row, hosts, VOCABULARY)
    batch = collate([[masked, masked]], 2 * len(masked) + 3)
    found = iter(masks.logits(network, batch, batch.tokens == VOCABULARY)[: len(masked) - len(row)])
    for host in hosts:
        context = context_of(row, host)
        for far in range(len(host.places) - 1):
            assert torch.allclose(next(found), watched.found[context, 0, far], rtol=0, atol=1e-9)
    assert next(found, None) is None and len(hosts) >= 8


def test_masks_see_their_host_and_their_own_group_and_nobody_sees_them() -> None:
    row = product("Sony", brand="Sony", quote="Sony")
    first, second = hosts_of(row, 2)[:2]
    masked = with_masks(row, [first, second], 999)
    seen, length = masked.visible, len(row)
    assert len(masked) == length + 4 and masked.tokens[length:].tolist() == [999] * 4
    assert np.array_equal(seen[:length, :length], row.visible) and not seen[:length, length:].any()
    for host, place in ((first, length), (second, length + 2)):
        assert np.array_equal(seen[place : place + 2, :length], row.visible[[host.places[0]] * 2])
        assert seen[place : place + 2, place : place + 2].tolist() == [[True, False], [True, True]]
        assert masked.positions[place : place + 2].tolist() == row.positions[list(host.places[1:])].tolist()
        assert masked.labels[place : place + 2].tolist() == row.labels[list(host.places[1:])].tolist()
    assert not seen[length : length + 2, length + 2 :].any() and not seen[length + 2 :, length : length + 2].any()


def test_a_line_is_shown_with_other_masks_each_time_and_the_same_at_the_same_time() -> None:
    rows = [[product(title, brand="Sony")] for title in ("x", "yy", "Sony 42", "a phone")]
    method, masked = ParallelValues(TEXT, (Mode.STRICT,)), Masking(2, plain=0.5, cuts=3)

    def batches(masking: Masking) -> PackedBatches:
        masks = Masks(masking, method, Base("", toy_model().config, TOKENIZER), seed=3)
        return PackedBatches(rows, rows=2, length=256, seed=0, adding=masks)

    shown = [batches(masked)(number) for number in range(40)]
    again, plain = batches(masked), batches(replace(masked, plain=1.0))
    counts = set()
    for number, batch in enumerate(shown):
        assert all(torch.equal(getattr(batch, name), getattr(again(number), name)) for name in ("tokens", "visible"))
        masks = int((batch.tokens == VOCABULARY).sum())
        counts.add(masks)
        assert batch.predicted <= plain(number).predicted + masks
        assert not (plain(number).tokens == VOCABULARY).any()
        assert batch.tokens.shape[1] <= again.widest()
        [first, second] = (again.share(rank, 2, number) for rank in range(2))  # two processes
        assert first.predicted + second.predicted == batch.predicted
    assert 0 in counts and 20 <= max(counts) <= 24 and len(counts) > 4  # two lines of two rows, three groups of two
    assert again.most_predicted() == plain.most_predicted()  # at most, whatever is drawn


# ── a run ────────────────────────────────────────────────────────────────────────────────────────────────

SOURCE = '''
template colour(word: text)
user """{word}"""
assistant json { colour: string(max=20), size: "S" | "M" | null }
'''
COLOURS = {"r": "dark red and red", "g": "light green", "b": "blue on blue"}
SIZES = {"1": "S", "2": "M", "0": None}
SETTINGS = Settings(steps=100, learning_rate=4e-3, warmup_steps=20, precision=Precision.FLOAT32, save_every=10)


def job_of(tmp_path: Path, out: str, *, steps: int = 100, masking: Masking | None = None, **more: Any) -> Job:
    data, model = tmp_path / "rows.jsonl", tmp_path / "model"
    if not model.exists():
        save_toy(model, positions=1024, hidden=64)
    rows = [
        {"word": colour + size, "value": {"colour": COLOURS[colour], "size": SIZES[size]}}
        for colour in COLOURS
        for size in SIZES
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    method, settings = ParallelValues(pastalang.compile(SOURCE), (Mode.STRICT,)), replace(SETTINGS, steps=steps)
    more = {"rows": 2, "device": "cpu", "warmup": 20, "masking": masking} | more
    return Job(method, str(model), data, tmp_path / out, settings, **more)


def test_a_run_teaches_the_answers_and_what_comes_after_them(tmp_path: Path) -> None:
    lines: list[str] = []
    fine_tune(job_of(tmp_path, "out", masking=Masking(2)), report=lines.append)
    assert "tokens ahead  right  among 5  right in a row" in lines and lines[-1].startswith("saved to")
    engine = pastalang.Engine.load(tmp_path / "out", device="cpu")
    ahead = engine.model.probe_tokens
    assert ahead is not None and ahead.rows.shape == (1, 1, 64) and ahead.distances == 2
    assert ahead.accuracy.runs[0] > 0.5, lines
    saved = 0
    for drafts in (4, 12, "auto"):
        plain, drafted = (engine.run(pastalang.compile(SOURCE), word="g1", drafts=one) for one in ("off", drafts))
        assert drafted.value == plain.value == {"colour": "light green", "size": "S"}
        saved += plain.usage.forward_passes - drafted.usage.forward_passes
    assert saved > 6
    assert not any("mask" in name for name in load_file(tmp_path / "out" / "model.safetensors"))


def test_without_masks_it_is_what_the_method_does_alone(tmp_path: Path) -> None:
    """The paper: with a share of plain rows of 1, SAR-SFT is SFT."""
    fine_tune(job_of(tmp_path, "masks", steps=12, masking=Masking(plain=1.0)), report=silent)
    fine_tune(job_of(tmp_path, "none", steps=12), report=silent)
    masks, none = (load_file(tmp_path / out / "model.safetensors") for out in ("masks", "none"))
    assert masks.keys() == none.keys() and all(torch.equal(masks[name], none[name]) for name in masks)


def test_an_interrupted_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    def job(out: str) -> Job:
        return job_of(tmp_path, out, steps=24, masking=Masking(2, plain=0.3))

    fine_tune(job("whole"), report=silent)
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        fine_tune(job("cut"), report=silent, is_stopped=lambda: next(calls) >= 13)
    assert not (tmp_path / "cut" / Kind.SPACE.file).exists()
    other = replace(job("cut"), masking=Masking(3, plain=0.3))
    with pytest.raises(CheckpointError, match="distances was 2, now 3"):
        fine_tune(other, report=silent)
    fine_tune(job("cut"), report=silent)
    for file in ("model.safetensors", Kind.SPACE.file):
        whole, cut = (load_file(tmp_path / out / file) for out in ("whole", "cut"))
        assert whole.keys() == cut.keys() and all(torch.equal(whole[name], cut[name]) for name in whole), file


@pytest.mark.parametrize("precision", [Precision.MIXED, Precision.BFLOAT16])
def test_the_weights_of_a_run_know_their_mask_token(tmp_path: Path, precision: Precision) -> None:
    job = job_of(tmp_path, "out", steps=8, masking=Masking(2, plain=0.0))
    fine_tune(replace(job, settings=replace(job.settings, precision=precision)), report=silent)
    assert pastalang.Engine.load(tmp_path / "out").model.probe_tokens is not None


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # of peft itself
def test_adapters_are_trained_with_the_mask_token(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="LoRA needs peft")
    job = job_of(tmp_path, "out", steps=60, masking=Masking(2, plain=0.0), lora=Lora(8), keep_adapter=True)
    lines: list[str] = []
    fine_tune(job, report=lines.append)
    losses = [float(line.split("loss")[1].split()[0]) for line in lines if "loss" in line]
    assert losses[-1] < losses[0]
    for model, options in (("out", {}), ("model", {"adapter": str(tmp_path / "out" / "adapter")})):
        engine = pastalang.Engine.load(tmp_path / model, device="cpu", **options)
        plain, drafted = (engine.run(pastalang.compile(SOURCE), word="g1", drafts=one) for one in ("off", 8))
        assert engine.model.probe_tokens and plain.text == drafted.text and drafted.usage.drafted_tokens > 0
    assert "mask_token" not in str(load_file(tmp_path / "out/adapter/adapter_model.safetensors").keys())


def test_a_run_that_begins_anew_leaves_no_token_of_the_run_before(tmp_path: Path) -> None:
    fine_tune(job_of(tmp_path, "out", steps=2, masking=Masking(2)), report=silent)
    fine_tune(job_of(tmp_path, "out", steps=2, overwrite=True), report=silent)
    assert pastalang.Engine.load(tmp_path / "out").model.probe_tokens is None


def test_forced_tokens_are_not_predicted() -> None:
    row = row_of(
        'template t(x: text)\nuser """{x}"""\nassistant text """{a: "tv" | "phone"}{b: string(max=4)}"""\n',
        {"x": ""}, {"a": "phone", "b": "ok"},
    )  # fmt: skip
    masked = with_masks(row, hosts_of(row, 6)[:1], 999)
    assert masked.labels[len(row) :].tolist() == [*[IGNORED] * len("hone"), ord("o"), ord("k")]
