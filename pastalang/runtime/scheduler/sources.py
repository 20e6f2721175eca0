"""The texts that a hole may copy from: a branch comes in, texts by name go out."""

from __future__ import annotations

from typing import Any

from pastalang.runtime.scheduler.branch import BranchState
from pastalang.runtime.scheduler.transcript import (
    Field,
    WrittenField,
)


def sources_of(branch: BranchState) -> dict[str, str]:
    """The texts that a span may be copied from: inputs, elements of the loops around this place, what is seen."""
    sources: dict[str, str] = {}
    for name, value in {**branch.request.values, **names_here(branch)}.items():
        _add_texts(sources, name, value)
    for written in _fields_seen(branch):
        sources.setdefault(written.path, written.text)
    return sources


def names_here(branch: BranchState) -> dict[str, Any]:
    """The elements by name: of the fan-outs around the branch, and of the lists that it goes over itself."""
    names = dict(branch.names)
    for frame in branch.frames:
        if frame.repeat is not None and frame.elements is not None:
            names[frame.repeat.item] = frame.elements[frame.item]
    return names


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
