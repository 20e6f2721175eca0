"""The worker: tables in, tables of one schema out, whatever the rows hold."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Annotated, Any, Literal

import pyarrow as pa
import pytest
from pydantic import BaseModel, Field, field_validator

import pastalang
from pastalang import Engine
from pastalang.bulk.documents import Document, narrowed
from pastalang.bulk.rows import Origin, Task, place_of, task_of_program, task_of_type
from pastalang.bulk.table import Unwritable, Worker, value_column
from pastalang.runtime.quotations import SourceSpan
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model


class Line(BaseModel):
    kind: Literal["fee", "item"]
    count: Annotated[int, Field(ge=0, le=9)] | None


class Bill(BaseModel):
    lines: Annotated[list[Line], Field(max_length=2)]
    paid: bool


class Huge(BaseModel):
    kind: Literal["fee", "item"]
    size: Annotated[int, Field(ge=1, le=2)]

    @field_validator("size")
    @classmethod
    def enlarge(cls, value: int) -> int:
        return 2**70 if value == 1 else value


def worker(type: Any, **options: Any) -> Worker:
    found = Worker(task_of_type(type, **options), model="fake", in_flight=3)
    found._loaded = Engine(hashed_model(320), byte_tokenizer()), Origin("fake", "1", "p")
    return found


def test_every_row_has_its_place_whatever_it_holds() -> None:
    run = worker(Bill)
    table = run(pa.table({"id": ["1", "2", "2", None, "5"], "text": ["a", None, "", "b", " "], "other": [[1]] * 5}))
    assert table.schema == run.schema and table["id"].to_pylist() == ["1", "2", "2", None, "5"]
    assert table["_status"].to_pylist() == ["ok", "error", "error", "ok", "error"]
    assert [value is None for value in table["value"].to_pylist()] == [False, True, True, False, True]
    assert table["_error"].to_pylist()[1] == "document 1: `text` is null"
    assert narrowed(pa.table({"body": ["x"], "id": ["1"]}), ["text"]).column_names == ["body"], "Ray drops rows of none"
    [first, *_] = table.to_pylist()
    assert first["_meta"]["model"] == "fake" and first["_meta"]["passes"] > 0
    assert {one["field"] for one in first["_fields"]} >= {"paid"}


def test_what_python_cannot_hold_is_an_error_of_its_row() -> None:
    run = worker(Bill)
    texts = pa.array([b"a", b"Caf\xe9", b"b"], pa.binary()).view(pa.string())
    moments = pa.array([7, None, 2**62], pa.int64())
    for type, statuses in (
        (pa.timestamp("ns"), ["ok", "error", "ok"]),
        (pa.timestamp("us"), ["ok", "error", "error"]),
        (pa.timestamp("ns", "No/Where"), ["error"] * 3),
    ):
        table = run(pa.table({"id": moments.view(type), "text": texts}))
        assert table.schema == run.schema and table["_status"].to_pylist() == statuses
        assert table["_error"].to_pylist()[1] == "document 1: `text` is not UTF-8 text"
        assert table["id"].to_pylist()[1:] == [None, "2116-02-20 23:53:38.427387904" if statuses[2] == "ok" else None]
    twice = pa.Table.from_arrays([pa.array(["1", "2"]), *[pa.array(["a", "b"])] * 2], names=["id", "text", "text"])
    table = run(twice)
    assert table["id"].to_pylist() == ["1", "2"] and table["_status"].to_pylist() == ["error"] * 2
    assert table["_error"].to_pylist()[1] == "document 1: it has 2 columns `text`: rename all but one of them"


def test_the_schema_is_that_of_the_program_for_any_batch() -> None:
    run = worker(Bill)
    nulls = run(pa.table({"text": pa.nulls(3)}))
    empty = run(pa.table({"text": pa.array([], pa.string())}))
    assert nulls.schema == empty.schema == run.schema and (len(nulls), len(empty)) == (3, 0)
    assert pa.concat_tables([nulls, empty, run(pa.table({"text": ["a"]}))]).schema == run.schema
    assert run.schema.field("value").type == pa.struct(
        {"lines": pa.list_(pa.struct({"kind": pa.string(), "count": pa.int64()})), "paid": pa.bool_()}
    )


def test_a_value_that_its_column_cannot_hold_is_an_error_of_its_row() -> None:
    table = worker(Huge)(pa.table({"text": [str(number) for number in range(12)]}))
    found = set(zip(table["_status"].to_pylist(), table["_error"].to_pylist(), strict=True))
    assert found == {("ok", None), ("error", f"the number {2**70} does not fit into 64 bits")}


def test_a_worker_is_pickled_without_its_model() -> None:
    run = worker(Bill, text=["title", "body"], id="key")
    again = pickle.loads(pickle.dumps(run))
    assert again.schema == run.schema and again._loaded is None and again.task.read == run.task.read


def test_quotations_are_placed_in_the_column_that_they_stand_in() -> None:
    class Quote(BaseModel):
        words: Annotated[str, pastalang.Verbatim("text"), pastalang.Tokens(4)]
        more: list[Annotated[str, pastalang.Verbatim("text")]] = Field(min_length=2, max_length=3)

    run = worker(Quote, text=["title", "body"])
    given = {"title": ["Ab cd", "x"], "body": ["ef gh ij", "kl"]}
    for row, title, body in zip(run(pa.table(given)).to_pylist(), *given.values(), strict=True):
        texts = {"title": title, "body": body, "text": f"title: {title}\nbody: {body}"}
        places = [field["sources"] or [field] for field in row["_fields"]]
        words, more = ([texts[one["source"]][one["start"] : one["end"]] for one in each] for each in places)
        assert words == [row["value"]["words"]] and more == row["value"]["more"]


PROGRAM = """
template t(title: text, stars: integer, tone: text = "plain")
user \"\"\"{title} {stars} {tone}\"\"\"
assistant json BODY
"""


def program(body: str, **given: Any) -> Task:
    return task_of_program(pastalang.compile(PROGRAM.replace("BODY", body)), **given)


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("string", pa.string()), ("integer | null", pa.int64()), ("number", pa.float64()), ("1 | 2", pa.int64()),
        ("integer(0..3) | number(5..6)", pa.float64()), ("date", pa.string()), ("[integer]", pa.list_(pa.int64())),
        ("string | integer", pa.string()), ("{string: integer}(max=2)", pa.string()), ("any", pa.string()),
        ("[integer, string]", pa.list_(pa.string())), ('{"a": boolean}', pa.struct({"a": pa.bool_()})),
    ],
)  # fmt: skip
def test_columns_of_types(type: str, expected: Any) -> None:
    assert value_column(program(f"{{v: {type}}}")).type == pa.struct({"v": expected})


def test_parts_without_a_type_of_their_own_are_json() -> None:
    column = value_column(program("{v: string | integer, w: number}"))
    assert column.encode({"v": "a", "w": Decimal("0.10")}) == {"v": '"a"', "w": 0.1}
    assert column.encode({"v": 3, "w": 1}) == {"v": "3", "w": 1.0}
    for wrong in ({"v": "a", "w": "b"}, [1], {"v": 1, "w": Decimal("1e400")}):
        with pytest.raises(Unwritable):
            column.encode(wrong)  # type: ignore[arg-type]


def test_inputs_of_a_program_are_columns() -> None:
    found = program("{v: boolean}", text=["title=name"], id="key")
    assert found.read.required == ("name", "stars") and found.read.optional == ("tone",) and found.read.id == "key"
    with pytest.raises(pastalang.BadInputs, match="say which input is which column, such as `title=body`"):
        program("{v: boolean}", text=["body"])
    with pytest.raises(pastalang.BadInputs, match="the program has no input `name`; it has `title`, `stars`, `tone`"):
        program("{v: boolean}", text=["name=title"])


@pytest.mark.parametrize(
    ("path", "columns", "place"),
    [
        ("pages[1]", ("scans",), ("scans[1]", 3, 5)),
        ("text", ("body",), ("body", 3, 5)),
        ("text", ("head", "body"), ("head", 3, 5)),
        ("text", (), ("text", 3, 5)),
    ],
)
def test_a_quotation_names_its_column(path: str, columns: tuple[str, ...], place: tuple[str, int, int]) -> None:
    name = path.partition("[")[0]
    shift = len("head: ") if len(columns) > 1 else 0
    span = SourceSpan(name, path, None, 3 + shift, 5 + shift)
    assert place_of(span, Document({"head": "a headline", "body": "a body"}), columns) == place
