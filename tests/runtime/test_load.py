from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from pastalang.runtime.model.load import default_dtype, load_weights
from pastalang.runtime.model.refuse import UnsupportedModel
from pastalang.runtime.model.toy import toy_model
from pastalang.runtime.model.transformers import TransformersModel


def test_a_saved_model_is_loaded_with_the_device_and_dtype_that_were_asked_for(tmp_path: Path) -> None:
    model = toy_model(vocabulary=64)
    model.save_pretrained(tmp_path)
    loaded = load_weights(tmp_path, device="cpu", dtype=torch.float64)
    assert (loaded.dtype, loaded.device.type, loaded.training) == (torch.float64, "cpu", False)
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight.double())
    assert TransformersModel(loaded, cells=32).vocabulary == 64


def test_without_a_dtype_the_device_decides(tmp_path: Path) -> None:
    toy_model(vocabulary=64).save_pretrained(tmp_path)
    assert load_weights(tmp_path, device="cpu").dtype is default_dtype(torch.device("cpu"))


def test_a_model_that_cannot_be_used_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    AutoConfig.for_model("bloom", vocab_size=64).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match="ALiBi"):
        load_weights(tmp_path)  # there are no weights in this folder


@pytest.mark.parametrize(
    ("capabilities", "expected"), [({"avx512_bf16": True}, torch.bfloat16), ({"avx2": True}, torch.float32)]
)
def test_half_precision_is_for_cpus_that_compute_in_it(
    capabilities: dict[str, bool], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert default_dtype(torch.device("cpu")) is expected
