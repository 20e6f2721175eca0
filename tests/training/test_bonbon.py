"""Preference rounds: what is sampled comes back as a row, and the margin of a pair goes where it should."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

import pastalang
from pastalang import Engine, build_plan
from pastalang.program.types import AutoPolicy
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.source import Source
from pastalang.testing.fakes import scripted_model
from pastalang.training.answer import read_thread_text
from pastalang.training.bonbon import (
    BonbonLoss,
    Pair,
    PairBatches,
    Quality,
    Round,
    Sampled,
    Sampler,
    baseline_answers,
    pairs_of,
    reference_of,
    tagged_text,
    train_round,
    train_rounds,
)
from pastalang.training.data import Row, read_checked
from pastalang.training.errors import BadData, Interrupted
from pastalang.training.method import OwnThreads
from pastalang.training.model_files import Lora
from pastalang.training.recording import Recorder
from pastalang.training.settings import Form, Precision, Preference, Settings
from pastalang.training.trainer import train
from tests.runtime.test_auto import FOOD, SIGHTS, program, script_of
from tests.training.lessons import TOKENIZER, toy_llama

PROGRAM = pastalang.compile('template t(word: text)\nuser """{word}"""\nassistant auto(pasta, max=60)\n')
PLAN = build_plan(PROGRAM.only_template, PROGRAM)
FAST, SLOW = '<promise tokens="10"/><async>ab</async>!', "ab!"


def rows(*words: str) -> list[Row]:
    return read_checked(Source("r", "".join(json.dumps({"word": word, "value": "ab!"}) + "\n" for word in words)), PLAN)


def test_a_sampled_answer_comes_back_as_a_row() -> None:
    threads = {"food": "Goulash.</async>", "sights": "Baths.</async>"}
    engine = Engine(scripted_model(script_of(f"{FOOD}\n{SIGHTS}<sync/>End <promise", threads), 320), TOKENIZER)
    result = engine.run(program(), {})
    value = tagged_text(engine.encoder, AutoPolicy.PASTA, result)
    assert value == f"{FOOD}<async>Goulash.</async>\n{SIGHTS}<async>Baths.</async><sync/>End <promise"
    assert read_thread_text(value.removesuffix("<promise"), AutoPolicy.PASTA).plain + "<promise" == result.text


def test_the_weight_of_quality_sweeps_the_trade_off() -> None:
    quick, good = Sampled("a", 3.0, 0.5), Sampled("b", 1.0, 1.0)
    [row] = rows("x")

    def best(weight: float) -> str:
        [pair] = pairs_of([row], [[good, quick]], Preference(quality_weight=weight))
        return pair.best.value

    assert [best(weight) for weight in (0.0, 2.0, 5.0, math.inf)] == ["a", "a", "b", "b"]
    assert pairs_of([row], [[good, good]], Preference()) == []
    assert pairs_of([row], [[]], Preference()) == []
    assert Preference(samples=8).beta == pytest.approx(0.0275, abs=1e-4), "as published for 8 samples"
    assert Preference(samples=8).margin == pytest.approx(7 * (1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6 + 1 / 7))


def test_the_samples_of_a_row_differ(tmp_path: Path) -> None:
    short = pastalang.compile('template t(word: text)\nuser """{word}"""\nassistant auto(pasta, max=40)\n')
    plan = build_plan(short.only_template, short)

    def next_token(fed: FedToken) -> int:
        return 256 if fed.position > 24 else 97

    engine = Engine(scripted_model(next_token, 320), TOKENIZER)
    seeds, decode = list[int](), engine.batch

    def batch(*given: Any, **more: Any) -> Any:
        seeds.extend(more["seeds"])
        return decode(*given, **more)

    engine.batch = batch  # type: ignore[method-assign]
    kept = tmp_path / "samples.jsonl"
    taken = [
        Sampler(engine, plan, rows("x", "y"), Preference(samples=3), Quality(), seed=1).answers(kept) for _ in range(2)
    ]
    assert [len(one) for one in taken[0]] == [3, 3] and taken[0] == taken[1]
    assert len(seeds) == len(set(seeds)) == 6, "each sample of each row has its seed, and none is taken twice"
    whole = kept.read_text("utf-8")
    kept.write_text(whole[:-20], encoding="utf-8")  # as a run leaves it that was killed while it wrote
    again = Sampler(engine, plan, rows("x", "y"), Preference(samples=3), Quality(), seed=1).answers(kept)
    assert (again, kept.read_text("utf-8")) == (taken[0], whole)


def test_a_round_without_usable_answers_says_why(tmp_path: Path) -> None:
    model, data = toy_llama(tmp_path / "model"), tmp_path / "rows.jsonl"
    data.write_text(json.dumps({"word": "x", "value": "ab!"}) + "\n", encoding="utf-8")
    one = Round(
        OwnThreads(PROGRAM), str(model), data, tmp_path / "out", Preference(samples=2), Settings(1, 1e-3), device="cpu"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pastalang.training.bonbon.Sampler._some", lambda *_: [[Sampled("a" * 60, 2.0, 1.0)]])
        with pytest.raises(BadData, match="used: all are cut by a limit, fit no row, or have tags that do not act"):
            train_round(one, report=lambda _: None)


def batches() -> PairBatches:
    fast, slow = Sampled(FAST, 2.0, 1.0), Sampled(SLOW, 1.0, 1.0)
    return PairBatches([Pair(row, fast, slow) for row in rows("x", "y")], Recorder(TOKENIZER), PLAN, size=2, seed=0)


def as_published(now: Mapping[str, float], before: Mapping[str, float], preference: Preference) -> float:
    """The loss of a batch, from the sums of log-probabilities of whole answers, as the papers and the code write it:

    -alpha log p(best) + (1 - alpha) f(log [p(best) / p(worst)] - log [p0(best) / p0(worst)])
    """
    losses = []
    for best in (name for name in now if "best" in name):
        worst = best.replace("best", "worst")
        ratio = (now[best] - now[worst]) - (before[best] - before[worst])
        n = preference.samples
        target = (n - 1) * sum(1 / k for k in range(1, n)) if preference.target is None else preference.target
        if preference.form is Form.SQUARED:
            cost = (ratio - target) ** 2
        else:
            beta = 1 / (2 * target)
            cost = math.log1p(math.exp(-beta * ratio))
        losses.append(-preference.alpha * now[best] + (1 - preference.alpha) * cost)
    return sum(losses) / len(losses)


@pytest.mark.parametrize("form", Form)
def test_the_loss_is_the_published_one(form: Form, tmp_path: Path) -> None:
    """Also away from the model that the round began with, where the margin is not zero."""
    model = LlamaForCausalLM.from_pretrained(toy_llama(tmp_path / "model"))
    pairs = batches()
    before = reference_of(model, pairs)
    assert len(before) == 4, "every line has a name of its own"
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    now = reference_of(model, pairs)
    for preference in (Preference(form=form), Preference(target=4.0, form=form, alpha=0.5)):
        found = BonbonLoss(before, preference)(model, pairs(0)).item()
        assert found == pytest.approx(as_published(now, before, preference), rel=1e-4)


@pytest.mark.parametrize("form", Form)
def test_the_loss_moves_the_margin(form: Form, tmp_path: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(toy_llama(tmp_path / "model"))
    pairs = batches()
    reference = reference_of(model, pairs)
    loss = BonbonLoss(reference, Preference(target=4.0, form=form))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for number in range(60):
        loss(model, pairs(number)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    now = reference_of(model, pairs)
    moved = {name: now[name] - reference[name] for name in now}
    margins = [moved[name] - moved[name.replace("best", "worst")] for name in moved if "best" in name]
    assert all((abs(margin - 4) < 1) if form is Form.SQUARED else margin > 2 for margin in margins)


def test_speed_and_judgement_are_against_the_baseline(tmp_path: Path) -> None:
    """The sampled answers have four letters, those of the baseline nine, and the judge prefers the longer one."""

    def writes(count: int) -> Engine:
        def next_token(fed: FedToken) -> int:
            return 256 if sum(one.token == 122 for one in fed.path) >= count else 122

        return Engine(scripted_model(next_token, 320), TOKENIZER)

    seen: list[tuple[str, str]] = []

    def judge(_: Mapping[str, Any], first: str, second: str) -> tuple[str, float]:
        seen.append((first, second))
        return ("first" if len(first) > len(second) else "second"), 0.75

    some, preference = rows("x", "y"), Preference(samples=2)
    plain = baseline_answers(writes(9), PLAN, some, tmp_path / "baseline.jsonl")
    assert plain == ["z" * 9] * 2
    assert baseline_answers(writes(1), PLAN, some, tmp_path / "baseline.jsonl") == plain, "they are kept"
    sampler = Sampler(writes(4), PLAN, some, preference, Quality(judge=judge), 0, plain)
    [[first, _], _] = sampler.answers(tmp_path / "samples.jsonl")
    assert first.speed == pytest.approx((9 + 1) / (4 + 1))
    assert first.quality == pytest.approx(1.5 / 1.5), "it beats the right answer, and the baseline's beats it"
    assert seen[:4] == [("zzzz", "z" * 9), ("z" * 9, "zzzz"), ("zzzz", "ab!"), ("ab!", "zzzz")]


def test_rounds_begin_with_the_model_of_the_one_before(tmp_path: Path) -> None:
    model, data = toy_llama(tmp_path / "model"), tmp_path / "rows.jsonl"
    data.write_text(json.dumps({"word": "x", "value": "ab!"}) + "\n", encoding="utf-8")
    settings = Settings(steps=2, learning_rate=1e-3, warmup_steps=1, precision=Precision.FLOAT32)
    known = [[Sampled(FAST, 2.0, 1.0), Sampled(SLOW, 1.0, 1.0)]]
    round = Round(
        OwnThreads(PROGRAM), str(model), data, tmp_path / "out", Preference(samples=2, target=20.0), settings,
        device="cpu",
    )  # fmt: skip
    lines: list[str] = []
    first = tmp_path / "out" / "round-1" / "pastalang.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pastalang.training.bonbon.Sampler._some", lambda *_: known)
        with pytest.raises(Interrupted):
            train_rounds(round, 2, report=lines.append, is_stopped=first.exists)
        trained = Mock(wraps=train_round)
        patch.setattr("pastalang.training.bonbon.train_round", trained)
        train_rounds(round, 2, report=lines.append)
    [second] = [call.args[0] for call in trained.call_args_list]
    assert (second.model, second.reference) == (str(tmp_path / "out" / "round-1"), str(model))
    margins = [float(line.split()[4].rstrip(",")) for line in lines if line.startswith("margin of the pairs")]
    assert margins[1] > margins[0] > 0, "the margin of the second round is from the first model, too"
    weights = [
        load_file(tmp_path / "out" / f"round-{number}" / "model.safetensors")["model.embed_tokens.weight"]
        for number in (1, 2)
    ]
    assert not torch.equal(*weights)


def test_a_round_samples_once_and_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    model, data = toy_llama(tmp_path / "model"), tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"word": word, "value": "ab!"}) + "\n" for word in "xyz"), encoding="utf-8")
    settings = Settings(steps=6, learning_rate=1e-3, warmup_steps=1, precision=Precision.FLOAT32)
    known = [[Sampled(FAST, 2.0, 1.0), Sampled(SLOW, 1.0, 1.0)]] * 3

    def job(name: str, **options: Any) -> Round:
        preference = Preference(samples=2, **options)
        return Round(OwnThreads(PROGRAM), str(model), data, tmp_path / name, preference, settings, device="cpu")

    def make(name: str, stop_after: int | None = None) -> list[str]:
        lines: list[str] = []
        calls = iter(range(100))
        train_round(job(name), report=lines.append, is_stopped=lambda: next(calls) == stop_after)
        return lines

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pastalang.training.bonbon.Sampler._some", lambda *_: known)
        whole = make("whole")
        with pytest.raises(Interrupted):
            make("parts", stop_after=2)
    make("parts")  # the samples are not taken anew
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]
    assert "best        3 answers  speed-up 2.00x  quality 100.0%" in whole
    with pytest.raises(BadData, match="holds a finished run"):
        make("whole")
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pastalang.training.bonbon.Sampler._some", None)  # another weight, and nothing is sampled
        again = replace(job("again", quality_weight=0.5), sampled=tmp_path / "whole", warmup=4)
        trained = Mock(wraps=train)
        patch.setattr("pastalang.training.bonbon.train", trained)
        train_round(again, report=lines.append)
        assert trained.call_args.args[2].warmup_steps == 4
        with pytest.raises(BadData, match="whole holds no answers of this model to these rows"):
            train_round(replace(job("more", temperature=0.5), sampled=tmp_path / "whole"))
    assert lines[1:4] == whole[1:4] and not (tmp_path / "more").exists()


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # of peft itself
def test_a_round_with_adapters_merges_them_and_keeps_them(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="LoRA needs peft")
    model, data = toy_llama(tmp_path / "model"), tmp_path / "rows.jsonl"
    data.write_text(json.dumps({"word": "x", "value": "ab!"}) + "\n", encoding="utf-8")
    settings = Settings(steps=3, learning_rate=1e-2, warmup_steps=1, precision=Precision.FLOAT32)
    one = Round(
        OwnThreads(PROGRAM), str(model), data, tmp_path / "out", Preference(samples=2, target=200.0), settings,
        device="cpu", lora=Lora(2, dropout=0.1), keep_adapter=True,
    )  # fmt: skip
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        known = [[Sampled(FAST, 2.0, 1.0), Sampled(SLOW, 1.0, 1.0)]]
        patch.setattr("pastalang.training.bonbon.Sampler._some", lambda *_: known)
        train_round(one, report=lines.append)
        start = Lora.going_on(tmp_path / "out" / "adapter", dropout=0.0, is_four_bit=False)
        train_rounds(replace(one, out=tmp_path / "on", lora=start), 2, report=lines.append)
    before, merged = (load_file(folder / "model.safetensors") for folder in (model, tmp_path / "out"))
    assert merged.keys() == before.keys() and any(not torch.equal(merged[name], one) for name, one in before.items())
    margins = [float(line.split()[4].rstrip(",")) for line in lines if line.startswith("margin of the pairs")]
    assert margins[2] > margins[1] > 0, "those of both rounds are from the weights with the adapter of the first"
    assert (tmp_path / "on" / "round-2" / "adapter" / "adapter_model.safetensors").exists()
