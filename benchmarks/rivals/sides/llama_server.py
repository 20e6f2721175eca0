"""llama.cpp's server, under the grammar that it makes of the schema, without the white space that this allows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.rivals.side import CAP, Server, Setup, Written
from benchmarks.rivals.tasks import Document, compact

CELLS = 2048  # for each request at once


class LlamaServer:
    """Options: `gguf`, the file; `is_compact`, False for the white space that its schemas allow."""

    def __init__(self, setup: Setup) -> None:
        self._folder = Path(setup.rivals) / "llama"
        self._setup, self._slots = setup, 1
        self._is_compact = setup.options.get("is_compact", True)
        self._grammars: dict[str, str] = {}
        self._server = self._started(1)

    def _started(self, slots: int) -> Server:
        return Server([
            str(self._folder / "llama-server"), "--model", str(self._folder / self._setup.options["gguf"]),
            "--parallel", str(slots), "--ctx-size", str(CELLS * slots), "--threads", str(self._setup.threads),
            "--threads-batch", str(self._setup.threads), "--host", "127.0.0.1",
        ])  # fmt: skip

    def prepare(self, at_once: int) -> None:
        if at_once != self._slots:
            self._server.close()
            self._server, self._slots = self._started(at_once), at_once

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        for document in documents:
            self._grammar(document)
        with ThreadPoolExecutor(at_once) as clients:
            return list(clients.map(self._ask, documents))

    def _ask(self, document: Document) -> Written:
        body: dict[str, Any] = {"messages": document.messages, "temperature": 0, "max_tokens": CAP}
        if self._is_compact:
            body["grammar"] = self._grammar(document)
        else:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": document.schema},
            }
        found = self._server.ask("/v1/chat/completions", body)
        return Written(found["choices"][0]["message"]["content"], found["usage"]["completion_tokens"])

    def _grammar(self, document: Document) -> str:
        """Asked for once: the server repeats the grammar that it has made of a schema."""
        key = compact(document.schema)
        if key not in self._grammars:
            found = self._server.ask("/completion", {"prompt": "", "n_predict": 1, "json_schema": document.schema})
            written = found["generation_settings"]["grammar"]
            self._grammars[key] = re.sub(r"^space ::= .*$", 'space ::= ""', written, flags=re.MULTILINE)
        return self._grammars[key]

    def processes(self) -> Sequence[int]:
        return (self._server.process,)

    def close(self) -> None:
        self._server.close()
