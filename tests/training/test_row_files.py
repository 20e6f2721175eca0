"""The same rows in every format are the same rows, and what is wrong with one is reported with its file and row."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pastalang
from pastalang import Mode, PastaError
from pastalang.training.data import Reading, read_against
from pastalang.training.errors import BadData, UnreadableData
from pastalang.training.metrics import ABSENT, read_examples
from pastalang.training.recording import planner
from pastalang.training.row_files import Mapped, fingerprint_of

pa = pytest.importorskip("pyarrow")

PLAN = planner(
    pastalang.compile(
        '''
template product(title: text, labels: [text] = [], shop: text = "ours")
user """{title} {labels} {shop}"""
assistant json {
  brand: verbatim(title, max=20) | null
  kind: "tv" | "phone"
  size: integer | null
  model: string(max=8)
  flat: boolean
  sides: { height: integer } | { width: number } | null
}
'''
    )
)(Mode.STRICT)
ROWS: list[dict[str, Any]] = [
    {
        "title": 'Sony "Bravia", 55', "labels": ["a", "b"], "category": "tv",
        "value": {"brand": "Sony", "kind": "tv", "size": 55, "model": "007", "flat": True, "sides": {"height": 7}},
    },
    {
        "title": "line one\nline two", "category": "",
        "value": {"brand": None, "kind": "phone", "size": None, "model": "", "flat": False, "sides": {"width": 2.5}},
    },
]  # fmt: skip


def _json(rows: list[dict[str, Any]], path: Path) -> None:
    path.write_text(json.dumps(rows, indent=1))


def _lines(rows: list[dict[str, Any]], path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))


def _table(rows: list[dict[str, Any]], path: Path) -> None:
    """With a column for each key of the value, and one that nobody asks for."""
    names = dict.fromkeys(key for row in rows for key in row if key != "value")
    header = ["sku", *names, *(f"value.{key}" for key in rows[0]["value"])]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(header)
        for row in rows:
            writer.writerow(["1", *map(_cell, map(row.get, names)), *map(_cell, row["value"].values())])


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _parquet(rows: list[dict[str, Any]], path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist(rows), path)


def _data_set(rows: list[dict[str, Any]], folder: Path) -> None:
    """As `save_to_disk` writes it: two files, and names for the numbers of the category."""
    folder.mkdir()
    table = pa.Table.from_pylist([{**row, "category": ["", "tv"].index(row["category"])} for row in rows])
    files = [f"data-0000{number}-of-00002.arrow" for number in range(2)]
    for name, part in zip(files, (table[:1], table[1:]), strict=True):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(part)
    labels = {"category": {"names": ["", "tv"], "_type": "ClassLabel"}, "title": {"dtype": "string", "_type": "Value"}}
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in files]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": labels}))


def _zipped(rows: list[dict[str, Any]], path: Path) -> None:
    plain = path.with_suffix("")
    WRITERS[plain.name](rows, plain)
    path.write_bytes(gzip.compress(plain.read_bytes()))


WRITERS: dict[str, Callable[[list[dict[str, Any]], Path], None]] = {
    "rows.jsonl": _lines, "rows.json": _json, "rows.csv": _table, "rows.tsv": _table, "rows.parquet": _parquet,
    "folder": _data_set, "rows.jsonl.gz": _zipped, "rows.csv.gz": _zipped, "lines.json": _lines,
}  # fmt: skip


def shown(reading: Reading) -> list[Any]:
    assert not reading.problems, reading.problems[0]
    return [(dict(row.inputs) | {"shop": "ours"}, row.answer.value, row.category) for row in reading.rows]


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    _lines(ROWS, tmp_path / "expected.jsonl")
    expected = read_against(tmp_path / "expected.jsonl", PLAN)
    WRITERS[name](ROWS, tmp_path / name)
    found = read_against(tmp_path / name, PLAN)
    assert [row | {"labels": row.get("labels") or []} for row, *_ in shown(found)] == [
        row | {"labels": row.get("labels") or []} for row, *_ in shown(expected)
    ]
    assert [rest for _, *rest in shown(found)] == [rest for _, *rest in shown(expected)]
    assert found.left_out == (("sku",) if "csv" in name or "tsv" in name else ())
    [*_, last] = (row.origin for row in found.rows)
    wanted = {"rows.jsonl": ":3", "rows.jsonl.gz": ":3", "lines.json": ":3", "rows.csv": ":3", "rows.tsv": ":3"}
    assert last == f"{tmp_path / name}{wanted.get(name, ':3' if name == 'rows.csv.gz' else ', row 2')}"


def test_columns_of_other_names_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('name,maker,sort,id\nSony TV,Sony,tv,1\n"A phone",,phone,2\n')
    program = 'template p(title: text)\nuser """{title}"""\nassistant json { brand: string(max=9) | null, kind: text }'
    plan = planner(pastalang.compile(program.replace("text }", '"tv" | "phone" }')))(Mode.STRICT)
    columns = {"title": "name", "value.brand": "maker", "kind": "sort"}
    reading = read_against(Mapped(path, columns), plan)
    assert [row.value for row in reading.rows] == [{"brand": "Sony", "kind": "tv"}, {"brand": None, "kind": "phone"}]
    assert reading.left_out == ("id",)
    assert fingerprint_of(Mapped(path, columns)) != fingerprint_of(Mapped(path, {"title": "name"}))

    with pytest.raises(BadData, match=r"--map: .*rows.csv has no column `nam`; did you mean `name`\?"):
        read_against(Mapped(path, {"title": "nam"}), plan)
    with pytest.raises(BadData, match=r"--map: a row has no `titel`; did you mean `title`\?"):
        read_against(Mapped(path, {"titel": "name"}), plan)


def test_columns_named_like_the_keys_of_the_value_are_its_keys(tmp_path: Path) -> None:
    program = (
        'template p(title: text)\nuser """{title}"""\nassistant json { size: integer | null, title: string(max=9) }'
    )
    plan, path = planner(pastalang.compile(program))(Mode.STRICT), tmp_path / "rows.csv"
    path.write_text("title,size,value.title,id\nA lamp,7,Lamp,1\nA bulb,,Bulb,2\n")
    reading = read_against(path, plan)
    assert [(row.inputs, row.value) for row in reading.rows] == [
        ({"title": "A lamp"}, {"size": 7, "title": "Lamp"}), ({"title": "A bulb"}, {"size": None, "title": "Bulb"}),
    ]  # fmt: skip
    assert reading.left_out == ("id",)


def test_scores_of_tables_are_those_of_json_lines(tmp_path: Path) -> None:
    right = [{"title": row["title"], "value": row["value"], "category": row["category"]} for row in ROWS]
    for name in ("right.jsonl", "right.csv"):
        WRITERS[f"rows{Path(name).suffix}"](right, tmp_path / name)
    one, other = (read_examples(tmp_path / name, tmp_path / "right.jsonl") for name in ("right.jsonl", "right.csv"))
    assert one[0].expected == other[0].expected
    assert one[1].expected | {"model": [ABSENT]} == other[1].expected  # an empty cell is no value


BAD: list[tuple[str, bytes, type[PastaError], str]] = [
    ("rows.csv", b"title,title\nx,y\n", BadData, "rows.csv has two columns `title`"),
    ("rows.csv", b"title\n", BadData, "rows.csv holds no rows"),
    ("rows.csv", b"", BadData, "rows.csv holds no rows"),
    ("rows.csv", b"title\n\xe9\n", UnreadableData, "rows.csv could not be read: it is not UTF-8 text"),
    ("rows.json", b"[]", BadData, "rows.json holds no rows"),
    ("rows.json", b"[{]", BadData, "rows.json is not JSON: "),
    ("rows.jsonl.gz", b"{}", UnreadableData, "rows.jsonl.gz could not be read: it is not a whole gzip file"),
    ("rows.jsonl.gz", gzip.compress(b"{}" * 999, mtime=0)[:-9], UnreadableData, "it is not a whole gzip file"),
    ("rows.parquet", b"PAR1", UnreadableData, "rows.parquet could not be read as Parquet: "),
    ("folder/state.json", b"{", UnreadableData, "state.json could not be read"),
    ("folder/state.json", b'{"_data_files": [{"filename": "a.arrow"}]}', UnreadableData, "a.arrow could not be read"),
    ("folder/state.json", b"{}", BadData, "folder holds no rows"),
    ("folder/dataset_dict.json", b'{"splits": ["train"]}', BadData, "is a data set in parts; pass one of them: "),
    ("folder/notes.txt", b"", UnreadableData, "it is a folder, and holds no data set"),
]


@pytest.mark.parametrize(("name", "content", "kind", "message"), BAD)
def test_a_file_that_cannot_be_read_is_named(
    name: str, content: bytes, kind: type[PastaError], message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(kind) as raised:
        read_against(path if path.parent == tmp_path else path.parent, PLAN)
    assert message in str(raised.value)


def test_bad_rows_of_every_format_have_their_place(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('title,value\n"one\ntwo",{}\nx,y,z\nx,{}\n"x"y,{}\n')
    (tmp_path / "b.json").write_text('[{"title": "x"}, 3]')
    from pyarrow import parquet

    titles = pa.array([b"x", None, b"\xff"], pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"title": titles, "value": [float("nan"), 0.5, 0.5]}), tmp_path / "c.parquet")
    found = [read_against(tmp_path / name, PLAN).problems for name in ("a.csv", "b.json", "c.parquet")]
    messages = [str(problem).removeprefix(f"{tmp_path}/") for problems in found for problem in problems]
    starts = [
        "a.csv:2: value", "a.csv:4: has 3 cells, and the header has 2", "a.csv:5: value", "a.csv:6: is not a row",
        "b.json, row 1: the key `value` is missing", "b.json, row 2: has to be a JSON object",
        "c.parquet, row 1: holds nan, which JSON does not have", "c.parquet, row 2: `title` has to be text",
        "c.parquet, row 3: `title` is not UTF-8 text",
    ]  # fmt: skip
    assert len(messages) == len(starts)
    for message, start in zip(messages, starts, strict=True):
        assert message.startswith(start), message
