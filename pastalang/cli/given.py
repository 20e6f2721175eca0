"""Inputs on the command line: `name=value` pairs and a JSON file come in, values by name go out, checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pastalang.cli.refused import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused, refused_for
from pastalang.errors import InputError
from pastalang.plan.plan import Plan
from pastalang.program.program import Input, InputKind
from pastalang.runtime.inputs import bind_inputs


def read_inputs(plan: Plan, pairs: list[str], file: Path | None) -> dict[str, Any]:
    """Every input of the plan with its value, before any model is loaded. Raises `Refused`."""
    try:
        return bind_inputs(plan, _read_given(plan.inputs, pairs, file))
    except InputError as problem:
        raise refused_for(problem) from problem


def _read_given(declared: tuple[Input, ...], pairs: list[str], file: Path | None) -> dict[str, Any]:
    """A text input is taken as it is written, everything else is JSON."""
    values: dict[str, Any] = {} if file is None else _read_object(file)
    types = {input.name: input for input in declared}
    for pair in pairs:
        name, found, text = pair.partition("=")
        if not found:
            raise Refused(f"--input takes NAME=VALUE, not {pair!r}", EXIT_USAGE)
        if text.startswith("@"):
            text = _read_text(Path(text[1:]))
        known = types.get(name)
        is_text = known is None or (known.type is InputKind.TEXT and not known.each)
        values[name] = text if is_text else _parse(name, text)
    return values


def _parse(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise Refused(f"the input `{name}` has to be JSON, and {text[:60]!r} is not", EXIT_USAGE) from problem


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read_text(path))
    except ValueError as problem:
        raise Refused(f"{path} is not JSON: {problem}", EXIT_PROBLEMS) from problem
    if not isinstance(value, dict):
        raise Refused(f"{path} has to hold one JSON object, with the inputs by name", EXIT_PROBLEMS)
    return value


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Refused(f"{path} could not be read: {problem}", EXIT_UNREADABLE) from problem
