"""Refuses models that would be decoded wrongly.

Branches need three things of a model. It takes the position of every token (`position_ids`). The keys and values of
a token depend only on the token, its position and what it sees. And its attention goes through the attention
interface of transformers. Configurations and modules give most other models away. The rest is found by two trials.
`check_attention` compares what every layer attends to with the model's own masks, at the start of a text and as deep
in a text as the model goes, so beyond every window. `check_logits` feeds a few tokens with forks, gaps, cells out of
order and a join, and compares them with the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache
from transformers.masking_utils import eager_mask

from pastalang.failures import PastaError
from pastalang.runtime.attention.masks import FULL, SLIDING, Window, layer_types
from pastalang.runtime.attention.plain_views import PlainViews
from pastalang.runtime.device_memory import first_sentence, is_out_of_memory
from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.cache_argument import cache_argument
from pastalang.runtime.models.protocol import Model, computed_in
from pastalang.runtime.models.reference import attention_of, reference_logits
from pastalang.runtime.models.step_attention import STEP_MASKS
from pastalang.runtime.step import Capture, CellId, Empty, RowId, Run, StepBatch, TokenId

CELLS_FOR_CHECK = 16
OWN_ATTENTION = "its attention does not go through the attention interface of transformers, so views would be ignored"

_ALIBI = frozenset({"bloom", "mpt"})
_OWN_ATTENTION_FAMILIES = frozenset({"falcon", "gptj", "codegen"})
_RESCALING = frozenset({"dynamic", "longrope", "su"})
_DYNAMIC_INT8 = ("torch.ao.nn.quantized.dynamic", "torch.ao.nn.intrinsic.quantized.dynamic")
_PLAIN_TOKENS = 4  # as few as show a window's border at several tokens
_VISIBLE = -1e4  # a mask adds less than this where a token may not look
_TABLE_NAMES = ("wpe", "embed_positions", "position_embeddings", "position_embedding")


class UnsupportedModel(LoadError):
    """A model that would be decoded wrongly. `reason` completes a sentence about it: "it has recurrent layers ..."."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"{model} cannot be used: {reason}")
        self.model = model
        self.reason = reason


def check_config(config: Any) -> None:
    """Raises `UnsupportedModel` if the configuration shows a reason. No weights are needed."""
    try:
        text_config = config.get_text_config()
    except ValueError:
        raise UnsupportedModel(model_name(config), "its configuration describes several models of text") from None
    for reason in _reasons_in_config(text_config):
        raise UnsupportedModel(model_name(config), reason)


def check_modules(model: Any) -> None:
    """Raises `UnsupportedModel` if the configuration or the modules show a reason."""
    check_config(model.config)
    for reason in _reasons_in_modules(model):
        raise UnsupportedModel(model_name(model.config), reason)


def check_attention(fast: Model, model: Any, windows: Sequence[Window]) -> None:
    """Raises `UnsupportedModel` if a layer of `fast` would attend to other tokens than in `model`, which it wraps.

    `windows` has the window of every layer. Both are fed a few tokens at the start of a text and at the last positions.
    """
    tokens = _trial_tokens(fast.vocabulary)[:_PLAIN_TOKENS]
    for start in sorted({0, max(fast.max_position + 1 - len(tokens), 0)}):
        with _failing(model, "its own forward pass"):
            own = plain_inputs(model, tokens, start=start)
        with _failing(model, "a step with branches"):
            ours = fast_inputs(fast, model, tokens, start=start)
        for reason in _differences(own, ours, windows, start=start, tolerance=_tolerance(fast)):
            raise UnsupportedModel(model_name(model.config), reason)


def check_logits(fast: Model, model: Any) -> None:
    """Raises `UnsupportedModel` if `fast`, which wraps `model`, differs from the reference.

    `fast` has `CELLS_FOR_CHECK` cells.
    """
    views = PlainViews()
    for batch in _trial_steps(fast.vocabulary):
        fed = views.feed(batch)
        with _failing(model, "a step with branches"):
            found = fast.forward(batch)
        for index, logits in zip(batch.wanted, found, strict=True):
            with _failing(model, "its own forward pass"):
                expected = reference_logits(model, fed[index])
            error = _relative_error(logits, expected)
            if not error <= _tolerance(fast):
                raise UnsupportedModel(
                    model_name(model.config),
                    f"its logits depend on more than what a branch sees (they differ by {error:.2g} of their range)"
                    + _quantization(model.config),
                )


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
    for kind in sorted(rope_types(config) & _RESCALING):
        yield f"its rotary positions are rescaled as the sequence grows ({kind}), which makes cached keys wrong"
    if _has_several_axes(config):
        yield "its rotary positions have several axes (M-RoPE); a branch has one"
    if getattr(config, "num_hidden_layers", None) is None:
        yield "its configuration has no num_hidden_layers, so its layers are unknown"
    else:
        for kind in sorted(set(layer_types(config)) - {FULL, SLIDING}):
            yield f"it has layers of the kind {kind}; only full and sliding attention follow a view exactly"


def _reasons_in_modules(model: Any) -> Iterator[str]:
    if any(type(module).__module__.startswith(_DYNAMIC_INT8) for module in model.modules()):
        yield (
            "its weights are quantized dynamically to int8, which scales all tokens of a step together, "
            "so a branch would depend on the others; weights in bfloat16 or float32 can be used"
        )
    if getattr(model, "_is_stateful", False):
        yield "it has recurrent layers, whose state cannot be forked, joined or hidden from a branch"
    words = model.get_input_embeddings()
    for name, module in model.get_decoder().named_modules():  # a model of images has tables for them
        is_table = isinstance(module, torch.nn.Embedding) and module is not words
        if is_table and name.rpartition(".")[2] in _TABLE_NAMES:
            yield f"its positions are a learned table of {module.num_embeddings} rows ({name}): gaps would use it up"
    if getattr(model.config.get_text_config(), "max_position_embeddings", None) is None:
        yield "its configuration has no max_position_embeddings, so the number of its positions is unknown"


def rope_types(config: Any) -> set[str]:
    """How the rotary positions of the layers are scaled; "default" where they are not."""
    return {str(part["rope_type"]) for part in _rope_parts(config) if part.get("rope_type")}


def _has_several_axes(config: Any) -> bool:
    return any("mrope_section" in part for part in _rope_parts(config))


def _rope_parts(config: Any) -> Iterator[Mapping[str, Any]]:
    """The rotary parameters: one mapping, or one for each kind of layer."""
    parameters = getattr(config, "rope_parameters", None) or {}
    yield parameters
    yield from (part for part in parameters.values() if isinstance(part, Mapping))


def _trial_steps(vocabulary: int) -> tuple[StepBatch, ...]:
    """A prompt with two forks, two branches with gaps, and a join of both branches.

    The prompt is long enough for the last layer to leave out the tokens whose logits are not wanted.
    """
    main, left, right = RowId(0), RowId(1), RowId(2)
    tokens = _trial_tokens(vocabulary)
    prompt = StepBatch(
        tokens=tuple(tokens[:8]),
        positions=(0, 1, 2, 3, 20, 21, 22, 24),
        cells=tuple(map(CellId, (9, 2, 5, 11, 0, 14, 12, 13))),
        runs=(Run(main, 0, 8),),
        wanted=(2, 7),
        edits=(Empty(main),),
        captures=(Capture(left, 3), Capture(right, 2)),
    )
    branches = StepBatch(
        tokens=tuple(tokens[8:12]),
        positions=(4, 5, 13, 14),
        cells=tuple(map(CellId, (1, 8, 10, 3))),
        runs=(Run(left, 0, 2), Run(right, 2, 2)),
        wanted=(1, 3),
    )
    join = StepBatch(
        tokens=tuple(tokens[12:15]),
        positions=(6, 15, 25),
        cells=tuple(map(CellId, (4, 7, 6))),
        runs=(Run(left, 0, 1), Run(right, 1, 1), Run(main, 2, 1, after=(0, 1))),
        wanted=(0, 1, 2),
    )
    return prompt, branches, join


def _trial_tokens(vocabulary: int) -> list[TokenId]:
    return [TokenId((7919 * index + 17) % vocabulary) for index in range(15)]


def _differences(
    own: Sequence[AttentionInput],
    ours: Sequence[AttentionInput],
    windows: Sequence[Window],
    *,
    start: int,
    tolerance: float,
) -> Iterator[str]:
    """What the layers attend to, and with which queries, keys and values, where `ours` is not what the model does."""
    layers = [call.layer for call in own]
    if layers != [call.layer for call in ours] or set(layers) != set(range(len(windows))):
        yield OWN_ATTENTION
        return
    compared: set[tuple[int, Window]] = set()  # layers of one kind share a mask, which may be long
    for call, other in zip(own, ours, strict=True):
        kind = id(call.mask), windows[call.layer]
        if kind not in compared:
            compared.add(kind)
            yield from _mask_differences(call, windows[call.layer], start=start)
        for name, states in call.tensors.items():
            if states.shape != other.tensors[name].shape or not _is_near(states, other.tensors[name], tolerance):
                yield f"at position {start:,}, the {name} of its layer {call.layer} are not those of a plain text"


def _mask_differences(call: AttentionInput, window: Window, *, start: int) -> Iterator[str]:
    count = call.tensors["queries"].shape[2]
    if call.mask is None:
        yield f"its layer {call.layer} has no causal mask, so tokens would see what comes after them"
        return
    visible = call.mask if call.mask.dtype is torch.bool else call.mask > _VISIBLE
    token = torch.arange(start, start + count, device=visible.device)[:, None]
    seen = torch.arange(start + count, device=visible.device)[None]
    expected = seen <= token if window is None else (seen <= token) & (token - seen < window)
    if visible.shape[-2:] != expected.shape:
        yield f"its layer {call.layer} has a mask of another size than the text"
    elif (visible & (seen > token)).any():
        yield f"in its layer {call.layer}, tokens attend to tokens that come after them"
    elif not (visible == expected).all():
        named = "no window" if window is None else f"a window of {window:,} tokens"
        found = _describe(visible[0, 0, -1])
        yield f"its configuration names {named} for its layer {call.layer}, and the layer attends to {found}"
    elif call.mask.dtype is not torch.bool and call.mask[expected.expand_as(call.mask)].any():
        yield f"its layer {call.layer} adds a bias of its own to the mask, which a view cannot hold"


def _describe(visible: torch.Tensor) -> str:
    """What a token attends to; `visible` has one entry for each token of the text, (tokens,)."""
    count = int(visible.sum())
    if count == len(visible):
        return "all tokens before it"
    return f"the last {count:,} tokens" if bool(visible[-count:].all()) else f"{count:,} of {len(visible):,} tokens"


def _is_near(states: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    difference = (states.double() - other.double()).abs().max()
    return bool(difference <= tolerance * states.double().abs().max())


@contextmanager
def _failing(model: Any, what: str) -> Iterator[None]:
    """Turns any error of the model's own code into an `UnsupportedModel`."""
    try:
        yield
    except (PastaError, MemoryError):
        raise
    except Exception as problem:  # anything: the code of a family, or of a user
        if is_out_of_memory(problem):
            raise
        reason = f"{what} fails in {str(model.dtype).removeprefix('torch.')}: {first_sentence(problem)}"
        raise UnsupportedModel(model_name(model.config), reason + _quantization(model.config)) from problem


def _quantization(config: Any) -> str:
    """A quantized model is named as such, because its kernels are the likeliest cause."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        return ""
    method = found.get("quant_method") if isinstance(found, Mapping) else getattr(found, "quant_method", None)
    named = getattr(method, "value", method) or "method unknown"
    return f"; its weights are quantized ({named}), which may be the cause"


def _relative_error(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the range of the logits. NaN if either of them holds one."""
    difference = (logits.double() - expected.double()).abs().max()
    spread = expected.double().max() - expected.double().min()
    return float(difference / spread) if spread > 0 else float(difference)


def _tolerance(fast: Model) -> float:
    """Half precision loses a few hundredths in deep models, and so do states in int8, where the last digit of a number
    decides how it is rounded. A wrong view costs several tenths."""
    rounds = fast.dtype in (torch.bfloat16, torch.float16) or computed_in(fast) == "torch.int8"
    return 0.1 if rounds else 1e-4


_PLAIN = "pastalang_recording_plainly"  # transformers makes masks for it
_FAST = "pastalang_recording"  # transformers makes none, as for the fast path
_CALLS: ContextVar[list[AttentionInput]] = ContextVar("pastalang_attention_inputs")


@dataclass(frozen=True, slots=True)
class AttentionInput:
    """One call of attention. The tensors are (1, heads, tokens, size), the mask (1, 1 or heads, tokens, all tokens)."""

    layer: int
    tensors: Mapping[str, torch.Tensor]
    mask: torch.Tensor | None


@torch.inference_mode()
def plain_inputs(model: Any, tokens: Sequence[TokenId], *, start: int) -> list[AttentionInput]:
    """What the bare model makes of `tokens` after `start` others. It chooses positions and masks itself."""
    with _recording(model, _PLAIN) as calls:
        model(
            input_ids=torch.tensor([tokens], device=model.device),
            use_cache=True,
            **cache_argument(model, _ClaimedCache(start)),
        )
    return calls


def fast_inputs(fast: Model, model: Any, tokens: Sequence[TokenId], *, start: int) -> list[AttentionInput]:
    """What `fast`, which wraps `model`, makes of the tokens. They are alone in its cells."""
    here = range(len(tokens))
    batch = StepBatch(
        tokens=tuple(tokens),
        positions=tuple(start + index for index in here),
        cells=tuple(map(CellId, here)),
        runs=(Run(RowId(0), 0, len(tokens)),),
        wanted=(),
        edits=(Empty(RowId(0)),),
    )
    with _recording(model, _FAST) as calls:
        fast.forward(batch)
    return calls


@contextmanager
def _recording(model: Any, name: str) -> Iterator[list[AttentionInput]]:
    calls: list[AttentionInput] = []
    reset = _CALLS.set(calls)
    try:
        with attention_of(model, name):
            yield calls
    finally:
        _CALLS.reset(reset)


def _record(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Returns (1, tokens, heads, size). The tokens are in the first cells; a GPU reads more of them."""
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    key, value = (states[:, :, : query.shape[2]] for states in (key, value))
    step = STEP_MASKS.get(None)
    if step is not None:
        step.window(layer)  # the layer has an attention that can be replaced
    _CALLS.get().append(AttentionInput(layer, {"queries": query, "keys": key, "values": value}, attention_mask))
    return value.repeat_interleave(query.shape[1] // value.shape[1], dim=1).transpose(1, 2).contiguous(), None


class _ClaimedCache(Cache):  # type: ignore[misc]  # transformers is untyped
    """Says that every layer has seen `seen` tokens and keeps all of them. It holds none."""

    def __init__(self, seen: int) -> None:
        super().__init__(layers=[])
        self._seen = seen

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._seen

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self._seen + query_length, 0

    def get_max_length(self, layer_idx: int | None = None) -> int | None:
        return None

    @property
    def is_initialized(self) -> bool:
        return True

    @property
    def is_compileable(self) -> bool:
        return False


AttentionInterface.register(_PLAIN, _record)
AttentionInterface.register(_FAST, _record)
AttentionMaskInterface.register(_PLAIN, eager_mask)
