"""Checked programs written by hand, so that the planner is tested apart from the parser and the checker."""

from __future__ import annotations

from collections.abc import Mapping

from pastalang import Mode, Plan, Program, build_plan
from pastalang.plan.branches import Branch, Overrun, Placement
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import (
    AutoBody,
    AutoPolicy,
    Body,
    Input,
    InputKind,
    InputType,
    JsonBody,
    Message,
    Role,
    Template,
    TextBody,
)
from pastalang.source import Source, Span

NOWHERE = Span(0, 0)
PLAIN = t.Sampling()


def text(words: str) -> p.Text:
    return p.Text(words)


def hole(name: str, type: t.Type = t.String(8)) -> p.Hole:  # noqa: B008 - frozen
    return p.Hole(name, type, PLAIN, NOWHERE)


def value(*path: str) -> p.InputValue:
    return p.InputValue(path, NOWHERE)


def async_(name: str, *body: p.Piece, reserve: int | None = None, promised: bool = False) -> p.Async:
    return p.Async(name, reserve, body, promised, NOWHERE)


def promise(name: str, topic: str, reserve: int | None = None) -> p.Promise:
    return p.Promise(name, topic, reserve, NOWHERE)


def sync(*names: str) -> p.Sync:
    return p.Sync(names, NOWHERE)


def fork(name: str, minimum: int, maximum: int, *body: p.Piece) -> p.Fork:
    return p.Fork(name, minimum, maximum, body, NOWHERE)


def each(name: str, over: str, *body: p.Piece, over_hole: bool = True, reserve: int | None = None) -> p.Each:
    return p.Each(name, tuple(over.split(".")), over_hole, reserve, body, NOWHERE)


def field(key: str, type: t.Type = t.String(8), *, after: tuple[str, ...] = (), group: int | None = None) -> t.Field:  # noqa: B008
    return t.Field(key, type, after=after, group=group)


def record(*fields: t.Field, name: str | None = None) -> t.Object:
    return t.Object(fields, name)


def or_null(type: t.Type) -> t.Union:
    return t.Union((type, t.Null()))


def text_body(*pieces: p.Piece) -> TextBody:
    return TextBody(pieces)


def json_body(*fields: t.Field) -> JsonBody:
    return JsonBody(record(*fields), PLAIN)


def auto_body(policy: AutoPolicy = AutoPolicy.PASTA, max_tokens: int = 40) -> AutoBody:
    return AutoBody(policy, max_tokens, PLAIN)


def given(name: str, type: InputType = InputKind.TEXT, *, is_each: bool = False) -> Input:
    return Input(name, type, None, is_each, NOWHERE)


def template(body: Body, *, inputs: tuple[Input, ...] = (), prompt: tuple[p.Piece, ...] = (p.Text("Go."),)) -> Template:
    messages = (
        Message(Role.SYSTEM, TextBody((p.Text("Be brief."),)), NOWHERE),
        Message(Role.USER, TextBody(prompt), NOWHERE),
        Message(Role.ASSISTANT, body, NOWHERE),
    )
    return Template("sample", inputs, messages, PLAIN, None, NOWHERE)


def program(it: Template, types: Mapping[str, t.Type] | None = None) -> Program:
    return Program(Source("sample.pasta", ""), types or {}, {it.name: it}, {})


def plan_of(
    body: Body,
    *,
    mode: Mode = Mode.STRICT,
    overrun: Overrun = Overrun.CONTINUE,
    placement: Placement = Placement.GAPS,
    inputs: tuple[Input, ...] = (),
    prompt: tuple[p.Piece, ...] = (p.Text("Go."),),
) -> Plan:
    it = template(body, inputs=inputs, prompt=prompt)
    return build_plan(it, program(it), mode=mode, overrun=overrun, placement=placement)


def named(plan: Plan, name: str) -> Branch:
    """The branch of this name."""
    return next(branch for branch in plan.branches if branch.name == name)
