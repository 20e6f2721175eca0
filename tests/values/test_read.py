"""Reading takes exactly what the type allows, and says where and why the rest does not fit."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal

import pytest

from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES
from pastalang.values.fit import find_mismatches, read, to_python
from tests.work import counted

TREE = t.Object((t.Field("n", t.Integer()), t.Field("below", t.Array(t.Named("Tree"), max_items=3))))
TYPES = {"Tree": TREE, "Loop": t.Named("Loop")}
SHAPES = t.Union(
    (
        t.Object((t.Field("kind", t.Literal("circle")), t.Field("r", t.Number(minimum=Decimal(0))))),
        t.Object((t.Field("kind", t.Union((t.Literal("box"), t.Literal("cube")))), t.Field("a", t.Integer()))),
        t.Null(),
    ),
    discriminator="kind",
)
SIZES = t.Union((t.Literal("A"), t.Literal("AB"), t.Literal(""), t.Literal('"\n\\😀'), t.Literal(1), t.Literal(True)))
SCHEMA = t.Schema('{"type":"object","properties":{"a":{"type":"integer","multipleOf":0.1}},"required":["a"]}')


@pytest.mark.parametrize(
    ("type", "right", "wrong"),
    [
        (t.Integer(), ["0", "-1", "123456789012345678901234567890", "1.0", "1e2"], ["1.5", '"1"', "true", "null"]),
        (t.Integer(0, 10), ["0", "10"], ["-1", "11"]),
        (t.Integer(exclusive_minimum=0, exclusive_maximum=3), ["1", "2"], ["0", "3"]),
        (t.Integer(multiple_of=3), ["0", "-9"], ["1", "10"]),
        (t.Number(), ["0", "-0.5", "1e-7", "1.5E+3", "-0"], ["1e400", "-1e400", '"1"', "false"]),
        (t.Number(multiple_of=Decimal("0.1")), ["0.3", "1", "1e300"], ["0.35", "1e-2"]),
        (t.Number(Decimal("0.1"), Decimal("0.2")), ["0.1", "0.2", "0.15"], ["0.0999999999999999999999", "0.21"]),
        (t.Number(exclusive_minimum=Decimal(0)), ["1e-300"], ["0", "-0.0"]),
        (t.Boolean(), ["true", "false"], ["1", "0", '"true"']),
        (t.Null(), ["null"], ["0", '""', "false"]),
        (SIZES, ['"A"', '"AB"', '""', '"\\"\\n\\\\😀"', "1", "1.0", "true"], ['"a"', '"ABC"', "2", "false", "null"]),
        (t.String(min_chars=1, max_chars=2), ['"a"', '"😀😀"', '"é\\u0301"'], ['""', '"abc"', "1"]),
        (t.String(pattern="[a-z]+"), ['"abc"'], ['"abc1"', '"1abc"', '"abc\\n"', '""']),
        (t.String(format="email"), ['"a@b.org"'], ['"a"']),
        (t.Regex("[A-Z]{2}-[0-9]{4}"), ['"AB-1234"'], ['"AB-12345"', '"xAB-1234"', '"AB-1234\\n"', '"AB-١٢٣٤"']),
        (t.Temporal(t.Moment.DATE), ['"2024-02-29"'], ['"2023-02-29"', '"2024-2-9"', '"20240229"', '"today"']),
        (t.Temporal(t.Moment.TIME), ['"23:59:59"', '"23:59:59.5Z"'], ['"24:00:00"', '"23:59"']),
        (
            t.Temporal(t.Moment.DATETIME),
            ['"2024-02-29T00:00:00"', '"2024-02-29T00:00:00+02:00"'],
            ['"2024-02-29"', '"2023-02-29T00:00:00"', '"2024-02-29 00:00:00"'],
        ),
        (t.Uuid(), ['"01234567-89ab-cdef-0123-456789abcdef"'], ['"01234567-89AB-CDEF-0123-456789ABCDEF"', '"x"']),
        (t.Array(t.Integer(), 1, 2), ["[1]", "[1,2]"], ["[]", "[1,2,3]", '["a"]', "{}"]),
        (t.Array(t.Anything(), unique=True), ["[1,2]", "[1,true]", "[]"], ["[1,1.0]", '[{"a":1,"b":2},{"b":2,"a":1}]']),
        (t.Tuple((t.String(), t.Integer())), ['["a",1]'], ['["a"]', '["a",1,2]', '[1,"a"]']),
        (t.Map(t.Integer(), max_items=1), ["{}", '{"a":1}'], ['{"a":1,"b":2}', '{"a":"b"}', "[]"]),
        (t.Map(t.Integer(), key_pattern="[a-z]"), ['{"a":1}'], ['{"A":1}', '{"aa":1}']),
        (SHAPES, ['{"kind":"circle","r":1}', '{"kind":"cube","a":1}', "null"], ['{"kind":"box","r":1}', "{}", "1"]),
        (t.Named("Tree"), ['{"n":1,"below":[{"n":2,"below":[]}]}'], ['{"n":1,"below":[{"n":"2","below":[]}]}']),
        (t.Named("Loop"), [], ["null", "{}", "[]"]),
        (SCHEMA, ['{"a":1}', '{"a":3,"b":[]}'], ['{"a":1.5}', "{}", "[]"]),
        (t.Schema('{"type":"string","pattern":"^a"}'), ['"ab"'], ['"ba"']),
        (t.Schema('{"format":"email"}'), ['"a@b"', "1"], ['"ab"']),
        (t.Anything(), ["null", '{"a":[1,"x"]}'], []),
        (t.Union((t.String(), t.Null())), ['"null"', "null"], ["1"]),
        (t.Verbatim("title"), ['"a \\"b\\""', '"d"'], ['"x"', '"a  b"']),
    ],
)
def test_a_type_takes_its_values_and_no_others(type: t.Type, right: list[str], wrong: list[str]) -> None:
    sources = {"title": 'a "b" c d'}
    assert [text for text in right if not read(text, type, TYPES, sources=sources).fits] == []
    assert [text for text in wrong if read(text, type, TYPES, sources=sources).fits] == []


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{", "01", "-01", "+1", ".5", "1.", "1e", "NaN", "Infinity", "-Infinity", "nul", "'a'", '"a', '"\n"',
        '"\\x41"', "[1,]", "{,}", '{"a":1,}', '{"a":1,"a":2}', "1 2", '"\\ud800"', '"\\udc00\\ud83d"', "\ufeff1",
        "1" * 5_000, "1e99999999999", "[" * 100_000, "[" * 300 + "]" * 300, '{"a":' * 100_000, "\x00",
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused_at_once(text: str) -> None:
    found, calls = counted(lambda: read(text, t.Anything()))
    assert not found.fits
    assert calls < 1_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"n":1}', 'the key "below" is missing'),
        ('{"n":1,"below":[],"x":2}', 'there is no key "x"'),
        ('{"n":1,"below":[{"n":1.5,"below":[]}]}', "below[0].n: expected an integer, found 1.5"),
        ('{"n":1,"below":[1,2,3,4]}', "below: has 4 items; at most 3 may be there"),
        ('{"n":true,"below":[]}', "n: expected an integer, found true"),
        ("[1", "not JSON: expecting ',' delimiter (at character 3)"),
        ('{"a":1,"a":2}', 'the key "a" occurs twice in one object (at character 8)'),
        (
            '{"a":{"b":1},\n "b":{"b":2},\n "c":{\n  "b":1, "\\u0062":2}}',
            'the key "b" occurs twice in one object (at line 4, column 10)',
        ),
        ('{"NaN": "NaN",\n "a": [-Infinity]}', "-Infinity is not a JSON number (at line 2, column 8)"),
        ("[1,\n\n 2,, 3]", "not JSON: expecting value (at line 3, column 4)"),
        ("[" * 64 + "\n[", "brackets nest more than 64 deep (at line 2, column 1)"),
        (" \n", "not JSON: nothing is written there"),
    ],
)
def test_a_mismatch_names_the_path_and_the_reason(text: str, message: str) -> None:
    assert str(read(text, t.Named("Tree"), TYPES).mismatches[0]) == message


@pytest.mark.parametrize(
    ("type", "text", "message"),
    [
        (t.Union((t.Integer(0, 5), t.Null())), "6", "6 is more than 5"),
        (t.Union((t.Literal("a"), t.Literal("b"), t.Null())), '"c"', 'expected "a", "b" or null, found "c"'),
        (SHAPES, '{"kind":"oval"}', 'kind: expected "circle", "box" or "cube", found "oval"'),
        (SHAPES, '{"kind":"circle","r":-1}', "r: -1 is less than 0"),
        (t.Map(t.Integer()), '{"a b":"c"}', '"a b": expected an integer, found "c"'),
        (t.String(max_chars=2), '"abc"', "has 3 characters; at most 2 may be there"),
        (t.Number(), "1e400", "is too large for a number; 1.8e308 is the limit"),
    ],
)
def test_the_reason_is_about_the_users_type(type: t.Type, text: str, message: str) -> None:
    assert [str(mismatch) for mismatch in read(text, type).mismatches] == [message]


def test_numbers_stay_exact() -> None:
    assert read("0.1000000000000000000000000001", t.Number()).value == Decimal("0.1000000000000000000000000001")
    assert read("9007199254740993", t.Integer()).value == 9007199254740993
    assert isinstance(read("1.0", t.Integer()).value, int)


def test_a_key_with_a_default_may_be_left_out() -> None:
    type = t.Object((t.Field("a", t.Integer()), t.Field("b", t.Array(t.Integer()), default=t.Default("[1]"))))
    assert read('{"a":0}', type).value == {"a": 0, "b": [1]}
    assert read('{"a":0,"b":[]}', type).value == {"a": 0, "b": []}


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (t.String(), 'say "hi"', 'say "hi"'),
        (t.Integer(), "12", 12),
        (t.Union((t.String(), t.Null())), "null", None),
        (t.Union((t.String(), t.Null())), "nothing", "nothing"),
        (t.Union((t.Literal("null"), t.Null())), "null", "null"),
        (t.Union((t.Literal("4K"), t.Literal(4))), "4", 4),
        (t.Temporal(t.Moment.DATE), "2024-02-29", "2024-02-29"),
        (t.Array(t.String()), '["a"]', ["a"]),
    ],
)
def test_running_text_holds_values_without_quotes(type: t.Type, text: str, value: object) -> None:
    found = read(text, type, quoted=False)
    assert (found.value, found.mismatches) == (value, ())


def test_a_word_where_running_text_needs_a_number_is_told_so() -> None:
    assert str(read("twelve", t.Integer(), quoted=False).mismatches[0]) == "expected an integer, found 'twelve'"
    assert not read("long", t.String(max_chars=3), quoted=False).fits


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (t.Temporal(t.Moment.DATE), '"2024-02-29"', datetime.date(2024, 2, 29)),
        (t.Temporal(t.Moment.TIME), '"01:02:03"', datetime.time(1, 2, 3)),
        (t.Temporal(t.Moment.DATETIME), '"2024-02-29T01:02:03"', datetime.datetime(2024, 2, 29, 1, 2, 3)),
        (t.Uuid(), '"01234567-89ab-cdef-0123-456789abcdef"', uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")),
        (t.Number(), "2", 2.0),
        (t.Tuple((t.Number(), t.Null())), "[0.5,null]", (0.5, None)),
        (t.Union((t.Integer(), t.Temporal(t.Moment.DATE))), '"2024-02-29"', datetime.date(2024, 2, 29)),
    ],
)  # fmt: skip
def test_python_values_have_python_types(type: t.Type, text: str, value: object) -> None:
    found = to_python(type, read(text, type).value)
    assert found == value
    assert found.__class__ is value.__class__


def test_the_work_of_reading_a_union_of_recursive_types_grows_with_the_value() -> None:
    arm = [t.Object((t.Field("x", t.Named("T")), t.Field(name, t.Integer()))) for name in "ab"]
    types = {"T": t.Union((*arm, t.Null()))}

    def calls(levels: int, inmost: str, fits: bool) -> int:
        text = '{"b":1,"x":' * levels + inmost + "}" * levels
        found, calls = counted(lambda: read(text, t.Named("T"), types))
        assert found.fits == fits
        return calls

    assert calls(60, "null", True) < 2.5 * calls(30, "null", True)
    assert calls(60, "0", False) < 2.5 * calls(30, "0", False)


def test_a_value_that_nests_too_deep_is_a_mismatch() -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    assert [str(mismatch) for mismatch in find_mismatches(t.Anything(), deep)] == ["nests more than 64 deep"]  # type: ignore[arg-type]


def test_reading_needs_no_named_types_where_none_is_named() -> None:
    assert read("1", t.Integer(), NO_TYPES).fits
