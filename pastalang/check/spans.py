"""Where the fields of a JSON answer are written, by path: "product.size.width", "invoice.lines[].price"."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.check.modules import DeclaredType, Module
from pastalang.grammar import nodes
from pastalang.source import Span


def field_spans(node: nodes.TypeNode, module: Module, prefix: str) -> Iterator[tuple[str, Span]]:
    """Every field of the type, names written out; a field of another file stands where this file names it."""
    return _walk(node, module, prefix, None, ())


def _walk(
    node: nodes.TypeNode, module: Module, prefix: str, outer: Span | None, inside: tuple[DeclaredType, ...]
) -> Iterator[tuple[str, Span]]:
    """`outer` is the place in the program's own file that led to another file; `inside` the names being written out."""
    match node:
        case nodes.ObjectType(members=members):
            yield from _members(members, module, prefix, outer, inside)
        case nodes.ArrayType(item=item):
            yield from _walk(item, module, f"{prefix}[]", outer, inside)
        case nodes.UnionType(arms=arms):
            for arm in arms:
                yield from _walk(arm, module, prefix, outer, inside)
        case nodes.NamedType(name=name):
            yield from _named(name, node.span, module, prefix, outer, inside)
        case nodes.LiteralType() | nodes.RegexType() | nodes.TupleType() | nodes.MapType():
            pass


def _named(
    name: nodes.Name, span: Span, module: Module, prefix: str, outer: Span | None, inside: tuple[DeclaredType, ...]
) -> Iterator[tuple[str, Span]]:
    declared = module.types.get(name.text)
    if declared is not None and declared not in inside:
        left = outer if outer is not None else (span if declared.module is not module else None)
        yield from _walk(declared.node.type, declared.module, prefix, left, (*inside, declared))


def _members(
    members: tuple[nodes.Member, ...],
    module: Module,
    prefix: str,
    outer: Span | None,
    inside: tuple[DeclaredType, ...],
) -> Iterator[tuple[str, Span]]:
    for member in members:
        match member:
            case nodes.FieldNode():
                path = f"{prefix}.{member.key.text}"
                yield path, outer if outer is not None else member.span
                yield from _walk(member.type, module, path, outer, inside)
            case nodes.SequentialGroup(members=inner):
                yield from _members(inner, module, prefix, outer, inside)
            case nodes.Spread(name=name, span=span):
                yield from _named(name, span, module, prefix, outer, inside)
