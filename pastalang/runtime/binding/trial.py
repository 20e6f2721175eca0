"""Tries the types of a program before it runs: can each of its holes be enforced at all?

Without a tokenizer, the guides are compiled for a vocabulary of single bytes. What cannot be enforced with that cannot
be enforced with any tokenizer. Plain values always can, so only structures and schemas are tried. With a tokenizer, all
values are, in the room that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.failures import PastaError
from pastalang.plan.branches import Form, Hole
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program import types as t
from pastalang.program.program import Program
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.binding.whitespace import move_whitespace
from pastalang.runtime.constraints.compile import compile_guide, is_plain
from pastalang.runtime.constraints.guide import GuideError
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import Vocabulary, vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.values.quotes import quotes

_END = 256
_BYTES = Vocabulary((*(bytes((byte,)) for byte in range(256)), None), frozenset({_END}))


def find_unenforceable(program: Program) -> tuple[Diagnostic, ...]:
    """A finding for every hole of the program that no model could be kept to."""
    tokens = Tokens(_BYTES)

    def refusal(hole: Hole, plan: Plan) -> str | None:
        if is_plain(hole.type, dict(plan.types)):
            return None
        try:
            compile_guide(hole.type, form=hole.form, follow="", vocabulary=tokens, types=dict(plan.types))
        except GuideError as problem:
            return str(problem)
        return None

    return tuple(_findings(program, refusal))


def find_unwritable(program: Program, tokenizer: Any) -> tuple[Diagnostic, ...]:
    """A finding for every hole of which a model with this tokenizer could write no value."""
    encoder = Encoder(tokenizer)
    guide_of = GuideCache(Tokens(vocabulary_of(tokenizer, ends=encoder.ends, encode=encoder.text)))

    def refusal(hole: Hole, plan: Plan) -> str | None:
        try:
            guide_of(hole, plan, {}).start(max_tokens=hole.max_tokens)
        except GuideError as problem:
            return str(problem)
        return None

    return tuple(_findings(program, refusal, encoder))


def _findings(
    program: Program, refusal: Callable[[Hole, Plan], str | None], encoder: Encoder | None = None
) -> Iterator[Diagnostic]:
    for template in program.templates.values():
        try:
            plan = build_plan(template, program)
        except PastaError:  # reported where the plan is asked for
            continue
        bound = plan if encoder is None else move_whitespace(plan, encoder)
        tried = set[tuple[t.Type, int | None]]()
        for _, _, hole in walk_plan(bound):
            if not isinstance(hole, Hole) or _is_open(hole, dict(plan.types)):
                continue
            case = hole.type, None if encoder is None else hole.max_tokens
            reason = None if case in tried else refusal(hole, bound)
            tried.add(case)
            if reason is not None:
                yield Diagnostic("not-enforceable", f"{_where(hole)}{reason}", program.source, hole.span)


def _is_open(hole: Hole, types: Mapping[str, t.Type]) -> bool:
    """Whether the text is the model's own, or quotes texts that are not known yet."""
    return hole.form not in (Form.JSON, Form.TEXT) or quotes(hole.type, types)


def _where(hole: Hole) -> str:
    return f"`{hole.field}`: " if hole.field else ""
