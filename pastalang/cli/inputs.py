"""Read the inputs of `pasta run`: NAME=VALUE pairs and a JSON file.

All problems are reported together, and show values as the user wrote them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.output import reason_of
from pastalang.cli.standard_input import NAME, is_standard_input, text_of_standard_input
from pastalang.errors import InputError
from pastalang.plan.plan import Plan
from pastalang.program.program import Input, InputKind, InputType, OneOf
from pastalang.runtime.inputs import bind_inputs
from pastalang.values.json import JsonValue, NotJson, parse_json

LONGEST = 60  # characters of a value that are shown


def read_inputs(plan: Plan, pairs: list[str], file: Path | None) -> dict[str, Any]:
    """The inputs of the plan by name, checked. Raises `Refused` with every problem.

    A pair overrides the file. The value of a text input is the text itself; other values are JSON.
    """
    reading = _Reading({input.name: input for input in plan.inputs})
    is_complete = file is None or reading.take_file(file)
    for pair in pairs:
        reading.take_pair(pair)
    readable = tuple(input for input in plan.inputs if input.name not in reading.failed)
    try:
        if is_complete:
            return reading.checked(bind_inputs(replace(plan, inputs=readable), reading.values, spell=_spelled))
    except InputError as problem:
        reading.report(str(problem), EXIT_PROBLEMS)
    return reading.checked({})


def files_of(pairs: list[str]) -> list[Path]:
    """The files that pairs of the form NAME=@FILE name."""
    texts = (pair.partition("=")[2] for pair in pairs)
    return [Path(text[1:]) for text in texts if text.startswith("@")]


@dataclass
class _Reading:
    """The values read so far, the names whose values could not be read (`failed`), and every problem."""

    declared: Mapping[str, Input]
    values: dict[str, Any] = field(default_factory=dict)
    paired: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    problems: list[tuple[str, int]] = field(default_factory=list)

    def report(self, problem: str, code: int) -> None:
        self.problems.append((problem, code))

    def checked(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the values. Raises `Refused` if there was a problem; the highest exit code wins."""
        if not self.problems:
            return values
        code = max(code for _, code in self.problems)
        word = "bad_inputs" if code == EXIT_PROBLEMS else None
        raise Refused("\n".join(dict.fromkeys(problem for problem, _ in self.problems)), code, word=word)

    def take_file(self, path: Path) -> bool:
        """Returns False if the file holds no inputs."""
        try:
            found = parse_json(_read_text(path))
        except Refused as refused:
            self.report(refused.message, refused.code)
            return False
        except NotJson as problem:
            self.report(f"{_shown(path)}: {problem}", EXIT_PROBLEMS)
            return False
        if not isinstance(found, dict):
            self.report(f"{_shown(path)} has to hold one JSON object with the inputs by name", EXIT_PROBLEMS)
            return False
        for name, value in found.items():
            self.take(name, value)
        return True

    def take_pair(self, pair: str) -> None:
        name, found, text = pair.partition("=")
        if not found:
            self.failed.add(name)
            return self.report(f"--input takes NAME=VALUE, not `{_shortened(pair)}`", EXIT_USAGE)
        if name in self.paired:
            return self.report(f"the input `{name}` is given twice", EXIT_PROBLEMS)
        self.paired.add(name)
        self.values.pop(name, None)
        try:
            written = _read_text(Path(text[1:])) if text.startswith("@") else text
        except Refused as refused:
            self.failed.add(name)
            return self.report(refused.message, refused.code)
        known = self.declared.get(name)
        if known is None or (_is_text(known.type) and not known.each):
            self.failed.discard(name)
            self.values[name] = written
            return None
        return self.take_json(name, written)

    def take_json(self, name: str, text: str) -> None:
        try:
            return self.take(name, parse_json(text))
        except NotJson as problem:
            self.failed.add(name)
            is_text = problem.reason.startswith("not JSON")
            shown = f" has to be JSON, and `{_shortened(text)}` is not" if is_text else f": {problem}"
            return self.report(f"the input `{name}`{shown}", EXIT_PROBLEMS)

    def take(self, name: str, value: JsonValue) -> None:
        try:
            self.values[name] = _plain(value)
            self.failed.discard(name)
        except _TooLarge as problem:
            self.failed.add(name)
            self.report(f"the number {problem} in `{name}` is too large: numbers end near 1.8e308", EXIT_PROBLEMS)


class _TooLarge(Exception):
    """A number beyond the range of floats, as the user wrote it."""


def _is_text(type: InputType) -> bool:
    return type is InputKind.TEXT or isinstance(type, OneOf)


def _plain(value: JsonValue) -> Any:
    """The value as a caller of the library passes it: decimals become floats."""
    match value:
        case Decimal():
            if math.isinf(float(value)):
                raise _TooLarge(str(value).lower().replace("e+", "e"))
            return float(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value


def _spelled(value: Any) -> str:
    """The value in JSON, for messages."""
    return _shortened(json.dumps(value, ensure_ascii=False))


def _shown(path: Path) -> Path | str:
    return NAME if is_standard_input(path) else path


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _read_text(path: Path) -> str:
    if is_standard_input(path):
        return text_of_standard_input()
    try:
        return path.read_text(encoding="utf-8-sig")  # drops a byte order mark
    except FileNotFoundError as problem:
        raise Refused(f"there is no file {path}", EXIT_UNREADABLE) from problem
    except OSError as problem:
        raise Refused(f"{path} could not be read: {reason_of(problem)}", EXIT_UNREADABLE) from problem
    except UnicodeDecodeError as problem:
        raise Refused(f"{path} could not be read: it is not UTF-8 text", EXIT_UNREADABLE) from problem
