"""The programs of a folder as endpoints: each template has a name, inputs, an answer, and a schema of both."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pastalang.compiler import load
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.failures import PastaError
from pastalang.interop import schema_of
from pastalang.program.program import InputKind, InputType, JsonBody, ListOf, OneOf, Program, RecordOf, Template
from pastalang.serve.errors import RequestError
from pastalang.serve.tasks import moved
from pastalang.values.json import write_json

_LOG: Final = logging.getLogger("pastalang.serve")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One template of one file."""

    name: str
    program: Program
    template: Template

    @property
    def inputs_schema(self) -> dict[str, Any]:
        inputs = self.template.inputs
        return {
            "type": "object",
            "properties": {input.name: _schema(ListOf(input.type) if input.each else input.type) for input in inputs},
            "required": [input.name for input in inputs if input.default is None],
            "additionalProperties": False,
        }

    @property
    def answer_schema(self) -> dict[str, Any]:
        """Of the value: a JSON answer by its type, running text as the object of its fields, a stack as a list."""
        found: dict[str, Any] = {"type": "object"}
        if isinstance(self.template.messages[-1].body, JsonBody):
            found = json.loads(write_json(schema_of(self.program, template=self.name)))
        if any(input.each for input in self.template.inputs):
            return {"type": "array", "items": moved(found, "#/items")}
        return found


class Programs:
    """The programs of a folder, read once, or whenever a file has changed."""

    def __init__(self, folder: Path | None, *, reload: bool) -> None:
        self._folder = folder
        self._reload = reload
        self._seen: dict[Path, int] = {}
        self._endpoints: dict[str, Endpoint] = {}
        if folder is not None:
            self._read(strict=True)

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        if self._reload and self._folder is not None and self._times() != self._seen:
            self._read(strict=False)
        return self._endpoints

    def find(self, name: str) -> Endpoint:
        """Raises `RequestError`. A name is only looked up, so none leads out of the folder."""
        endpoints = self.endpoints
        if name not in endpoints:
            hint = did_you_mean(name, endpoints)
            raise RequestError(404, f"there is no program `{name}`" + (f"; did you mean `{hint}`?" if hint else ""))
        return endpoints[name]

    def _times(self) -> dict[Path, int]:
        assert self._folder is not None
        found = {}
        for path in sorted(self._folder.rglob("*.pasta")):
            with suppress(FileNotFoundError):  # removed meanwhile, or a link that leads nowhere
                found[path] = path.stat().st_mtime_ns
        return found

    def _read(self, *, strict: bool) -> None:
        """Raises `PastaError` if `strict`; else a file with mistakes keeps its endpoints as they were."""
        self._seen, found = self._times(), {}
        served = {one.program.source.name for one in self._endpoints.values()}
        for path in sorted(self._seen, key=lambda path: str(path) not in served):  # what is served keeps its name
            try:
                program = load(path)
            except PastaError as problem:
                if strict:
                    raise
                _LOG.error("%s is not read again: %s", path.name, problem)
                kept = {name: one for name, one in self._endpoints.items() if one.program.source.name == str(path)}
                found.update(kept)
                continue
            for name, template in program.templates.items():
                if name in found:
                    first = found[name].program.source.name
                    twice = f"two programs have a template `{name}`, {first} and {path}: rename one of them"
                    if strict:
                        raise PastaError(twice)
                    _LOG.error("%s; that of %s is not served", twice, path.name)
                    continue
                found[name] = Endpoint(name, program, template)
        self._endpoints = found


def _schema(type: InputType) -> dict[str, Any]:
    match type:
        case InputKind.TEXT:
            return {"type": "string"}
        case InputKind.MESSAGES:
            roles = {"type": "string", "enum": ["user", "assistant"]}
            return {"type": "array", "items": _object({"role": roles, "content": {"type": "string"}})}
        case InputKind():
            return {"type": type.value}
        case OneOf(options=options):
            return {"type": "string", "enum": list(options)}
        case ListOf(item=item):
            return {"type": "array", "items": _schema(item)}
        case RecordOf(fields=fields):
            return _object({name: _schema(part) for name, part in fields})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
