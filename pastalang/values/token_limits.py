"""Token limits inside a value that is decoded as one hole: those of strings are enforced, others are refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pastalang.program import types as t
from pastalang.values.describe import describe
from pastalang.values.lengths import NO_TYPES, declared_max_tokens
from pastalang.values.walk import arms_of, parts_of

Quoted = t.String | t.Regex | t.Verbatim
QUOTE_TOKENS: Final = 2  # of a string in JSON


def limit_without_text(type: t.Type) -> int | None:
    """The token limit of a string in JSON, if the quotes use it up; None if it has room or asks for no text."""
    if not isinstance(type, t.String | t.Verbatim) or type.max_tokens is None or type.max_tokens > QUOTE_TOKENS:
        return None
    needs_none = isinstance(type, t.String) and (type.max_chars == 0 or type.auto is not None)
    return None if needs_none else type.max_tokens


def limited_strings(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> tuple[Quoted, ...]:
    """The strings inside the type that have a token limit of their own."""
    found = (part for part in _inside(type, types) if isinstance(part, Quoted) and part.max_tokens is not None)
    return tuple(dict.fromkeys(found))


def is_always_one_hole(type: t.Type) -> bool:
    """Whether a value of the type is always decoded as one hole."""
    if isinstance(type, t.Array) and type.max_tokens is None:
        return not isinstance(type.item, t.Object) and not any(isinstance(p, t.Object) for p in _inside(type, NO_TYPES))
    return isinstance(type, t.Array | t.Tuple | t.Map)


def unenforced_limit(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> str | None:
    """Why a token limit inside the type cannot be enforced; None if all can."""
    if (ambiguous := _ambiguous_bracket(arms_of(type, types), types)) is not None:
        return _limit_message("max", ambiguous)
    return _first_unenforced(_inside(type, types), types)


def unenforced_limit_written_in(type: t.Type) -> str | None:
    """Why a token limit that the type itself writes cannot be enforced. Types that it names are left out."""
    return _first_unenforced(_inside(type, NO_TYPES), NO_TYPES)


def unenforced_limit_of_recursion(name: str, types: Mapping[str, t.Type]) -> str | None:
    """Why a token limit inside a recursive type cannot be enforced. Its own limit counts: it is inside itself."""
    return _first_unenforced(_inside(t.Tuple((t.Named(name),)), types), types)


def _first_unenforced(parts: Iterable[t.Type], types: Mapping[str, t.Type]) -> str | None:
    for part in parts:
        if declared_max_tokens(part) is not None and not isinstance(part, Quoted):
            limit = "max" if isinstance(part, t.Anything) else "max_tokens"
            return _limit_message(limit, part)
        if isinstance(part, t.Union) and (ambiguous := _ambiguous_string(part, types)) is not None:
            return _limit_message("max", ambiguous)
    return None


def _limit_message(limit: str, part: t.Type) -> str:
    return f"`{limit}` of {describe(part)} cannot be enforced inside a value that is written as a whole"


ADVICE = (
    "remove it and limit the whole value with `max_tokens`; inside the value, ranges of numbers, `max_chars`,"
    " and the `max` of a string that is the only text of its union are enforced"
)


def _inside(type: t.Type, types: Mapping[str, t.Type]) -> Iterator[t.Type]:
    """All types inside the type, each named type once. The outermost arms, limited as a whole, are left out."""
    waiting = [part for arm in arms_of(type, types) for part in _parts(arm, types)]
    met: set[str] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, t.Named):
            if part.name in met:
                continue
            met.add(part.name)
        else:
            yield part
        waiting.extend(_parts(part, types))


def _parts(type: t.Type, types: Mapping[str, t.Type]) -> tuple[t.Type, ...]:
    if isinstance(type, t.Named):
        return (types[type.name],) if type.name in types else ()
    return tuple(part for _, part in parts_of(type))


def _ambiguous_string(union: t.Union, types: Mapping[str, t.Type]) -> t.Type | None:
    """A string with a limit in a union where the first character of a value does not identify that string."""
    arms = arms_of(union, types)
    texts = [arm for arm in arms if may_be_text(arm)]
    limited = (arm for arm in texts if isinstance(arm, Quoted) and arm.max_tokens is not None)
    return next(limited, None) if len(texts) > 1 else _ambiguous_bracket(arms, types)


def _ambiguous_bracket(arms: list[t.Type], types: Mapping[str, t.Type]) -> t.Type | None:
    """A string with a limit inside an arm, where another arm begins with the same bracket."""
    for is_object in (True, False):
        opened = [arm for arm in arms if opens(arm, is_object=is_object)]
        for arm in opened if len(opened) > 1 else ():
            if strings := limited_strings(arm, types):
                return strings[0]
    return None


def opens(type: t.Type, *, is_object: bool) -> bool:
    """Whether a value of the type may begin with a brace (`is_object`) or with a bracket."""
    if isinstance(type, t.Literal):
        return False
    if isinstance(type, t.Anything | t.Schema):
        return True
    return isinstance(type, t.Object | t.Map if is_object else t.Array | t.Tuple)


def may_be_null(type: t.Type) -> bool:
    """Whether null is a value of the type. Recursive types are not looked into."""
    arms = arms_of(type, NO_TYPES)
    return any(isinstance(arm, t.Null | t.Anything) or arm == t.Literal(None) for arm in arms)


def may_be_text(type: t.Type) -> bool:
    """Whether a value of the type may begin with a quote."""
    if isinstance(type, t.Literal):
        return isinstance(type.value, str)
    return isinstance(type, t.String | t.Regex | t.Temporal | t.Uuid | t.Verbatim | t.Anything | t.Schema)
