"""Syntax trees for Hypothesis: everything the node types can say in canonical form, spans left out."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from pastalang.grammar import nodes
from pastalang.grammar.nodes import NO_TRIVIA, NOWHERE, Comment, Trivia
from pastalang.grammar.printer import print_file
from pastalang.grammar.tokens import DECLARATION_WORDS, WORDS


def without_spans(node: Any) -> Any:
    """The same tree with every span at nowhere, so that trees compare by what they say."""
    if isinstance(node, tuple):
        return tuple(without_spans(part) for part in node)
    if not dataclasses.is_dataclass(node):
        return node
    values = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    cleaned = {name: NOWHERE if name in ("span", "header") else without_spans(value) for name, value in values.items()}
    return type(node)(**cleaned)


# ── names and values ─────────────────────────────────────────────────────────────────────────────────────

reserved = sorted(WORDS | DECLARATION_WORDS | {"string", "number", "title", "e1"})
plain_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True) | st.sampled_from(
    ["größe", "名前", "x", *reserved]
)
texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.text('"\\/\n#{}|a\u202e\u200b', max_size=8)


def named(text: str) -> nodes.Name:
    return nodes.Name(text, NOWHERE)


def number(text: str) -> nodes.NumberValue:
    return nodes.NumberValue(text, NOWHERE)


names = plain_names.map(named)
type_names = plain_names.filter(lambda text: text not in ("null", "true", "false")).map(named)
strings = st.builds(nodes.StringValue, texts, st.just(NOWHERE))
numbers = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.sampled_from(["1e5", "-0.5E-3", "0", "-0"]),
).map(number)
regexes = st.builds(
    nodes.RegexValue,
    st.sampled_from(["[A-Z]{2}-[0-9]{4}", "a/b", "/", r"\\", "x|y", r"[^/]+\\/", r"\d\."]),
    st.just(NOWHERE),
)
booleans = st.builds(nodes.BooleanValue, st.booleans(), st.just(NOWHERE))
nulls = st.just(nodes.NullValue(NOWHERE))
ranges = (
    st.tuples(st.none() | numbers, st.none() | numbers)
    .filter(any)
    .map(lambda ends: nodes.RangeValue(ends[0], ends[1], NOWHERE))
)
paths = st.tuples(type_names, st.lists(names, max_size=2)).map(
    lambda parts: nodes.PathValue((parts[0], *parts[1]), NOWHERE)
)
atoms = st.one_of(strings, numbers, booleans, nulls, regexes, ranges, paths)
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: nodes.ListValue(tuple(items), NOWHERE)),
        st.lists(st.tuples(strings, inner), max_size=2).map(lambda pairs: nodes.RecordValue(tuple(pairs), NOWHERE)),
    ),
    max_leaves=4,
)
arguments = st.lists(st.builds(nodes.Argument, st.none() | names, values, st.just(NOWHERE)), max_size=3).map(tuple)

# ── types ────────────────────────────────────────────────────────────────────────────────────────────────

literals = st.builds(nodes.LiteralType, strings | numbers | booleans | nulls, st.just(NOWHERE))
named_types = st.builds(nodes.NamedType, type_names, arguments, st.just(NOWHERE))
regex_types = st.builds(nodes.RegexType, regexes, arguments, st.just(NOWHERE))
comments_above = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=10)


def is_plain_comment(text: str) -> bool:
    safe = not any("\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" or "\ufdd0" <= c <= "\ufdef" for c in text)
    return safe and text == text.strip() and not {"\ufffe", "\uffff"} & set(text)


def comment(text: str, *, blank: bool = False) -> Comment:
    return Comment(text, NOWHERE, blank)


comment_texts = comments_above.filter(is_plain_comment)
trivia = st.one_of(
    st.just(NO_TRIVIA),
    st.builds(
        Trivia,
        st.lists(st.builds(comment, comment_texts, blank=st.booleans()), max_size=2).map(tuple),
        st.none() | st.builds(comment, comment_texts),
        st.booleans(),
    ),
)
closings = st.lists(st.builds(comment, comment_texts, blank=st.booleans()), max_size=1).map(
    lambda comments: Trivia(tuple(comments))
)


def first_touches(trivia: Trivia) -> Trivia:
    """No blank line above the first thing between brackets."""
    if not trivia.comments:
        return dataclasses.replace(trivia, blank_before=False)
    first, *others = trivia.comments
    return dataclasses.replace(trivia, comments=(dataclasses.replace(first, blank_before=False), *others))


def touching(owners: list[Any]) -> tuple[Any, ...]:
    return tuple(
        dataclasses.replace(owner, trivia=first_touches(owner.trivia)) if n == 0 else owner
        for n, owner in enumerate(owners)
    )


def closing_after(owners: tuple[Any, ...], closing: Trivia) -> Trivia:
    return closing if owners else first_touches(closing)


def object_of(members: list[Any], closing: Trivia) -> nodes.TypeNode:
    owners = touching(members)
    if len(owners) == 1 and without_clauses(owners[0]):
        key = nodes.NamedType(named("string"), (), NOWHERE)
        return nodes.MapType(key, owners[0].type, (), NOWHERE)
    return nodes.ObjectType(owners, NOWHERE, closing_after(owners, closing))


def without_clauses(member: Any) -> bool:
    """`{string: T}` is a map, so an object with that one field cannot be written that way."""
    if not isinstance(member, nodes.FieldNode) or member.key != named("string"):
        return False
    return not (member.name or member.default or member.after or member.sampling or member.description)


def fields_of(types: st.SearchStrategy[Any]) -> st.SearchStrategy[nodes.FieldNode]:
    keys = names | strings
    return st.builds(
        nodes.FieldNode,
        key=keys,
        name=st.none() | names,
        type=types,
        default=st.none() | values,
        after=st.lists(keys, max_size=2).map(tuple),
        sampling=arguments,
        description=st.none() | strings,
        span=st.just(NOWHERE),
        trivia=trivia,
    )


def group_of(fields: list[nodes.FieldNode], trivia: Trivia, closing: Trivia) -> nodes.SequentialGroup:
    owners = touching(fields)
    return nodes.SequentialGroup(owners, NOWHERE, trivia, closing_after(owners, closing))


def members_of(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = fields_of(types)
    groups = st.builds(group_of, st.lists(fields, max_size=2), trivia, closings)
    return fields | groups | st.builds(nodes.Spread, names, st.just(NOWHERE), trivia)


def union_of(arms: list[Any]) -> nodes.TypeNode:
    flat = [part for arm in arms for part in (arm.arms if isinstance(arm, nodes.UnionType) else (arm,))]
    return nodes.UnionType(tuple(flat), NOWHERE)


def composite_types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    map_keys = regex_types | st.builds(nodes.NamedType, type_names, arguments.filter(len), st.just(NOWHERE))
    string_key = st.just(nodes.NamedType(named("string"), (), NOWHERE))
    return st.one_of(
        st.builds(nodes.ArrayType, inner, arguments, st.just(NOWHERE)),
        st.builds(nodes.TupleType, st.lists(inner, min_size=2, max_size=3).map(tuple), arguments, st.just(NOWHERE)),
        st.builds(nodes.MapType, map_keys | string_key, inner, arguments, st.just(NOWHERE)),
        st.builds(object_of, st.lists(members_of(inner), max_size=3), closings),
        st.lists(inner, min_size=2, max_size=3).map(union_of),
    )


types = st.recursive(named_types | literals | regex_types, composite_types, max_leaves=6)

# ── running text ─────────────────────────────────────────────────────────────────────────────────────────

text_characters = st.text('ab {}"\\#\n\té', min_size=1, max_size=10) | st.text(
    st.characters(
        codec="utf-8",
        exclude_categories=["Cc", "Cs"],
        exclude_characters="\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    ),
    min_size=1,
    max_size=6,
).filter(is_plain_comment)
text_pieces = text_characters.map(lambda text: nodes.TextPiece(text, NOWHERE))
tag_paths = st.tuples(
    plain_names.filter(lambda text: text not in ("null", "true", "false", "sync", "end", "else")).map(named),
    st.lists(names, max_size=2),
).map(lambda parts: nodes.PathValue((parts[0], *parts[1]), NOWHERE))
reserves = st.none() | st.integers(1, 500).map(lambda length: number(str(length)))
inline_pieces = st.one_of(
    text_pieces,
    st.builds(nodes.Reference, tag_paths, st.just(NOWHERE)),
    st.builds(nodes.SchemaTag, arguments, st.just(NOWHERE)),
    st.builds(nodes.HoleNode, names, types, arguments, st.just(NOWHERE)),
    st.builds(nodes.AsyncNode, names, reserves, types, st.none(), arguments, st.just(NOWHERE)),
    st.builds(nodes.PromiseNode, names, strings, reserves, st.just(NOWHERE)),
    st.builds(nodes.SyncNode, st.lists(names, max_size=2).map(tuple), st.just(NOWHERE)),
)


def joined(pieces: list[Any]) -> tuple[Any, ...]:
    """Neighbouring stretches of text are one."""
    done: list[Any] = []
    for piece in pieces:
        if done and isinstance(piece, nodes.TextPiece) and isinstance(done[-1], nodes.TextPiece):
            done[-1] = nodes.TextPiece(done[-1].text + piece.text, NOWHERE)
        else:
            done.append(piece)
    return tuple(done)


def block_pieces(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    bodies = st.lists(inner, max_size=3).map(joined)
    return st.one_of(
        st.builds(nodes.AsyncNode, names, reserves, st.none(), bodies, arguments, st.just(NOWHERE)),
        st.builds(nodes.ForkNode, names, ranges | numbers, bodies, st.just(NOWHERE)),
        st.builds(nodes.ForNode, names, paths, bodies, st.just(NOWHERE)),
        st.builds(nodes.IfNode, paths, st.booleans(), st.none() | values, bodies, st.none() | bodies, st.just(NOWHERE)),
        st.builds(nodes.EachNode, names, paths, reserves, bodies, st.just(NOWHERE)),
    )


pieces = st.recursive(inline_pieces, block_pieces, max_leaves=4)
text_blocks = st.lists(pieces, max_size=5).map(lambda parts: nodes.TextBlock(joined(parts), NOWHERE))

# ── declarations ─────────────────────────────────────────────────────────────────────────────────────────


def message_of(role: nodes.Role, body: Any, trivia: Trivia, thought: nodes.Thought | None = None) -> nodes.Message:
    return nodes.Message(role, body, NOWHERE, trivia, thought if role is nodes.Role.ASSISTANT else None)


thoughts = st.none() | st.builds(nodes.Thought, arguments, st.just(NOWHERE))


messages = st.one_of(
    st.builds(message_of, st.sampled_from(nodes.Role), text_blocks, trivia, thoughts),
    st.builds(
        message_of,
        st.just(nodes.Role.ASSISTANT),
        st.builds(nodes.JsonBody, types, st.just(NOWHERE))
        | st.builds(nodes.AutoBody, type_names, arguments, st.just(NOWHERE)),
        trivia,
        thoughts,
    ),
    st.builds(
        message_of,
        st.just(nodes.Role.USER),
        st.lists(st.tuples(names, values), max_size=3).map(lambda pairs: nodes.ExampleBody(tuple(pairs), NOWHERE))
        | st.builds(nodes.HistoryBody, names, st.just(NOWHERE)),
        trivia,
    ),
)
inputs = st.builds(nodes.InputNode, names, st.booleans(), types, st.none() | values, st.just(NOWHERE), trivia)
imports = st.builds(
    nodes.ImportNode, st.lists(names, min_size=1, max_size=3).map(tuple), strings, st.just(NOWHERE), trivia
)
type_declarations = st.builds(nodes.TypeDeclaration, names, types, st.none() | strings, st.just(NOWHERE), trivia)


def blank_above(trivia: Trivia) -> Trivia:
    """A blank line above the first line of what the trivia belongs to."""
    if not trivia.comments:
        return dataclasses.replace(trivia, blank_before=True)
    first, *others = trivia.comments
    return dataclasses.replace(trivia, comments=(dataclasses.replace(first, blank_before=True), *others))


def template_of(
    name: Any, inputs: list[Any], sampling: Any, description: Any, messages: list[Any], trivia: Trivia
) -> Any:
    spaced = tuple(
        dataclasses.replace(message, trivia=blank_above(message.trivia)) if n == 0 else message
        for n, message in enumerate(messages)
    )
    return nodes.TemplateDeclaration(
        name, touching(inputs), sampling, description, spaced, NOWHERE, trivia, header=NOWHERE
    )


templates = st.builds(
    template_of,
    names,
    st.lists(inputs, max_size=3),
    arguments,
    st.none() | strings,
    st.lists(messages, max_size=3),
    trivia,
)


def file_of(declarations: list[Any], closing: Trivia) -> nodes.File:
    done: list[Any] = []
    for declaration in declarations:
        may_touch = (
            done and type(done[-1]) is type(declaration) and not isinstance(declaration, nodes.TemplateDeclaration)
        )
        if not done:
            declaration = dataclasses.replace(declaration, trivia=first_touches(declaration.trivia))
        elif not may_touch:
            declaration = dataclasses.replace(declaration, trivia=blank_above(declaration.trivia))
        done.append(declaration)
    return nodes.File(tuple(done), NOWHERE, closing)


files = st.builds(file_of, st.lists(imports | type_declarations | templates, min_size=1, max_size=3), closings)


class Program:
    """A tree that is shown as its text: Hypothesis takes minutes to write out the calls that built it."""

    def __init__(self, tree: nodes.File) -> None:
        self.tree = tree

    def __repr__(self) -> str:
        return print_file(self.tree)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return Program(draw(files))
