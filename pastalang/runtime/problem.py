"""What a validator still objects to when all attempts are used up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` as in `lines[2].total`, empty for the whole answer; `text` is the last one; `document` counts from 0."""

    where: str
    reason: str
    text: str
    attempts: int
    document: int = 0

    def __str__(self) -> str:
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        return f"{self.where or 'the answer'}: {self.reason} (decoded {times}, last as {_short(self.text)})"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"
