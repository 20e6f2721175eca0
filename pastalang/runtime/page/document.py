"""What the page of a run shows, as plain data: lanes over forward passes, forks, joins, waits, the answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lane:
    """One branch instance. `parent` and `forked_in` (a pass, from 1) say where it came from; the root has neither."""

    id: int
    name: str
    parent: int | None
    forked_in: int | None


@dataclass(frozen=True, slots=True)
class Cell:
    """What one lane was fed or sampled for one pass.

    A sampled token stands in the pass whose logits it was drawn from; forced text in the pass that fed it.
    `probability` is None for forced text. `position` is that of the (first) token.
    """

    lane: int
    forward_pass: int
    text: str
    tokens: int
    probability: float | None
    position: int

    @property
    def is_forced(self) -> bool:
        return self.probability is None


@dataclass(frozen=True, slots=True)
class JoinMark:
    """From pass `forward_pass` on, `lane` sees the lanes it joined; it waited for them since pass `since`."""

    lane: int
    joined: tuple[int, ...]
    since: int
    forward_pass: int


@dataclass(frozen=True, slots=True)
class Sight:
    """`lane` saw, at its end, the first `tokens` tokens of `seen`."""

    lane: int
    seen: int
    tokens: int


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A stretch of the assembled answer and the lane that wrote it."""

    text: str
    lane: int
    forced: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """One number worth a glance: `5.2x`, "fewer passes than left to right"."""

    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class PageDocument:
    title: str
    subtitle: str
    figures: tuple[Figure, ...]
    passes: int
    sequential_passes: int
    lanes: tuple[Lane, ...]
    cells: tuple[Cell, ...]
    joins: tuple[JoinMark, ...]
    sights: tuple[Sight, ...]
    answer: tuple[AnswerPiece, ...]
