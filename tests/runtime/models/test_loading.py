from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, PreTrainedModel

import pastalang
from pastalang import Engine, LoadError
from pastalang.runtime.models.compatibility import UnsupportedModel
from pastalang.runtime.models.loading import default_dtype, load_weights
from pastalang.runtime.models.source import WEIGHTS
from pastalang.runtime.models.transformers import TransformersModel
from tests.oracle.toy_models import toy_model


def test_a_saved_model_is_loaded_with_the_device_and_dtype_that_were_asked_for(tmp_path: Path) -> None:
    model = toy_model(vocabulary=64)
    model.save_pretrained(tmp_path)
    loaded = load_weights(tmp_path, device="cpu", dtype=torch.float64)
    assert (loaded.dtype, loaded.device.type, loaded.training) == (torch.float64, "cpu", False)
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight.double())
    assert TransformersModel(loaded, cells=32).vocabulary == 64


def test_models_may_be_loaded_by_several_threads(tmp_path: Path) -> None:
    toy_model(vocabulary=64).save_pretrained(tmp_path)
    tie = PreTrainedModel.tie_weights
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(partial(load_weights, device="cpu"), [tmp_path] * 12))
    assert len(models) == 12 and PreTrainedModel.tie_weights is tie


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
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)  # torch 2.6 has none
    assert default_dtype(torch.device("cpu")) is expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "a model is a folder, a name on the hub, or a model and its tokenizer, not None"),
        ("", "a model is a folder"),
        ("./nowhere", "there is no folder ./nowhere"),
        ("/no/where", "there is no folder /no/where"),
        (Path("nowhere"), "there is no folder nowhere"),
        (__file__, "is a file; a model is a folder"),
        (str(Path(__file__).parent), "holds no model: it has no config.json"),
        ((1,), "pass a loaded model with its tokenizer"),
        ((1, 2), "pass a loaded model with its tokenizer"),
    ],
)
def test_what_no_model_can_be_loaded_from_is_refused_in_words(source: Any, message: str) -> None:
    with pytest.raises(LoadError, match=re.escape(message)):
        Engine.load(source)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("model.safetensors", "holds no weights: it has no model.safetensors"),
        ("token", "holds no tokenizer: it has no tokenizer.json"),
        ("tokenizer.json", "the tokenizer of .* could not be loaded: Couldn't instantiate the backend tokenizer from"),
    ],
)
def test_a_model_that_lacks_a_part_is_refused_in_words(tmp_path: Path, left_out: str, message: str) -> None:
    for path in (WEIGHTS / "pasta-mini").iterdir():
        if left_out not in path.name:
            shutil.copy(path, tmp_path)
    with pytest.raises(LoadError, match=message) as caught:
        Engine.load(tmp_path)
    assert not str(caught.value).endswith(":")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "quantum"}, "a device is cpu, cuda or mps, not 'quantum'"),
        ({"device": "meta"}, "this machine has no device 'meta'"),
        ({"dtype": "bf16"}, "`dtype` is one of float32, .*, not 'bf16'; did you mean bfloat16?"),
        ({"dtype": "floot32"}, "not 'floot32'; did you mean float32?"),
        ({"dtype": 16}, "not 16$"),
    ],
)
def test_where_and_how_a_model_cannot_be_loaded_is_refused_in_words(options: Any, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        Engine.load("pasta-mini", **options)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("rest", [b"", b"\x00\xff", b"{}"], ids=["empty", "noise", "{}"])
def test_a_file_that_is_broken_is_a_model_that_cannot_be_loaded(tmp_path: Path, name: str, rest: bytes) -> None:
    folder = shutil.copytree(WEIGHTS / "pasta-mini", tmp_path / "model")
    (folder / name).write_bytes(rest)
    with pytest.raises(
        LoadError, match=r"could not be loaded|cannot be used|do not belong|is not a JSON object"
    ) as caught:
        Engine.load(folder)
    assert len(str(caught.value).splitlines()) == 1


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(WEIGHTS / "pasta-mini", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config.pop("layer_types", None)
    for change in ({"num_hidden_layers": 1 + config["num_hidden_layers"]}, {"vocab_size": 100}):
        (folder / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
        with pytest.raises(LoadError, match=r"do not match its config.json: \d+ are missing .*model.") as message:
            Engine.load(folder)
        assert len(str(message.value).splitlines()) == 1
    assert capfd.readouterr() == ("", "")


def test_a_shipped_model_draws_the_same_tokens_in_any_batch() -> None:
    program = pastalang.compile(
        'template t(title: text)\nuser """\n{title}\n"""\nassistant json {a: string(max=8), b: integer(1..100)}\n'
    )
    engine = Engine.load("pasta-mini", device="cpu")
    inputs = [{"title": f"Sharp TV {number} Norvika blue"} for number in range(8)]
    options: Any = {"seed": 3, "sampling": pastalang.Sampling(temperature=1.0), "any_mode": True}
    alone = [engine.run(program, one, **options).text for one in inputs]
    together = [one.text for one in engine.batch(program, inputs, **options) if isinstance(one, pastalang.Result)]
    assert together == alone == [engine.run(program, one, **options).text for one in inputs]
