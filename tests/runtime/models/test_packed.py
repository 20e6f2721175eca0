"""Weights laid out for the products of a CPU: the same model, quicker."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import pastalang
from pastalang import Engine, LoadError
from pastalang.runtime.models import loading, packed
from pastalang.runtime.models.loading import load_model
from pastalang.runtime.models.packed import PackedLinear, can_pack, compile_kernels, pack
from pastalang.runtime.models.quantized import Fbgemm, MixedLinear, OneDNN, QuantizedLinear, is_exact, kernels_here
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.oracle.toy_models import Family, toy_model

needs_kernels = pytest.mark.skipif(not can_pack(), reason="this build of torch has no packed products")


def _kinds(model: nn.Module, kind: type[nn.Module]) -> int:
    return sum(type(module) is kind for module in model.modules())


@needs_kernels
@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_model_gives_the_logits_that_it_gave_before(family: Family, dtype: torch.dtype) -> None:
    model = toy_model(family, vocabulary=64, dtype=dtype)
    ids = [torch.randint(0, 64, (1, tokens), generator=torch.Generator().manual_seed(tokens)) for tokens in (1, 3, 40)]
    with torch.inference_mode():
        before = [model(each).logits for each in ids]
        count = _kinds(model, nn.Linear)
        packs = count if can_pack(dtype) else 0  # a processor may have no kernels for bfloat16
        assert pack(model) == packs
        assert (_kinds(model, nn.Linear), _kinds(model, PackedLinear)) == (count - packs, packs)
        for each, logits in zip(ids, before, strict=True):
            torch.testing.assert_close(model(each).logits, logits)


@needs_kernels
def test_products_are_made_of_few_numbers_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of rows costs memory for good."""
    seen, multiply = set[int](), packed._product

    def product(states: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.add(states.numel() // states.shape[-1])
        return multiply(states, *rest)

    monkeypatch.setattr(packed, "_product", product)
    linear = nn.Linear(6, 4)
    layer = PackedLinear(linear.weight, linear.bias)
    with torch.inference_mode():
        for rows in (*range(700), 1_300, 5_000):
            states = torch.randn(1, rows, 6, generator=torch.Generator().manual_seed(rows))
            torch.testing.assert_close(layer(states), linear(states))
            assert max(seen) <= rows * 1.125, "few rows are added"
    assert len(seen) <= 65


@needs_kernels
def test_kernels_are_compiled_before_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each kind and number of rows, and none that asks for a product without end."""
    seen, multiply = set[tuple[int, ...]](), packed._product

    def product(states: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
        made = multiply(states, weight, *rest)
        seen.add((states.numel() // states.shape[-1], states.shape[-1], made.shape[-1]))
        return made

    monkeypatch.setattr(packed, "_product", product)
    narrow, wide = PackedLinear(torch.randn(4, 6)), PackedLinear(torch.randn(2**17, 6))
    steps = list(compile_kernels([narrow, PackedLinear(torch.randn(4, 6)), nn.Linear(6, 4), wide, None]))
    assert len(steps) == len(seen) and max(rows for rows, _, columns in seen if columns > 4) == 128
    before = set(seen)
    with torch.inference_mode():
        for rows in (*range(1, 700), 5_000):
            narrow(torch.zeros(1, rows, 6))
    assert seen == before


@needs_kernels
def test_a_weight_that_the_model_also_embeds_with_stays_where_it_was() -> None:
    model = toy_model(vocabulary=64)
    model.lm_head.weight = model.get_input_embeddings().weight
    table = model.get_input_embeddings().weight.clone()
    pack(model)
    assert torch.equal(model.get_input_embeddings().weight, table)


@needs_kernels
def test_no_weight_is_in_memory_twice() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    weights = [weakref.ref(layer.weight) for layer in model]
    pack(model)
    gc.collect()
    assert [weight() for weight in weights] == [None, None]


def test_what_has_no_such_products_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pack(toy_model(dtype=torch.float64)) == 0

    def gone(name: str) -> Any:
        raise AttributeError(name)

    monkeypatch.setattr(packed, "_operation", gone)
    model = toy_model()
    assert (pack(model), _kinds(model, nn.Linear)) == (0, _kinds(model, nn.Linear))


def _without_kernels_for_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for a processor with AVX2 only, where torch refuses to reorder weights in bfloat16."""
    reorder = packed._operation("_reorder_linear_weight")

    def refuse(weight: torch.Tensor, tokens: int) -> Any:
        if weight.dtype is torch.bfloat16:
            raise RuntimeError("mkldnn_reorder_linear_weight: bf16 path needs the cpu support avx512bw")
        return reorder(weight, tokens)

    original = packed._operation
    monkeypatch.setattr(
        packed, "_operation", lambda name: refuse if name == "_reorder_linear_weight" else original(name)
    )


@needs_kernels
def test_a_processor_without_kernels_for_bfloat16_computes_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_kernels_for_bfloat16(monkeypatch)
    model = toy_model(vocabulary=64, dtype=torch.bfloat16)
    ids = torch.arange(5)[None]
    with torch.inference_mode():
        before = model(ids).logits
        assert pack(model) == 0
        assert torch.equal(model(ids).logits, before)
    assert pack(toy_model(vocabulary=64)) > 0, "float32 is packed anyway"


@needs_kernels
@pytest.mark.parametrize(("dtype", "lines"), [("bfloat16", 1), ("float32", 0)])
def test_one_line_says_that_bfloat16_is_slow_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, dtype: Any, lines: int
) -> None:
    _without_kernels_for_bfloat16(monkeypatch)
    engine = Engine.load("pasta-mini", device="cpu", dtype=dtype)
    program = pastalang.compile("template form\n\nassistant json {\n  name: string(max=8)\n}\n")
    assert engine.run(program, {}, any_mode=True).value["name"]
    assert [record.message for record in caplog.records] == [
        "bfloat16 is slow on this processor, which has no kernels for it; float32 is faster here"
    ] * lines


def test_weights_that_are_handed_over_stay_as_they_are() -> None:
    found = load_model("pasta-mini", device="cpu", dtype=torch.float32, packed=False)
    count = _kinds(found.weights, nn.Linear)
    Engine.load((found.weights, found.tokenizer))
    assert _kinds(found.weights, nn.Linear) == count


@pytest.mark.skipif(kernels_here() is None, reason="this build of torch has no products of int8")
@pytest.mark.parametrize("kernels", [one(n) for n in (127, 63) for one in (Fbgemm, OneDNN) if is_exact(one(n))])
@pytest.mark.parametrize("kind", [QuantizedLinear, MixedLinear])
def test_a_row_in_int8_is_the_same_whatever_is_multiplied_with_it(kind: Any, kernels: Any) -> None:
    weight, bias, states = torch.randn(40, 96), torch.randn(40), torch.randn(2, 300, 96)
    states[0, 7], weight[3] = 0, 0
    layer, plain = kind(weight, bias, kernels), nn.functional.linear(states, weight, bias)
    with torch.inference_mode():
        whole = layer(states)
        assert all(torch.equal(layer(states[:, :rows]), whole[:, :rows]) for rows in (0, 1, 2, 3, 5, 8, 17, 33, 100))
        assert torch.equal(layer(states.flip(1)).flip(1), whole)
    error = (whole - plain).norm(dim=-1) / plain.norm(dim=-1)
    assert 1e-4 < error.max() < 0.06 and torch.equal(whole[0, 7], bias)
    states[..., 5] *= 30  # a number that stands out costs others their levels, unless they are mixed
    lost = [
        (one(weight)(states) - nn.functional.linear(states, weight)).norm() for one in (MixedLinear, QuantizedLinear)
    ]
    assert lost[0] < 0.7 * lost[1]


@pytest.mark.skipif(kernels_here() is None, reason="this build of torch has no products of int8")
def test_int8_is_said_and_what_cannot_be_had_in_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(words: str, source: Any = "pasta-mini", **options: Any) -> None:
        with pytest.raises(LoadError, match=words):
            Engine.load(source, dtype="int8", **options)

    assert "torch.int8" in repr(Engine.load("pasta-mini", device="cpu", dtype="int8", cells=64))
    refused("leave out `packed=False`", device="cpu", packed=False)
    refused("a model that you pass is never changed: pass the folder", (toy_model(), byte_tokenizer()))
    monkeypatch.setattr(loading, "kernels_here", lambda: None)
    refused("no fast and exact products of int8: choose float32", device="cpu")
