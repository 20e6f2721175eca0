"""The KV cache is handed over under the name that the forward pass of a model knows."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from transformers import DynamicCache

from pastalang.runtime.models.cache_argument import cache_argument
from tests.oracle.toy_models import toy_model


class Newer:
    def forward(self, input_ids: Any, cache: Any = None) -> None: ...


class Older:
    def forward(self, input_ids: Any, past_key_values: Any = None) -> None: ...


class Silent:
    def forward(self, *arguments: Any, **named: Any) -> None: ...


class Adapted:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def get_base_model(self) -> Any:
        return self._inner

    forward = Silent.forward


def test_it_has_the_name_of_the_signature() -> None:
    kv_cache = object()
    for model, name in (
        (Newer(), "cache"), (Older(), "past_key_values"), (Silent(), "past_key_values"), (Adapted(Newer()), "cache"),
    ):  # fmt: skip
        assert cache_argument(model, kv_cache) == {name: kv_cache}


def test_a_model_of_transformers_takes_it_without_a_warning() -> None:
    model, tokens = toy_model(), torch.tensor([[1, 2, 3]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kv_cache = DynamicCache()
        model(input_ids=tokens, use_cache=True, **cache_argument(model, kv_cache))
    assert kv_cache.get_seq_length() == 3
