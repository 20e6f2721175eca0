"""The tokens with which a request begins, whatever will be drawn: what may be kept from an earlier one."""

from __future__ import annotations

from pastalang.plan.plan import InputText, Text, TurnEnd, TurnStart
from pastalang.runtime.inputs import part_of, text_of
from pastalang.runtime.leads import fed_text
from pastalang.runtime.scheduler.request import RequestState


def leading_tokens(request: RequestState) -> tuple[int, ...]:
    """What the root is fed before anything is forked, drawn or joined."""
    tokens: list[int] = []
    encoder, turns = request.tokens.encoder, request.tokens.turns
    for segment in request.plan.branches[0].segments:
        match segment:
            case TurnStart(index=index):
                tokens += encoder.control(turns[index].opening)
            case TurnEnd(index=index):
                tokens += encoder.control(turns[index].closing)
            case Text(text=text, shown=shown):
                tokens += encoder.text(fed_text(segment)) if shown else encoder.control(text)
            case InputText(path=(name, *rest)):
                tokens += encoder.text(text_of(part_of(request.values[name], tuple(rest))))
            case _:
                break
    return tuple(tokens)
