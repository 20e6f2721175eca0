"""What a model carries of what plans may ask for. transformers carries everything; other hosts say what they do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pastalang.plan.branches import Mode, Placement
from pastalang.plan.plan import Plan
from pastalang.runtime.errors import BadInputs


@dataclass(frozen=True, slots=True)
class Carried:
    """`placement` is the only one that is carried, `rows` and `drafts` are the most of a step. None: no limit.

    `undoes_steps`: a step that failed has changed nothing. Otherwise the memory is empty afterwards.
    """

    host: str = "transformers"
    placement: Placement | None = None
    rows: int | None = None
    drafts: int | None = None
    undoes_steps: bool = True

    def check_mode(self, mode: Mode) -> None:
        """Raises `BadInputs` for a mode that the host does not carry, before it is planned."""
        if self.placement is Placement.DENSE and mode is Mode.LOCKSTEP:
            raise BadInputs(
                f"{self.host} does not carry lock-step: values that see one another as they grow need gaps between "
                f"them; {self._otherwise}"
            )

    def check_placement(self, placement: Placement) -> None:
        """Raises `BadInputs` for one that the host does not carry."""
        if self.placement not in (None, placement):
            raise BadInputs(
                f"{self.host} carries {self.placement.value} plans only, where each value stands right behind what it "
                f'sees: leave out `placement="{placement.value}"`, or {self._otherwise}'
            )

    def check_plan(self, plan: Plan) -> None:
        """Raises `BadInputs` for a plan that the host does not carry."""
        if self.placement not in (None, plan.placement):
            raise BadInputs(
                f"{self.host} carries {self.placement.value} plans only, and this one has {plan.placement.value}: "
                f'build it with `placement="{self.placement.value}"`, or {self._otherwise}'
            )

    @property
    def _otherwise(self) -> str:
        return f'load the model without `host="{self.host}"`'


EVERYTHING: Final = Carried()
