"""Types in words: a few for messages and pictures, and all that a model needs to know for a prompt.

`describe` names a type in a message: "a string", "an integer from 0 to 10". `prompt_text` writes the fields in order,
each with its type in words, its options and its description, and leaves out limits of tokens, which no model counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from itertools import islice, repeat
from typing import Final, assert_never

from pastalang.diagnostics.suggest import one_of
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES, flat_arms, reached
from pastalang.values.json import JsonValue, laid_out_json, spell
from pastalang.values.patterns import FORMATS, MOMENTS, UUID, anchored
from pastalang.values.to_schema import schema_of

# ── in a message ───────────────────────────────────────────────────────────────────────────────────────

_MOMENTS: Final = {
    t.Moment.DATE: "date (YYYY-MM-DD)",
    t.Moment.DATETIME: "date and time (YYYY-MM-DDTHH:MM:SS)",
    t.Moment.TIME: "time (HH:MM:SS)",
}
_SHOWN_ARMS: Final = 12


def counted(number: int, noun: str) -> str:
    """`1 token`, `2 tokens`, `3 passes`"""
    ending = "" if number == 1 else "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number:,} {noun}{ending}"


def pace(rate: float, noun: str = "", *, digits: int = 1) -> str:
    """`1.5/s`, and what is slower as `3.2/min` or `1.2/h`; with a noun `7 tokens/s`."""
    unit, seconds = next((one for one in (("s", 1), ("min", 60)) if rate * one[1] >= 1 or not rate), ("h", 3600))
    return f"{rate * seconds:,.{digits}f}{noun and f' {noun}'}/{unit}"


def describe(type: t.Type) -> str:
    match type:
        case t.String(format=None):
            return "a string"
        case t.String(format=format):
            return f"a string of the format {format}"
        case t.Regex(pattern=pattern):
            return f"a string that matches /{pattern}/"
        case t.Integer():
            return "an integer" + _bounds_in_message(type)
        case t.Number():
            return "a number" + _bounds_in_message(type)
        case t.Boolean():
            return "true or false"
        case t.Null():
            return "null"
        case t.Literal(value=value):
            return spell(value)
        case t.Temporal(kind=kind):
            return f"a {_MOMENTS[kind]}"
        case t.Uuid():
            return "a UUID"
        case t.Verbatim(source=source):
            return f"a span of `{source}`"
        case t.Array():
            return "an array"
        case t.Tuple(items=items):
            return f"an array of {counted(len(items), 'value')}"
        case t.Map() | t.Object():
            return "an object"
        case t.Union(arms=arms):
            words = list(islice(_without_repeats(describe(arm) for arm in arms), _SHOWN_ARMS + 1))
            shown = words[:_SHOWN_ARMS] + (["…"] if len(words) > _SHOWN_ARMS else [])
            return one_of(shown)
        case t.Named(name=name):
            return name
        case t.Schema():
            return "a value of the given JSON Schema"
        case t.Anything():
            return "any JSON value"
        case _:
            assert_never(type)


def _without_repeats(words: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for word in words:
        if word not in seen:
            seen.add(word)
            yield word


def _bounds_in_message(type: t.Integer | t.Number) -> str:
    if (range := _range_in_words(type)) is not None:
        return f" from {range}"
    words = _bounds_in_words(type)
    return " " + " and ".join(words) if words else ""


def _range_in_words(type: t.Integer | t.Number) -> str | None:
    is_range = type.minimum is not None and type.maximum is not None
    return f"{spell(type.minimum)} to {spell(type.maximum)}" if is_range else None


def _bounds_in_words(type: t.Integer | t.Number) -> list[str]:
    bounds = (
        ("at least", type.minimum), ("at most", type.maximum), ("above", type.exclusive_minimum),
        ("below", type.exclusive_maximum),
    )  # fmt: skip
    return [f"{word} {spell(bound)}" for word, bound in bounds if bound is not None]


class Style(Enum):
    SKELETON = "skeleton"  # the shape of the answer, with types in place of values
    LIST = "list"  # a bulleted list
    JSON = "json"  # a JSON Schema


# ── in a picture ───────────────────────────────────────────────────────────────────────────────────────


def caption(type: t.Type) -> str:
    """`string`, `number or null`, `"cm" | "in"`, `[string](0..4)`: the shape, without the limit."""
    match type:
        case t.String(auto=t.AutoPolicy(value=policy)):
            return f"auto({policy})"
        case t.String():
            return type.format or "string"
        case t.Integer():
            return "integer" + _range_caption(type.minimum, type.maximum)
        case t.Number():
            return "number" + _range_caption(type.minimum, type.maximum)
        case t.Boolean():
            return "boolean"
        case t.Null():
            return "null"
        case t.Literal():
            return _literal_caption(type.value)
        case t.Regex():
            return f"/{type.pattern}/"
        case t.Temporal():
            return type.kind.value
        case t.Uuid():
            return "uuid"
        case t.Verbatim():
            return f"verbatim({type.source})"
        case t.Array():
            return f"[{caption(type.item)}]" + _range_caption(type.min_items or None, type.max_items)
        case t.Tuple():
            return f"[{', '.join(map(caption, type.items))}]"
        case t.Map():
            return f"{{string: {caption(type.value)}}}"
        case t.Object():
            return type.name or "object"
        case t.Union():
            return _union_caption(type)
        case t.Named():
            return type.name
        case t.Schema():
            return "schema"
        case t.Anything():
            return "anything"
    assert_never(type)


def _union_caption(union: t.Union) -> str:
    arms = [arm for arm in union.arms if not isinstance(arm, t.Null)]
    described = [caption(arm) for arm in arms]
    if len(described) > 4:
        described = [*described[:3], f"{len(described) - 3} more"]
    return " | ".join(described) + (" or null" if len(arms) < len(union.arms) else "")


def _literal_caption(value: t.Scalar) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _range_caption(low: object, high: object) -> str:
    if low is None and high is None:
        return ""
    return f"({'' if low is None else low}..{'' if high is None else high})"


# ── in a prompt ────────────────────────────────────────────────────────────────────────────────────────

_NULL: Final = "Write null for a value that is not given."
_DATES: Final = ("date", "date-time", "local-date-time")
_INDENT: Final = "  "
_LINE: Final = 80  # characters that a small object may take on one line
_FORMATS: Final = {
    anchored(MOMENTS[t.Moment.DATETIME]): "date-time",
    anchored(MOMENTS[t.Moment.TIME]): "time",
    anchored(MOMENTS[t.Moment.DATE]): "date",
    anchored(UUID): "uuid",
    **{anchored(format.pattern): name for name, format in FORMATS.items()},
}


def prompt_text(
    type: t.Type,
    types: Mapping[str, t.Type] = NO_TYPES,
    *,
    style: Style = Style.SKELETON,
    description: str | None = None,
) -> str:
    """The type as text. `description` says what the whole is, if the type does not say so itself."""
    if style is Style.JSON:
        document = _for_readers(schema_of(type, types))
        assert isinstance(document, dict)
        return laid_out_json({"description": description, **document} if description else document)
    about = (type.description if isinstance(type, t.Object) else None) or description
    shared = _shared(type, types)
    writer = _Skeleton(shared) if style is Style.SKELETON else _List(shared)
    parts = [_paragraphs(about)] if about else []
    parts += [writer.definition(name, inner) for name, inner in shared.items()]
    parts.append(writer.whole(type))
    if _may_be_null(type, types):
        parts.append(_NULL)
    return "\n\n".join(parts)


def _for_readers(schema: JsonValue) -> JsonValue:
    """The schema without the patterns of formats and moments, which are long and say nothing new."""
    match schema:
        case list():
            return [_for_readers(part) for part in schema]
        case dict():
            known = _FORMATS.get(str(schema.get("pattern"))) if schema.get("type") == "string" else None
            kept = {key: _for_readers(part) for key, part in schema.items() if known is None or key != "pattern"}
            return kept if known is None else {**kept, "format": known}
        case _:
            return schema


def shape_of_text(pieces: Iterable[p.Piece]) -> t.Object:
    """The holes of running text as the fields of an object. Forks are lists of items."""
    return t.Object(tuple(_fields_of(pieces)))


def _fields_of(pieces: Iterable[p.Piece]) -> Iterator[t.Field]:
    for piece in pieces:
        match piece:
            case p.Hole(name=name, type=type):
                yield t.Field(name, type)
            case p.Async(body=body):
                yield from _fields_of(body)
            case p.Fork(name=name, minimum=minimum, maximum=maximum, body=body):
                yield t.Field(name, t.Array(shape_of_text(body), minimum, maximum))
            case p.Each(name=name, body=body):
                yield t.Field(name, t.Array(shape_of_text(body)))
            case p.Text() | p.InputValue() | p.ItemNumber() | p.Promise() | p.Sync() | p.For() | p.If():
                pass
            case _:
                assert_never(piece)


def _shared(type: t.Type, types: Mapping[str, t.Type]) -> dict[str, t.Type]:
    """The types that are written once and referred to by name: recursive ones, and objects that occur repeatedly."""
    parts = list(reached(type, types))
    named = {part.name: types[part.name] for part in parts if isinstance(part, t.Named)}
    objects = Counter(part for part in parts if isinstance(part, t.Object) and part.name)
    inside = set(named.values())
    for part, times in objects.items():
        if times > 1 and part not in inside and part is not type and part.name not in named:
            assert part.name is not None
            named[part.name] = part
    return named


def _may_be_null(type: t.Type, types: Mapping[str, t.Type]) -> bool:
    return any(isinstance(part, t.Union) and t.Null() in part.arms for part in reached(type, types))


def _paragraphs(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _key(key: str) -> str:
    return key if key.isidentifier() else json.dumps(key, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """The shape of the answer: `brand: string | null  // as printed`."""

    shared: Mapping[str, t.Type]

    def definition(self, name: str, type: t.Type) -> str:
        about = type.description if isinstance(type, t.Object) else None
        comment = f"// {_on_one_line(about)}\n" if about else ""
        return f"{comment}{name} = {self.value(type, 0, is_top=True)}"

    def whole(self, type: t.Type) -> str:
        return self.value(type, 0, is_top=True)

    def value(self, type: t.Type, depth: int, *, is_top: bool = False) -> str:
        match type:
            case t.Object(name=name) if not is_top and name is not None and self.shared.get(name) == type:
                return name
            case t.Object():
                return self.object(type, depth, is_top=is_top)
            case t.Array(item=item):
                return f"[{self.value(item, depth)}]" + _notes([_counts(type, "items", unique=type.unique)])
            case t.Tuple(items=items):
                return f"[{', '.join(self.value(item, depth) for item in items)}]"
            case t.Map(value=value, key_pattern=pattern):
                key = "string" if pattern is None else f"/{pattern}/"
                return f"{{{key}: {self.value(value, depth)}}}" + _notes([_counts(type, "keys")])
            case t.Union():
                return " | ".join(self.value(arm, depth) for arm in flat_arms(type))
            case _:
                return _scalar_in_prompt(type)

    def object(self, object: t.Object, depth: int, *, is_top: bool) -> str:
        """On one line if that is short, which its depth does not change; each field is written once."""
        written = [f"{_key(place.key)}: {self.value(place.type, depth + 1)}" for place in object.fields]
        if not is_top and not any(place.description for place in object.fields):
            line = f"{{ {', '.join(written)} }}"
            if len(line) <= _LINE and "\n" not in line:
                return line if object.fields else "{}"
        lines = map(self.described, object.fields, written, repeat(_INDENT * (depth + 1)))
        return "\n".join(["{", *lines, _INDENT * depth + "}"])

    def described(self, place: t.Field, written: str, indent: str) -> str:
        """A field on its own line; the description stands after a value of one line, and above a longer one."""
        about = place.description or _about(place.type, self.shared)
        if not about:
            return indent + written
        comment = f"// {_on_one_line(about)}"
        return f"{indent}{comment}\n{indent}{written}" if "\n" in written else f"{indent}{written}  {comment}"


def _about(type: t.Type, shared: Mapping[str, t.Type]) -> str | None:
    """The description of the object that a field holds, unless it is defined elsewhere."""
    match type:
        case t.Object(description=about, name=name):
            return about if name is None or shared.get(name) != type else None
        case t.Array(item=item):
            return _about(item, shared)
        case t.Union(arms=arms):
            others = [arm for arm in arms if arm != t.Null()]
            return _about(others[0], shared) if len(others) == 1 else None
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _List:
    """A bulleted list: `- brand: string or null; as printed`"""

    shared: Mapping[str, t.Type]

    def definition(self, name: str, type: t.Type) -> str:
        about = type.description if isinstance(type, t.Object) else None
        return self.titled(name, type, about, 0, is_top=True)

    def whole(self, type: t.Type) -> str:
        if isinstance(type, t.Object):
            return "\n".join(self.fields(type, 0)) or "- nothing"
        return self.titled("answer", type, None, 0)

    def fields(self, object: t.Object, depth: int) -> Iterator[str]:
        for place in object.fields:
            about = place.description or _about(place.type, self.shared)
            yield self.titled(_key(place.key), place.type, about, depth)

    def titled(self, title: str, type: t.Type, about: str | None, depth: int, *, is_top: bool = False) -> str:
        """One point with the points of the objects inside it."""
        inner: list[tuple[str, t.Object]] = []
        words = self.words(type, inner, is_top=is_top)
        first = f"{_INDENT * depth}- {title}: {words}"
        lines = [f"{first}; {_on_one_line(about)}" if about else first]
        for name, object in inner:
            if len(inner) > 1:
                lines.append(f"{_INDENT * (depth + 1)}- {name}:")
            lines += self.fields(object, depth + 1 + (len(inner) > 1))
        return "\n".join(lines)

    def words(self, type: t.Type, inner: list[tuple[str, t.Object]], *, is_top: bool = False) -> str:
        """The type in words. The objects whose fields are written below are added to `inner`."""
        match type:
            case t.Object(name=name) if not is_top and name is not None and self.shared.get(name) == type:
                return name
            case t.Object(fields=()):
                return "empty object"
            case t.Object(name=name):
                number = sum(title.startswith("object") for title, _ in inner) + 1
                title = name or ("object" if number == 1 else f"object {number}")
                inner.append((title, type))
                return title if name and not is_top else "object"
            case t.Array(item=item):
                words = self.words(item, inner)
                return f"list of {words}" + _notes([_counts(type, "items", unique=type.unique)])
            case t.Tuple(items=items):
                return f"list of exactly: {', '.join(self.words(item, inner) for item in items)}"
            case t.Map(value=value, key_pattern=pattern):
                keys = "any keys" if pattern is None else f"keys matching /{pattern}/"
                words = self.words(value, inner)
                return f"object with {keys} and values of {words}" + _notes([_counts(type, "keys")])
            case t.Union():
                return one_of(list(dict.fromkeys(self.words(arm, inner) for arm in flat_arms(type))))
            case _:
                return _scalar_in_prompt(type)


# ── types without parts ──────────────────────────────────────────────────────────────────────────────────


def _scalar_in_prompt(type: t.Type) -> str:
    match type:
        case t.String():
            lengths = _between(type.min_chars or None, type.max_chars, "character")
            is_range = type.format in _DATES  # its pattern spells out the bounds of dates, digit by digit
            pattern = f"matching /{type.pattern}/" if type.pattern is not None and not is_range else ""
            return "string" + _notes([type.format or "", lengths, pattern])
        case t.Regex(pattern=pattern):
            return f"string (matching /{pattern}/)"
        case t.Integer():
            return "integer" + _bounds_in_prompt(type)
        case t.Number():
            return "number" + _bounds_in_prompt(type)
        case t.Boolean():
            return "boolean"
        case t.Null():
            return "null"
        case t.Literal(value=value):
            return spell(value)
        case t.Temporal(kind=kind):
            return _MOMENTS[kind]
        case t.Uuid():
            return "UUID"
        case t.Verbatim(source=source):
            return f"exact quote from {source}"
        case t.Named(name=name):
            return name
        case t.Schema(document=document):
            return f"value of the JSON Schema {document}"
        case t.Anything():
            return "any JSON value"
        case t.Array() | t.Tuple() | t.Map() | t.Object() | t.Union():
            raise AssertionError("types with parts are written by each style")
        case _:
            assert_never(type)


def _notes(notes: Iterable[str]) -> str:
    said = [note for note in notes if note]
    return f" ({', '.join(said)})" if said else ""


def _counts(type: t.Array | t.Map, noun: str, *, unique: bool = False) -> str:
    kind = f"different {noun}" if unique else noun
    said = _between(type.min_items or None, type.max_items, kind.removesuffix("s"))
    return said or (kind if unique else "")


def _between(minimum: int | None, maximum: int | None, noun: str) -> str:
    match minimum, maximum:
        case None, None:
            return ""
        case int(), None:
            return f"at least {counted(minimum, noun)}"
        case None, int():
            return f"at most {counted(maximum, noun)}"
        case _ if minimum == maximum:
            assert maximum is not None
            return f"exactly {counted(maximum, noun)}"
        case _:
            assert maximum is not None
            return f"{minimum:,} to {counted(maximum, noun)}"


def _bounds_in_prompt(type: t.Integer | t.Number) -> str:
    said = _bounds_in_words(type) + ([f"a multiple of {spell(type.multiple_of)}"] if type.multiple_of else [])
    if (range := _range_in_words(type)) is not None:
        said[:2] = [range]
    return _notes(said)
