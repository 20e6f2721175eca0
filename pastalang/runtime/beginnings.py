"""How the values of a hole may begin, as far as a tokenizer is asked about them: a type comes in, texts go out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pastalang.plan.plan import Form, Hole
from pastalang.program import types as t
from pastalang.values.bounds import first_characters, is_finite, longest_text, spell

AMPLE = 8  # tokens: a limit that does not decide how a value is spelled
_MANY = 1_000
_WORDS = ("a", "The", "Sony", "x9", "12", "(")
_OPENINGS = {
    '"': ('"a', '"The', '"12', '"'),
    "{": ('{"a', "{}"),
    "[": ('["a', "[1", '[{"', "[]"),
    "-": ("-1",),
    "t": ("true",),
    "f": ("false",),
    "n": ("null",),
}
_ALONE = frozenset('"{[')  # forced as tokens of their own
_ANY_JSON = frozenset('"{[-7tfn')


def beginnings_of(type: t.Type, form: Form, types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """All spellings of a closed list, up to a thousand; beginnings of every kind that an open type has."""
    quoted = form is Form.JSON
    found: list[str] = []
    for arm in _arms(type, types):
        if isinstance(arm, t.Literal):
            found.append(spell(arm.value, quoted=quoted))
            continue
        first = first_characters(arm, types, quoted=quoted)
        if first is None:
            found += [text for one in sorted(_ANY_JSON) for text in _from(one)] if quoted else _WORDS
        else:
            found += [text for one in sorted(first) for text in _from(one)]
    return tuple(dict.fromkeys(found[:_MANY]))


def keeps_its_values(
    hole: Hole, lead: str, types: Mapping[str, t.Type], encode: Callable[[str], Sequence[int]]
) -> bool:
    """Whether every value that the hole's limit lets through can be written behind the lead within the same limit."""
    quoted = hole.form is Form.JSON
    longest = longest_text(hole.type, types, quoted=quoted)
    if hole.max_tokens >= AMPLE and not is_finite(hole.type, types):
        return True
    if longest is not None and hole.max_tokens >= longest + len(lead):
        return True
    if is_finite(hole.type, types):
        return all(len(encode(lead + text)) <= hole.max_tokens for text in _spelled(hole.type, types, quoted=quoted))
    first = first_characters(hole.type, types, quoted=quoted)
    if first is None or any(len(encode(lead + one)) != 1 for one in first):
        return False
    return first <= _ALONE or (longest is not None and hole.max_tokens >= longest)


def _from(character: str) -> tuple[str, ...]:
    return _OPENINGS.get(character, (character,))


def _arms(type: t.Type, types: Mapping[str, t.Type]) -> Iterator[t.Type]:
    while isinstance(type, t.Named):
        type = types[type.name]
    if isinstance(type, t.Union):
        for arm in type.arms:
            yield from _arms(arm, types)
    else:
        yield type


def _spelled(type: t.Type, types: Mapping[str, t.Type], *, quoted: bool) -> Iterator[str]:
    """The values of a closed list; of a closed structure how it begins."""
    for arm in _arms(type, types):
        match arm:
            case t.Boolean():
                yield from ("true", "false")
            case t.Null():
                yield "null"
            case t.Literal(value=value):
                yield spell(value, quoted=quoted)
            case _:
                continue
