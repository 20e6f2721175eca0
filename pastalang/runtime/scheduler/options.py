"""What a choice or a list may go on with, as tokens: a segment comes in, the options of its decision go out."""

from __future__ import annotations

from pastalang.plan.plan import Choose, ItemNumber, Repeat
from pastalang.runtime.leads import fed_end, fed_text
from pastalang.runtime.prompt import Encoder
from pastalang.runtime.scheduler.decide import Option


def arms_of(choose: Choose, encoder: Encoder) -> list[Option]:
    return [Option(arm.lead, encoder.text(fed_text(arm))) for arm in choose.arms]


def opening_of(repeat: Repeat, item: int, encoder: Encoder) -> Option:
    """How an item begins; numbers are tokens of their own, so that they look alike in every item."""
    lead = repeat.between if item else repeat.first
    number = str(item + 1)
    text = "".join(number if isinstance(part, ItemNumber) else part.text for part in lead)
    fed = (number if isinstance(part, ItemNumber) else fed_text(part) for part in lead)
    return Option(text, tuple(token for part in fed for token in encoder.text(part)))


def closing_of(repeat: Repeat, done: int, encoder: Encoder) -> Option:
    """How the list ends behind so many items."""
    text = repeat.empty if done == 0 and repeat.empty is not None else repeat.stop
    fed = fed_end(repeat, is_empty=done == 0)
    return Option("", None) if text is None or fed is None else Option(text, encoder.text(fed))
