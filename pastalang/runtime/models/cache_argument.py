"""What the forward pass of a model calls its KV cache: transformers renamed the argument in version 5.24."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Final

_NAMES: Final = ("cache", "past_key_values")  # the newer one first; models outside of transformers may know the older


def cache_argument(model: Any, kv_cache: Any) -> dict[str, Any]:
    """The argument that hands the cache to `model`, or to the one that its adapters wrap."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    return {_name_in(type(bare).forward): kv_cache}


@cache
def _name_in(forward: Callable[..., Any]) -> str:
    taken = inspect.signature(forward).parameters
    return next((name for name in _NAMES if name in taken), _NAMES[-1])
