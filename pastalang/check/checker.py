"""The checker: builds a checked program from a syntax tree and the files it imports, and reports every problem."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pastalang.check.modules import DeclaredTemplate, DeclaredType, Loader, Module, Parse, Read
from pastalang.check.report import Report
from pastalang.check.templates import TemplateChecker, check_branches
from pastalang.check.types import Lowering, TypeFacts, TypeTable, report_unenforced_recursion, report_waits
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.grammar import nodes
from pastalang.graphs import DependencyGraph
from pastalang.program import types as t
from pastalang.program.program import Program, Template
from pastalang.source import Source, Span
from pastalang.values.lengths import alternatives_of_themselves, types_without_values


@dataclass(frozen=True, slots=True)
class Checked:
    """`program` is None where there is an error; warnings may come with a program."""

    program: Program | None
    diagnostics: tuple[Diagnostic, ...]


def check_file(source: Source, file: nodes.File, *, path: Path | None, parse: Parse, read: Read) -> Checked:
    """Check a parsed file. Imports and schemas are resolved relative to `path`, its location."""
    report = Report(source)
    resolved = path.resolve() if path is not None else None
    loader = Loader(resolved.parent if resolved is not None else None, parse, report, read)
    root = loader.load(source, resolved, file)
    return _Checker(root, loader, report).check()


class _Checker:
    def __init__(self, root: Module, loader: Loader, report: Report) -> None:
        self.root = root
        self.loader = loader
        self.report = report
        self.declared = {declared.key: declared for module in reversed(loader.order) for declared in module.own_types()}
        self.graph = DependencyGraph({key: _named_types(declared) for key, declared in self.declared.items()})

    def check(self) -> Checked:
        table = self._lower_types()
        self._check_own_alternatives(table)
        self._check_recursive_types(table)
        self._check_impossible_types(table)
        used: set[str] = set()
        spans: dict[str, Span] = {}
        templates = {
            name: self._template(declared, table, used, spans) for name, declared in self.root.templates.items()
        }
        self._check_unused_types(used)
        program = Program(self.root.source, dict(table.types), templates, spans)
        diagnostics = sorted(self.report.diagnostics, key=lambda diagnostic: (diagnostic.source.name, diagnostic.span))
        return Checked(None if self.report.has_errors else program, tuple(diagnostics))

    # ── types ────────────────────────────────────────────────────────────────────────────────────────────

    def _lower_types(self) -> TypeTable:
        """Lower every declared type after the types it names. Types that name each other in a circle stay names."""
        table = TypeTable(recursive=set(self.graph.on_circles))
        for group in self.graph.groups:
            for key in group:
                table.add(key, self._lower(self.declared[key], table))
                if key in table.recursive:
                    report_waits(table.facts[key].waits, self.report)
        ordered = {key: table.facts[key] for key in self.declared}
        return TypeTable(ordered, {key: facts.type for key, facts in ordered.items()}, table.recursive)

    def _lower(self, declared: DeclaredType, table: TypeTable) -> TypeFacts:
        node = declared.node
        lowering = self._lowering(declared.module, table)
        facts = lowering.facts(node.type)
        if isinstance(facts.type, t.Object) and isinstance(node.type, nodes.ObjectType):
            description = node.description.text if node.description is not None else None
            named = t.Object(facts.type.fields, declared.key, description)
            return replace(facts, type=named)
        if isinstance(node.type, nodes.NamedType) and node.type.name.text in declared.module.types:
            # Counts as a level, so that the depth limit also ends chains of names.
            return replace(facts, depth=facts.depth + 1)
        return facts

    def _lowering(self, module: Module, table: TypeTable) -> Lowering:
        return Lowering(module, table, self.report.for_source(module.source), self.loader.folder)

    def _check_own_alternatives(self, table: TypeTable) -> None:
        for key in alternatives_of_themselves(table.types):
            declared = self.declared[key]
            self.report.for_source(declared.module.source).add(
                "impossible-type",
                f"`{declared.node.name.text}` is one of its own alternatives",
                declared.node.name.span,
                message="a value of it would be a value of itself, without an end",
                help="leave it out of the union: it adds no value",
            )

    def _check_recursive_types(self, table: TypeTable) -> None:
        """Check one type of each circle: the walk meets all others."""
        met: set[str] = set()
        for key in table.types:
            if key in table.recursive and key not in met:
                met |= self.graph.all_needed_by({key})
                declared = self.declared[key]
                report = self.report.for_source(declared.module.source)
                report_unenforced_recursion(key, table.types, declared.node.name.span, report)

    def _check_impossible_types(self, table: TypeTable) -> None:
        reported = alternatives_of_themselves(table.types)
        for key in types_without_values(table.types):
            if key not in table.recursive or key in reported:
                continue
            node = self.declared[key].node
            self.report.for_source(self.declared[key].module.source).add(
                "impossible-type",
                f"`{node.name.text}` has no finite value",
                node.name.span,
                message="every value would have to contain another one",
                help="add `| null`, or use a list that may be empty",
            )

    # ── templates ────────────────────────────────────────────────────────────────────────────────────────

    def _template(
        self, declared: DeclaredTemplate, table: TypeTable, used: set[str], spans: dict[str, Span]
    ) -> Template:
        node, module = declared.node, declared.module
        report = self.report.for_source(module.source)

        def lower(node: nodes.TypeNode, *, in_json: bool = False) -> TypeFacts:
            lowering = self._lowering(module, table)
            lowering.in_json = in_json
            facts = lowering.facts(node)
            used.update(lowering.used)
            return facts

        checker = TemplateChecker(node, module, table.types, lower, report)
        template = checker.check()
        check_branches(template, report)
        if module is self.root and not report.has_errors:
            name = node.name.text
            spans[name] = node.name.span
            spans.update({f"{name}.{path}": span for path, span in checker.spans.items()})
            for message in node.messages:
                if isinstance(message.body, nodes.JsonBody):
                    spans.update(_Fields(table.recursive).walk(message.body.type, module, name, None))
        return template

    def _check_unused_types(self, used: set[str]) -> None:
        """Report types that no template of this file uses. A file without templates is there to be imported."""
        if not self.root.templates:
            return
        reached = self.graph.all_needed_by(used)
        for name, declared in self.root.types.items():
            if declared.key in reached:
                continue
            where = self.root.imported.get(name, declared.node.name)
            verb = "imported and" if name in self.root.imported else "declared and"
            self.report.add("type-never-used", f"the type `{name}` is {verb} never used", where.span, help="remove it")


def _named_types(declared: DeclaredType) -> list[str]:
    """The keys of the declared types that a declaration names."""
    names = dict.fromkeys(_names_in(declared.node.type))
    return [declared.module.types[name].key for name in names if name in declared.module.types]


def _names_in(node: nodes.TypeNode) -> Iterator[str]:
    if isinstance(node, nodes.NamedType):
        yield node.name.text
    for inner in nodes.inner_types(node):
        yield from _names_in(inner)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The place of every field, with named types expanded, but not those in `whole`: they have no fields of their own.

    `outer` is the place in the program's own file that names a type of another file, if the walk is in one: its fields
    get that place.
    """

    whole: Collection[str]

    def walk(self, node: nodes.TypeNode, module: Module, prefix: str, outer: Span | None) -> Iterator[tuple[str, Span]]:
        match node:
            case nodes.ObjectType(members=members):
                yield from self.members(members, module, prefix, outer)
            case nodes.ArrayType(item=item):
                yield from self.walk(item, module, f"{prefix}[]", outer)
            case nodes.UnionType(arms=arms):
                for arm in arms:
                    yield from self.walk(arm, module, prefix, outer)
            case nodes.NamedType(name=name):
                yield from self.named(name, node.span, module, prefix, outer)
            case nodes.LiteralType() | nodes.RegexType() | nodes.TupleType() | nodes.MapType():
                pass

    def named(
        self, name: nodes.Name, span: Span, module: Module, prefix: str, outer: Span | None
    ) -> Iterator[tuple[str, Span]]:
        declared = module.types.get(name.text)
        if declared is not None and declared.key not in self.whole:
            place = outer if outer is not None else (span if declared.module is not module else None)
            yield from self.walk(declared.node.type, declared.module, prefix, place)

    def members(
        self, members: tuple[nodes.Member, ...], module: Module, prefix: str, outer: Span | None
    ) -> Iterator[tuple[str, Span]]:
        for member in members:
            match member:
                case nodes.FieldNode():
                    path = f"{prefix}.{member.key.text}"
                    yield path, outer if outer is not None else member.span
                    yield from self.walk(member.type, module, path, outer)
                case nodes.SequentialGroup(members=inner):
                    yield from self.members(inner, module, prefix, outer)
                case nodes.Spread(name=name, span=span):
                    yield from self.named(name, span, module, prefix, outer)
