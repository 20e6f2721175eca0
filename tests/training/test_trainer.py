"""The training loop learns, resumes exactly, and stops before it does harm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pastalang.training.batches import Batch, collate, logits_of, loss_of
from pastalang.training.errors import TrainingStopped
from pastalang.training.recording import IGNORED
from pastalang.training.run_folder import Checkpoints, trained_weights
from pastalang.training.settings import Precision, Settings
from pastalang.training.trainer import Average, train, usual_precision
from tests.oracle.toy_models import toy_model
from tests.training.lessons import product, silent

SETTINGS = Settings(steps=6, learning_rate=3e-3, warmup_steps=2, save_every=3, precision=Precision.FLOAT32)
TOY = {"data": "toy"}
TEXT = torch.tensor([*[1, 2, 3, 4, 5] * 8, 0, *[6, 7, 8] * 10, 0])


def text_batches(number: int) -> Batch:
    """Two windows of a text that repeats, others in every batch."""
    starts = [(37 * number + 19 * row) % (len(TEXT) - 16) for row in range(2)]
    windows = torch.stack([TEXT[start : start + 17] for start in starts])
    positions = torch.arange(16).expand(2, 16)
    return Batch(windows[:, :-1], positions, windows[:, 1:], None, tuple(f"window {start}" for start in starts))


def tiny_model() -> Any:
    return toy_model(vocabulary=11)


def test_the_average_moves_towards_the_weights_by_what_a_step_does_not_keep() -> None:
    model = tiny_model()
    average = Average(trained_weights(model), 0.75)
    name, weight = next(iter(model.named_parameters()))
    before = weight.detach().clone()
    with torch.no_grad():
        weight += 4.0
    average.add(trained_weights(model))
    assert torch.allclose(average.weights[name], before + 1.0)


def test_the_loss_is_that_of_all_logits_though_only_labelled_places_get_some() -> None:
    batch = collate([[product("a Sony tv", brand="Sony")], [product("a Nokia", kind="phone")]], 400)
    model = toy_model().double()
    logits, labels = logits_of(model, batch), batch.labels
    assert 0 < int((labels != IGNORED).sum()) < 40
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
    assert torch.allclose(loss_of(model, batch).double(), expected, atol=1e-6)
    where = labels != IGNORED
    assert torch.allclose(logits_of(model, batch, where=where), logits[where], atol=1e-12)
    assert logits_of(model, batch).shape == (2, 400, 320), "the head sees every place again"


def test_accumulated_batches_weigh_by_the_tokens_they_predict(tmp_path: Path) -> None:
    halves = [text_batches(0), text_batches(1)]
    labels = halves[1].labels.clone()
    labels[:, 3:] = IGNORED
    halves[1] = replace(halves[1], labels=labels)
    together = Batch(
        *(torch.cat([getattr(h, name) for h in halves]) for name in ("tokens", "positions", "labels")),
        visible=None,
        origins=halves[0].origins + halves[1].origins,
    )
    apart, whole = tiny_model(), tiny_model()
    one_step = replace(SETTINGS, steps=1)
    twice = replace(one_step, accumulation=2)
    train(apart, lambda number: halves[number], twice, tmp_path / "a", identity=TOY, report=silent)
    train(whole, lambda _: together, one_step, tmp_path / "b", identity=TOY, report=silent)
    for expected, found in zip(whole.parameters(), apart.parameters(), strict=True):
        assert torch.allclose(expected, found, atol=1e-6)


def test_a_loss_that_is_not_a_number_stops_training_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    model = tiny_model()

    def batches(number: int) -> Batch:
        if number == 4:
            model.model.norm.weight.data.fill_(float("nan"))
        return text_batches(number)

    with pytest.raises(TrainingStopped, match=r"step 5: the loss is nan on these rows: window \d"):
        train(model, batches, SETTINGS, tmp_path, identity=TOY, report=silent)
    kept = Checkpoints(tmp_path, TOY | SETTINGS.identity).latest()
    assert kept is not None and kept.progress.step == 3
    assert all(torch.isfinite(weight).all() for weight in kept.tensors("weights").values())


def test_the_rate_warms_up_and_then_falls_to_its_floor() -> None:
    settings = Settings(steps=100, learning_rate=1.0, final_share=0.1, warmup_steps=10)
    assert settings.rate(0) == pytest.approx(0.1)
    assert settings.rate(9) == pytest.approx(1.0)
    assert settings.rate(10) == pytest.approx(1.0)
    assert settings.rate(55) == pytest.approx(0.55)
    assert settings.rate(100) == pytest.approx(0.1)


@pytest.mark.parametrize(("device", "has_kernels", "expected"), [
    ("cpu", True, Precision.MIXED), ("cpu", False, Precision.FLOAT32), ("cuda", False, Precision.MIXED),
])  # fmt: skip
def test_a_processor_without_bfloat16_trains_in_float32(
    device: str, has_kernels: bool, expected: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pastalang.training.trainer.can_pack", lambda _: has_kernels)
    assert usual_precision(device) is expected


def test_it_learns_a_text_that_repeats(tmp_path: Path) -> None:
    model = tiny_model()
    before = loss_of(model, text_batches(0)).item()
    settings = replace(SETTINGS, steps=120, warmup_steps=10, save_every=1000, learning_rate=1e-2)
    train(model, text_batches, settings, tmp_path, identity=TOY, report=silent)
    assert before > 2.0
    assert loss_of(model, text_batches(0)).item() < 0.35
