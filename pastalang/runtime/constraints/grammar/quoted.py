"""Strings with patterns and formats as a grammar spells them: with the very spellings that holes of their own have."""

from __future__ import annotations

from typing import TypeAlias

from pastalang.program import types as t
from pastalang.program.regex import Chars, Choice, Node, RegexError, Repetition, Sequence, count_states, parse_regex
from pastalang.runtime.constraints.dfa.pattern import in_quotes
from pastalang.runtime.constraints.dfa.table import MAX_STATES
from pastalang.values.formats import FORMATS, MOMENTS, UUID

Patterned: TypeAlias = t.String | t.Regex | t.Temporal | t.Uuid
_NOTHING = r"[^\x{0}-\x{10FFFF}]"


def patterns_of(type: t.Type) -> tuple[str, ...]:
    """What a string has to match, all of them as a whole; nothing where it is free, or no string."""
    match type:
        case t.Regex(pattern=pattern):
            return (pattern,)
        case t.Temporal(kind=kind):
            return (MOMENTS[kind],)
        case t.Uuid():
            return (UUID,)
        case t.String(format=format, pattern=pattern):
            named = () if format is None else (FORMATS[format].pattern,)
            return named if pattern is None else (*named, pattern)
        case _:
            return ()


def is_small(type: t.Type) -> bool:
    """Whether it has patterns whose automaton is likely to be written out."""
    patterns = patterns_of(type)
    try:
        return 0 < sum(count_states(parse_regex(pattern)) for pattern in patterns) <= MAX_STATES
    except RegexError:
        return False


def json_expression(node: Node) -> str:
    """A regular expression in llguidance's words of what stands between the quotes; no slash is in it."""
    match node:
        case Chars(ranges):
            escapes, plain = in_quotes(ranges)
            class_ = "".join(rf"\x{{{low:X}}}-\x{{{high:X}}}" for low, high in plain)
            ways = [text.decode().replace("\\", "\\\\") for text in escapes] + ([f"[{class_}]"] if class_ else [])
            return f"(?:{'|'.join(ways)})" if len(ways) > 1 else "".join(ways) or _NOTHING
        case Sequence(items):
            return "".join(map(json_expression, items))
        case Choice(arms):
            return f"(?:{'|'.join(map(json_expression, arms))})"
        case Repetition(item, minimum, maximum):
            return f"(?:{json_expression(item)}){{{minimum},{'' if maximum is None else maximum}}}"
