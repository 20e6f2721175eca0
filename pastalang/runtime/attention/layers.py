"""What a configuration says about its layers: a transformers config comes in, a window per layer goes out."""

from __future__ import annotations

from typing import Any

from pastalang.runtime.attention.mask import Window

FULL = "full_attention"
SLIDING = "sliding_attention"


def layer_types(config: Any) -> tuple[str, ...]:
    """The kind of every layer, in the words of transformers. `config` is that of the text model."""
    declared = getattr(config, "layer_types", None)
    if declared is not None:
        return tuple(declared)
    if getattr(config, "attention_chunk_size", None) is not None:
        kind = "chunked_attention"
    else:
        kind = FULL if getattr(config, "sliding_window", None) is None else SLIDING
    return (kind,) * int(config.num_hidden_layers)


def layer_windows(config: Any) -> tuple[Window, ...]:
    """How far back every layer sees; None is all the way."""
    window = getattr(config, "sliding_window", None)
    return tuple(window if kind == SLIDING else None for kind in layer_types(config))
