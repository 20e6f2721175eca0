"""Prompt tokens are trained on what decoding feeds, on weights that stay as they are, and save passes."""

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
from benchmarks.prompt_tokens import Trial, gain, right, share
from benchmarks.trees import best_tree, replay
from pastalang import Engine, Mode, build_plan
from pastalang.runtime.models.probe_tokens import Accuracy, Kind
from pastalang.runtime.models.training_note import read_note
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.training.errors import BadData, Interrupted
from pastalang.training.probe_lines import Contexts, ProbeBatches, ahead_logits, hosts_of, lines_of
from pastalang.training.probe_methods import PromptJob, PromptTraining, train_prompt_tokens
from pastalang.training.recording import IGNORED, Recorder, TrainingRow, drawn_of
from pastalang.training.settings import Precision, Settings
from tests.oracle.toy_models import Family, save_toy, toy_model
from tests.training.lessons import TOKENIZER
from tests.training.watched import DISTANCES, PROGRAM, TEXT, VOCABULARY, context_of, decoded

ENSEMBLE = 2
ROWS = [{"title": title} for title in ("Sony 55", "a phone", "x", "größer, 12")]


@pytest.mark.parametrize(("family", "window"), [(Family.LLAMA, None), (Family.QWEN3, 9), (Family.GEMMA3, None)])
@pytest.mark.parametrize(("program", "mode"), [(PROGRAM, Mode.STRICT), (PROGRAM, Mode.SEQUENTIAL), (TEXT, Mode.STRICT)])
def test_what_training_computes_is_what_decoding_computes(
    family: Family, window: int | None, program: Any, mode: Mode
) -> None:
    rows = torch.randn(DISTANCES, ENSEMBLE, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    network, watched, row = decoded(family, window, program, mode, embeddings=rows)
    length = len(row) + 5
    [line] = lines_of([row], length=length, distances=DISTANCES)
    batches = ProbeBatches(
        [line], length=length, distances=DISTANCES, ensemble=ENSEMBLE, vocabulary=VOCABULARY, size=1, hosts=99, seed=0
    )
    batch = batches.batch([(0, line.hosts)])
    logits = ahead_logits(network, rows, batch, Contexts(network, [line], length=length, most=1 << 20))[0]
    compared = 0
    for host, found in zip(line.hosts, logits, strict=True):
        context = context_of(row, host)
        for far in range(len(host.places) - 1):
            parts = [watched.found[context, ENSEMBLE * far + one, far] for one in range(ENSEMBLE)]
            assert torch.allclose(found[far], torch.stack(parts).mean(dim=0), rtol=0, atol=1e-9)
            compared += 1
    assert compared >= 15


def replayed(program: Any, model: Any, mode: Mode = Mode.STRICT) -> tuple[Any, TrainingRow]:
    plan = build_plan(program.only_template, program, mode=mode)
    result = Engine(TransformersModel(model, cells=2048), TOKENIZER).run(plan, ROWS[0], on_truncated="keep")
    return result, Recorder(TOKENIZER).again(plan, ROWS[0], drawn_of(result), origin="0")


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.SEQUENTIAL])
def test_hosts_stand_before_what_the_same_branch_drew(mode: Mode) -> None:
    result, row = replayed(PROGRAM, toy_model(), mode)
    hosts = hosts_of(row, DISTANCES)
    assert len(hosts) >= result.usage.output_tokens - 2 * len(result.fields)
    for host in hosts:
        for place, then, drawn in zip(host.places, host.places[1:], host.drawn, strict=False):
            assert row.visible[then, place] and row.positions[then] == row.positions[place] + 1
            assert drawn in (IGNORED, row.tokens[then])
        assert len(host.places) <= DISTANCES + 1 and any(token != IGNORED for token in host.drawn[1:])


# ── a run ────────────────────────────────────────────────────────────────────────────────────────────────

SETTINGS = Settings(
    steps=40, learning_rate=0.05, warmup_steps=0, weight_decay=0.0, precision=Precision.FLOAT32, save_every=10,
    judge_every=20,
)  # fmt: skip


def job_of(folder: Path, out: str, **changed: Any) -> PromptJob:
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS), encoding="utf-8")
    wanted = {"program": TEXT, "model": str(folder / "model"), "data": data, "out": folder / out, "settings": SETTINGS}
    training = PromptTraining(distances=2, ensemble=2, temperature=1.0, samples=2)
    return PromptJob(**{**wanted, "training": training, "rows": 2, "length": 64, "device": "cpu", **changed})


def test_a_run_leaves_the_weights_and_the_answers_as_they_were(tmp_path: Path) -> None:
    base = save_toy(tmp_path / "model", positions=1024)
    lines: list[str] = []
    accuracy = train_prompt_tokens(job_of(tmp_path, "out"), report=lines.append)
    assert len(accuracy.runs) == 2 and 0 <= accuracy.runs[1] <= accuracy.runs[0] <= accuracy.top[0][4] <= 1
    losses = [float(line.split("loss")[1].split()[0]) for line in lines if "loss" in line]
    assert losses[-1] < losses[0], lines
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "out"))
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    engine = pastalang.Engine.load(tmp_path / "out", device="cpu")
    plain, drafted = (engine.run(TEXT, ROWS[0], drafts=drafts) for drafts in ("off", 6))
    assert drafted.text == plain.text and drafted.usage.drafted_tokens > 0


def test_an_interrupted_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    save_toy(tmp_path / "model", positions=1024)
    train_prompt_tokens(job_of(tmp_path, "whole"), report=lambda _: None)
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        train_prompt_tokens(job_of(tmp_path, "cut"), report=lambda _: None, is_stopped=lambda: next(calls) >= 14)
    assert not (tmp_path / "cut" / Kind.PPD.file).exists()
    train_prompt_tokens(job_of(tmp_path, "cut"), report=lambda _: None)
    whole, cut = (load_file(tmp_path / out / Kind.PPD.file) for out in ("whole", "cut"))
    assert torch.equal(whole["rows"], cut["rows"])


def test_what_was_learned_saves_passes(tmp_path: Path) -> None:
    save_toy(tmp_path / "model", positions=1024, layers=1)
    settings = replace(SETTINGS, steps=150, judge_every=50)
    greedy = PromptTraining(distances=2, ensemble=1)
    accuracy = train_prompt_tokens(job_of(tmp_path, "out", settings=settings, training=greedy), report=lambda _: None)
    engine = pastalang.Engine.load(tmp_path / "out", device="cpu")
    plain, drafted = (engine.run(TEXT, ROWS[1], drafts=drafts).usage for drafts in ("off", 8))
    assert accuracy.runs[0] > 0.05 and drafted.forward_passes < plain.forward_passes


def test_the_answers_are_kept_and_guessed_from_the_first_run_on(tmp_path: Path) -> None:
    save_toy(tmp_path / "model", positions=1024, layers=1)
    greedy = PromptTraining(distances=2, ensemble=1)
    train_prompt_tokens(job_of(tmp_path, "out", training=greedy), report=lambda _: None)
    engine = pastalang.Engine.load(tmp_path / "out", device="cpu", drafts=12)
    drafted, plain = (engine.run(TEXT, ROWS[1], drafts=drafts) for drafts in (None, "off"))
    assert drafted.text == plain.text
    assert 3 * drafted.usage.forward_passes < plain.usage.forward_passes


def test_weights_that_stay_as_they_are_are_trained_for_no_tags(tmp_path: Path) -> None:
    save_toy(tmp_path / "model", positions=1024)
    threads = pastalang.compile('template t(title: text)\nuser """{title}"""\nassistant auto(pasta, max=12)\n')
    short = replace(SETTINGS, steps=1, judge_every=1)
    train_prompt_tokens(job_of(tmp_path, "out", program=threads, settings=short), report=lambda _: None)
    note = read_note(tmp_path / "out")
    assert note is not None and note.threads is None and set(note.modes) == set(Mode)


def test_without_two_tokens_in_a_row_there_is_nothing_to_predict(tmp_path: Path) -> None:
    save_toy(tmp_path / "model", positions=1024)
    short = pastalang.compile('template t(title: text)\nuser """{title}"""\nassistant json { a: boolean }\n')
    with pytest.raises(BadData, match="nothing to predict"):
        train_prompt_tokens(job_of(tmp_path, "out", program=short), report=lambda _: None)


def test_the_tree_of_the_paper_gives_as_many_tokens_as_it_is_chosen_for() -> None:
    """Replayed on predictions that are right as often as the accuracy says, each apart from the others."""
    right = np.array([[0.4, 0.2, 0.1] + 5 * [0.01], [0.2, 0.1, 0.05] + 5 * [0.01]])
    accuracy = Accuracy(tuple(map(tuple, right.cumsum(axis=1))), (0.4, 0.08), ())
    chance = np.random.default_rng(0)
    ranks = np.stack([chance.choice([*range(8), -1], p=[*some, 1 - some.sum()], size=40_000) for some in right], axis=1)
    rates = []
    for most in (3, 7, 15):
        tree = best_tree(accuracy, most)
        tokens, passes, fed = replay(tree, ranks)
        assert max(tree.fed) <= most and fed <= passes * most
        assert tokens / passes == pytest.approx(tree.rate, rel=0.01)
        rates.append(tree.rate)
    assert rates == sorted(rates) and rates[0] > 1.3


@pytest.mark.parametrize(("ensemble", "is_hard"), [(1, True), (2, True), (2, False)])
def test_each_way_of_teaching_prompt_tokens_is_better_than_none(ensemble: int, is_hard: bool) -> None:
    _, row = replayed(TEXT, toy_model(vocabulary=VOCABULARY, layers=1))
    trial = Trial(toy_model(vocabulary=VOCABULARY, layers=1).float(), [row, row], length=8, distances=2)
    before, after = (
        right(trial.ranks(trial.train(ensemble=ensemble, is_hard=is_hard, steps=steps, size=1, hosts=99), 99), 0, 5)
        for steps in (0, 60)
    )
    assert share(after) > share(before) + 0.1
    assert gain(before, before) == (0, 0, 0) < gain(after, before)
