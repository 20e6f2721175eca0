"""Refuses models that would be decoded wrongly.

Branches need three things of a model. It takes the position of every token (`position_ids`). The keys and values of
a token depend only on the token, its position and what it sees. And its attention goes through the attention
interface of transformers. Configurations and modules give most other models away. The rest is found by a trial: a
few tokens with forks, gaps, cells out of order and a join, compared with the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from pastalang.runtime.attention.masks import FULL, SLIDING, layer_types
from pastalang.runtime.attention.plain_views import PlainViews
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.protocol import Model
from pastalang.runtime.models.reference import reference_logits
from pastalang.runtime.step import Capture, CellId, Empty, RowId, Run, StepBatch, TokenId

CELLS_FOR_CHECK = 16
OWN_ATTENTION = "its attention does not go through the attention interface of transformers, so views would be ignored"

_ALIBI = frozenset({"bloom", "mpt"})
_OWN_ATTENTION_FAMILIES = frozenset({"falcon", "gptj", "codegen"})
_RESCALING = frozenset({"dynamic", "longrope", "su"})
_TABLE_NAMES = ("wpe", "embed_positions", "position_embeddings", "position_embedding")


class UnsupportedModel(LoadError):
    """A model that would be decoded wrongly. `reason` completes a sentence about it: "it has recurrent layers ..."."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"{model} cannot be used: {reason}")
        self.model = model
        self.reason = reason


def check_config(config: Any) -> None:
    """Raises `UnsupportedModel` if the configuration shows a reason. No weights are needed."""
    for reason in _reasons_in_config(config.get_text_config()):
        raise UnsupportedModel(model_name(config), reason)


def check_modules(model: Any) -> None:
    """Raises `UnsupportedModel` if the configuration or the modules show a reason."""
    check_config(model.config)
    for reason in _reasons_in_modules(model):
        raise UnsupportedModel(model_name(model.config), reason)


def check_logits(fast: Model, model: Any) -> None:
    """Raises `UnsupportedModel` if `fast`, which wraps `model`, differs from the reference.

    `fast` has `CELLS_FOR_CHECK` cells.
    """
    views = PlainViews()
    for batch in _trial_steps(fast.vocabulary):
        fed = views.feed(batch)
        for index, logits in zip(batch.wanted, fast.forward(batch), strict=True):
            error = _relative_error(logits, reference_logits(model, fed[index]))
            if not error <= _tolerance(fast.dtype):
                raise UnsupportedModel(
                    model_name(model.config),
                    f"its logits depend on more than what a branch sees (they differ by {error:.2g} of their range)",
                )


def check_tokenizer(model: Model, encoder: Encoder) -> None:
    """Raises `LoadError` if the tokenizer does not belong to the model or has no token that ends a turn."""
    if encoder.size > model.vocabulary:
        raise LoadError(
            f"the tokenizer has {encoder.size} tokens and the model knows {model.vocabulary}: "
            "they do not belong together"
        )
    if not encoder.ends:
        raise LoadError("the tokenizer names no token that ends the model's turn")


def model_name(config: Any) -> str:
    """The name that a user knows: where the model was loaded from, else its family."""
    return str(getattr(config, "name_or_path", "") or config.model_type)


def _reasons_in_config(config: Any) -> Iterator[str]:
    family = str(config.model_type)
    if getattr(config, "is_encoder_decoder", False):
        yield "it is an encoder and a decoder; only causal models have one sequence to decode in"
    if family in _ALIBI or getattr(config, "alibi", False) or getattr(config, "position_embedding_type", "") == "alibi":
        yield "its positions are ALiBi biases, which count places in memory and cannot follow the positions of a branch"
    if family in _OWN_ATTENTION_FAMILIES:
        yield OWN_ATTENTION
    for kind in sorted(_rope_types(config) & _RESCALING):
        yield f"its rotary positions are rescaled as the sequence grows ({kind}), which makes cached keys wrong"
    if _has_several_axes(config):
        yield "its rotary positions have several axes (M-RoPE); a branch has one"
    if getattr(config, "num_hidden_layers", None) is not None:
        for kind in sorted(set(layer_types(config)) - {FULL, SLIDING}):
            yield f"it has layers of the kind {kind}; only full and sliding attention follow a view exactly"


def _reasons_in_modules(model: Any) -> Iterator[str]:
    if getattr(model, "_is_stateful", False):
        yield "it has recurrent layers, whose state cannot be forked, joined or hidden from a branch"
    words = model.get_input_embeddings()
    for name, module in model.named_modules():
        is_table = isinstance(module, torch.nn.Embedding) and module is not words
        if is_table and name.rpartition(".")[2] in _TABLE_NAMES:
            yield f"its positions are a learned table of {module.num_embeddings} rows ({name}): gaps would use it up"
    if getattr(model.config.get_text_config(), "max_position_embeddings", None) is None:
        yield "its configuration has no max_position_embeddings, so the number of its positions is unknown"


def _rope_types(config: Any) -> set[str]:
    return {str(part["rope_type"]) for part in _rope_parts(config) if part.get("rope_type")}


def _has_several_axes(config: Any) -> bool:
    return any("mrope_section" in part for part in _rope_parts(config))


def _rope_parts(config: Any) -> Iterator[Mapping[str, Any]]:
    """The rotary parameters: one mapping, or one for each kind of layer."""
    parameters = getattr(config, "rope_parameters", None) or {}
    yield parameters
    yield from (part for part in parameters.values() if isinstance(part, Mapping))


def _trial_steps(vocabulary: int) -> tuple[StepBatch, ...]:
    """A prompt with two forks, two branches with gaps, and a join of both branches."""
    main, left, right = RowId(0), RowId(1), RowId(2)
    tokens = [TokenId((7919 * index + 17) % vocabulary) for index in range(12)]
    prompt = StepBatch(
        tokens=tuple(tokens[:5]),
        positions=(0, 1, 2, 3, 24),
        cells=tuple(map(CellId, (9, 2, 5, 11, 0))),
        runs=(Run(main, 0, 5),),
        wanted=(2, 4),
        edits=(Empty(main),),
        captures=(Capture(left, 3), Capture(right, 2)),
    )
    branches = StepBatch(
        tokens=tuple(tokens[5:9]),
        positions=(4, 5, 13, 14),
        cells=tuple(map(CellId, (1, 8, 10, 3))),
        runs=(Run(left, 0, 2), Run(right, 2, 2)),
        wanted=(1, 3),
    )
    join = StepBatch(
        tokens=tuple(tokens[9:12]),
        positions=(6, 15, 25),
        cells=tuple(map(CellId, (4, 7, 6))),
        runs=(Run(left, 0, 1), Run(right, 1, 1), Run(main, 2, 1, after=(0, 1))),
        wanted=(0, 1, 2),
    )
    return prompt, branches, join


def _relative_error(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the range of the logits. NaN if either of them holds one."""
    difference = (logits.double() - expected.double()).abs().max()
    spread = expected.double().max() - expected.double().min()
    return float(difference / spread) if spread > 0 else float(difference)


def _tolerance(dtype: torch.dtype) -> float:
    """Half precision loses a few hundredths in deep models; a wrong view costs several tenths."""
    return 0.1 if dtype in (torch.bfloat16, torch.float16) else 1e-4
