"""A GGUF model in this process, by llama.cpp: branches are sequences that share their cells.

StepBatch ── sequences ──> calls ── llama.cpp ──> logits

A step is one call of `llama_decode`, or as many as joins in it follow one another. Masks, draws and the schedule are
those of every other model.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import torch

from pastalang.plan.branches import Placement
from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.carried import Carried
from pastalang.runtime.models.gguf_weights import check_tokenizer_of_gguf
from pastalang.runtime.models.llama_cpp_context import SEQUENCES, LlamaContext, Logits
from pastalang.runtime.models.loading import check_device, load_tokenizer
from pastalang.runtime.models.probe_tokens import ProbeTokens
from pastalang.runtime.models.sequences import Change, Sequences
from pastalang.runtime.models.source import LLAMA, OWN, Adapter, check_source, gguf_file, without_host
from pastalang.runtime.step import StepBatch

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


_DTYPES: Final = {
    None: torch.float16, "float16": torch.float16, torch.float16: torch.float16,
    "float32": torch.float32, torch.float32: torch.float32,
}  # fmt: skip
