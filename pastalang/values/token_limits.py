"""Limits of tokens inside a value that is written as one hole: those of strings are counted, others are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pastalang.program import types as t
from pastalang.values.describe import describe
from pastalang.values.lengths import NO_TYPES, own_max_tokens

Quoted = t.String | t.Regex | t.Verbatim


def limited_strings(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> tuple[Quoted, ...]:
    """The strings inside the type that have a limit of tokens of their own."""
    found = (part for part in _inside(type, types) if isinstance(part, Quoted) and part.max_tokens is not None)
    return tuple(dict.fromkeys(found))


def quotes(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> bool:
    """Whether it, or anything inside it, copies from a text that is known only when a program runs."""
    parts = (*arms_of(type, types), *_inside(type, types))
    return any(isinstance(part, t.Verbatim) for part in parts)


def is_surely_whole(type: t.Type) -> bool:
    """Whether a value of the type is written as one hole wherever it stands."""
    if isinstance(type, t.Array) and type.max_tokens is None:
        return not isinstance(type.item, t.Object) and not any(isinstance(p, t.Object) for p in _inside(type, NO_TYPES))
    return isinstance(type, t.Array | t.Tuple | t.Map)


def uncounted(type: t.Type, types: Mapping[str, t.Type] = NO_TYPES) -> str | None:
    """Why a limit inside the type cannot be kept, for people; None where all are."""
    outermost = arms_of(type, types)
    if (unclear := _unclear_opening(outermost, types)) is not None:
        return _uncounted("max", unclear)
    for part in _inside(type, types):
        if own_max_tokens(part) is not None and not isinstance(part, Quoted):
            limit = "max" if isinstance(part, t.Anything) else "max_tokens"
            return _uncounted(limit, part)
        if isinstance(part, t.Union) and (unclear := _unclear(part, types)) is not None:
            return _uncounted("max", unclear)
    return None


def _uncounted(limit: str, part: t.Type) -> str:
    return f"`{limit}` of {describe(part)} is not counted inside a value that is written as a whole"


ADVICE = (
    "leave it out and limit the whole with `max_tokens`; inside, ranges of numbers are kept, `max_chars`,"
    " and the `max` of a string that is the only text of its union"
)


def _inside(type: t.Type, types: Mapping[str, t.Type]) -> Iterator[t.Type]:
    """The parts of the type, each named type once. The outermost arms have one limit, that of the whole."""
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
    match type:
        case t.Array(item=item):
            return (item,)
        case t.Map(value=value):
            return (value,)
        case t.Tuple(items=items):
            return items
        case t.Object(fields=fields):
            return tuple(field.type for field in fields)
        case t.Union(arms=arms):
            return arms
        case t.Named(name=name):
            return (types[name],) if name in types else ()
        case _:
            return ()


def _unclear(union: t.Union, types: Mapping[str, t.Type]) -> t.Type | None:
    """A limited string of which the union does not say, as it is written, that it is this one and no other."""
    arms = arms_of(union, types)
    texts = [arm for arm in arms if may_be_text(arm)]
    limited = (arm for arm in texts if isinstance(arm, Quoted) and arm.max_tokens is not None)
    return next(limited, None) if len(texts) > 1 else _unclear_opening(arms, types)


def _unclear_opening(arms: list[t.Type], types: Mapping[str, t.Type]) -> t.Type | None:
    """The same for strings inside several arms that begin alike."""
    for is_object in (True, False):
        opened = [arm for arm in arms if opens(arm, is_object=is_object)]
        for arm in opened if len(opened) > 1 else ():
            if strings := limited_strings(arm, types):
                return strings[0]
    return None


def arms_of(type: t.Type | None, types: Mapping[str, t.Type]) -> list[t.Type]:
    """What a value may be, names and unions resolved; a name that stands for itself, or for nothing, is nothing."""
    waiting: list[t.Type | None] = [type]
    met: set[str] = set()
    found: list[t.Type] = []
    while waiting:
        arm = waiting.pop()
        if isinstance(arm, t.Named):
            waiting += [types.get(arm.name)] if arm.name not in met else []
            met.add(arm.name)
        elif isinstance(arm, t.Union):
            waiting += reversed(arm.arms)
        elif arm is not None:
            found.append(arm)
    return found


def opens(type: t.Type, *, is_object: bool) -> bool:
    """Whether a value of it may begin with a brace, or with a bracket."""
    if isinstance(type, t.Literal):
        return False
    if isinstance(type, t.Anything | t.Schema):
        return True
    return isinstance(type, t.Object | t.Map if is_object else t.Array | t.Tuple)


def may_be_text(type: t.Type) -> bool:
    """Whether a value of it may begin with a quote."""
    if isinstance(type, t.Literal):
        return isinstance(type.value, str)
    return isinstance(type, t.String | t.Regex | t.Temporal | t.Uuid | t.Verbatim | t.Anything | t.Schema)
