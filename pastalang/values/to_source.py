"""Writes hole types as the text of a `.pasta` file: type declarations, and a template that answers with one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from itertools import islice, zip_longest
from typing import Final, TypeAlias, assert_never

from pastalang.grammar import nodes
from pastalang.grammar.printer import print_file, print_type
from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES, Path, flat_arms, parts_of, walk
from pastalang.source import Span
from pastalang.values.conversion import Converted, NotExpressible, check_enum_budget, check_uniqueness, type_name
from pastalang.values.json import JsonValue, decimal_text, parse_json
from pastalang.values.lengths import count_values
from pastalang.values.paths import Mismatch

Example: TypeAlias = tuple[str, JsonValue]  # a text and its right answer

_NOWHERE: Final = Span(0, 0)
_NAMES_OF_PLAIN_TYPES: Final = {type: name for name, type in t.PLAIN_TYPES.items()}
_INSTRUCTION: Final = "Read the text and fill in the record."
SHOW_SCHEMA: Final = "show_schema"  # the input of an extraction program that leaves the schema out
_TEXT: Final = nodes.NamedType(nodes.Name("text", _NOWHERE), (), _NOWHERE)


def type_source(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> str:
    """The source of one type, as in a field. Nested objects are written inline."""
    return print_type(_Writer(types, declare=False).node(type))


def program_source(
    converted: Converted, *, name: str, is_instructed: bool = False, examples: Iterable[Example] = ()
) -> str:
    """A file with every named type, and a template `name` that reads a text and answers with the type.

    With `is_instructed`, the template has the inputs of `extract`: its instructions, and texts before the one to read.
    """
    return print_file(program_file(converted, name=name, is_instructed=is_instructed, examples=examples))


def program_file(
    converted: Converted, *, name: str, is_instructed: bool = False, examples: Iterable[Example] = ()
) -> nodes.File:
    """Raises `NotExpressible` if the type leaves nothing for a model to fill in, or exceeds the limits of a program."""
    if count_values(converted.type) == 1:
        what = "it has only one possible value"
        if isinstance(converted.type, t.Object):
            what = "every field has only one possible value" if converted.type.fields else "it has no fields"
        raise NotExpressible(name, [Mismatch((), f"{what}, so there is nothing to fill in")])
    check_enum_budget(converted, name)
    check_uniqueness(converted, name)
    writer = _Writer(converted.types, declare=True, shared=_shared(converted))
    for declared, type in converted.types.items():
        writer.declare_recursive(declared, type)
    body = writer.body(converted.type)
    shown = [(text, value_node(answer)) for text, answer in examples]
    template = _template(name, body, _description(converted), shown, is_instructed=is_instructed)
    return nodes.File((*writer.declarations, template), _NOWHERE)


def path_at(file: nodes.File, span: Span) -> Path:
    """The path of the innermost part of the answer that is written around the span, in a file of `program_file`."""
    *declarations, template = file.declarations
    assert isinstance(template, nodes.TemplateDeclaration)
    body = template.messages[-1].body
    assert isinstance(body, nodes.JsonBody)
    types = {one.name.text: one for one in declarations if isinstance(one, nodes.TypeDeclaration)}
    around = [
        (place.end - place.start, path)
        for path, place in _places(body.type, (), types)
        if place.start <= span.start and span.end <= place.end
    ]
    return min(around, key=lambda found: found[0], default=(0, ()))[1]


def _places(node: nodes.TypeNode, path: Path, types: dict[str, nodes.TypeDeclaration]) -> Iterator[tuple[Path, Span]]:
    """Where each part is written. A declared type is met once, where it is first named, and then taken from `types`."""
    yield path, node.span
    match node:
        case nodes.NamedType(name=name) if (declared := types.pop(name.text, None)) is not None:
            yield path, declared.span
            yield from _places(declared.type, path, types)
        case nodes.ObjectType(members=members):
            for member in members:
                for place in member.members if isinstance(member, nodes.SequentialGroup) else (member,):
                    assert isinstance(place, nodes.FieldNode)
                    yield (*path, place.key.text), place.span
                    yield from _places(place.type, (*path, place.key.text), types)
        case nodes.TupleType(items=items):
            for index, item in enumerate(items):
                yield from _places(item, (*path, index), types)
        case _:
            step = {nodes.ArrayType: ("[]",), nodes.MapType: ("{}",)}.get(type(node), ())
            for inner in nodes.inner_types(node):
                yield from _places(inner, (*path, *step), types)


@dataclass
class _Writer:
    """Writes types. With `declare`, each object with a name is declared once and referred to by name, and so is each
    type in `shared`."""

    types: Mapping[str, t.Type]
    declare: bool
    shared: Mapping[t.Type, str] = field(default_factory=dict)  # with a name for each
    declarations: list[nodes.TypeDeclaration] = field(default_factory=list)
    declared: dict[t.Type, str] = field(default_factory=dict)

    def body(self, type: t.Type) -> nodes.TypeNode:
        """The type of the answer. An object is written inline, not declared."""
        return self.object(type) if isinstance(type, t.Object) else self.node(type)

    def declare_recursive(self, name: str, type: t.Type) -> None:
        node = self.object(type) if isinstance(type, t.Object) else self.node(type)
        self.add(name, node, type.description if isinstance(type, t.Object) else None)

    def add(self, name: str, node: nodes.TypeNode, description: str | None) -> None:
        text = nodes.StringValue(description, _NOWHERE) if description else None
        trivia = nodes.Trivia(blank_before=bool(self.declarations))
        self.declarations.append(nodes.TypeDeclaration(_name(name), node, text, _NOWHERE, trivia))

    def node(self, type: t.Type) -> nodes.TypeNode:
        match type:
            case t.Object(name=str(name)) if self.declare:
                return _plain(self.declare_once(name, type))
            case _ if isinstance(type, _SHARED) and type in self.shared:
                return _plain(self.declare_once(self.shared[type], type))
            case _:
                return self.written(type)

    def written(self, type: t.Type) -> nodes.TypeNode:
        match type:
            case t.Object():
                return self.object(type)
            case t.Named(name=name):
                return _plain(name)
            case t.Array(item=item):
                limits = _range(type.min_items or None, type.max_items)
                unique = _given(unique=type.unique or None)
                return nodes.ArrayType(self.node(item), (*limits, *unique, *_tokens(type.max_tokens)), _NOWHERE)
            case t.Tuple(items=()):
                return nodes.ArrayType(_plain("any"), (*_given(max=0), *_tokens(type.max_tokens)), _NOWHERE)
            case t.Tuple(items=(only,)):
                return nodes.ArrayType(self.node(only), (*_range(1, 1), *_tokens(type.max_tokens)), _NOWHERE)
            case t.Tuple(items=items):
                return nodes.TupleType(tuple(map(self.node, items)), _tokens(type.max_tokens), _NOWHERE)
            case t.Map(value=value):
                key = _plain("string") if type.key_pattern is None else _regex_node(type.key_pattern, None)
                limits = _range(type.min_items or None, type.max_items)
                return nodes.MapType(key, self.node(value), (*limits, *_tokens(type.max_tokens)), _NOWHERE)
            case t.Union():
                return nodes.UnionType(tuple(map(self.node, flat_arms(type))), _NOWHERE)
            case _:
                return _scalar_node(type)

    def declare_once(self, wanted: str, type: t.Type) -> str:
        if type not in self.declared:
            node = self.written(type)  # declares the types inside it first
            taken = {*self.types, *self.declared.values()}
            name, number = wanted, 2
            while name in taken:
                name, number = f"{wanted}{number}", number + 1
            self.declared[type] = name
            self.add(name, node, type.description if isinstance(type, t.Object) else None)
        return self.declared[type]

    def object(self, type: t.Object) -> nodes.ObjectType:
        members: list[nodes.Member] = []
        group: list[nodes.FieldNode] = []
        for place, following in zip_longest(type.fields, type.fields[1:]):
            node = self.field_node(place)
            if place.group is None:
                members.append(node)
                continue
            group.append(node)
            if following is None or following.group != place.group:
                members.append(nodes.SequentialGroup(tuple(group), _NOWHERE))
                group = []
        return nodes.ObjectType(tuple(members), _NOWHERE)

    def field_node(self, place: t.Field) -> nodes.FieldNode:
        return nodes.FieldNode(
            key=_key(place.key),
            name=None if place.name is None else _name(place.name),
            type=self.node(place.type),
            default=_default(place.default),
            after=tuple(map(_key, place.after)),
            sampling=() if place.sampling is None else _sampling(place.sampling),
            description=nodes.StringValue(place.description, _NOWHERE) if place.description else None,
            span=_NOWHERE,
        )


_SHARED: Final = (t.Object, t.Union, t.Array, t.Tuple, t.Map, t.Schema)
_SHARED_PARTS: Final = 8  # a type with fewer is written out wherever it stands
_SHARED_TEXT: Final = 200  # the same for the text of a schema


def _shared(converted: Converted) -> dict[t.Type, str]:
    """The large types that stand at several places, each with a name made from the first of them."""
    names: dict[t.Type, str] = {}
    twice: set[t.Type] = set()
    waiting = [(name, type) for name, type in converted.types.items()] + [("Answer", converted.type)]
    while waiting:
        name, type = waiting.pop()
        if isinstance(type, _SHARED) and type in names:
            twice.add(type)
            continue
        if isinstance(type, _SHARED):
            names[type] = name
        for step, part in reversed([*parts_of(type)]):
            waiting.append((type_name(str(step[0])) if step and step[0] not in ("[]", "{}") else name, part))
    return {type: name for type, name in names.items() if type in twice and _is_large(type)}


def _is_large(type: t.Type) -> bool:
    if isinstance(type, t.Schema):
        return len(type.document) > _SHARED_TEXT
    return sum(1 for _ in islice(walk(type), _SHARED_PARTS)) == _SHARED_PARTS


def _default(default: t.Default | None) -> nodes.Value | None:
    if default is None:
        return None
    return nodes.PathValue((_name("absent"),), _NOWHERE) if default.is_absent else value_node(parse_json(default.json))


def value_node(value: JsonValue) -> nodes.Value:
    match value:
        case None:
            return nodes.NullValue(_NOWHERE)
        case bool():
            return nodes.BooleanValue(value, _NOWHERE)
        case str():
            return nodes.StringValue(value, _NOWHERE)
        case int() | Decimal():
            return _number(value)
        case list():
            return nodes.ListValue(tuple(map(value_node, value)), _NOWHERE)
        case dict():
            entries = [(nodes.StringValue(key, _NOWHERE), value_node(item)) for key, item in value.items()]
            return nodes.RecordValue(tuple(entries), _NOWHERE)


# ── scalars ──────────────────────────────────────────────────────────────────────────────────────────────


def _scalar_node(type: t.Type) -> nodes.TypeNode:
    if isinstance(type, t.Plain):
        return _plain(_NAMES_OF_PLAIN_TYPES[type])
    match type:
        case t.String(auto=t.AutoPolicy(value=tags), max_tokens=maximum):
            policy = _argument(None, nodes.PathValue((_name(tags),), _NOWHERE))
            return _plain("auto", policy, *_tokens(maximum, "max"))
        case t.String():
            return _plain("string", *_string_arguments(type))
        case t.Regex(pattern=pattern, max_tokens=maximum):
            return _regex_node(pattern, maximum)
        case t.Integer():
            return _plain("integer", *_number_arguments(type))
        case t.Number():
            return _plain("number", *_number_arguments(type))
        case t.Null():
            return _plain_literal(None)
        case t.Literal(value=value):
            return _plain_literal(value)
        case t.Verbatim(source=source, max_tokens=maximum, at=at):
            path = _argument(None, nodes.PathValue(tuple(map(_name, source.split("."))), _NOWHERE))
            units = _given(at=None if at is t.QuoteUnit.WORDS else at.value)
            return _plain("verbatim", path, *units, *_tokens(maximum, "max"))
        case t.Schema(document=document, max_tokens=maximum):
            text = _argument(None, nodes.StringValue(document, _NOWHERE))
            return _plain("schema", text, *_tokens(maximum, "max"))
        case t.Anything(max_tokens=maximum):
            return _plain("any", *_tokens(maximum, "max"))
        case t.Array() | t.Tuple() | t.Map() | t.Object() | t.Union() | t.Named():
            raise AssertionError("structures are written by _Writer")
        case _:
            assert_never(type)


def _string_arguments(type: t.String) -> Iterable[nodes.Argument]:
    least = type.min_chars if type.min_chars or type.may_be_empty else None
    yield from _given(max=type.max_tokens, min_chars=least, max_chars=type.max_chars)
    if type.pattern is not None:
        yield _argument("pattern", nodes.RegexValue(type.pattern, _NOWHERE))
    stop: JsonValue = list(type.stop) if len(type.stop) > 1 else next(iter(type.stop), None)
    yield from _given(format=type.format, stop=stop)


def _number_arguments(type: t.Integer | t.Number) -> tuple[nodes.Argument, ...]:
    others = _given(above=type.exclusive_minimum, below=type.exclusive_maximum, multiple_of=type.multiple_of)
    return (*_range(type.minimum, type.maximum), *others, *_tokens(type.max_tokens))


def _range(low: int | Decimal | None, high: int | Decimal | None) -> tuple[nodes.Argument, ...]:
    if low is None or high is None:
        return _given(min=low, max=high)
    return (_argument(None, nodes.RangeValue(_number(low), _number(high), _NOWHERE)),)


def _tokens(maximum: int | None, name: str = "max_tokens") -> tuple[nodes.Argument, ...]:
    return _given(**{name: maximum})


def _sampling(sampling: t.Sampling) -> tuple[nodes.Argument, ...]:
    given = asdict(sampling)
    return _given(**{name: Decimal(repr(one)) if isinstance(one, float) else one for name, one in given.items()})


def _given(**values: JsonValue) -> tuple[nodes.Argument, ...]:
    """The arguments that are not None."""
    return tuple(_argument(name, value_node(value)) for name, value in values.items() if value is not None)


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────


def _name(text: str) -> nodes.Name:
    return nodes.Name(text, _NOWHERE)


def _key(key: str) -> nodes.Name | nodes.StringValue:
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", key) and key not in ("true", "false", "null", "sequential", "string")
    return _name(key) if plain else nodes.StringValue(key, _NOWHERE)


def _plain(name: str, *arguments: nodes.Argument) -> nodes.NamedType:
    return nodes.NamedType(_name(name), arguments, _NOWHERE)


def _plain_literal(value: t.Scalar) -> nodes.LiteralType:
    node = value_node(value)
    assert isinstance(node, nodes.StringValue | nodes.NumberValue | nodes.BooleanValue | nodes.NullValue)
    return nodes.LiteralType(node, _NOWHERE)


def _regex_node(pattern: str, maximum: int | None) -> nodes.RegexType:
    return nodes.RegexType(nodes.RegexValue(pattern, _NOWHERE), _tokens(maximum, "max"), _NOWHERE)


def _number(value: int | Decimal) -> nodes.NumberValue:
    return nodes.NumberValue(decimal_text(value) if isinstance(value, Decimal) else str(value), _NOWHERE)


def _argument(name: str | None, value: nodes.Value) -> nodes.Argument:
    return nodes.Argument(None if name is None else _name(name), value, _NOWHERE)


def _description(converted: Converted) -> str | None:
    return converted.type.description if isinstance(converted.type, t.Object) else None


# ── the template ─────────────────────────────────────────────────────────────────────────────────────────


def _template(
    name: str,
    body: nodes.TypeNode,
    description: str | None,
    examples: Iterable[tuple[str, nodes.Value]],
    *,
    is_instructed: bool,
) -> nodes.TemplateDeclaration:
    """A template that reads a text. With `is_instructed` it has the inputs of `extract`; see `program_source`."""
    inputs = [_input("text", _TEXT)]
    reads: tuple[nodes.Piece, ...] = (_reference("text"),)
    instruction: tuple[nodes.Piece, ...] = (nodes.TextPiece(f"{_INSTRUCTION}\n\n", _NOWHERE), _reference("schema"))
    if is_instructed:
        inputs.append(_input("instructions", _TEXT, _INSTRUCTION))
        inputs.append(_input("context", nodes.ArrayType(_TEXT, (), _NOWHERE), []))
        inputs.append(_input(SHOW_SCHEMA, _plain("boolean"), True))
        reads = (_context(), *reads)
        schema = (nodes.TextPiece("\n\n", _NOWHERE), _reference("schema"))
        shown = nodes.PathValue((_name(SHOW_SCHEMA),), _NOWHERE)
        instruction = (_reference("instructions"), nodes.IfNode(shown, False, None, schema, None, _NOWHERE))
    messages = (
        nodes.Message(nodes.Role.SYSTEM, nodes.TextBlock(instruction, _NOWHERE), _NOWHERE),
        *(nodes.Message(nodes.Role.USER, _example(text, answer), _NOWHERE) for text, answer in examples),
        nodes.Message(nodes.Role.USER, nodes.TextBlock(reads, _NOWHERE), _NOWHERE),
        nodes.Message(nodes.Role.ASSISTANT, nodes.JsonBody(body, _NOWHERE), _NOWHERE),
    )
    return nodes.TemplateDeclaration(
        name=_name(_template_name(name)),
        inputs=tuple(inputs),
        sampling=(),
        description=nodes.StringValue(description, _NOWHERE) if description else None,
        messages=messages,
        span=_NOWHERE,
    )


def _example(text: str, answer: nodes.Value) -> nodes.ExampleBody:
    entries = ((_name("text"), nodes.StringValue(text, _NOWHERE)), (_name("answer"), answer))
    return nodes.ExampleBody(entries, _NOWHERE)


def _context() -> nodes.IfNode:
    """`{if context}Context: {for part in context} ... {end}Text: {end}`."""
    context = nodes.PathValue((_name("context"),), _NOWHERE)
    part = (_reference("part"), nodes.TextPiece("\n\n", _NOWHERE))
    body = (
        nodes.TextPiece("Context:\n\n", _NOWHERE),
        nodes.ForNode(_name("part"), context, part, _NOWHERE),
        nodes.TextPiece("Text:\n\n", _NOWHERE),
    )
    return nodes.IfNode(context, False, None, body, None, _NOWHERE)


def _input(name: str, type: nodes.TypeNode, default: JsonValue = None) -> nodes.InputNode:
    return nodes.InputNode(_name(name), False, type, None if default is None else value_node(default), _NOWHERE)


def _reference(name: str) -> nodes.Reference:
    return nodes.Reference(nodes.PathValue((_name(name),), _NOWHERE), _NOWHERE)


def _template_name(name: str) -> str:
    """The name of the template for a type: `invoice_line` for `InvoiceLine`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", snake).strip("_")
    return plain if re.match("[a-z]", plain) else f"record_{plain}".rstrip("_")
