"""From the alternatives of a union as written to its arms: flat, all different, told apart by a key if they can be."""

from __future__ import annotations

from collections.abc import Callable

from pastalang.check.report import Report
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.limits import MAX_ARMS
from pastalang.program import types as t
from pastalang.source import Span


def build_union(node: nodes.UnionType, lower: Callable[[nodes.TypeNode], t.Type], report: Report) -> t.Type:
    arms: dict[t.Type, Span] = {}
    for arm_node in node.arms:
        lowered = lower(arm_node)
        for arm in lowered.arms if isinstance(lowered, t.Union) else (lowered,):
            if arm in arms and arm != t.Anything():
                _report_duplicate(arm, arm_node.span, arms[arm], report)
            arms.setdefault(arm, arm_node.span)
    if len(arms) > MAX_ARMS:
        report.add("too-large", f"a union of {len(arms):,} alternatives; {MAX_ARMS:,} are the limit", node.span)
        return t.Anything()
    if len(arms) == 1:
        return next(iter(arms))
    _check_hidden_arms(arms, report)
    return t.Union(tuple(arms), discriminator=find_discriminator(tuple(arms)))


def _report_duplicate(arm: t.Type, span: Span, first: Span, report: Report) -> None:
    what = "this value" if isinstance(arm, t.Literal) else "this type"
    report.add(
        "duplicate-arm",
        f"the union names {what} twice",
        span,
        message="named again",
        related=[Label(first, "named here for the first time")],
        help="leave one of them out",
    )


def _check_hidden_arms(arms: dict[t.Type, Span], report: Report) -> None:
    """`any` takes every value, so whatever stands beside it says nothing."""
    if any(isinstance(arm, t.Anything) for arm in arms) and not report.has_errors:
        span = next(span for arm, span in arms.items() if isinstance(arm, t.Anything))
        report.add(
            "duplicate-arm",
            "`any` covers all other alternatives of this union",
            span,
            help="leave the others out, or name the types you mean instead of `any`",
        )


def find_discriminator(arms: tuple[t.Type, ...]) -> str | None:
    """The first key whose literals differ in all object arms; the other arms must be told apart by themselves."""
    objects = [arm for arm in arms if isinstance(arm, t.Object)]
    if len(objects) < 2:
        return None
    for candidate in objects[0].fields:
        if _differs(candidate.key, objects):
            return candidate.key
    return None


def _differs(key: str, objects: list[t.Object]) -> bool:
    seen: set[t.Literal] = set()
    for one in objects:
        found = next((field.type for field in one.fields if field.key == key), None)
        values = _literals(found)
        if not values or not seen.isdisjoint(values):
            return False
        seen.update(values)
    return True


def _literals(type: t.Type | None) -> tuple[t.Literal, ...]:
    if isinstance(type, t.Literal):
        return (type,)
    if isinstance(type, t.Union):
        literals = tuple(arm for arm in type.arms if isinstance(arm, t.Literal))
        return literals if len(literals) == len(type.arms) else ()
    return ()
