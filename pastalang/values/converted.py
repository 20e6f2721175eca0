"""What an import of somebody else's types gives: a hole type, and notes on what it does not say; or a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pastalang.errors import PastaError
from pastalang.program import types as t
from pastalang.values.mismatch import Mismatch


@dataclass(frozen=True, slots=True)
class Note:
    """What the type does not say, and the model checks (or does) when the value is finished."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


@dataclass(frozen=True)
class Converted:
    """A hole type with the recursive types it names."""

    type: t.Type
    types: Mapping[str, t.Type]
    notes: tuple[Note, ...] = ()


class NotExpressible(PastaError):
    """Parts of a model or a schema that no hole type can say, each with its path."""

    def __init__(self, name: str, problems: Iterable[Mismatch]) -> None:
        self.name = name
        self.problems = tuple(problems)
        super().__init__(f"{name} cannot be expressed:\n" + "\n".join(f"  {problem}" for problem in self.problems))
