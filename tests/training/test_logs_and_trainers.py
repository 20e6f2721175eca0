"""What others show of a run, and what they train on: TensorBoard, Weights & Biases, the Trainer of Hugging Face."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path

import pytest
import torch

import pastalang
from pastalang import Engine, Mode
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.training.batches import collate, loss_of
from pastalang.training.errors import BadData
from pastalang.training.hugging_face import Collator, dataset_of, rows_for_trainer
from pastalang.training.run_folder import Metrics, Step, check_logs, own_folder, write_options
from pastalang.training.settings import LogName
from tests.oracle.toy_models import Family, toy_model

PROGRAM = pastalang.compile(
    '''
template colour(word: text)
user """{word}"""
assistant json { colour: "red" | "green" | "blue", size: "S" | "M" }
'''
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {"word": colour[0] * (3 + number % 4), "value": {"colour": colour, "size": "SM"[number % 2]}}
        for number, colour in enumerate(["red", "green", "blue"] * 4)
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize("length", [None, 400])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", [Family.LLAMA, Family.GEMMA3])
def test_the_loss_of_a_collated_batch_is_that_of_our_trainer(
    family: Family, attention: str, length: int | None, data: Path
) -> None:
    model = toy_model(family, positions=2048, **{"window": 16} if family is Family.GEMMA3 else {})
    model.set_attn_implementation(attention)
    for mode in (Mode.STRICT, Mode.LOCKSTEP):
        rows = rows_for_trainer(data, PROGRAM, byte_tokenizer(), mode=mode, config=model.config)[:5]
        batch = Collator(model.config, length=length)(rows)
        assert (len(batch["input_ids"]) < 5) == (length is not None), "short rows share lines"
        ours = loss_of(model, collate([[row] for row in rows], max(map(len, rows))))
        assert model(**batch).loss.item() == pytest.approx(ours.item(), abs=1e-5)


@pytest.mark.parametrize("family", [Family.LLAMA, Family.GEMMA3])
def test_a_data_set_of_the_rows_gives_the_same_batches(family: Family, data: Path) -> None:
    pytest.importorskip("datasets", reason="data sets of Hugging Face need datasets")
    model = toy_model(family, positions=2048, **({"window": 16} if family is Family.GEMMA3 else {}))
    rows = rows_for_trainer(data, PROGRAM, byte_tokenizer(), config=model.config)[:5]
    collator = Collator(model.config)
    expected, found = collator(rows), collator(list(dataset_of(rows)))
    for name in ("input_ids", "position_ids", "labels"):
        assert torch.equal(expected[name], found[name])
    assert model(**found).loss == model(**expected).loss


def test_an_attention_without_masks_is_refused() -> None:
    model = toy_model()
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(BadData, match="'flash_attention_2' takes no mask of its own: load the model with"):
        Collator(model.config)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_trainer_of_hugging_face_learns_our_rows(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    from transformers import Trainer, TrainingArguments

    model = toy_model(positions=2048)
    rows = rows_for_trainer(data, PROGRAM, byte_tokenizer())
    collator = Collator(model.config, length=512)
    before = loss_of(model, collate([rows], sum(map(len, rows)))).item()
    arguments = TrainingArguments(
        str(tmp_path / "out"), per_device_train_batch_size=6, max_steps=60, learning_rate=1e-2, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=rows, data_collator=collator).train()  # type: ignore[arg-type]
    assert loss_of(model, collate([rows], sum(map(len, rows)))).item() < before / 3
    engine = Engine.load((model.eval(), byte_tokenizer()))
    found = [engine.run(PROGRAM, {"word": word}).value["colour"] for word in ("rrrr", "ggg", "bbbbb")]
    assert found == ["red", "green", "blue"]


# ── logs ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_two_runs_have_a_folder_and_a_new_one_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with own_folder(out, overwrite=False):
        write_numbers(out / "training")
        (out / "adapter").mkdir()
        (out / "scores.json").touch()
        with pytest.raises(BadData, match="another process trains in"), own_folder(out, overwrite=True):
            pass
        assert (out / "scores.json").exists()
    Metrics(out / "training").begin_after(None)
    assert (out / "training" / "metrics.jsonl").read_text() == ""
    with own_folder(out, overwrite=True):
        assert [place.name for place in out.iterdir()] == ["training"]
    write_options(out, {"quality": math.inf, "learning-rate": 1e-5}, {})
    read = tomllib.loads((out / "run.toml").read_text("utf-8"))
    assert (read["quality"], read["learning-rate"]) == (math.inf, 1e-5)


def write_numbers(folder: Path, *names: LogName) -> None:
    metrics = Metrics(folder, names, about={"learning-rate": 0.1})
    metrics.begin_after(0)
    for number in (1, 2):
        metrics.step(Step(number, 2, 3.0 / number, 0.1, 1.0, 10, 0.5))
    metrics.validation(2, {"strict": {"f1": 61.5}})
    metrics.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_has_the_numbers_of_a_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="--log tensorboard needs tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write_numbers(tmp_path, LogName.TENSORBOARD)
    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(one.step, one.value) for one in found.Scalars("loss")] == [(1, 3.0), (2, 1.5)]
    assert [(one.step, one.value) for one in found.Scalars("F1/strict")] == [(2, 61.5)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_weights_and_biases_has_the_numbers_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="--log wandb needs wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    write_numbers(tmp_path, LogName.WANDB)
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_a_log_that_is_not_installed_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pastalang.training.run_folder.find_spec", lambda name: None)
    with pytest.raises(BadData, match="--log wandb needs the package wandb: pip install wandb"):
        check_logs([LogName.WANDB])
