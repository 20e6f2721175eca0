"""Tries the types of a program before there is a tokenizer: can each of its holes be enforced at all?

The guides are compiled for a vocabulary of single bytes. What cannot be enforced with that cannot be enforced with any
tokenizer. Plain values always can, so only structures and schemas are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.errors import PastaError
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Form, Hole, Plan
from pastalang.plan.structure import walk_plan
from pastalang.program import types as t
from pastalang.program.program import Program, Template
from pastalang.runtime.constraints.compile import compile_guide, is_plain
from pastalang.runtime.constraints.guide import GuideError
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import Vocabulary
from pastalang.values.quotable import quotes

_END = 256
_BYTES = Vocabulary((*(bytes((byte,)) for byte in range(256)), None), frozenset({_END}))


def find_unenforceable(program: Program) -> tuple[Diagnostic, ...]:
    """A finding for every hole of the program that no model could be kept to."""
    tokens = Tokens(_BYTES)
    return tuple(found for template in program.templates.values() for found in _in_template(template, program, tokens))


def _in_template(template: Template, program: Program, tokens: Tokens) -> Iterator[Diagnostic]:
    try:
        plan = build_plan(template, program)
    except PastaError:  # reported where the plan is asked for
        return
    types, tried = dict(plan.types), set[t.Type]()
    for _, _, hole in walk_plan(plan):
        if isinstance(hole, Hole) and hole.type not in tried:
            tried.add(hole.type)
            reason = None if _is_certain(hole, types) else _refusal(hole, plan, tokens)
            if reason is not None:
                yield Diagnostic("not-enforceable", f"{_where(hole)}{reason}", program.source, hole.span)


def _is_certain(hole: Hole, types: Mapping[str, t.Type]) -> bool:
    """Also for values that quote: their texts are not known yet."""
    return hole.form not in (Form.JSON, Form.TEXT) or is_plain(hole.type, types) or quotes(hole.type, types)


def _refusal(hole: Hole, plan: Plan, tokens: Tokens) -> str | None:
    try:
        compile_guide(hole.type, form=hole.form, follow="", vocabulary=tokens, types=dict(plan.types))
    except GuideError as problem:
        return str(problem)
    return None


def _where(hole: Hole) -> str:
    return f"`{hole.field}`: " if hole.field else ""
