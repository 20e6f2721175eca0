"""A GGUF model in llama.cpp, by the low-level functions of llama-cpp-python: branches are sequences that share cells.

    StepBatch ── sequences ──> calls ── llama.cpp ──> logits

A step is one call of `llama_decode`, or as many as joins in it follow one another. Masks, draws and the schedule are
those of every other model.
"""

from __future__ import annotations

import ctypes
import logging
import weakref
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from pastalang.plan.branches import Placement
from pastalang.runtime.errors import LoadError, RunError
from pastalang.runtime.models.carried import Carried
from pastalang.runtime.models.gguf_weights import check_tokenizer_of_gguf
from pastalang.runtime.models.loading import check_device, load_tokenizer
from pastalang.runtime.models.probe_tokens import ProbeTokens
from pastalang.runtime.models.sequences import Change, Remove, Sequences
from pastalang.runtime.models.source import LLAMA, OWN, Adapter, check_source, gguf_file, without_host
from pastalang.runtime.step import StepBatch

_DTYPES: Final = {
    None: torch.float16, "float16": torch.float16, torch.float16: torch.float16,
    "float32": torch.float32, torch.float32: torch.float32,
}  # fmt: skip


SEQUENCES: Final = 256  # the most that llama.cpp has
_BATCH: Final = 512  # tokens of one call; llama.cpp splits longer ones there anyway
_LOG: Final = logging.getLogger("pastalang.llama")
_ERROR: Final = 4  # a level of the log of llama.cpp
_EVERY_LAYER: Final = 999
_FAILURES: Final = {1: "there is no room in its KV cache", 2: "it was interrupted", -1: "the batch is not valid"}

Logits = NDArray[np.float32]

_ROWS, _DRAFTS = SEQUENCES // 2, SEQUENCES // 4  # the rest is for what rows held before joins
_ADDED: Final = 8  # more tokens than that belong to another model
CARRIED: Final = Carried(LLAMA, Placement.DENSE, rows=_ROWS, drafts=_DRAFTS, undoes_steps=False)


class Context(Protocol):
    """What holds the sequences."""

    vocabulary: int
    max_position: int

    def clear(self) -> None: ...

    def change(self, changes: tuple[Change, ...]) -> None: ...

    def decode(
        self, tokens: list[int], positions: list[int], sequences: list[tuple[int, ...]], wanted: list[bool]
    ) -> Logits: ...


class LlamaCppModel:
    """A `Model` whose memory is a context of llama.cpp. Tokens `beyond` those of the file are never drawn."""

    probe_tokens: ProbeTokens | None = None
    carried = CARRIED

    def __init__(self, context: Context, *, cells: int, dtype: torch.dtype = torch.float16, beyond: int = 0) -> None:
        self.cells, self.dtype, self.device = cells, dtype, torch.device("cpu")  # where its logits are
        self.vocabulary, self.max_position = context.vocabulary + beyond, context.max_position
        self.context = context
        self._sequences = Sequences(rows=_ROWS, spare=SEQUENCES - _ROWS)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        """Feeds one step. Returns the logits of the wanted tokens: (wanted, vocabulary). If it fails, the memory is
        empty."""
        try:
            return self._forward(batch)
        except BaseException:
            self.context.clear()
            self._sequences = Sequences(rows=_ROWS, spare=SEQUENCES - _ROWS)
            raise

    def _forward(self, batch: StepBatch) -> torch.Tensor:
        rows = {index: row for row, index in enumerate(batch.wanted)}
        logits = torch.full((len(rows), self.vocabulary), -torch.inf)
        for call in self._sequences.feed(batch):
            self.context.change(call.changes)
            if not call.tokens:
                continue
            indexes = [index for index, _ in call.tokens]
            found = self.context.decode(
                [batch.tokens[index] for index in indexes], [batch.positions[index] for index in indexes],
                [sequences for _, sequences in call.tokens], [index in rows for index in indexes],
            )  # fmt: skip
            wanted = [rows[index] for index in indexes if index in rows]
            logits[wanted, : found.shape[1]] = torch.from_numpy(found)
        return logits


def load_llama_cpp(
    source: Any, tokenizer: Any = None, *, cells: int, device: str | None = None, dtype: Any = None,
    adapter: Adapter = OWN,
) -> tuple[LlamaCppModel, Any]:  # fmt: skip
    """The model of a GGUF file, and its tokenizer. Adapters of known models are left out. Raises `LoadError`."""
    name = source if isinstance(source, tuple) or hasattr(source, "config") else f"{LLAMA}:{without_host(source)}"
    check_source(name)
    file = gguf_file(name)
    assert file is not None
    if adapter not in (OWN, None):
        raise LoadError(f"{LLAMA} reads the weights of a file as they are, without an adapter: leave out `adapter`")
    if dtype not in _DTYPES:
        raise LoadError(
            f"in {LLAMA}, `dtype` is that of the KV cache, float16 or float32, not {dtype!r:.60}; the "
            "weights have the types that their file has"
        )
    if tokenizer is None:
        check_tokenizer_of_gguf(file)  # the model is loaded first, as its tokenizer may take half a minute
    on_gpu = device is None or check_device(device).type != "cpu"
    context = LlamaContext(
        file, cells=cells, threads=torch.get_num_threads(), on_gpu=on_gpu, in_float32=_DTYPES[dtype] is torch.float32
    )
    tokenizer = tokenizer or load_tokenizer(name)
    added = len(tokenizer) - context.vocabulary  # by transformers, which gives some tokenizers tokens of its own
    return LlamaCppModel(
        context, cells=cells, dtype=_DTYPES[dtype], beyond=added if 0 < added <= _ADDED else 0
    ), tokenizer


class LlamaContext:
    """One model with a KV cache of `cells` cells, which all sequences share. Raises `LoadError` for what has none."""

    def __init__(self, file: Path, *, cells: int, threads: int, on_gpu: bool, in_float32: bool) -> None:
        self._api = api = _library()
        self._model = _model(api, file, on_gpu=on_gpu)
        self._free = weakref.finalize(self, api.llama_model_free, self._model)
        _check(api, self._model, file)
        self._context = _context(api, self._model, cells=cells, threads=threads, in_float32=in_float32)
        if not self._context:
            raise LoadError(f"llama.cpp has no room for {cells} cells of {file}: {_last_problem()}")
        self._free.detach()
        self._free_both = weakref.finalize(self, _free, api, self._context, self._model)
        self._memory = api.llama_get_memory(self._context)
        self.vocabulary = int(api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model)))
        self.max_position = int(api.llama_model_n_ctx_train(self._model)) - 1

    def clear(self) -> None:
        """No sequence holds anything."""
        self._api.llama_memory_clear(self._memory, False)

    def change(self, changes: Iterable[Change]) -> None:
        for one in changes:
            if isinstance(one, Remove):
                self._api.llama_memory_seq_rm(self._memory, one.sequence, one.since, -1)
            else:
                self._api.llama_memory_seq_cp(self._memory, one.source, one.target, one.since, one.until)

    def decode(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[Sequence[int]],
        wanted: Sequence[bool],
    ) -> Logits:
        """The logits of the wanted tokens: (wanted, vocabulary). Raises `RunError` if llama.cpp refuses."""
        found = [
            self._decode(tokens[part], positions[part], sequences[part], wanted[part])
            for part in (slice(start, start + _BATCH) for start in range(0, len(tokens), _BATCH))
        ]
        return np.concatenate(found) if len(found) > 1 else found[0]

    def _decode(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[Sequence[int]],
        wanted: Sequence[bool],
    ) -> Logits:
        count = len(tokens)
        owners = [(ctypes.c_int32 * len(one))(*one) for one in sequences]
        pointers = (ctypes.POINTER(ctypes.c_int32) * count)(
            *(ctypes.cast(one, ctypes.POINTER(ctypes.c_int32)) for one in owners)
        )
        batch = self._api.llama_batch(
            n_tokens=count, token=(ctypes.c_int32 * count)(*tokens), embd=None,
            pos=(ctypes.c_int32 * count)(*positions),
            n_seq_id=(ctypes.c_int32 * count)(*map(len, sequences)), seq_id=pointers,
            logits=(ctypes.c_int8 * count)(*wanted),
        )  # fmt: skip
        code = self._api.llama_decode(self._context, batch)
        if code:
            why = _FAILURES.get(code, f"error {code}")
            raise RunError(
                f"llama.cpp could not decode a step of {count} tokens: {why}. {_last_problem()}".rstrip(". ")
            )
        rows = sum(wanted)
        if not rows:
            return np.empty((0, self.vocabulary), dtype=np.float32)
        logits = self._api.llama_get_logits(self._context)
        return np.ctypeslib.as_array(logits, shape=(rows, self.vocabulary)).copy()


def _library() -> Any:
    """The module `llama_cpp.llama_cpp`. Raises `LoadError` if it is not installed or cannot be loaded."""
    if find_spec("llama_cpp") is None:
        raise LoadError("GGUF models in llama.cpp need the package llama-cpp-python: pip install 'pastalang[llama]'")
    try:
        from llama_cpp import llama_cpp
    except Exception as problem:  # a shared library of another platform, or one that lacks a part
        raise LoadError(f"llama-cpp-python cannot be used: {problem}") from problem
    llama_cpp.llama_log_set(_log_callback(llama_cpp), ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return llama_cpp


_KEPT: dict[str, Any] = {}  # what llama.cpp goes on calling, and the last thing that it complained about


def _log_callback(api: Any) -> Any:
    if "callback" not in _KEPT:

        def report(level: int, text: bytes, _: Any) -> None:
            line = text.decode("utf-8", "replace").strip()
            if level == _ERROR:
                _KEPT.setdefault("problem", line)  # those after it say less
            _LOG.debug(line)

        _KEPT["callback"] = api.llama_log_callback(report)
    return _KEPT["callback"]


def _last_problem() -> str:
    """What llama.cpp complained about first, without the names of its functions."""
    return str(_KEPT.pop("problem", "")).rpartition(": ")[2]


def _model(api: Any, file: Path, *, on_gpu: bool) -> Any:
    _last_problem()
    wanted = api.llama_model_default_params()
    wanted.n_gpu_layers = _EVERY_LAYER if on_gpu else 0
    model = api.llama_model_load_from_file(str(file).encode(), wanted)
    if not model:
        raise LoadError(f"llama.cpp cannot load {file}: {_last_problem() or 'it says nothing more'}")
    return model


def _check(api: Any, model: Any, file: Path) -> None:
    """Raises `LoadError` for a model whose tokens do not each have a cell at one position."""
    if api.llama_vocab_type(api.llama_model_get_vocab(model)) == api.LLAMA_VOCAB_TYPE_NONE:
        raise LoadError(f"{file} holds no tokenizer: convert the model with its tokenizer")
    why = {
        "it is recurrent, and branches share the cells of a KV cache, which it has not": api.llama_model_is_recurrent,
        "some of its layers are recurrent, and branches share the cells of a KV cache": api.llama_model_is_hybrid,
        "it has an encoder": api.llama_model_has_encoder,
        "it writes by diffusion, not one token after another": api.llama_model_is_diffusion,
        "its layers see a window of positions, in which joined branches would hide what was before them":
            api.llama_model_n_swa,
        "its tokens have several positions each": lambda one: api.llama_model_rope_type(one)
            in (api.LLAMA_ROPE_TYPE_MROPE, api.LLAMA_ROPE_TYPE_IMROPE),
    }  # fmt: skip
    for reason, holds in why.items():
        if holds(model):
            raise LoadError(f'{file} cannot be decoded with host="llama.cpp": {reason}; load it without `host`')


def _context(api: Any, model: Any, *, cells: int, threads: int, in_float32: bool) -> Any:
    wanted = api.llama_context_default_params()
    wanted.n_ctx, wanted.n_batch, wanted.n_ubatch = cells, _BATCH, _BATCH
    wanted.n_seq_max, wanted.kv_unified, wanted.swa_full = SEQUENCES, True, True
    wanted.n_threads = wanted.n_threads_batch = threads
    wanted.no_perf = True
    if in_float32:
        wanted.type_k = wanted.type_v = api.GGML_TYPE_F32
    return api.llama_init_from_model(model, wanted)


def _free(api: Any, context: Any, model: Any) -> None:
    api.llama_free(context)
    api.llama_model_free(model)
