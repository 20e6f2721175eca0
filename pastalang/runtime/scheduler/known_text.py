"""The tokens of what is known before the model writes: turns, texts, inputs, how items begin and lists end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, assert_never

from pastalang.plan.branches import Arm, InputText, ItemNumber, KnownText, Place, Text, TurnEnd, TurnStart
from pastalang.plan.machine import Closing, Forced, Opening
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.encoder import Encoder
from pastalang.values.text import message_texts


class Known(NamedTuple):
    """`text` is None for what is no part of the answer."""

    tokens: tuple[int, ...]
    text: str | None = None


def known_text(
    segment: Forced, tokens: BoundPlan, *, named: Callable[[str], Any], items: tuple[int, ...]
) -> Known:  # fmt: skip
    """`named` gives what a name of an input stands for here, `items` are the numbers of the items around it."""
    encoder = tokens.encoder
    match segment:
        case TurnStart(index=index):
            return Known(encoder.control(tokens.turns[index].opening))
        case TurnEnd(index=index):
            return Known(encoder.control(tokens.turns[index].closing))
        case Text(text=text, shown=False):
            return Known(encoder.control(text))
        case Text(text=text):
            return Known(encoder.text(segment.fed_text), text)
        case _ if isinstance(segment, KnownText):
            texts = texts_of(segment, named=named, items=items)
            return Known(tuple(token for text in texts for token in encoder.text(text)), "".join(texts))
        case Opening() | Closing():
            return Known(option_tokens(segment, encoder) or (), segment.text)
        case Place():
            return Known(())
        case _:
            assert_never(segment)


def texts_of(segment: KnownText, *, named: Callable[[str], Any], items: tuple[int, ...]) -> tuple[str, ...]:
    """What a run says in this place, in the pieces that are encoded on their own."""
    match segment:
        case Text(text=text):
            return (text,)
        case InputText(piece=piece):
            return tuple(message_texts([piece], named))
        case ItemNumber():
            return (str(items[-1] + 1),)
        case _:
            assert_never(segment)


def option_tokens(option: Arm | Opening | Closing, encoder: Encoder) -> tuple[int, ...] | None:
    """What the model is fed for an option. None: the end of its turn, which is sampled and never fed.

    Item numbers are encoded on their own, so that items look alike.
    """
    match option:
        case Arm():
            return encoder.text(option.fed_text)
        case Opening(parts=parts, item=item):
            fed = (str(item + 1) if isinstance(part, ItemNumber) else part.fed_text for part in parts)
            return tuple(token for text in fed for token in encoder.text(text))
        case Closing(repeat=repeat, items=items):
            end = repeat.fed_end(is_empty=items == 0)
            return None if end is None else encoder.text(end)
        case _:
            assert_never(option)
