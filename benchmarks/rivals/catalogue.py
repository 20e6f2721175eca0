"""The sides by name: what they are, where they run, and which tasks they are asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

STRICT, DRAFTS, HALF, INT8, SEQUENTIAL, SERVE = "strict", "drafts", "bfloat16", "int8", "sequential", "serve"
F32, Q8 = "smollm2-f32.gguf", "smollm2-q8_0.gguf"
_SIDES: Final = "benchmarks.rivals.sides"


@dataclass(frozen=True, slots=True)
class Entry:
    """`tasks`: their keys. `every`: asked one document of so many, as sides of less weight are. `sizes`: how many
    documents at once are tried in B."""

    key: str
    name: str
    kind: str
    tasks: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()  # files in the folder of `make rivals`
    every: int = 1
    sizes: tuple[int, ...] = ()
    is_ours: bool = False

    @property
    def where(self) -> str:
        return f"{_SIDES}.{self.kind}"

    def python(self, rivals: Path) -> str:
        return sys.executable if self.is_ours else str(rivals / "bin" / "python")

    def missing(self, rivals: Path) -> str | None:
        """Why the side cannot be started, if that can be seen from here."""
        needed = [rivals / "llama" / name for name in self.needs]
        if not self.is_ours:
            needed.append(Path(self.python(rivals)))
        absent = next((path for path in needed if not path.exists()), None)
        return None if absent is None else f"{absent.name} is not there (`make rivals` makes it)"


_ALL = ("A", "A=", "C", "D", "E", "F")
_SERVER = "llama-server"

ENTRIES: Final = {
    entry.key: entry
    for entry in (
        Entry(STRICT, "PastaLang", "ours:Ours", (*_ALL, "B"), sizes=(4, 8), is_ours=True),
        Entry(DRAFTS, 'PastaLang, `drafts="auto"`', "ours:Ours", ("A", "A=", "C", "D", "E"), {"drafts": "auto"},
              is_ours=True),
        Entry(HALF, "PastaLang, bfloat16", "ours:Ours", ("A", "C", "D"), {"dtype": "bfloat16"}, is_ours=True),
        Entry(INT8, "PastaLang, int8", "ours:Ours", ("A", "C", "D", "B"), {"dtype": "int8"}, sizes=(4, 8),
              is_ours=True),
        Entry("llama-q8", "llama.cpp server, Q8_0", "llama_server:LlamaServer", (*_ALL, "B"), {"gguf": Q8},
              needs=(_SERVER, Q8), sizes=(4, 8)),
        Entry("llama-f32", "llama.cpp server, f32", "llama_server:LlamaServer", (*_ALL, "B"), {"gguf": F32},
              needs=(_SERVER, F32), sizes=(4, 8)),
        Entry("outlines", "outlines", "on_transformers:Outlines", ("A", "C")),
        Entry("guidance", "guidance", "on_transformers:Guidance", ("A", "C", "E")),
        Entry("xgrammar", "xgrammar, as a logits processor", "on_transformers:XGrammar", ("A", "A=", "C", "B", "E"),
              sizes=(8,)),
        Entry("guidance-half", "guidance, bfloat16", "on_transformers:Guidance", ("A",), {"dtype": "bfloat16"}),
        Entry("generate", "`generate`, no schema", "on_transformers:Generate", ("A", "A=", "C", "D")),
        Entry("batched", "`generate` in batches, no schema", "on_transformers:Generate", ("B",), sizes=(8, 16)),
        Entry("lookup", "`generate` with prompt look-up, no schema", "on_transformers:Generate", ("A", "C"),
              {"prompt_lookup_num_tokens": 8}, every=3),
        Entry("static", "`generate` with a static cache, no schema", "on_transformers:Generate", ("A", "C"),
              {"cache_implementation": "static", "disable_compile": True}, every=3),
        Entry("fields", "one prompt per field in a batch, xgrammar", "on_transformers:PromptForEachField", ("A", "C"),
              every=3),
        Entry("llama-spaces", "llama.cpp server, Q8_0, with the white space of its schemas", "llama_server:LlamaServer",
              ("A", "C"), {"gguf": Q8, "is_compact": False}, needs=(_SERVER, Q8), every=3),
        Entry("openvino", "OpenVINO GenAI, int8", "openvino:OpenVino", ("A", "C"), {"gguf": Q8}, needs=(Q8,), every=3),
        Entry(SERVE, "PastaLang, `pasta serve`", "ours:Serve", ("A", "C", "B"), every=3, sizes=(8,), is_ours=True),
        Entry(SEQUENTIAL, "PastaLang, `sequential`", "ours:Ours", ("A", "C"), {"mode": "sequential"}, every=3,
              is_ours=True),
        Entry("hosted", "PastaLang in llama.cpp, Q8_0", "ours:Ours", ("A", "C"), {"host": "llama.cpp", "gguf": Q8,
              "cells": 8192}, needs=(Q8,), every=3, is_ours=True),
    )
}  # fmt: skip
