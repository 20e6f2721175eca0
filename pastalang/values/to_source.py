"""Writes hole types as the text of a `.pasta` file: type declarations, and a template that answers with one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice, zip_longest
from typing import Final, TypeAlias, assert_never

from pastalang.grammar import nodes
from pastalang.grammar.printer import print_file, print_type
from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES, flat_arms, parts_of, walk
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
_BOOLEAN: Final = nodes.NamedType(nodes.Name("boolean", _NOWHERE), (), _NOWHERE)
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
                return nodes.NamedType(_name(self.declare_once(name, type)), (), _NOWHERE)
            case _ if isinstance(type, _SHARED) and type in self.shared:
                return nodes.NamedType(_name(self.declare_once(self.shared[type], type)), (), _NOWHERE)
            case _:
                return self.written(type)

    def written(self, type: t.Type) -> nodes.TypeNode:
        match type:
            case t.Object():
                return self.object(type)
            case t.Named(name=name):
                return nodes.NamedType(_name(name), (), _NOWHERE)
            case t.Array(item=item):
                limits = _counts(type.min_items, type.max_items)
                unique = [_argument("unique", nodes.BooleanValue(True, _NOWHERE))] if type.unique else []
                return nodes.ArrayType(self.node(item), (*limits, *unique, *_tokens(type.max_tokens)), _NOWHERE)
            case t.Tuple(items=()):
                return nodes.ArrayType(_plain("any"), (*_counts(0, 0), *_tokens(type.max_tokens)), _NOWHERE)
            case t.Tuple(items=(only,)):
                return nodes.ArrayType(self.node(only), (*_counts(1, 1), *_tokens(type.max_tokens)), _NOWHERE)
            case t.Tuple(items=items):
                return nodes.TupleType(tuple(map(self.node, items)), _tokens(type.max_tokens), _NOWHERE)
            case t.Map(value=value):
                key = _plain("string") if type.key_pattern is None else _regex_node(type.key_pattern, None)
                limits = _counts(type.min_items, type.max_items)
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
            return nodes.NamedType(_name("auto"), (policy, *_tokens(maximum, "max")), _NOWHERE)
        case t.String():
            return nodes.NamedType(_name("string"), tuple(_string_arguments(type)), _NOWHERE)
        case t.Regex(pattern=pattern, max_tokens=maximum):
            return _regex_node(pattern, maximum)
        case t.Integer():
            return nodes.NamedType(_name("integer"), tuple(_number_arguments(type)), _NOWHERE)
        case t.Number():
            return nodes.NamedType(_name("number"), tuple(_number_arguments(type)), _NOWHERE)
        case t.Null():
            return _plain_literal(None)
        case t.Literal(value=value):
            return _plain_literal(value)
        case t.Verbatim(source=source, max_tokens=maximum, at=at):
            path = _argument(None, nodes.PathValue(tuple(map(_name, source.split("."))), _NOWHERE))
            unit = _argument("at", nodes.StringValue(at.value, _NOWHERE))
            units = () if at is t.QuoteUnit.WORDS else (unit,)
            return nodes.NamedType(_name("verbatim"), (path, *units, *_tokens(maximum, "max")), _NOWHERE)
        case t.Schema(document=document, max_tokens=maximum):
            text = _argument(None, nodes.StringValue(document, _NOWHERE))
            return nodes.NamedType(_name("schema"), (text, *_tokens(maximum, "max")), _NOWHERE)
        case t.Anything(max_tokens=maximum):
            return nodes.NamedType(_name("any"), _tokens(maximum, "max"), _NOWHERE)
        case t.Array() | t.Tuple() | t.Map() | t.Object() | t.Union() | t.Named():
            raise AssertionError("structures are written by _Writer")
        case _:
            assert_never(type)


def _string_arguments(type: t.String) -> Iterable[nodes.Argument]:
    yield from _tokens(type.max_tokens, "max")
    if type.min_chars or type.may_be_empty:
        yield _argument("min_chars", _number(type.min_chars))
    if type.max_chars is not None:
        yield _argument("max_chars", _number(type.max_chars))
    if type.pattern is not None:
        yield _argument("pattern", nodes.RegexValue(type.pattern, _NOWHERE))
    if type.format is not None:
        yield _argument("format", nodes.StringValue(type.format, _NOWHERE))
    if type.stop:
        texts = tuple(nodes.StringValue(text, _NOWHERE) for text in type.stop)
        yield _argument("stop", texts[0] if len(texts) == 1 else nodes.ListValue(texts, _NOWHERE))


def _number_arguments(type: t.Integer | t.Number) -> Iterable[nodes.Argument]:
    if type.minimum is not None and type.maximum is not None:
        yield _argument(None, nodes.RangeValue(_number(type.minimum), _number(type.maximum), _NOWHERE))
    elif type.minimum is not None:
        yield _argument("min", _number(type.minimum))
    elif type.maximum is not None:
        yield _argument("max", _number(type.maximum))
    for name, bound in (
        ("above", type.exclusive_minimum),
        ("below", type.exclusive_maximum),
        ("multiple_of", type.multiple_of),
    ):
        if bound is not None:
            yield _argument(name, _number(bound))
    yield from _tokens(type.max_tokens)


def _counts(minimum: int, maximum: int | None) -> tuple[nodes.Argument, ...]:
    if maximum is None:
        return (_argument("min", _number(minimum)),) if minimum else ()
    if not minimum:
        return (_argument("max", _number(maximum)),)
    return (_argument(None, nodes.RangeValue(_number(minimum), _number(maximum), _NOWHERE)),)


def _tokens(maximum: int | None, name: str = "max_tokens") -> tuple[nodes.Argument, ...]:
    return () if maximum is None else (_argument(name, _number(maximum)),)


def _sampling(sampling: t.Sampling) -> tuple[nodes.Argument, ...]:
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    given = [(name, getattr(sampling, name)) for name in names]
    numbers = tuple(
        _argument(name, _number(value if isinstance(value, int) else Decimal(repr(value))))
        for name, value in given
        if value is not None
    )
    words = ((name, value) for name in ("on_truncated", "drafts") if (value := getattr(sampling, name)) is not None)
    return (
        *numbers,
        *(
            _argument(name, _number(value) if isinstance(value, int) else nodes.StringValue(value, _NOWHERE))
            for name, value in words
        ),
    )


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────


def _name(text: str) -> nodes.Name:
    return nodes.Name(text, _NOWHERE)


def _key(key: str) -> nodes.Name | nodes.StringValue:
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", key) and key not in ("true", "false", "null", "sequential", "string")
    return _name(key) if plain else nodes.StringValue(key, _NOWHERE)


def _plain(name: str) -> nodes.NamedType:
    return nodes.NamedType(_name(name), (), _NOWHERE)


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
    inputs = [_text_input("text", None)]
    reads: tuple[nodes.Piece, ...] = (_reference("text"),)
    instruction: tuple[nodes.Piece, ...] = (nodes.TextPiece(f"{_INSTRUCTION}\n\n", _NOWHERE), _reference("schema"))
    if is_instructed:
        texts = nodes.ArrayType(_TEXT, (), _NOWHERE)
        inputs.append(_text_input("instructions", _INSTRUCTION))
        inputs.append(nodes.InputNode(_name("context"), False, texts, nodes.ListValue((), _NOWHERE), _NOWHERE))
        reads = (_context(), *reads)
        inputs.append(
            nodes.InputNode(_name(SHOW_SCHEMA), False, _BOOLEAN, nodes.BooleanValue(True, _NOWHERE), _NOWHERE)
        )
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


def _text_input(name: str, default: str | None) -> nodes.InputNode:
    value = None if default is None else nodes.StringValue(default, _NOWHERE)
    return nodes.InputNode(_name(name), False, _TEXT, value, _NOWHERE)


def _reference(name: str) -> nodes.Reference:
    return nodes.Reference(nodes.PathValue((_name(name),), _NOWHERE), _NOWHERE)


def _template_name(name: str) -> str:
    """The name of the template for a type: `invoice_line` for `InvoiceLine`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", snake).strip("_")
    return plain if re.match("[a-z]", plain) else f"record_{plain}".rstrip("_")
