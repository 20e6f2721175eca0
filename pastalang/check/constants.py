"""From a value written in a program to the JSON value that it is."""

from __future__ import annotations

from typing import assert_never

from pastalang.check.numbers import literal_number
from pastalang.grammar import nodes
from pastalang.values.json import JsonValue


def is_constant(value: nodes.Value) -> bool:
    """Whether the value is data; a name, a range or a regular expression is not."""
    match value:
        case nodes.ListValue(items=items):
            return all(map(is_constant, items))
        case nodes.RecordValue(entries=entries):
            keys = [key.text for key, _ in entries]
            return len(set(keys)) == len(keys) and all(is_constant(item) for _, item in entries)
        case nodes.NumberValue():
            return literal_number(value) is not None
        case nodes.StringValue() | nodes.BooleanValue() | nodes.NullValue():
            return True
        case nodes.RegexValue() | nodes.RangeValue() | nodes.PathValue():
            return False
        case _:
            assert_never(value)


def constant(value: nodes.Value) -> JsonValue:
    """The JSON value; only for what `is_constant`."""
    match value:
        case nodes.StringValue(text=text):
            return text
        case nodes.NumberValue():
            return literal_number(value)
        case nodes.BooleanValue(value=flag):
            return flag
        case nodes.NullValue():
            return None
        case nodes.ListValue(items=items):
            return [constant(item) for item in items]
        case nodes.RecordValue(entries=entries):
            return {key.text: constant(item) for key, item in entries}
        case _:
            raise AssertionError("only data is a constant")
