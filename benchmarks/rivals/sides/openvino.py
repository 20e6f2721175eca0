"""OpenVINO GenAI, which reads a GGUF file itself and constrains answers with its own build of xgrammar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import openvino_genai

from benchmarks.rivals.side import CAP, InProcess, Setup, Written
from benchmarks.rivals.tasks import Document, compact


class OpenVino(InProcess):
    """Options: `gguf`, the file."""

    def __init__(self, setup: Setup) -> None:
        file = Path(setup.rivals) / "llama" / setup.options["gguf"]
        self._pipeline = openvino_genai.LLMPipeline(str(file.resolve()), "CPU", INFERENCE_NUM_THREADS=setup.threads)

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        return [self._one(document) for document in documents]

    def _one(self, document: Document) -> Written:
        config = openvino_genai.GenerationConfig()
        config.do_sample, config.max_new_tokens = False, CAP
        config.structured_output_config = openvino_genai.StructuredOutputConfig(json_schema=compact(document.schema))
        history = openvino_genai.ChatHistory(document.messages)
        found = self._pipeline.generate(history, config)
        return Written(found.texts[0], found.perf_metrics.get_num_generated_tokens())
