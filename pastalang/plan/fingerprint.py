"""What identifies a plan: a plan comes in, short names of its program, its types and its policy go out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pastalang.plan.plan import Plan
from pastalang.plan.serialise import encode


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Each part changes with what it names and with nothing else: a comment changes the program alone."""

    program: str  # the source text
    types: str  # what the answer and its holes may hold
    policy: str  # mode, branches, views, positions

    def __str__(self) -> str:
        return f"{self.program}-{self.types}-{self.policy}"


def fingerprint(plan: Plan) -> Fingerprint:
    record = _without_places(encode(plan))
    types = {name: record.get(name) for name in ("inputs", "output", "types")}
    policy = {name: record.get(name) for name in ("version", "mode", "auto", "branches")}
    return Fingerprint(_name(plan.source_text), _name(types), _name(policy))


def _without_places(data: Any) -> Any:
    """Where something stands in the source is not part of what it is."""
    if isinstance(data, list):
        return [_without_places(item) for item in data]
    if isinstance(data, dict):
        return {key: _without_places(value) for key, value in data.items() if key != "span"}
    return data


def _name(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
