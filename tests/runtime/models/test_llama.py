"""The forward pass of our own for Llama weights: the logits of the reference, for the weights that it may take."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import pastalang
from pastalang import Engine, LoadError
from pastalang.runtime.attention.clusters import Costs
from pastalang.runtime.models.adapters import Adapter, write_adapter
from pastalang.runtime.models.compatibility import CELLS_FOR_CHECK, check_logits
from pastalang.runtime.models.llama import LlamaModel, load_llama, plain_llama
from pastalang.runtime.models.rotation import rotate
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.oracle.toy_models import DEVICE, Family, toy_model
from tests.runtime.exact import APART, CELLS, EXACT, WHOLE, Twins, walk_of, worst_error
from tests.runtime.float64 import in_float64, wide_softmax

SIZES: dict[str, dict[str, Any]] = {
    "grouped": {}, "one head": {"heads": 1, "kv_heads": 1}, "no groups": {"heads": 2, "kv_heads": 2},
    "four layers": {"layers": 4, "hidden": 48, "heads": 6, "kv_heads": 3},
}  # fmt: skip
PROGRAM = pastalang.compile('''
template t(title: text)
user """Read {title}."""
assistant json {
  name: string(max=8)
  kind: "tv" | "phone" | null
  sizes: [integer(0..999)](1..3, max_tokens=20)
}
''')


def model_of(*, tied: bool = False, **sizes: Any) -> Any:
    model = toy_model(Family.LLAMA, **sizes)
    if tied:
        model.config.tie_word_embeddings = True
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def saved(folder: Path, *, tied: bool = False, **sizes: Any) -> Path:
    model_of(tied=tied, **sizes).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def pair_of(name: str, costs: Costs, folder: Path) -> Twins:
    place = saved(folder / name, **SIZES[name])
    shape = plain_llama(place)
    assert shape is not None
    weights = load_llama(place, shape, device=DEVICE, dtype=torch.float64)
    with wide_softmax():
        reference = in_float64(toy_model(Family.LLAMA, **SIZES[name]))
    return Twins(LlamaModel(weights, cells=CELLS, packed=False, costs=costs), reference)


@pytest.mark.parametrize("costs", [WHOLE, APART], ids=["whole", "apart"])
@pytest.mark.parametrize("name", SIZES)
def test_its_logits_are_those_of_the_reference(
    name: str, costs: Costs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pair = pair_of(name, costs, tmp_path_factory.mktemp("llama"))

    @settings(max_examples=6)
    @given(seed=st.integers(0, 10**9))
    def walks(seed: int) -> None:
        assert worst_error(pair, walk_of(seed), steps=10) <= EXACT

    walks()


@pytest.mark.parametrize(("tied", "hidden"), [(False, 32), (True, 24)])
def test_rotated_weights_have_the_same_logits(tied: bool, hidden: int, tmp_path: Path) -> None:
    model, both, walk = model_of(tied=tied, hidden=hidden), list[LlamaModel](), walk_of(3)
    for name, weight in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(weight)
    model.save_pretrained(tmp_path)
    shape = plain_llama(tmp_path)
    assert shape is not None
    for act in (id, rotate):
        weights = load_llama(tmp_path, shape, device=DEVICE, dtype=torch.float64)
        act(weights)
        both.append(LlamaModel(weights, cells=CELLS, packed=False))
    for step in [step for _ in range(8) if (step := walk.step()).wanted]:
        plain, rotated = (one.forward(step) for one in both)
        assert 0 < (plain - rotated).abs().max() < 1e-10


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_it_writes_what_transformers_writes(tied: bool, packed: bool, tmp_path: Path) -> None:
    ours = Engine.load(saved(tmp_path, tied=tied), device="cpu", dtype="float32", cells=2048, packed=packed)
    assert isinstance(ours.model, LlamaModel)
    theirs = Engine.load(model_of(tied=tied), byte_tokenizer(), cells=2048)
    for seed in range(3):
        found, expected = (engine.run(PROGRAM, {"title": "Sonata"}, seed=seed) for engine in (ours, theirs))
        assert found.text == expected.text
        wanted = [one.confidence for one in expected.fields]
        assert [one.confidence for one in found.fields] == pytest.approx(wanted)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_in_each_data_type_its_logits_are_within_rounding(dtype: torch.dtype, packed: bool, tmp_path: Path) -> None:
    """The check that every other model has to pass when it is loaded."""
    folder = saved(tmp_path)
    shape = plain_llama(folder)
    assert shape is not None
    weights = load_llama(folder, shape, device=DEVICE, dtype=dtype)
    check_logits(LlamaModel(weights, cells=CELLS_FOR_CHECK, packed=packed), model_of().to(dtype))


def changed_config(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), encoding="utf-8")

    return change


def with_a_tensor_more(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "model.layers.0.self_attn.q_norm.weight": torch.ones(8)}, folder / "model.safetensors")


def in_two_files(folder: Path) -> None:
    toy_model(Family.LLAMA).save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink(missing_ok=True)


OTHER_SHAPES = {
    "scaled positions": changed_config(
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
    ),
    "half of it rotated, as newer versions write it": changed_config(
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    ),
    "another activation": changed_config(hidden_act="gelu"),
    "half of it rotated": changed_config(partial_rotary_factor=0.5),
    "a tensor that is not known": with_a_tensor_more,
    "several files": in_two_files,
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_SHAPES)
def test_other_shapes_are_left_to_transformers(name: str, tmp_path: Path) -> None:
    folder = saved(tmp_path)
    OTHER_SHAPES[name](folder)
    assert plain_llama(folder) is None
    engine = Engine.load(folder, device="cpu", dtype="float32", cells=512)
    assert not isinstance(engine.model, LlamaModel)
    assert engine.run(PROGRAM, {"title": "x"}).value.keys() == {"name", "kind", "sizes"}


@pytest.mark.parametrize("bias", ["attention_bias", "mlp_bias"])
def test_weights_that_lack_what_the_configuration_asks_for_are_refused_as_ever(bias: str, tmp_path: Path) -> None:
    folder = saved(tmp_path)
    changed_config(**{bias: True})(folder)
    with pytest.raises(LoadError, match=r"do not match its config.json: .* are missing or of another shape"):
        Engine.load(folder, device="cpu")


@pytest.mark.parametrize("length", [0, 7, 1000])
def test_a_file_that_is_cut_off_is_refused_as_ever(length: int, tmp_path: Path) -> None:
    folder = saved(tmp_path)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(LoadError, match="could not be loaded"):
        Engine.load(folder, device="cpu")


def test_few_weights_are_in_memory_twice(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    shape = plain_llama(folder)
    assert shape is not None
    weights = load_llama(folder, shape, device=DEVICE, dtype=torch.float32)
    LlamaModel(weights, cells=32)
    assert [name for name, _ in weights.named_parameters()] == ["model.embed_tokens.weight"]


def test_the_model_of_the_package_needs_no_models_of_transformers() -> None:
    """They take seconds to import, at each call of a command."""
    script = (
        "import sys; from pastalang import Engine; Engine.load('pasta-mini', device='cpu'); "
        "print(*(name for name in ('transformers.models', 'transformers.modeling_utils', 'torch._dynamo', "
        "'torch.distributed.tensor', 'sympy', 'networkx', 'outlines') if name in sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_a_folder_with_adapters_merges_them_as_ever(tmp_path: Path) -> None:
    folder, place = saved(tmp_path / "model"), tmp_path / "adapter"
    noise = torch.Generator().manual_seed(0)
    pair = torch.randn(4, 32, generator=noise) * 0.3, torch.randn(32, 4, generator=noise) * 0.3
    write_adapter(place, Adapter({"model.layers.1.self_attn.q_proj": pair}, alpha=4.0), base="toy")
    bare, adapted = (
        Engine.load(folder, device="cpu", dtype="float32", adapter=adapter).run(PROGRAM, {"title": "x"})
        for adapter in (None, place)
    )
    assert [one.log_probability for one in bare.fields] != [one.log_probability for one in adapted.fields]
