"""A program that is right but cannot be planned: which place, why, and what to change."""

from __future__ import annotations

from pastalang.errors import PastaError
from pastalang.source import Span


class PlanError(PastaError):
    """`headline` stands alone; `help` is advice. The span points into the source of the program."""

    def __init__(self, headline: str, span: Span, *, help: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.span = span
        self.help = help
