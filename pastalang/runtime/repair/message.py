"""What a field that is decoded again is told first: the answer and an objection come in, forced text goes out.

    {                                       what it sees anyway
      "brand": "acme" // not accepted: a brand begins with a capital letter
      "brand":                              and here it goes on

It reads as JSON with a comment, which models know well. It is data: no control token comes of it, it is bounded,
it stands on one line, and it is no part of the answer.
"""

from __future__ import annotations

import re
from typing import Final

from pastalang.values.json import Place

MAX_REASON: Final = 160
MAX_VALUE: Final = 80


def objection_text(text: str, place: Place, reason: str) -> str:
    return _lead(text, place, f"not accepted: {_on_one_line(reason, MAX_REASON)}")


def doubt_text(text: str, place: Place) -> str:
    """A greedy model that is told nothing new would say the same again, so it is told that it was unsure."""
    return _lead(text, place, "not sure, once more:")


def _lead(text: str, place: Place, comment: str) -> str:
    key = text[text.rfind("\n", 0, place.start) + 1 : place.start]
    return f"{_on_one_line(text[place.start : place.end], MAX_VALUE)} // {comment}\n{key}"


def _on_one_line(text: str, limit: int) -> str:
    flat = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"
