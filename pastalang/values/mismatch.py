"""A part of a value that does not fit its type: its path and the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mismatch:
    """`path` leads from the whole value to the part that does not fit: `("lines", 2, "total")`."""

    path: tuple[str | int, ...]
    reason: str

    @property
    def where(self) -> str:
        """The path as people write it, `lines[2].total`; empty for the whole value."""
        return path_text(self.path)

    def below(self, step: str | int) -> Mismatch:
        """The same mismatch, with a path that begins one level further out."""
        return Mismatch((step, *self.path), self.reason)

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.path else self.reason


def path_text(path: Iterable[str | int]) -> str:
    """The path as people write it. `[]` is any item, `{}` any value of a map, `#...` a JSON pointer."""
    text = ""
    for step in path:
        if step in ("[]", "{}") or (isinstance(step, str) and not text and step.startswith("#")):
            text += str(step)
        elif isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[^\W\d]\w*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text
