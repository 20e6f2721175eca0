"""Adapters next to weights in 4 bits: what is trained is what is saved, and its memory is estimated."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pastalang.training.batches import collate, logits_of
from pastalang.training.errors import BadData
from pastalang.training.fine_tune import fine_tune
from pastalang.training.memory import Shape, _Counter, step_bytes
from pastalang.training.model_files import Lora, read_base, save
from pastalang.training.run_folder import trained_weights
from pastalang.training.settings import Precision
from pastalang.training.trainer import train
from tests.training.lessons import TOKENIZER, PulledPlug, product, pulled_at, silent
from tests.training.test_fine_tune import SETTINGS, job_of, write_rows
from tests.training.test_memory import batch

LORA = Lora(8, targets=("q_proj", "v_proj", "down_proj"), is_four_bit=True)
needs_packages = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("peft", "bitsandbytes", "accelerate")),
    reason="4 bits need peft, bitsandbytes and accelerate",
)
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # of peft itself


@pytest.fixture
def model(tmp_path: Path) -> str:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=256, initializer_range=0.1, attention_bias=True,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path / "model")
    TOKENIZER.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@needs_packages
def test_they_learn_go_on_and_are_not_changed_by_validations(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, steps=6, rows=2, lora=LORA, keep_adapter=True)
    settings = replace(job.settings, precision=Precision.MIXED, learning_rate=1e-2, save_every=3, checkpointing=True)
    plain = replace(job, settings=settings, out=tmp_path / "plain", warmup=1)
    judged = replace(plain, settings=replace(settings, judge_every=1, patience=9), out=tmp_path / "judged")
    judged = replace(judged, validation=write_rows(tmp_path / "validation.jsonl"))
    fine_tune(plain, report=silent)
    with pytest.raises(PulledPlug):
        fine_tune(judged, report=pulled_at("step 4:"))
    assert fine_tune(judged, report=silent).step == 6
    last = judged.out / "training/resume/step-0000006/weights.safetensors"
    assert last.read_bytes() == (plain.out / "training/resume/step-0000006/weights.safetensors").read_bytes()
    assert "quantization" not in (plain.out / "config.json").read_text()
    assert (plain.out / "adapter/adapter_model.safetensors").is_file()


@needs_packages
def test_what_is_saved_computes_what_was_trained(model: str, tmp_path: Path) -> None:
    base = read_base(model)
    trained = base.load(device="cpu", seed=0, lora=LORA, precision=Precision.FLOAT32)
    settings = replace(SETTINGS, steps=4, learning_rate=1e-2)
    train(trained, batch, settings, tmp_path / "run", identity={}, report=silent)
    assert all(".lora_" in name for name in trained_weights(trained))
    note = job_of(model, tmp_path).method.note()
    assert save(trained, base.tokenizer, note, tmp_path / "saved", dtype=torch.float32) is trained
    saved = LlamaForCausalLM.from_pretrained(tmp_path / "saved").eval()
    given = collate([[product("a Sony tv", brand="Sony")]], 400)
    with torch.no_grad():
        found, expected, before = (
            logits_of(one, given) for one in (saved, trained.eval(), LlamaForCausalLM.from_pretrained(model).float())
        )
    assert (found - expected).abs().max() < 1e-4 < (before - expected).abs().max() / 100


@needs_packages
@pytest.mark.parametrize("precision", [Precision.MIXED, Precision.BFLOAT16])
def test_their_memory_is_estimated(model: str, tmp_path: Path, precision: Precision) -> None:
    config = LlamaConfig(
        vocab_size=300, hidden_size=512, intermediate_size=1280, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=512, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(model)
    base, lora = read_base(model), Lora(4, is_four_bit=True)
    settings = replace(SETTINGS, steps=2, precision=precision)
    expected = step_bytes(
        lambda: base.without_weights(lora, precision), Shape(2, 96, 40), settings, torch.device("cpu")
    )
    real, counter = base.load(device="cpu", seed=0, lora=lora, precision=precision), _Counter()
    counter.hold([*real.parameters(), *real.buffers(), *real.state_dict().values()])
    with counter:
        train(real, batch, settings, tmp_path / "run", identity={}, report=silent)
    assert expected == pytest.approx(counter.peak, rel=0.1)
    whole = step_bytes(
        lambda: base.without_weights(Lora(4), precision), Shape(2, 96, 40), settings, torch.device("cpu")
    )
    assert expected < whole - 5e6


def test_without_their_packages_they_are_refused_by_name(model: str, tmp_path: Path) -> None:
    missing = {"peft": "pastalang.lora.", "bitsandbytes": "pastalang.qlora."}
    for name, extra in missing.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pastalang.training.model_files.find_spec", lambda one, name=name: None if one == name else 1)
            with pytest.raises(BadData, match=rf"needs the package {name}: pip install '{extra}'"):
                fine_tune(job_of(model, tmp_path, steps=1, lora=LORA), report=silent)
    assert not (tmp_path / "out").exists()
