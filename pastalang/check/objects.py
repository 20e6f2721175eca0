"""Builds objects: expands spreads, resolves `after`, and finds fields that wait for one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from pastalang.check.arguments import check_default, check_sampling, report_null
from pastalang.check.modules import DeclaredType
from pastalang.check.report import Report
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.graphs import find_cycle
from pastalang.program import types as t
from pastalang.source import Span
from pastalang.values.fit import find_mismatches

MAX_SHOWN = 12  # fields of a circle that a message names


def _is_null(node: nodes.TypeNode) -> bool:
    return isinstance(node, nodes.LiteralType) and isinstance(node.value, nodes.NullValue)


@dataclass(frozen=True, slots=True)
class PlacedField:
    """A field and the place that adds it to the object: its key, or a spread."""

    field: t.Field
    key_span: Span
    after: tuple[nodes.Name | nodes.StringValue, ...] = ()


@dataclass(slots=True)
class ObjectBuilder:
    """Builds one object. `lower` and `spread` belong to the lowering of types.

    `declared` are the type declarations of the file, whose descriptions fields take; `types` serve to check defaults.
    """

    lower: Callable[[nodes.TypeNode], t.Type]
    declared: Mapping[str, DeclaredType]
    spread: Callable[[nodes.Spread], t.Object | None]
    types: Mapping[str, t.Type]
    report: Report
    placed: dict[str, PlacedField] = field(default_factory=dict)
    names: dict[str, Span] = field(default_factory=dict)  # the Python names that are taken
    groups: int = 0

    def build(self, node: nodes.ObjectType) -> t.Object:
        for member in node.members:
            match member:
                case nodes.FieldNode():
                    self._add_field(member, group=None)
                case nodes.SequentialGroup(members=members):
                    group = self._new_group()
                    for inner in members:
                        self._add_field(inner, group=group)
                case nodes.Spread():
                    self._add_spread(member)
                case _:
                    assert_never(member)
        self._resolve_after()
        self._check_circles()
        return t.Object(tuple(placed.field for placed in self.placed.values()))

    def _new_group(self) -> int:
        self.groups += 1
        return self.groups - 1

    def _add_field(self, node: nodes.FieldNode, *, group: int | None) -> None:
        type = self.lower(node.type)
        key = node.key.text
        sampling = check_sampling(node.sampling, self.report) if node.sampling else None
        report_null(sampling, type, node.sampling, self.report)
        built = t.Field(
            key=key,
            type=type,
            name=node.name.text if node.name is not None and node.name.text != key else None,
            description=node.description.text if node.description is not None else self._description(node.type),
            default=self._default(node, type),
            group=group,
            sampling=sampling,
        )
        self._place(PlacedField(built, node.key.span, node.after), node.name.span if node.name else node.key.span)

    def _description(self, node: nodes.TypeNode) -> str | None:
        """What the declaration of a type says about it; objects carry their descriptions themselves."""
        match node:
            case nodes.NamedType(name=name):
                declared = self.declared.get(name.text)
                if declared is None or isinstance(declared.node.type, nodes.ObjectType):
                    return None
                return declared.node.description.text if declared.node.description is not None else None
            case nodes.ArrayType(item=item):
                return self._description(item)
            case nodes.UnionType(arms=arms):
                others = [arm for arm in arms if not _is_null(arm)]
                return self._description(others[0]) if len(others) == 1 else None
            case _:
                return None

    def _add_spread(self, node: nodes.Spread) -> None:
        base = self.spread(node)
        if base is None:
            return
        renumbered: dict[int, int] = {}
        for base_field in base.fields:
            group = base_field.group
            if group is not None:
                group = renumbered[group] if group in renumbered else renumbered.setdefault(group, self._new_group())
            self._place(PlacedField(replace(base_field, group=group), node.span), node.span)

    def _place(self, placed: PlacedField, name_span: Span) -> None:
        key = placed.field.key
        name = placed.field.name or key
        if key in self.placed:
            self._report_duplicate(f'the key "{key}" is declared twice', placed.key_span, self.placed[key].key_span)
            return
        if name in self.names:
            self._report_duplicate(f"two fields are called `{name}`", name_span, self.names[name])
        self.placed[key] = placed
        self.names[name] = name_span

    def _report_duplicate(self, headline: str, span: Span, first: Span) -> None:
        self.report.add(
            "duplicate-field",
            headline,
            span,
            message="declared again",
            related=[Label(first, "first declared here")],
        )

    # ── defaults ─────────────────────────────────────────────────────────────────────────────────────────

    def _default(self, node: nodes.FieldNode, type: t.Type) -> t.Default | None:
        if node.default is None:
            return None
        what = f'the default of "{node.key.text}"'
        if not (isinstance(node.default, nodes.PathValue) and node.default.text == "absent"):
            return check_default(node.default, type, self.types, self.report, what=what)
        if find_mismatches(type, None, self.types):
            why = "the model writes null for a key that is left out"
            self.report.add(
                "wrong-default", f"{what} does not fit its type", node.default.span, message=why, help="add `| null`"
            )
        return t.ABSENT

    # ── order ────────────────────────────────────────────────────────────────────────────────────────────

    def _resolve_after(self) -> None:
        keys = {placed.field.name: key for key, placed in self.placed.items() if placed.field.name is not None}
        for key, placed in self.placed.items():
            waited: list[str] = []
            for target in placed.after:
                awaited = target.text if target.text in self.placed else keys.get(target.text)
                if awaited is None:
                    self._report_unknown(key, target)
                elif awaited not in waited:
                    waited.append(awaited)
            if waited:
                self.placed[key] = replace(placed, field=replace(placed.field, after=tuple(waited)))

    def _report_unknown(self, key: str, target: nodes.Name | nodes.StringValue) -> None:
        others = [other for other in self.placed if other != key]
        self.report.add(
            "unknown-name",
            f'"{key}" waits for `{target.text}`, which is not a field of the same object',
            target.span,
            help=self.report.suggest(target.text, others, otherwise="`after` names other fields of the same object"),
        )

    def waits_against_order(self) -> tuple[Span, ...]:
        """Where a field waits for a later one. A skeleton can do that, a value decoded as one hole cannot."""
        position = {key: index for index, key in enumerate(self.placed)}
        spans: list[Span] = []
        for key, placed in self.placed.items():
            later = [target for target in placed.field.after if position[target] > position[key]]
            spans += [self._edge_span(key, later[0])] if later and placed.after else []
        return tuple(spans)

    def _check_circles(self) -> None:
        needs = {key: list(placed.field.after) for key, placed in self.placed.items()}
        circle = find_cycle(needs)
        if circle is None:
            circle = find_cycle(self._needs_of_groups())
        if circle is not None:
            self._report_circle(circle)

    def _needs_of_groups(self) -> dict[str, list[str]]:
        """What each field needs if one branch writes each group in order: a field of a group needs the one
        before it, and a field that waits for a group needs its last field."""
        last: dict[int, str] = {}
        before: dict[str, str] = {}
        for key, placed in self.placed.items():
            own = placed.field.group
            if own is not None:
                before.update({key: last[own]} if own in last else {})
                last[own] = key
        needs: dict[str, list[str]] = {}
        for key, placed in self.placed.items():
            needs[key] = [self._end_of(target, placed.field.group, last) for target in placed.field.after]
            needs[key] += [before[key]] if key in before else []
        return needs

    def _end_of(self, target: str, own: int | None, last: Mapping[int, str]) -> str:
        group = self.placed[target].field.group
        return target if group is None or group == own else last[group]

    def _report_circle(self, circle: tuple[str, ...]) -> None:
        pairs = list(zip(circle, (*circle[1:], circle[0]), strict=True))[:MAX_SHOWN]
        names = [f'"{key}"' for key in circle[:MAX_SHOWN]]
        names += ["…"] if len(circle) > MAX_SHOWN else []
        if len(circle) == 1:
            headline = f'"{circle[0]}" waits for itself'
        else:
            headline = f"these fields wait for one another: {' → '.join([*names, names[0]])}"
        labels = [Label(self._edge_span(key, other), self._edge(key, other)) for key, other in pairs]
        self.report.add(
            "dependency-cycle",
            headline,
            labels[0].span,
            message=labels[0].message,
            related=labels[1:],
            help="remove one of these dependencies: none of the values could ever begin",
        )

    def _edge(self, key: str, other: str) -> str:
        if other in self.placed[key].field.after:
            return f'"{key}" waits for "{other}"'
        group = self.placed[other].field.group
        if group is not None and group == self.placed[key].field.group:
            return f'"{key}" is written after "{other}" in their group'
        return f'"{key}" waits for the group that ends with "{other}"'

    def _edge_span(self, key: str, other: str) -> Span:
        placed = self.placed[key]
        for target in placed.after:
            if target.text == other:
                return target.span
        return placed.after[0].span if placed.after else placed.key_span
