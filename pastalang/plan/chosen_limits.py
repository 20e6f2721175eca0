"""The limits that the planner chose because the program names none, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from pastalang.diagnostics.suggest import first_of
from pastalang.plan.branches import Form, Hole, Repeat
from pastalang.plan.build import build_plan
from pastalang.plan.builder import PlanError
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program import types as t
from pastalang.program.program import Program
from pastalang.program.visit import arms_of
from pastalang.values.describe import counted
from pastalang.values.lengths import declared_max_tokens, longest_string, max_length

_SHOWN = 8  # fields in one note


def chosen_limits(program: Program) -> tuple[str, ...]:
    """The notes of all templates. Nothing is said of a template that cannot be planned."""
    notes: dict[str, None] = {}
    for template in program.templates.values():
        with suppress(PlanError):
            notes |= dict.fromkeys(limit_notes(build_plan(template, program)))
    return tuple(notes)


def limit_notes(plan: Plan) -> tuple[str, ...]:
    """A note for each number of items or tokens, with the fields that got it. Lists come first."""
    items: dict[int, list[str]] = {}
    tokens: dict[int, list[str]] = {}
    for _, _, segment in walk_plan(plan):
        match segment:
            case Repeat(has_default_maximum=True):
                items.setdefault(segment.maximum, []).append(segment.field)
            case Hole() if segment.form is not Form.THOUGHT and may_be_cut(segment, plan):
                tokens.setdefault(segment.max_tokens, []).append(segment.field)
    return (*_notes(items, "item", "maximum"), *_notes(tokens, "token", "limit of tokens"))


def may_be_cut(hole: Hole, plan: Plan) -> bool:
    """Whether the planner chose the limit of a hole, and a value could be longer. Only absurd numbers could, and short
    strings of control characters."""
    types, quoted = dict(plan.types), hole.form is Form.JSON
    is_whole = declared_max_tokens(hole.type) is not None or not isinstance(hole.type, t.Union)
    for arm in (hole.type,) if is_whole else arms_of(hole.type, types):
        if isinstance(arm, t.Integer | t.Number):
            continue
        longest = longest_string(arm) if isinstance(arm, t.String) else max_length(arm, types, quoted=quoted)
        if declared_max_tokens(arm) is None and (longest is None or longest > hole.max_tokens):
            return True
    return False


def _notes(fields_by_limit: dict[int, list[str]], unit: str, missing: str) -> Iterator[str]:
    for limit, fields in sorted(fields_by_limit.items(), reverse=True):
        shown = first_of(list(dict.fromkeys(fields)), _SHOWN)
        yield f"at most {counted(limit, unit)}, because no {missing} is set: {shown}"
