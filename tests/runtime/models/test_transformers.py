from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pastalang.runtime.attention.plain_views import PlainViews
from pastalang.runtime.attention.views import Views, Visibility
from pastalang.runtime.models.reference import reference_logits
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.step import Capture, CellId, Empty, RowId, Run, StepBatch, TokenId
from tests.oracle.toy_models import DEVICE, Family, toy_model
from tests.runtime.exact import CELLS, EXACT, Twins, twins
from tests.runtime.float64 import in_float64, wide_softmax

A, B, C = RowId(0), RowId(1), RowId(2)
KINDS = [(family, window) for family in Family for window in (None, 4)]


def step(
    tokens: list[int], runs: tuple[Run, ...], *, positions: list[int], cells: list[int], **parts: tuple[object, ...]
) -> StepBatch:
    return StepBatch(
        tuple(map(TokenId, tokens)),
        tuple(positions),
        tuple(map(CellId, cells)),
        runs,
        tuple(range(len(tokens))),
        **parts,  # type: ignore[arg-type]
    )


def assert_exact(pair: Twins, *batches: StepBatch) -> None:
    views = PlainViews()
    for batch in batches:
        fed = views.feed(batch)
        assert pair.error(pair.fast.forward(batch), [fed[index] for index in batch.wanted]) <= EXACT


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0].value}-{kind[1]}")
def pair(request: pytest.FixtureRequest) -> Twins:
    family, window = request.param
    return twins(family, window=window)


PROMPT = step(
    [5, 6, 7, 8, 9, 10],
    (Run(A, 0, 6),),
    positions=[0, 1, 2, 3, 4, 5],
    cells=[3, 0, 9, 1, 7, 2],
    edits=(Empty(A),),
    captures=(Capture(B, 5), Capture(C, 2)),
)


# ── wrong on purpose ─────────────────────────────────────────────────────────────────────────────────────


def test_seeing_a_sibling_is_noticed(pair: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Views.prepare

    def see_everything_written(views: Views, batch: StepBatch) -> Visibility:
        found, each = prepare(views, batch), np.arange(len(batch))
        own = [found.path(token)[-1:] for token in each]
        written = np.unique(np.concatenate([row.path for row in views._paths.values()]))
        return Visibility([np.setdiff1d(written, one) for one in own], own, each, each * 0 + 1, width=CELLS)

    branches = step([11, 12], (Run(B, 0, 1), Run(C, 1, 1)), positions=[6, 26], cells=[12, 4])
    again = step([13, 14], (Run(B, 0, 1), Run(C, 1, 1)), positions=[7, 27], cells=[5, 6])
    assert_exact(pair, PROMPT, branches, again)
    monkeypatch.setattr(Views, "prepare", see_everything_written)
    with pytest.raises(AssertionError):
        assert_exact(pair, PROMPT, branches, again)


def test_noise_in_a_cell_that_is_seen_is_noticed(pair: Twins) -> None:
    more = step([11], (Run(B, 0, 1),), positions=[6], cells=[12])
    fed = PlainViews()
    fed.feed(PROMPT)
    pair.fast.forward(PROMPT)
    pair.fast.kv_cache.overwrite(torch.tensor([PROMPT.cells[5]]), torch.Generator().manual_seed(0))
    assert pair.error(pair.fast.forward(more), list(fed.feed(more))) > 0.01


def test_standing_at_another_position_is_noticed(pair: Twins) -> None:
    fed = PlainViews().feed(PROMPT)
    shifted = replace(PROMPT, positions=(0, 1, 2, 3, 4, 9))
    assert pair.error(pair.fast.forward(PROMPT), list(fed)) <= EXACT
    assert pair.error(pair.fast.forward(shifted), list(fed)) > 0.01


def test_another_window_is_noticed() -> None:
    narrow, wide = twins(Family.GEMMA3, window=4), twins(Family.GEMMA3, window=5)
    assert narrow.error(wide.fast.forward(PROMPT), list(PlainViews().feed(PROMPT))) > 0.01


def test_a_soft_cap_is_applied_as_transformers_applies_it() -> None:
    def build() -> object:
        model = in_float64(toy_model(Family.GEMMA2, window=4, spread=0.6))
        for layer in model.model.layers:
            layer.self_attn.attn_logit_softcapping = 0.5
        return model

    assert_exact(Twins(TransformersModel(build(), cells=CELLS, check=False), build()), PROMPT)


def test_attention_sinks_take_their_share() -> None:
    from transformers import GptOssConfig, GptOssForCausalLM

    def build() -> object:
        config = GptOssConfig(
            vocab_size=320, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, num_local_experts=2, num_experts_per_tok=1, sliding_window=4,
            pad_token_id=None, eos_token_id=None,
        )  # fmt: skip
        config._experts_implementation = "eager"  # the grouped product knows no float64
        torch.manual_seed(0)
        model = in_float64(GptOssForCausalLM(config).eval())
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.3)
        return model

    assert_exact(Twins(TransformersModel(build(), cells=CELLS, check=False), build()), PROMPT)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_request_whose_numbers_overflow_harms_nobody_else(bad: float) -> None:
    weights = in_float64(toy_model())
    with torch.no_grad():
        weights.model.embed_tokens.weight[66] = bad
    fast = TransformersModel(weights, cells=CELLS, check=False)
    both = step([5, 66], (Run(A, 0, 1), Run(B, 1, 1)), positions=[0, 0], cells=[0, 1], edits=(Empty(A), Empty(B)))
    more = step([6, 7], (Run(A, 0, 1), Run(B, 1, 1)), positions=[1, 1], cells=[2, 3])
    views = PlainViews()
    with wide_softmax():
        for batch in (both, more):
            fed = views.feed(batch)
            logits = fast.forward(batch)
            torch.testing.assert_close(logits[0], reference_logits(weights, fed[0]), atol=EXACT, rtol=0)
    assert not fast.forward(both)[1].isfinite().any()


# ── precision, sizes, the rest of the protocol ───────────────────────────────────────────────────────────


def test_only_the_wanted_logits_are_returned_in_their_order() -> None:
    model = TransformersModel(toy_model(), cells=CELLS)
    whole = model.forward(PROMPT)
    torch.testing.assert_close(model.forward(replace(PROMPT, wanted=(4, 1))), whole[[4, 1]])
    assert model.forward(replace(PROMPT, wanted=())).shape == (0, model.vocabulary)


def test_the_model_says_what_it_can_take() -> None:
    model = TransformersModel(toy_model(vocabulary=99, positions=512), cells=40)
    assert (model.vocabulary, model.max_position, model.cells) == (99, 511, 40)
    assert (model.dtype, model.device.type) == (torch.float32, DEVICE.type)


def test_the_reference_leaves_the_attention_of_the_model_as_it_was() -> None:
    model = toy_model()
    model.set_attn_implementation("sdpa")
    reference_logits(model, PlainViews().feed(PROMPT)[-1])
    assert model.config._attn_implementation == "sdpa"


def test_one_model_may_serve_two_memories() -> None:
    model = toy_model()
    first, second = TransformersModel(model, cells=CELLS), TransformersModel(model, cells=CELLS)
    expected = first.forward(PROMPT)
    second.forward(step([1, 2], (Run(A, 0, 2),), positions=[0, 1], cells=[3, 0], edits=(Empty(A),)))
    more = step([11], (Run(A, 0, 1),), positions=[6], cells=[12])
    fed = PlainViews()
    fed.feed(PROMPT)
    torch.testing.assert_close(first.forward(more)[0], reference_logits(model, fed.feed(more)[0]), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(second.forward(PROMPT), expected)
