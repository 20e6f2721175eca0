"""Lowers written types to hole types: resolves names, expands spreads, checks limits, keeps facts for later checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, assert_never

from pastalang.check.arguments import (
    ITEMS,
    TOKENS,
    Arguments,
    Flag,
    Signature,
    check_default,
    check_sampling,
    literal_number,
    read_arguments,
    report_null,
)
from pastalang.check.built_in_types import BUILT_IN_TYPES, built_in_type, check_in_json, regex
from pastalang.check.modules import DeclaredType, Module
from pastalang.check.report import Report
from pastalang.diagnostics.diagnostic import Label
from pastalang.grammar import nodes
from pastalang.grammar.messages import OTHER_NAMES
from pastalang.graphs import find_cycle
from pastalang.limits import MAX_ARMS, MAX_TYPE_DEPTH, MAX_TYPE_PLACES
from pastalang.program import types as t
from pastalang.program.visit import named_types
from pastalang.source import Span
from pastalang.values.describe import counted
from pastalang.values.fit import find_discriminator, find_mismatches
from pastalang.values.lengths import count_values
from pastalang.values.one_hole import (
    ADVICE,
    DIFFER_ADVICE,
    ambiguous_items,
    is_always_one_hole,
    unenforced_limit_of_recursion,
    unenforced_limit_written_in,
)
from pastalang.values.text import has_threads, is_structured

TUPLE = Signature("a tuple", {"max_tokens": TOKENS})
ARRAY = Signature(
    "an array",
    {"min": ITEMS, "max": ITEMS, "unique": Flag(), "max_tokens": TOKENS},
    unnamed=(nodes.RangeValue,),
    ends="the number of items",
)
MAP = Signature(
    "a map", {"min": ITEMS, "max": ITEMS, "max_tokens": TOKENS}, unnamed=(nodes.RangeValue,), ends="the number of items"
)


@dataclass(frozen=True, slots=True)
class VerbatimUse:
    """A `verbatim` inside a type: the input it copies from, and its place."""

    path: str
    span: Span
    module: Module


@dataclass(frozen=True, slots=True)
class Wait:
    """A field that waits for a later one."""

    span: Span
    module: Module


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """A lowered type, its size with every name expanded, the inputs it copies from, the fields that wait for later
    ones, and whether the model opens threads in it."""

    type: t.Type
    places: int = 1
    depth: int = 0
    verbatims: tuple[VerbatimUse, ...] = ()
    waits: tuple[Wait, ...] = ()
    has_threads: bool = False


class LowerType(Protocol):
    """Lowers a type of one module. With `in_json` the type belongs to a JSON answer, not to running text."""

    def __call__(self, node: nodes.TypeNode, *, in_json: bool = False) -> TypeFacts: ...


@dataclass(slots=True)
class TypeTable:
    """The declared types of the program, by key, and the facts about them. Types in `recursive` stay names."""

    facts: dict[str, TypeFacts] = field(default_factory=dict)
    types: dict[str, t.Type] = field(default_factory=dict)
    recursive: set[str] = field(default_factory=set)

    def add(self, key: str, facts: TypeFacts) -> None:
        self.facts[key] = facts
        self.types[key] = facts.type


@dataclass(slots=True)
class Lowering:
    """Lowers one type of one module. `used` collects the keys of the declared types that it names."""

    module: Module
    table: TypeTable
    report: Report
    folder: Path | None
    used: set[str] = field(default_factory=set)
    places: int = 0
    max_depth: int = 0
    verbatims: dict[VerbatimUse, None] = field(default_factory=dict)
    waits: dict[Wait, None] = field(default_factory=dict)
    is_too_large: bool = False
    has_threads: bool = False  # the model opens threads somewhere in what was lowered
    in_json: bool = False  # inside a JSON answer, or inside a value decoded as JSON

    def facts(self, node: nodes.TypeNode) -> TypeFacts:
        type = self.lower(node, 0)
        if self.is_too_large:
            return TypeFacts(t.Anything())
        return TypeFacts(type, self.places, self.max_depth, tuple(self.verbatims), tuple(self.waits), self.has_threads)

    def lower(self, node: nodes.TypeNode, depth: int) -> t.Type:
        self._grow(1, depth, node.span)
        if isinstance(node, nodes.ArrayType | nodes.TupleType | nodes.MapType | nodes.ObjectType) and not self.in_json:
            self.in_json = True
            type = self.lower(node, depth)
            self.in_json = False
            self.places -= 1
            return type
        before, around = len(self.report.diagnostics), self.has_threads
        self.has_threads = False
        lowered = self._lowered(node, depth)
        if len(self.report.diagnostics) == before:
            report_one_hole(lowered, node, self.report, has_threads=self.has_threads)
        self.has_threads |= around
        return lowered

    def _lowered(self, node: nodes.TypeNode, depth: int) -> t.Type:
        match node:
            case nodes.NamedType():
                return self._named(node, depth)
            case nodes.LiteralType():
                return self._literal(node)
            case nodes.RegexType():
                return regex(node, self.report) or t.Anything()
            case nodes.ArrayType():
                return self._array(node, depth)
            case nodes.TupleType():
                given = read_arguments(node.arguments, TUPLE, self.report)
                items = tuple(self._in_one_hole(item, depth + 1) for item in node.items)
                return t.Tuple(items, max_tokens=given["max_tokens"])
            case nodes.MapType():
                return self._map(node, depth)
            case nodes.ObjectType():
                return self._object(node, depth)
            case nodes.UnionType():
                return _union(node, lambda arm: self.lower(arm, depth + 1), self.report)
            case _:
                assert_never(node)

    def spread(self, node: nodes.Spread, depth: int) -> t.Object | None:
        """The object whose fields the spread inserts; None, with a diagnostic, where the name is not an object."""
        declared = self._declared(node.name)
        if declared is None:
            return None
        facts = self.table.facts.get(declared.key)
        if facts is None:
            self.report.add(
                "dependency-cycle",
                f"`{node.name.text}` would contain its own fields",
                node.span,
                help=f"give the inner object a key of its own: `inner: {node.name.text} | null`",
            )
            return None
        self._include(facts, depth + 1, node.span)
        if not isinstance(facts.type, t.Object):
            if facts.type != t.Anything():
                self.report.add(
                    "wrong-argument",
                    f"`{node.name.text}` is not an object, so it has no fields to spread",
                    node.name.span,
                )
            return None
        return facts.type

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────

    def _named(self, node: nodes.NamedType, depth: int) -> t.Type:
        name = node.name.text
        type = self._built_in(node) if name in BUILT_IN_TYPES else self._use(node, depth)
        if self.in_json:
            check_in_json(type, node.span, self.report)
        return type

    def _use(self, node: nodes.NamedType, depth: int) -> t.Type:
        name = node.name.text
        declared = self._declared(node.name)
        if declared is None:
            return t.Anything()
        if node.arguments:
            self.report.add(
                "wrong-argument",
                f"the declared type `{name}` takes no limits",
                node.arguments[0].span,
                help=f"write them where `{name}` is declared",
            )
        if declared.key in self.table.recursive:
            facts = self.table.facts.get(declared.key)
            self.verbatims.update(dict.fromkeys(facts.verbatims if facts is not None else ()))
            return t.Named(declared.key)
        facts = self.table.facts[declared.key]
        self._include(facts, depth, node.span)
        return facts.type

    def _declared(self, name: nodes.Name) -> DeclaredType | None:
        declared = self.module.types.get(name.text)
        if declared is not None:
            self.used.add(declared.key)
            return declared
        if name.text in self.module.lost:
            return None
        if name.text in self.module.templates:
            self.report.add("unknown-name", f"`{name.text}` is a template, not a type", name.span)
            return None
        known = (*BUILT_IN_TYPES, *self.module.types)
        other = OTHER_NAMES.get(name.text.lower())
        advice = f"in PastaLang this is `{other}`" if other is not None else self.report.suggest(name.text, known)
        self.report.add(
            "unknown-name",
            f"unknown type `{name.text}`",
            name.span,
            help=advice or f"declare it (`type {name.text} = ...`) or import it from another file",
        )
        return None

    def _built_in(self, node: nodes.NamedType) -> t.Type:
        type = built_in_type(node, path=self.module.path, folder=self.folder, report=self.report)
        if isinstance(type, t.Verbatim):
            span = next(argument.span for argument in node.arguments if argument.name is None)
            self.verbatims[VerbatimUse(type.source, span, self.module)] = None
        self.has_threads |= isinstance(type, t.String) and type.auto is not None
        return type

    # ── values and containers ────────────────────────────────────────────────────────────────────────────

    def _literal(self, node: nodes.LiteralType) -> t.Type:
        match node.value:
            case nodes.NullValue():
                return t.Null()
            case nodes.StringValue(text=text):
                return t.Literal(text)
            case nodes.BooleanValue(value=flag):
                return t.Literal(flag)
            case nodes.NumberValue():
                value = literal_number(node.value)
                if value is None:
                    self.report.add("too-large", "this number has too many digits", node.span)
                return t.Literal(value if value is not None else 0)
            case _:
                assert_never(node.value)

    def _array(self, node: nodes.ArrayType, depth: int) -> t.Type:
        given = read_arguments(node.arguments, ARRAY, self.report)
        minimum, maximum = self._counts(given, node.span)
        lower = self._in_one_hole if isinstance(node.item, nodes.ArrayType | nodes.TupleType) else self.lower
        item = lower(node.item, depth + 1)
        unique = given["unique"] or False
        self._check_unique(item, minimum, unique=unique, span=node.span)
        if isinstance(item, t.Object) and maximum != 0:
            self._check_item_root(item, node.item.span)
        return t.Array(item, minimum, maximum, unique, given["max_tokens"])

    def _check_item_root(self, item: t.Object, span: Span) -> None:
        if item.fields and item.fields[0].after:
            self.report.add(
                "dependency-cycle",
                f'the first field of an item, "{item.fields[0].key}", cannot wait for other fields:'
                " they start only after it",
                span,
                help="put a field that waits for nothing first",
            )

    def _check_unique(self, item: t.Type, minimum: int, *, unique: bool, span: Span) -> None:
        count = count_values(item)
        if unique and count is not None and count < minimum:
            self.report.add(
                "contradictory-limits",
                f"{minimum} different items are required, but their type has only {counted(count, 'value')}",
                span,
            )

    def _map(self, node: nodes.MapType, depth: int) -> t.Type:
        given = read_arguments(node.arguments, MAP, self.report)
        minimum, maximum = self._counts(given, node.span)
        pattern = self._key_pattern(node.key)
        keys = None if pattern is None else count_values(t.Regex(pattern))
        if keys is not None and 0 < keys < minimum:
            problem = f"{minimum} different keys are required, but at most {keys} match /{pattern}/"
            self.report.add("contradictory-limits", problem, node.key.span)
        return t.Map(self._in_one_hole(node.value, depth + 1), pattern, minimum, maximum, given["max_tokens"])

    def _key_pattern(self, key: nodes.NamedType | nodes.RegexType) -> str | None:
        if isinstance(key, nodes.RegexType):
            type = regex(key, self.report)
            return None if type is None else type.pattern
        if key.name.text != "string":
            self.report.add(
                "wrong-argument",
                "the keys of a map are strings",
                key.span,
                help="write `{string: T}`, or `{/pattern/: T}` for keys that match a pattern",
            )
            return None
        limits = built_in_type(key, path=None, folder=None, report=self.report)
        assert isinstance(limits, t.String)
        if limits != t.String(pattern=limits.pattern):
            self.report.add(
                "wrong-argument",
                "the key of a map takes no limit but `pattern`",
                key.span,
                help="set lengths in the pattern: `/[a-z]{1,12}/`",
            )
        return limits.pattern

    def _counts(self, given: Arguments, span: Span) -> tuple[int, int | None]:
        minimum, maximum = given["min"], given["max"]
        if minimum is not None and maximum is not None and minimum > maximum:
            self.report.add(
                "contradictory-limits",
                f"{given.signature.owner} of at least {minimum} and at most {counted(maximum, 'item')} cannot exist",
                given.span_of("") if "" in given else span,
                help="swap the two limits",
            )
        return minimum or 0, maximum

    def _object(self, node: nodes.ObjectType, depth: int) -> t.Object:
        builder = ObjectBuilder(
            lower=lambda type: self.lower(type, depth + 1),
            declared=self.module.types,
            spread=lambda member: self.spread(member, depth),
            types=self.table.types,
            report=self.report,
        )
        object = builder.build(node)
        self.waits.update(dict.fromkeys(Wait(span, self.module) for span in builder.waits_against_order()))
        return object

    def _in_one_hole(self, node: nodes.TypeNode, depth: int) -> t.Type:
        """Lower a part of a value that is decoded as one hole: no field can wait for a later one."""
        before = set(self.waits)
        type = self.lower(node, depth)
        report_waits((wait for wait in self.waits if wait not in before), self.report)
        return type

    # ── size ─────────────────────────────────────────────────────────────────────────────────────────────

    def _include(self, facts: TypeFacts, depth: int, span: Span) -> None:
        self._grow(facts.places, depth + facts.depth, span)
        self.verbatims.update(dict.fromkeys(facts.verbatims))
        self.waits.update(dict.fromkeys(facts.waits))
        self.has_threads |= facts.has_threads

    def _grow(self, places: int, depth: int, span: Span) -> None:
        self.places += places
        self.max_depth = max(self.max_depth, depth)
        too_many, too_deep = self.places > MAX_TYPE_PLACES, self.max_depth > MAX_TYPE_DEPTH
        if (too_many or too_deep) and not self.is_too_large:
            self.is_too_large = True
            self.report.add(
                "too-large",
                f"with all names expanded, this type has more than {MAX_TYPE_PLACES:,} parts"
                if too_many
                else f"with all names expanded, this type is more than {MAX_TYPE_DEPTH} levels deep",
                span,
                help="make it smaller, or use `any` for a part of it",
            )
        if self.is_too_large:
            self.places, self.max_depth = 0, 0  # report it once


# ── unions ───────────────────────────────────────────────────────────────────────────────────────────────


def _union(node: nodes.UnionType, lower: Callable[[nodes.TypeNode], t.Type], report: Report) -> t.Type:
    arms: dict[t.Type, Span] = {}
    for arm_node in node.arms:
        lowered = lower(arm_node)
        for arm in lowered.arms if isinstance(lowered, t.Union) else (lowered,):
            if arm in arms and arm != t.Anything():
                what, help = "value" if isinstance(arm, t.Literal) else "type", "leave one of them out"
                headline = f"the union names this {what} twice"
                report.add_twice("duplicate-arm", headline, arm_node.span, arms[arm], how="named", help=help)
            arms.setdefault(arm, arm_node.span)
    if len(arms) > MAX_ARMS:
        report.add("too-large", f"a union of {len(arms):,} alternatives; the limit is {MAX_ARMS:,}", node.span)
        return t.Anything()
    if len(arms) == 1:
        return next(iter(arms))
    _check_hidden_arms(arms, report)
    return t.Union(tuple(arms), discriminator=find_discriminator(tuple(arms), allow_defaults=True))


def _check_hidden_arms(arms: dict[t.Type, Span], report: Report) -> None:
    """`any` accepts every value, so the other alternatives have no effect."""
    if any(isinstance(arm, t.Anything) for arm in arms) and not report.has_errors:
        span = next(span for arm, span in arms.items() if isinstance(arm, t.Anything))
        report.add(
            "duplicate-arm",
            "`any` covers all other alternatives of this union",
            span,
            help="leave the others out, or name the types you mean instead of `any`",
        )


# ── what cannot be inside a value that is written as a whole ─────────────────────────────────────────────


def report_waits(waits: Iterable[Wait], report: Report) -> None:
    for wait in waits:
        report.for_source(wait.module.source).add(
            "wait-against-order",
            "this field waits for a later one, in a value that is written as a whole",
            wait.span,
            help="move the field that it waits for before it",
        )


_TELL_APART = "next to the text, the union may have `null`, objects and lists of objects: their first characters differ"
_PART_OF_ITS_OWN = "make the text a field, or an item of a list without `unique` and `max_tokens`"
_NOT_RECURSIVE = (
    "a recursive type is written as a whole: take the text out of it, or write out as many levels as you need"
)


def _report_threads(span: Span, report: Report, advice: str) -> None:
    """Report a text with threads inside a value that is written as a whole."""
    headline = "the model cannot open threads inside a value that is written as a whole"
    report.add("misplaced-auto", headline, span, help=advice)


def report_one_hole(type: t.Type, node: nodes.TypeNode, report: Report, *, has_threads: bool) -> None:
    """Report what cannot be inside a value that is written as a whole, where a program writes its type."""
    if has_threads and not isinstance(node, nodes.NamedType) and not is_structured(type):
        _report_threads(node.span, report, _TELL_APART if isinstance(node, nodes.UnionType) else _PART_OF_ITS_OWN)
    elif isinstance(node, nodes.ArrayType | nodes.TupleType | nodes.MapType) and is_always_one_hole(type):
        _report_unenforced(type, node.span, report)


def _report_unenforced(type: t.Type, span: Span, report: Report) -> None:
    """Report what cannot be enforced, without the types that it names."""
    if (problem := unenforced_limit_written_in(type)) is not None:
        report.add("wrong-argument", problem, span, help=ADVICE)
    elif (problem := ambiguous_items(type)) is not None:
        report.add("not-enforceable", problem, span, help=DIFFER_ADVICE)


def report_unenforced_recursion(name: str, types: Mapping[str, t.Type], span: Span, report: Report) -> None:
    """Report what cannot be enforced in a recursive type, which is always written as a whole."""
    if any(map(has_threads, named_types(t.Named(name), types).values())):
        _report_threads(span, report, _NOT_RECURSIVE)
    elif (problem := unenforced_limit_of_recursion(name, types)) is not None:
        report.add("wrong-argument", problem, span, help=ADVICE)
    elif (problem := ambiguous_items(t.Named(name), types)) is not None:
        report.add("not-enforceable", problem, span, help=DIFFER_ADVICE)


# ── objects ───────────────────────────────────────────────────────────────────────────────────────────


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
            headline, first = f'the key "{key}" is declared twice', self.placed[key].key_span
            self.report.add_twice("duplicate-field", headline, placed.key_span, first)
            return
        if name in self.names:
            headline = f"two fields are called `{name}`"
            self.report.add_twice("duplicate-field", headline, name_span, self.names[name])
        self.placed[key] = placed
        self.names[name] = name_span

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
