"""Lowers a written type to a hole type: resolves names, checks limits and expands spreads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from pastalang.check import scalars
from pastalang.check.arguments import Arguments, literal_number, read_arguments, whole, why_beyond
from pastalang.check.modules import BUILT_IN_TYPES, DeclaredType, Module
from pastalang.check.objects import ObjectBuilder, build_union
from pastalang.check.report import Report, listed
from pastalang.check.schemas import read_schema
from pastalang.check.type_facts import Facts, TypeTable, VerbatimUse, Wait, report_one_hole, report_waits
from pastalang.grammar import nodes
from pastalang.grammar.messages import OTHER_NAMES
from pastalang.limits import MAX_HOLE_TOKENS, MAX_ITEMS, MAX_TYPE_DEPTH, MAX_TYPE_PLACES
from pastalang.program import types as t
from pastalang.source import Span
from pastalang.values.cardinality import count_values
from pastalang.values.describe import counted


@dataclass(slots=True)
class Lowering:
    """Lowers one type of one module. `used` collects the keys of the declared types that it names."""

    module: Module
    table: TypeTable
    report: Report
    folder: Path | None
    used: set[str] = field(default_factory=set)
    places: int = 0
    deepest: int = 0
    verbatims: dict[VerbatimUse, None] = field(default_factory=dict)
    waits: dict[Wait, None] = field(default_factory=dict)
    is_too_large: bool = False
    has_threads: bool = False  # the model opens threads somewhere in what was lowered
    in_json: bool = False  # inside a JSON answer, or inside a value decoded as JSON

    def facts(self, node: nodes.TypeNode) -> Facts:
        type = self.lower(node, 0)
        if self.is_too_large:
            return Facts(t.Anything())
        return Facts(type, self.places, self.deepest, tuple(self.verbatims), tuple(self.waits), self.has_threads)

    def lower(self, node: nodes.TypeNode, depth: int) -> t.Type:
        self._grow(1, depth, node.span)
        if isinstance(node, nodes.ArrayType | nodes.TupleType | nodes.MapType | nodes.ObjectType) and not self.in_json:
            self.in_json = True
            found = self.lower(node, depth)
            self.in_json = False
            self.places -= 1
            return found
        before, around = len(self.report.found), self.has_threads
        self.has_threads = False
        lowered = self._lowered(node, depth)
        if len(self.report.found) == before:
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
                return scalars.regex(node, self.report) or t.Anything()
            case nodes.ArrayType():
                return self._array(node, depth)
            case nodes.TupleType():
                given = read_arguments(node.arguments, owner="a tuple", allowed=("max_tokens",), report=self.report)
                items = tuple(self._in_one_hole(item, depth + 1) for item in node.items)
                return t.Tuple(items, max_tokens=_tokens(given))
            case nodes.MapType():
                return self._map(node, depth)
            case nodes.ObjectType():
                return self._object(node, depth)
            case nodes.UnionType():
                return build_union(node, lambda arm: self.lower(arm, depth + 1), self.report)
            case _:
                assert_never(node)

    def spread(self, node: nodes.Spread, depth: int) -> t.Object | None:
        """The object whose fields the spread inserts; None, with a finding, where the name is not an object."""
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
        found = self._built_in(node) if name in BUILT_IN_TYPES else self._use(node, depth)
        if self.in_json:
            scalars.check_in_json(found, node.span, self.report)
        return found

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
            f"there is no type `{name.text}`",
            name.span,
            help=advice or f"declare it (`type {name.text} = ...`) or import it from another file",
        )
        return None

    def _built_in(self, node: nodes.NamedType) -> t.Type:
        arguments, report = node.arguments, self.report
        match node.name.text:
            case "string":
                return scalars.string(arguments, report)
            case "integer":
                return scalars.integer(arguments, node.span, report)
            case "number":
                return scalars.number(arguments, node.span, report)
            case "auto":
                self.has_threads = True
                return scalars.auto(arguments, node.span, report)
            case "verbatim":
                return self._verbatim(node)
            case "schema":
                return read_schema(node, self.module, self.folder, report) or t.Anything()
            case "any":
                return t.Anything(
                    _tokens(read_arguments(arguments, owner="`any`", allowed=("max",), report=report), "max")
                )
            case name:
                read_arguments(arguments, owner=f"`{name}`", allowed=(), report=report)
                return _PLAIN[name]

    def _verbatim(self, node: nodes.NamedType) -> t.Type:
        given = read_arguments(
            node.arguments, owner="`verbatim`", allowed=("max", "at"), unnamed=nodes.PathValue, report=self.report
        )
        path = given.path()
        if path is None:
            if not given.has(""):
                self.report.add(
                    "wrong-argument",
                    "`verbatim` does not say what it copies from",
                    node.span,
                    help="name an input: `verbatim(title)`",
                )
            return t.Anything()
        self.verbatims[VerbatimUse(path.text, path.span, self.module)] = None
        return t.Verbatim(path.text, max_tokens=_tokens(given, "max"), at=self._quote_unit(given))

    def _quote_unit(self, given: Arguments) -> t.QuoteUnit:
        name = given.string("at")
        units = {unit.value: unit for unit in t.QuoteUnit}
        if name is not None and name not in units:
            self.report.add(
                "wrong-argument", f'`verbatim` has no `at="{name}"`', given.span_of("at"),
                help=self.report.suggest(name, tuple(units), otherwise=f"it takes {listed(tuple(units))}"),
            )  # fmt: skip
        return units.get(name or "", t.QuoteUnit.WORDS)

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
        given = read_arguments(
            node.arguments,
            owner="an array",
            allowed=("min", "max", "unique", "max_tokens"),
            unnamed=nodes.RangeValue,
            report=self.report,
        )
        minimum, maximum = self._counts(given, node.span, "an array")
        lower = self._in_one_hole if isinstance(node.item, nodes.ArrayType | nodes.TupleType) else self.lower
        item = lower(node.item, depth + 1)
        unique = given.boolean("unique")
        self._check_unique(item, minimum, unique=unique, span=node.span)
        if isinstance(item, t.Object) and maximum != 0:
            self._check_item_root(item, node.item.span)
        return t.Array(item, minimum, maximum, unique, _tokens(given))

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
        given = read_arguments(
            node.arguments,
            owner="a map",
            allowed=("min", "max", "max_tokens"),
            unnamed=nodes.RangeValue,
            report=self.report,
        )
        minimum, maximum = self._counts(given, node.span, "a map")
        pattern = self._key_pattern(node.key)
        keys = None if pattern is None else count_values(t.Regex(pattern))
        if keys is not None and 0 < keys < minimum:
            problem = f"{minimum} different keys are required, but at most {keys} match /{pattern}/"
            self.report.add("contradictory-limits", problem, node.key.span)
        return t.Map(self._in_one_hole(node.value, depth + 1), pattern, minimum, maximum, _tokens(given))

    def _key_pattern(self, key: nodes.NamedType | nodes.RegexType) -> str | None:
        if isinstance(key, nodes.RegexType):
            found = scalars.regex(key, self.report)
            return None if found is None else found.pattern
        if key.name.text != "string":
            self.report.add(
                "wrong-argument",
                "the keys of a map are strings",
                key.span,
                help="write `{string: T}`, or `{/pattern/: T}` for keys that match a pattern",
            )
            return None
        limits = scalars.string(key.arguments, self.report)
        if limits != t.String(pattern=limits.pattern):
            self.report.add(
                "wrong-argument",
                "the key of a map takes no limit but `pattern`",
                key.span,
                help="set lengths in the pattern: `/[a-z]{1,12}/`",
            )
        return limits.pattern

    def _counts(self, given: Arguments, span: Span, owner: str) -> tuple[int, int | None]:
        minimum = given.integer("min", minimum=0, maximum=MAX_ITEMS)
        maximum = given.integer("max", minimum=0, maximum=MAX_ITEMS)
        both = given.range()
        if both is not None:
            if minimum is not None or maximum is not None:
                self.report.add("wrong-argument", f"{owner} is given both a range and `min` or `max`", span)
            minimum, maximum = self._count(both.low, owner), self._count(both.high, owner)
        if minimum is not None and maximum is not None and minimum > maximum:
            self.report.add(
                "contradictory-limits",
                f"{owner} of at least {minimum} and at most {counted(maximum, 'item')} cannot exist",
                both.span if both is not None else span,
                help="swap the two limits",
            )
        return minimum or 0, maximum

    def _count(self, end: nodes.NumberValue | None, owner: str) -> int | None:
        if end is None:
            return None
        value = whole(end)
        if value is None or not 0 <= value <= MAX_ITEMS:
            is_large = why_beyond(end) is not None or (value is not None and value > MAX_ITEMS)
            self.report.add(
                "too-large" if is_large else "wrong-argument",
                f"the number of items of {owner} must be a whole number from 0 to {MAX_ITEMS:,}",
                end.span,
            )
            return None
        return value

    def _object(self, node: nodes.ObjectType, depth: int) -> t.Object:
        builder = ObjectBuilder(
            lower=lambda type: self.lower(type, depth + 1),
            declared=self.module.types,
            spread=lambda member: self.spread(member, depth),
            types=self.table.types,
            report=self.report,
        )
        found = builder.build(node)
        self.waits.update(dict.fromkeys(Wait(span, self.module) for span in builder.waits_against_order()))
        return found

    def _in_one_hole(self, node: nodes.TypeNode, depth: int) -> t.Type:
        """Lower a part of a value that is decoded as one hole: no field can wait for a later one."""
        before = set(self.waits)
        found = self.lower(node, depth)
        report_waits((wait for wait in self.waits if wait not in before), self.report)
        return found

    # ── size ─────────────────────────────────────────────────────────────────────────────────────────────

    def _include(self, facts: Facts, depth: int, span: Span) -> None:
        self._grow(facts.places, depth + facts.depth, span)
        self.verbatims.update(dict.fromkeys(facts.verbatims))
        self.waits.update(dict.fromkeys(facts.waits))
        self.has_threads |= facts.has_threads

    def _grow(self, places: int, depth: int, span: Span) -> None:
        self.places += places
        self.deepest = max(self.deepest, depth)
        too_many, too_deep = self.places > MAX_TYPE_PLACES, self.deepest > MAX_TYPE_DEPTH
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
            self.places, self.deepest = 0, 0  # report it once


_PLAIN: Mapping[str, t.Type] = {
    "boolean": t.Boolean(),
    "null": t.Null(),
    "date": t.Temporal(t.Moment.DATE),
    "datetime": t.Temporal(t.Moment.DATETIME),
    "time": t.Temporal(t.Moment.TIME),
    "uuid": t.Uuid(),
}


def _tokens(given: Arguments, name: str = "max_tokens") -> int | None:
    return given.integer(name, minimum=1, maximum=MAX_HOLE_TOKENS)
