"""The texts that a hole may copy from: a branch comes in, texts by name go out."""

from __future__ import annotations

from typing import Any

from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.written import (
    Field,
    WrittenField,
)


def sources_of(branch: BranchState) -> dict[str, str]:
    """The texts that a span may be copied from: inputs, and elements of the fan-outs around the branch."""
    sources: dict[str, str] = {}
    for name, value in {**branch.request.values, **branch.names}.items():
        _add_texts(sources, name, value)
    for written in _fields_seen(branch):
        sources.setdefault(written.path, written.text)
    return sources


def _add_texts(sources: dict[str, str], name: str, value: Any) -> None:
    if isinstance(value, str):
        sources[name] = value
    elif isinstance(value, dict):
        for key, part in value.items():
            _add_texts(sources, f"{name}.{key}", part)


def _fields_seen(branch: BranchState) -> list[Field]:
    return [
        written.field
        for seen in (*(seen.branch for seen in branch.view), branch)
        for written in seen.written
        if isinstance(written, WrittenField) and written.field.is_done
    ]
