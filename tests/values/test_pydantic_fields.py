"""Field by field: what Pydantic knows is enforced by our types, or refused by name. Nothing is dropped."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import ipaddress
import json
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union

import pytest
from annotated_types import Len
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FileUrl,
    FtpUrl,
    HttpUrl,
    NaiveDatetime,
    PlainValidator,
    PositiveInt,
    RedisDsn,
    RootModel,
    StrictBool,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    WebsocketUrl,
    create_model,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import SchemaError
from typing_extensions import TypedDict

from pastalang import NotExpressible, from_model
from pastalang.values.fit import find_mismatches, read
from pastalang.values.pydantic.from_core import json_of, type_of_model, validate_value
from pastalang.values.pydantic.to_model import model_of


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(BaseModel):
    x: int
    y: int = 0


class Place(NamedTuple):
    name: str
    number: int


class Tree(BaseModel):
    label: str = Field(max_length=3)
    children: list[Tree] = Field(default=[], max_length=2)


class Person(TypedDict):
    name: Annotated[str, Field(max_length=3)]
    manager: NotRequired[Person]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog", "puppy"]
    name: str


UUID_TEXT = "01234567-89ab-4def-8123-456789abcdef"
HOUR = '"2024-02-29T12:00:00'

# a type, JSON texts that it takes, JSON texts that it does not take
ENFORCED: dict[str, tuple[Any, list[str], list[str]]] = {
    "a sequence with lengths": (Annotated[Sequence[int], Len(1, 2)], ["[1]", "[1, 2]"], ["[]", "[1, 2, 3]"]),
    "a date with bounds": (
        Annotated[datetime.date, Field(ge=datetime.date(2024, 2, 29), lt=datetime.date(2025, 1, 1))],
        ['"2024-02-29"', '"2024-12-31"'],
        ['"2024-02-28"', '"2025-01-01"', '"2024-02-30"'],
    ),
    "a datetime with bounds": (
        Annotated[datetime.datetime, Field(gt=datetime.datetime(2024, 2, 29, 12), le=datetime.datetime(2024, 3, 1))],
        ['"2024-02-29T12:00:01"', '"2024-03-01T00:00:00"', '"2024-02-29T23:59:59.5"'],
        ['"2024-02-29T12:00:00"', '"2024-03-01T00:00:00.1"'],
    ),
    "a time with bounds": (
        Annotated[datetime.time, Field(ge=datetime.time(9), le=datetime.time(17, 30))],
        ['"09:00:00"', '"10:59:59.5"', '"17:30:00"'],
        ['"08:59:59"', '"10:60:00"', '"10:75:00"', '"16:59:60"', '"17:30:01"'],
    ),
    "a named tuple": (Place, ['["a", 1]'], ['["a"]', '["a", "b"]', '["a", 1, 2]']),
    "str": (str, ['""', '"é😀"'], ["1", "null", "true"]),
    "str with lengths": (Annotated[str, Field(min_length=2, max_length=3)], ['"ab"', '"😀😀😀"'], ['"a"', '"abcd"']),
    "str with pattern": (Annotated[str, Field(pattern="^[A-Z]{2}-[0-9]+$")], ['"AB-1"'], ['"AB-"', '"xAB-1"']),
    "str without white space": (
        Annotated[str, Field(pattern=r"^\S+$")], ['"é"', '"漢字"', '"😀"'], ['"a b"', '"a\\u3000"', '"\\u00a0"'],
    ),
    "str without digits": (
        Annotated[str, Field(pattern=r"^[^\d]+$")], ['"José"', '"漢字"', '"😀"'], ['"a1"', '"٣"', '"\\uff11"'],
    ),
    "str without letters": (Annotated[str, Field(pattern=r"^\W+$")], ['"-!"'], ['"ß"', '"_"', '"漢"', '"7"']),
    "str of two characters": (Annotated[str, Field(pattern=r"^[\s\S]{2}$")], ['"\\u3000é"', '"a\\n"'], ['"a"']),
    "str with open pattern": (Annotated[str, Field(pattern="[0-9]")], ['"a1b"'], ['"ab"']),
    "int": (int, ["0", "-5", "123456789012345678901234567890"], ["1.5", '"1"', "true", "null"]),
    "int ge le": (Annotated[int, Field(ge=0, le=10)], ["0", "10"], ["-1", "11"]),
    "int gt lt": (Annotated[int, Field(gt=0, lt=10)], ["1", "9"], ["0", "10"]),
    "int multiple_of": (Annotated[int, Field(multiple_of=3)], ["0", "-9"], ["1"]),
    "PositiveInt": (PositiveInt, ["1"], ["0"]),
    "float": (float, ["0", "1.5", "-1e-7"], ['"1"', "true", "null"]),
    "float ge le": (Annotated[float, Field(ge=0.1, le=1)], ["0.1", "1", "0.5"], ["0.05", "1.1"]),
    "float gt lt": (Annotated[float, Field(gt=0, lt=1)], ["0.5"], ["0", "1"]),
    "Decimal": (Annotated[Decimal, Field(max_digits=5, decimal_places=2)], ["1.25", "999.99"], ["1.255", "1000"]),
    "Decimal without a whole part": (
        Annotated[Decimal, Field(max_digits=3, decimal_places=3)],
        ["0.125", "-0.999", "0.010"],
        ["0", "-0.0", "1", "-1", "0.0001"],
    ),
    "Decimal with more places than digits": (
        Annotated[Decimal, Field(max_digits=2, decimal_places=4, ge=0)],
        ["0.01", "0.99"],
        ["0", "-0.5", "1", "0.001"],
    ),
    "Decimal ge": (Annotated[Decimal, Field(ge=Decimal("0.1"))], ["0.1", "7"], ["0.09"]),
    "bool": (bool, ["true", "false"], ["null", '"x"', "[]"]),
    "StrictBool": (StrictBool, ["true"], ["1", '"true"']),
    "None": (None, ["null"], ["0", '""', "false"]),
    "Optional": (Optional[int], ["1", "null"], ['"x"', "1.5"]),  # noqa: UP045
    "Union": (Union[int, str], ["1", '"x"'], ["null", "1.5", "[]"]),  # noqa: UP007
    "Literal": (Literal["a", "b", 3], ['"a"', "3"], ['"c"', "4", "null"]),
    "Enum": (Color, ['"red"'], ['"RED"', '"green"', "null"]),
    "IntEnum": (Level, ["1", "2"], ["3", '"LOW"']),
    "date": (datetime.date, ['"2024-02-29"'], ['"2023-02-29"', '"2024-13-01"', "[]"]),
    "datetime": (datetime.datetime, [f'{HOUR}"', f'{HOUR}.5Z"'], ['"2024-02-30T12:00:00"', '"noon"']),
    "aware datetime": (AwareDatetime, [f'{HOUR}Z"', f'{HOUR}+02:00"'], [f'{HOUR}"']),
    "naive datetime": (NaiveDatetime, [f'{HOUR}"'], [f'{HOUR}Z"']),
    "time": (datetime.time, ['"12:30:00"'], ['"25:00:00"', '"x"']),
    "timedelta": (datetime.timedelta, ['"P1DT2H"', '"PT5M"'], ['"P"', '"1 hour ago"']),
    "UUID": (uuid.UUID, [f'"{UUID_TEXT}"'], ['"0123"', "1"]),
    "UUID4": (Annotated[uuid.UUID, Field()], [f'"{UUID_TEXT}"'], ['"g1234567-89ab-4def-8123-456789abcdef"']),
    "HttpUrl": (HttpUrl, ['"https://example.org/a?b=c"'], ['"ftp://example.org"', '"example.org"', '"https://"']),
    "IPv4Address": (ipaddress.IPv4Address, ['"192.0.2.1"'], ['"256.0.0.1"', '"x"']),
    "IPv6Address": (ipaddress.IPv6Address, ['"2001:db8::1"'], ['"1.2.3.4"', '":::"']),
    "list": (list[int], ["[]", "[1,2]"], ['["a"]', "{}", "null"]),
    "list with lengths": (Annotated[list[int], Len(1, 2)], ["[1]", "[1,2]"], ["[]", "[1,2,3]"]),
    "set": (set[int], ["[]", "[1,2]"], ['["a"]', "{}"]),
    "Sequence": (Sequence[int], ["[1]"], ["1", '["x"]']),
    "tuple": (tuple[int, str], ['[1,"a"]'], ["[1]", '["a",1]', '[1,"a",2]']),
    "tuple of any length": (tuple[int, ...], ["[]", "[1,2,3]"], ['["a"]']),
    "dict": (dict[str, int], ["{}", '{"a":1}'], ['{"a":"b"}', "[]"]),
    "dict with keys": (
        dict[Annotated[str, StringConstraints(pattern="^[a-z]+$")], int], ['{"ab":1}'], ['{"A":1}', '{"":1}'],
    ),
    "dict of int keys": (dict[int, str], ['{"1":"a","-20":"b"}'], ['{"x":"a"}', '{"1.5":"a"}']),
    "nested model": (Point, ['{"x":1,"y":2}', '{"x":1}'], ['{"y":2}', '{"x":"1"}', "[]"]),
    "recursive model": (
        Tree, ['{"label":"a"}', '{"label":"a","children":[{"label":"b"}]}'],
        ['{"label":"abcd"}', '{"label":"a","children":[{"label":"b","children":[{}]}]}'],
    ),
    "recursive typed dict": (
        Person, ['{"name":"a"}', '{"name":"a","manager":{"name":"b"}}'],
        ['{"name":"abcd"}', '{"name":"a","manager":{}}', '{"name":"a","manager":{"name":"b","manager":{}}}'],
    ),
    "discriminated union": (
        Annotated[Union[Cat, Dog], Field(discriminator="kind")],  # noqa: UP007
        ['{"kind":"cat","lives":9}', '{"kind":"puppy","name":"x"}'],
        ['{"kind":"cat","name":"x"}', '{"kind":"cow"}', '{"lives":9}', '{"kind":"cat","lives":10}'],
    ),
    "Any": (Any, ["1", "null", '{"a":[]}'], []),
}  # fmt: skip

REFUSED: dict[str, tuple[Any, str]] = {
    "a set of dicts": (set[dict[str, int]], "a dict cannot be in a set; use a list"),
    "a set of lists": (frozenset[list[int]], "a list cannot be in a set; use a list"),
    "a set of models": (set[Point], "`Point`, which has no hash, cannot be in a set"),
    "a set of tuples with lists": (set[tuple[int, list[int]]], "a list cannot be in a set"),
    "a set of anything": (set[Any], "any value, which may be a list or an object, cannot be in a set"),
    "bytes": (bytes, "bytes have no single spelling in JSON"),
    "Callable": (Callable[[int], int], "a callable cannot be written by a model"),
    "type": (type[int], "a class cannot be written by a model"),
    "complex": (complex, "a complex number has no spelling"),
    "a class": (Annotated[object, PlainValidator(lambda value: value)], "a plain validator does not say"),
    "Decimal of no digits": (Annotated[Decimal, Field(max_digits=0, decimal_places=0)], "no decimal lies between"),
    "a pattern with an intersection": (Annotated[str, Field(pattern="^[a-z&&[aeiou]]+$")], "the operator `&&`"),
    "a pattern with a difference": (Annotated[str, Field(pattern="^[+--b]$")], "the operator `--`"),
    "a pattern with a border of words": (Annotated[str, Field(pattern=r"^\<a$")], r"the anchor `\<`"),
    "dict of bool keys": (dict[bool, int], "keys of the type bool"),
}


@pytest.mark.parametrize("name", ENFORCED)
def test_a_field_type_is_enforced_exactly(name: str) -> None:
    type, right, wrong = ENFORCED[name]
    found = type_of_model(type)
    adapter = TypeAdapter(type)
    back = model_of(found.type, found.types)
    for text in right:
        adapter.validate_json(text)
        assert read(text, found.type, found.types).mismatches == ()
        back.model_validate_json(text)
    for text in wrong:
        assert not read(text, found.type, found.types).fits, text
        with pytest.raises(ValidationError):
            adapter.validate_json(text, strict=True)
        with pytest.raises(ValidationError):
            back.model_validate_json(text)


FRACTIONS = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places), st.integers(-1200, 1200), st.integers(0, 5)
)


@given(st.integers(1, 4), st.integers(0, 5), st.sampled_from(("ge", "gt", "le", "lt")), FRACTIONS, FRACTIONS)
def test_the_digits_of_a_decimal_are_those_of_pydantic(
    digits: int, places: int, name: str, bound: Decimal, tried: Decimal
) -> None:
    limits: dict[str, Any] = {"max_digits": digits, "decimal_places": places, name: bound}
    annotation = Annotated[Decimal, Field(**limits)]
    texts = [f"{value:f}" for value in (tried, bound, Decimal(0))]
    right = [text for text in texts if _takes(TypeAdapter(annotation), text)]
    try:
        found = type_of_model(annotation)
    except NotExpressible:
        assert places >= digits
        assert not right
        return
    assert found.notes == ()
    assert [text for text in texts if read(text, found.type).fits] == right


def _takes(adapter: TypeAdapter[Any], text: str) -> bool:
    try:
        adapter.validate_json(text)
    except ValidationError:
        return False
    return True


MEMBERS = [*"adz-&~[<^", "b-d", "é", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\]", r"\x85", r"\<"]
CLASSES = st.tuples(st.sampled_from(["[", "[^"]), st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=4))
PLACES = CLASSES.map(lambda parts: f"{parts[0]}{''.join(parts[1])}]") | st.sampled_from([".", "a", *MEMBERS[-7:]])
ODD = "".join(map(chr, (0x1C, 0x85, 0xA0, 0x2028, 0x3000, 0x663, 0x96F, 0x1D7D8, 0x203F, 0x301)))


@given(
    st.lists(PLACES, min_size=1, max_size=2).map("".join),
    st.lists(st.text("abcdyz0_ -&~[]<^\n\x7féßλ漢…😀" + ODD, min_size=1, max_size=2), min_size=8, max_size=8),
    st.sampled_from(["rust-regex", "python-re"]),
)
@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
def test_a_pattern_takes_nothing_that_pydantic_refuses(search: str, texts: list[str], engine: Any) -> None:
    try:
        field = (str, Field(pattern=f"^{search}$"))
        model = create_model("Holder", __config__=ConfigDict(regex_engine=engine), value=field)
        found = type_of_model(model)
    except (SchemaError, NotExpressible):
        return
    for text in texts:
        written = json.dumps({"value": text})
        fits, is_right = read(written, found.type).fits, _takes(TypeAdapter(model), written)
        assert is_right or not fits
        assert fits or not is_right or not text.isascii() or "\x1c" in text or text.endswith("\n")


@pytest.mark.parametrize("name", REFUSED)
def test_a_field_type_that_cannot_be_enforced_is_refused_by_name(name: str) -> None:
    type, reason = REFUSED[name]
    holder = type_with_field(type)
    with pytest.raises(NotExpressible) as refusal:
        type_of_model(holder)
    assert [problem.where for problem in refusal.value.problems] == ["value"]
    assert reason in str(refusal.value)


def type_with_field(annotation: Any) -> type[BaseModel]:
    return type("Holder", (BaseModel,), {"__annotations__": {"value": annotation}, "__module__": __name__})


def test_at_least_thirty_five_field_types_are_covered() -> None:
    assert len(ENFORCED) + len(REFUSED) >= 35


@pytest.mark.parametrize(
    ("type", "right", "wrong"),
    [
        (FileUrl, "file:///tmp/a%20b#c", "file://host/a"),
        (FtpUrl, "ftp://example.org:21/a", "https://example.org/"),
        (WebsocketUrl, "wss://example.org", "ws:/example.org"),
        (RedisDsn, "rediss://cache:6379/0", "redis//cache"),
    ],
)
def test_addresses_have_the_schemes_of_their_type(type: Any, right: str, wrong: str) -> None:
    found = type_of_model(type)
    assert read(json.dumps(right), found.type, found.types).fits
    assert TypeAdapter(type).validate_python(right)
    assert not read(json.dumps(wrong), found.type, found.types).fits


def test_extra_keys_that_nobody_knows_are_refused() -> None:
    class Open(BaseModel, extra="allow"):
        a: int

    with pytest.raises(NotExpressible, match="the keys of Open are not known"):
        type_of_model(Open)


def test_a_pattern_that_needs_look_around_is_refused_with_its_path() -> None:
    class Password(BaseModel, regex_engine="python-re"):
        value: str = Field(pattern=r"^(?=.*[0-9]).+$")

    with pytest.raises(NotExpressible, match=r"value: the pattern .* cannot be enforced while decoding: look-around"):
        type_of_model(Password)


def test_all_problems_are_told_at_once() -> None:
    class Bad(BaseModel):
        a: bytes
        b: list[complex]
        c: Point

    with pytest.raises(NotExpressible) as refusal:
        type_of_model(Bad)
    assert [problem.where for problem in refusal.value.problems] == ["a", "b[]"]


def test_a_validator_of_the_users_own_is_noted() -> None:
    class Even(BaseModel):
        n: Annotated[int, AfterValidator(lambda n: n)]

    assert [str(note) for note in type_of_model(Even).notes] == ["n: the validator `<lambda>`"]


def test_the_length_of_keys_with_a_pattern_is_left_to_the_model() -> None:
    found = type_of_model(dict[Annotated[str, StringConstraints(pattern="^a*$", max_length=3)], int])
    assert [str(note) for note in found.notes] == ["the length of keys that match a pattern"]
    assert not read('{"b":1}', found.type).fits


def test_defaults_that_cannot_be_written_down_are_noted() -> None:
    class Entry(BaseModel):
        id: uuid.UUID = Field(default_factory=uuid.uuid4)
        tags: list[str] = Field(default_factory=list)
        level: int = None  # type: ignore[assignment]

    found = type_of_model(Entry)
    assert [str(note) for note in found.notes] == [
        "id: its default is made by `uuid4`; the key is always written and read",
        "level: its default null does not fit its type; the key is always written and read",
    ]
    assert read(f'{{"id":"{UUID_TEXT}","level":1}}', found.type).value == {"id": UUID_TEXT, "tags": [], "level": 1}


class Chain(BaseModel):
    next: Chain = None  # type: ignore[assignment]


def test_null_is_no_default_of_a_model_inside_itself() -> None:
    assert [str(note) for note in type_of_model(Chain).notes] == [
        "next: its default null does not fit its type; the key is always written and read"
    ]
    with pytest.raises(NotExpressible, match="`Chain` has no finite value") as problem:
        from_model(Chain)
    assert len(problem.value.problems) == 1


def test_two_models_of_one_name_stay_apart() -> None:
    def make(kind: type) -> type[BaseModel]:
        class Node(BaseModel):
            value: kind  # type: ignore[valid-type]
            next: Node | None = None

        Node.model_rebuild(_types_namespace={"Node": Node})
        return Node

    class Both(BaseModel):
        a: make(int)  # type: ignore[valid-type]
        b: make(str)  # type: ignore[valid-type]

    found = type_of_model(Both)
    assert sorted(found.types) == ["Node", "Node2"]
    assert read('{"a":{"value":1,"next":null},"b":{"value":"x"}}', found.type, found.types).fits
    assert not read('{"a":{"value":"x"},"b":{"value":"x"}}', found.type, found.types).fits


@pytest.mark.parametrize("count", [5_001, 50_000])
def test_an_enum_of_too_many_values_is_refused_by_its_field(count: int) -> None:
    code = enum.Enum("code", {f"v{number}": f"value {number}" for number in range(count)})  # type: ignore[misc]
    model = create_model("Listing", name=(str, ...), codes=(list[code], ...))
    with pytest.raises(NotExpressible, match=rf"codes\[\]: an enum of {count:,} values; the limit is 5,000"):
        type_of_model(model)


class _Checks:
    def __call__(self, value: int) -> int:
        return value


def _checked(limit: int, value: int) -> int:
    return value


def test_notes_are_the_same_in_every_run() -> None:
    """The names of validators and defaults have no addresses in memory."""

    class Odd(BaseModel):
        a: Annotated[int, AfterValidator(partial(_checked, 3))]
        b: Annotated[int, AfterValidator(_Checks())]
        c: Any = object()
        d: int = Field(default_factory=partial(int, 3))

    assert [str(note) for note in type_of_model(Odd).notes] == [
        "a: the validator `_checked`",
        "b: the validator `_Checks`",
        "c: its default <object object> has no JSON spelling; the key is always written and read",
        "d: its default is made by `int`; the key is always written and read",
    ]


# ── values, written as JSON again ────────────────────────────────────────────────────────────────────────


class Shape(RootModel[list[Literal["round", "square"]]]):
    pass


class Chosen(BaseModel):
    kind: str = Field(validation_alias=AliasChoices(AliasPath("a", 0), "Kind", "sort"))


@pydantic_dataclass
class Aliased:
    kind: Annotated[str, Field(alias="Kind of")]
    made: int = dataclasses.field(default=3, init=False)


WRITTEN: Sequence[tuple[Any, Any]] = [
    (datetime.timedelta, datetime.timedelta(days=800, hours=3, seconds=50)),
    (datetime.timedelta, datetime.timedelta(0)),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.7")),
    (ipaddress.IPv6Address, ipaddress.IPv6Address("::1")),
    (HttpUrl, HttpUrl("https://example.com/a?b=c")),
    (PurePosixPath, PurePosixPath("a/b")),
    (uuid.UUID, uuid.UUID(int=5)),
    (datetime.datetime, datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)),
    (Decimal, Decimal("12345678901234567890.10")),
    (frozenset[str], frozenset(("b", "c", "a"))),
    (Shape, Shape(["square"])),
    (list[Shape], [Shape(["round"])]),
    (Chosen, Chosen.model_validate({"Kind": "x"})),
    (Aliased, Aliased(**{"Kind of": "x"})),
]


@pytest.mark.parametrize(("type", "value"), WRITTEN, ids=[type.__name__ for type, _ in WRITTEN])
def test_a_value_is_written_as_its_type_reads_it(type: Any, value: Any) -> None:
    found, written = type_of_model(type), json_of(value)
    assert find_mismatches(found.type, written, found.types) == []
    assert validate_value(TypeAdapter(type), written) == value


def test_the_items_of_a_set_are_written_in_one_order() -> None:
    assert json_of(frozenset(("b", "c", "a"))) == ["a", "b", "c"]
