"""What an `Annotated[...]` of a Pydantic model may say to PastaLang. Pydantic itself validates as if it were not there.

class Product(BaseModel):
    brand: Annotated[str, pastalang.Verbatim("text")]
    headline: Annotated[str, pastalang.Tokens(24), pastalang.After("brand")]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.limits import MAX_HOLE_TOKENS
from pastalang.program import types as t
from pastalang.values.describe import describe
from pastalang.values.one_hole import QUOTE_TOKENS, limit_without_text, may_be_null
from pastalang.values.pydantic.scalars import CoreSchema, Refused

_KEY: Final = "pastalang"
_SHARED: Final = ("definitions", "definition-ref")


class Mark:
    """An annotation that stays in Pydantic's core schema, where the conversion finds it."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: Any = None) -> Any:
        if handler is None:  # Pydantic asks the class itself, which stands where a type has to
            name = getattr(self, "__name__", "")
            raise TypeError(f"`{name}` is no type: write `Annotated[str, pastalang.{name}(...)]`")
        schema = handler(source)
        if "ref" in schema or schema["type"] in _SHARED:  # other fields may use the same schema
            schema = {"type": "chain", "steps": [schema]}
        metadata = schema.get("metadata", {})
        return {**schema, "metadata": {**metadata, _KEY: (*metadata.get(_KEY, ()), self)}}


@dataclass(frozen=True, slots=True)
class Tokens(Mark):
    """At most `most` tokens for a string, a number or a list. A longer value is cut, and the result says so.

    For a field, `on_truncated` says what becomes of a value that is cut: "keep", "raise" or "null".
    """

    most: int
    on_truncated: t.OnTruncated | None = None

    def __post_init__(self) -> None:
        given: object = self.most
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MAX_HOLE_TOKENS:
            raise ValueError(f"Tokens takes a whole number from 1 to {MAX_HOLE_TOKENS:,}, not {given!r:.60}")
        if self.on_truncated not in (None, *t.ON_TRUNCATED):
            words = ", ".join(map(repr, t.ON_TRUNCATED))
            raise ValueError(f"Tokens takes one of {words} for `on_truncated`, not {self.on_truncated!r:.60}")

    def __str__(self) -> str:
        return f"Tokens({self.most})" if self.on_truncated is None else f"Tokens({self.most}, {self.on_truncated!r})"


@dataclass(frozen=True, slots=True)
class Verbatim(Mark):
    """A string that is copied, character for character, from the input of this name."""

    source: str

    def __post_init__(self) -> None:
        given: object = self.source
        if not isinstance(given, str) or not given:
            raise ValueError(f'Verbatim takes the name of an input, such as Verbatim("text"), not {given!r:.60}')

    def __str__(self) -> str:
        return f'Verbatim("{self.source}")'


@dataclass(frozen=True, slots=True, init=False)
class After(Mark):
    """The field waits for these fields of the same model, and sees their values."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError(f'After takes names of fields, such as After("brand"), not {names!r:.60}')
        object.__setattr__(self, "names", names)

    def __str__(self) -> str:
        return f"After({', '.join(map(repr, self.names))})"


@dataclass(frozen=True, slots=True)
class Sequential(Mark):
    """The field is written in order, by one branch, together with the marked fields next to it."""

    def __str__(self) -> str:
        return "Sequential()"


# ── for the conversion ───────────────────────────────────────────────────────────────────────────────────


def with_marks(type: t.Type, schema: CoreSchema, *, is_field: bool) -> t.Type:
    """The type with what the annotations of its schema say. `After` and `Sequential` are read with the field."""
    for mark in _marks_of(schema):
        match mark:
            case Tokens(on_truncated=str()) if not is_field:
                raise Refused(f"`on_truncated` of `{mark}` belongs to a field, not to a part of its type")
            case Tokens():
                type = _limited(type, mark)
            case Verbatim():
                type = _quoted(type, mark)
            case _ if not is_field:
                raise Refused(f"`{mark}` belongs to a field, not to a part of its type")
    return type


def _marks_of(schema: CoreSchema) -> tuple[Mark, ...]:
    found: tuple[Mark, ...] = schema.get("metadata", {}).get(_KEY, ())
    return found


_Limited = t.String | t.Regex | t.Verbatim | t.Integer | t.Number | t.Array | t.Tuple | t.Map | t.Schema | t.Anything


def _limited(type: t.Type, mark: Tokens) -> t.Type:
    """The type with a limit of tokens; in a union, every arm that can have one. Raises `Refused` if none can."""
    arms = type.arms if isinstance(type, t.Union) else (type,)
    if not any(isinstance(arm, _Limited) for arm in arms):
        raise Refused(f"`{mark}`: {describe(type)} has no limit of tokens")
    limited = [replace(arm, max_tokens=mark.most) if isinstance(arm, _Limited) else arm for arm in arms]
    if any(limit_without_text(arm) is not None for arm in limited):
        more = mark.most + QUOTE_TOKENS
        raise Refused(f"`{mark}` leaves no room for text, because the quotes take {QUOTE_TOKENS}: write Tokens({more})")
    return _with_arms(type, limited)


def _quoted(type: t.Type, mark: Verbatim) -> t.Type:
    """The type with strings that are quoted from an input. Raises `Refused` if it has none."""
    arms = type.arms if isinstance(type, t.Union) else (type,)
    strings = [arm for arm in arms if isinstance(arm, t.String)]
    if not strings:
        raise Refused(f"`{mark}`: only a string can be quoted, not {describe(type)}")
    for arm in strings:
        if found := [word for word, is_set in _limits_of(arm) if is_set]:
            raise Refused(
                f"`{mark}` copies any words of its input, so {found[0]} cannot be enforced: leave out one of the two, "
                "or check it in a validator, with `repair`"
            )
    changed = [t.Verbatim(mark.source, arm.max_tokens) if isinstance(arm, t.String) else arm for arm in arms]
    return _with_arms(type, changed)


def _limits_of(type: t.String) -> tuple[tuple[str, bool], ...]:
    return (
        ("the pattern of the field", type.pattern is not None),
        (f"the format {type.format}", type.format is not None),
        ("the length of the field", type.min_chars > 0 or type.max_chars is not None),
    )


def _with_arms(type: t.Type, arms: Sequence[t.Type]) -> t.Type:
    return replace(type, arms=tuple(arms)) if isinstance(type, t.Union) else arms[0]


def layers_of(schema: CoreSchema) -> Iterator[CoreSchema]:
    """The schema of a field, and those inside it that are its whole type: without a default, without validators."""
    yield schema
    while schema["type"] == "default" or (schema["type"].startswith("function-") and "schema" in schema):
        schema = schema["schema"]
        yield schema


def field_marks(schema: CoreSchema) -> tuple[Mark, ...]:
    return tuple(mark for layer in layers_of(schema) for mark in _marks_of(layer))


def in_order(fields: Mapping[str, t.Field], marks: Sequence[tuple[Mark, ...]]) -> list[t.Field]:
    """The fields, by their Python names, with what they wait for. Neighbours that are `Sequential` become a group."""
    found: list[t.Field] = []
    group, was_in_order = -1, False
    for (name, field), own in zip(fields.items(), marks, strict=True):
        is_in_order = any(isinstance(mark, Sequential) for mark in own)
        group += is_in_order and not was_in_order
        was_in_order = is_in_order
        waits = [awaited for mark in own if isinstance(mark, After) for awaited in mark.names]
        after = tuple(dict.fromkeys(_key(awaited, name, fields) for awaited in waits))
        cut = next((mark.on_truncated for mark in own if isinstance(mark, Tokens) and mark.on_truncated), None)
        if cut == "null" and not may_be_null(field.type):
            raise Refused(f"`{name}` cannot become null: {describe(field.type)} is never null")
        sampling = None if cut is None else t.Sampling(on_truncated=cut)
        found.append(replace(field, after=after, group=group if is_in_order else None, sampling=sampling))
    return found


def _key(awaited: str, name: str, fields: Mapping[str, t.Field]) -> str:
    keys = [field.key for field in fields.values()]
    if awaited == name:
        raise Refused(f"`{name}` waits for itself")
    if awaited in fields:
        return fields[awaited].key
    if awaited in keys:
        return awaited
    hint = did_you_mean(awaited, [other for other in fields if other != name])
    raise Refused(
        f"`{name}` waits for `{awaited}`, which is not a field of the same model"
        + (f"; did you mean `{hint}`?" if hint else "")
    )
