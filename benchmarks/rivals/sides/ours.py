"""PastaLang in this process, and `pasta serve`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pastalang
from benchmarks.rivals.side import InProcess, Server, Setup, Written
from benchmarks.rivals.tasks import Document, compact
from pastalang.serve.tasks import task_of
from pastalang.serve.wire import read_chat

GREEDY = pastalang.Sampling(temperature=0)


def body_of(document: Document) -> dict[str, Any]:
    """The request as clients of OpenAI write it."""
    return {
        "model": "model", "messages": document.messages, "temperature": 0,
        "response_format": {
            "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": document.schema},
        },
    }  # fmt: skip


def program_of(document: Document) -> tuple[Any, Mapping[str, Any]]:
    """What `pasta serve` makes of the request: a program, kept for equal schemas, and its inputs."""
    task = task_of(read_chat(body_of(document)))
    return task.program, task.inputs


class Ours(InProcess):
    """Options: `mode`, `drafts`, `dtype`, and `host` with the GGUF file that it reads."""

    def __init__(self, setup: Setup) -> None:
        options = dict(setup.options)
        self._mode = pastalang.Mode(options.pop("mode", "strict"))
        self._options: dict[str, Any] = {
            "sampling": GREEDY, "drafts": options.pop("drafts", "off"), "on_truncated": "keep", "any_mode": True,
        }  # fmt: skip
        source: str | Path = setup.model
        if "gguf" in options:
            source = Path(setup.rivals) / "llama" / options.pop("gguf")
        else:
            options.setdefault("dtype", "float32")
        self.engine = pastalang.Engine.load(source, adapter=None, device="cpu", **options)

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        return [_written(one) for one in self.results(documents, at_once)]

    def results(self, documents: Sequence[Document], at_once: int) -> list[pastalang.Result]:
        if at_once == 1:
            return [self._run(document) for document in documents]
        found: dict[int, pastalang.Result] = {}
        for kind in dict.fromkeys(document.kind for document in documents):
            at = [number for number, document in enumerate(documents) if document.kind == kind]
            plan = self._plan(documents[at[0]])
            inputs = (dict(program_of(documents[number])[1]) for number in at)
            results = self.engine.map(plan, inputs, in_flight=at_once, **self._options)
            found.update(zip(at, results, strict=True))
        return [found[number] for number in range(len(documents))]

    def _run(self, document: Document) -> pastalang.Result:
        return self.engine.run(self._plan(document), dict(program_of(document)[1]), **self._options)

    def _plan(self, document: Document) -> pastalang.Plan:
        return self.engine.plan(program_of(document)[0], mode=self._mode)


def _written(result: pastalang.Result) -> Written:
    usage = result.usage
    return Written(compact(result.value), usage.output_tokens, usage.forward_passes)


class Serve:
    """`pasta serve`, asked by as many clients as documents may go at once."""

    def __init__(self, setup: Setup) -> None:
        command = [sys.executable, "-c", "from pastalang.cli.main import main; main()", "serve", setup.model]
        self._server = Server([*command, "--name", "model", "--dtype", "float32", "--adapter", "none"])

    def prepare(self, at_once: int) -> None:
        pass

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        with ThreadPoolExecutor(at_once) as clients:
            return list(clients.map(self._ask, documents))

    def _ask(self, document: Document) -> Written:
        found = self._server.ask("/v1/chat/completions", body_of(document))
        return Written(found["choices"][0]["message"]["content"], found["usage"]["completion_tokens"])

    def processes(self) -> Sequence[int]:
        return (self._server.process,)

    def close(self) -> None:
        self._server.close()
