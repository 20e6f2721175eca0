"""The planner: builds a verified plan from a checked template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import TypeVar

from pastalang.failures import InputError
from pastalang.limits import ANSWER_POSITIONS, DEFAULT_LIMITS, TIGHT_LIMITS, WIDE_POSITIONS, DefaultLimits
from pastalang.plan.branches import (
    ROOT,
    Branch,
    BranchId,
    Hole,
    InputText,
    Mode,
    Overrun,
    Placement,
    Segment,
    Segments,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.builder import BranchBody, PlanBuilder, PlanError
from pastalang.plan.follow_text import with_follow_texts
from pastalang.plan.liveness import releases_of
from pastalang.plan.plan import Plan
from pastalang.plan.policies.threads import without_idle_joins
from pastalang.plan.policies.turns import write_stacked, write_turns
from pastalang.plan.structure import Origin, origins_of, walk
from pastalang.plan.token_bounds import max_tokens_of
from pastalang.plan.verify import verify
from pastalang.plan.views import views_of
from pastalang.program import types as t
from pastalang.program.program import AutoBody, JsonBody, Program, Role, Template
from pastalang.program.types import AutoPolicy, Type
from pastalang.program.visit import named_types
from pastalang.source import Span

E = TypeVar("E", bound=Enum)


def build_plan(
    template: Template,
    program: Program,
    *,
    mode: Mode | str = Mode.STRICT,
    overrun: Overrun | str = Overrun.CONTINUE,
    max_tokens: int | None = None,
    placement: Placement | str = Placement.GAPS,
) -> Plan:
    """The plan of a template. Raises `PlanError` where the program asks for something that no plan can give.

    `mode`, `overrun` and `placement` may be named. `max_tokens` limits the texts whose types set no limit.
    """
    if not isinstance(program, Program) or not isinstance(template, Template):
        raise TypeError(f"a plan is built for a template of a program, not for {template!r:.60} of {program!r:.60}")
    mode, overrun = _named(Mode, "mode", mode), _named(Overrun, "overrun", overrun)
    placement = _named(Placement, "placement", placement)
    builder = _written(template, program, mode, _default_limits(template, program, max_tokens), overrun)
    bodies = (
        replace(body, segments=without_idle_joins(body.segments, builder.threads)) for body in builder.branches
    )  # fmt: skip
    if placement is Placement.DENSE:
        _check_dense(mode, overrun, builder, template)
        bodies = (replace(body, reserve=0) for body in bodies)
    branches = complete(tuple(bodies), overrun=overrun)
    plan = Plan(
        template=template.name,
        mode=mode,
        inputs=template.inputs,
        branches=branches,
        output=_output(template),
        types=recursive_types(branches, program.types),
        source_name=program.source.name,
        source_text=program.source.text,
        history=template.history,
        auto=_auto(template),
        placement=placement,
    )
    verify(plan)
    return plan


def _check_dense(mode: Mode, overrun: Overrun, builder: PlanBuilder, template: Template) -> None:
    """Refuses what needs gaps: values that see one another as they grow, and room that a text announces."""
    if mode is Mode.LOCKSTEP:
        reason = "values in lock-step see one another as they grow, which needs gaps between them"
    elif overrun is not Overrun.CONTINUE:
        reason = f"without gaps nothing can be overrun, so there is nothing for `{overrun.value}` to decide"
    elif builder.threads:
        reason = "threads that the model opens stand in room that it announces"
    else:
        return
    raise PlanError(f"the placement cannot be dense: {reason}", template.span, help='use `placement="gaps"`')


def with_history(plan: Plan, roles: Sequence[Role]) -> Plan:
    """The plan of a run whose history has messages of these roles."""
    history = plan.history
    if history is None or not roles:
        return replace(plan, history=None)
    added = len(roles)
    earlier: list[Segment] = []
    for number, role in enumerate(roles):
        content = InputText((history.name, str(number), "content"), Span(0, 0))
        earlier += [TurnStart(role, history.turn + number), content, TurnEnd(role, history.turn + number)]

    def moved(segment: Segment) -> Segments:
        match segment:
            case TurnStart(index=index) | TurnEnd(index=index) if index >= history.turn:
                later = replace(segment, index=index + added)
                begins_here = isinstance(segment, TurnStart) and index == history.turn
                return (*earlier, later) if begins_here else (later,)
            case _:
                return (segment,)

    bodies = tuple(
        BranchBody(
            one.id, one.name, tuple(new for old in one.segments for new in moved(old)), one.reserve, one.lockstep
        )
        for one in plan.branches
    )
    branches = complete(bodies, overrun=plan.branches[0].overrun)
    return replace(plan, branches=branches, history=None)


def _named(kind: type[E], name: str, given: E | str) -> E:
    try:
        return kind(given)
    except ValueError as problem:
        known = ", ".join(one.value for one in kind)
        raise InputError(f"`{name}` is one of {known}, not {given!r:.60}") from problem


def _written(
    template: Template, program: Program, mode: Mode, defaults: DefaultLimits, overrun: Overrun = Overrun.CONTINUE
) -> PlanBuilder:
    builder = PlanBuilder(mode, template.name, program.types, program.spans, template.sampling, defaults, overrun)
    root = builder.start("")
    assert root == ROOT
    builder.finish(root, _write_template(builder, template))
    return builder


def _default_limits(template: Template, program: Program, max_tokens: int | None) -> DefaultLimits:
    """The roomiest limits with which the answer does not need too many positions. They are the same in every mode.

    Tighter limits never need more room, so an answer that needs as much with the tightest needs it with all.
    """
    rows = [row if max_tokens is None else row.with_texts_of(max_tokens) for row in (*DEFAULT_LIMITS, *TIGHT_LIMITS)]
    builder = _written(template, program, Mode.STRICT, rows[0])
    room = _answer_room(builder)
    wanted = [ANSWER_POSITIONS if builder.has_open_lists else WIDE_POSITIONS] * (len(DEFAULT_LIMITS) - 1)
    wanted += [WIDE_POSITIONS] * (len(rows) - len(wanted))
    if room <= wanted[0]:
        return rows[0]
    is_fixed = _answer_room(_written(template, program, Mode.STRICT, rows[-1])) == room
    for row, most in zip(rows[1:-1], wanted[1:-1], strict=True):
        if (room if is_fixed else _answer_room(_written(template, program, Mode.STRICT, row))) <= most:
            return row
    return rows[-1]


def _answer_room(builder: PlanBuilder) -> int:
    """The positions that the answer takes with everything at its limit, text counted in bytes."""
    body = next(one for one in reversed(builder.branches) if any(isinstance(part, TurnStart) for part in one.segments))
    start = max(index for index, part in enumerate(body.segments) if isinstance(part, TurnStart))
    return max_tokens_of(body.segments[start:], builder.reserves)


def _write_template(builder: PlanBuilder, template: Template) -> Segments:
    stacked = next((input for input in template.inputs if input.each), None)
    if stacked is None:
        return write_turns(builder, template.messages)
    return write_stacked(builder, template.messages, stacked)


def _output(template: Template) -> Type | None:
    body = template.messages[-1].body
    return body.type if isinstance(body, JsonBody) else None


def _auto(template: Template) -> AutoPolicy | None:
    body = template.messages[-1].body
    return body.policy if isinstance(body, AutoBody) else None


def complete(bodies: tuple[BranchBody, ...], *, overrun: Overrun) -> tuple[Branch, ...]:
    origins = origins_of({branch.id: branch.segments for branch in bodies})
    segments = with_follow_texts({branch.id: branch.segments for branch in bodies})
    views = views_of(segments, origins)
    releases = releases_of(segments, origins, lockstep={branch.id: branch.lockstep for branch in bodies})
    return tuple(
        Branch(
            id=branch.id,
            name=branch.name,
            parent=_parent(branch.id, origins),
            segments=segments[branch.id],
            view=views[branch.id],
            reserve=branch.reserve,
            overrun=overrun,
            release=releases[branch.id],
            lockstep=branch.lockstep,
        )
        for branch in bodies
    )


def _parent(id: BranchId, origins: Mapping[BranchId, Origin]) -> BranchId | None:
    return None if id == ROOT else origins[id].parent


def recursive_types(branches: tuple[Branch, ...], types: Mapping[str, t.Type]) -> tuple[tuple[str, t.Type], ...]:
    """Sorted by name, so that the same program gives the same plan."""
    found: dict[str, t.Type] = {}
    for branch in branches:
        for hole in _holes(branch):
            found |= named_types(hole.type, types)
    return tuple(sorted(found.items()))


def _holes(branch: Branch) -> Iterator[Hole]:
    return (segment for _, segment in walk(branch.segments) if isinstance(segment, Hole))
