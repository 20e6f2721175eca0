"""Files of documents: every bad row has its place, its neighbours are read, and what concerns all rows is refused."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import os
import random
import sys
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from pastalang.bulk import documents
from pastalang.bulk.documents import BadDocument, Columns, open_documents
from pastalang.errors import FileError, TooLong

TEXT = Columns()


def read(path: Path | str, columns: Columns = TEXT) -> list[tuple[str | int | None, Any]]:
    """The id of each document, with its text or what is wrong with it."""
    found = open_documents(path, columns)
    return [
        (one.id, one.record.get(columns.required[0]) if one.error is None else str(one.error))
        for one in found.documents
    ]


def written(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(path: Path | str, columns: Columns = TEXT) -> str:
    with pytest.raises((FileError, BadDocument)) as found:
        open_documents(path, columns)
    return str(found.value)


def test_every_bad_line_of_json_has_its_place(tmp_path: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"id": 1, "text": "a"}', b"not json", b'{"id": 2, "text": "\xff"}', b"", b"[1]", b"null",
        b'"just a text"', b'{"id": [3], "text": "b"}', b"[" * 100_000, b'{"id": "1", "text": "same id"}',
        b'{"text": "a", "text": "b"}',
        b'{"text": "no id, and the last line has no end"}',
    ]  # fmt: skip
    path = written(tmp_path / "docs.jsonl", b"\n".join(lines))
    assert read(path) == [
        (1, "a"),
        (None, "docs.jsonl:2: it is not JSON: expecting value (column 1)"),
        (None, "docs.jsonl:3: it is not UTF-8 text (byte 0xff)"),
        (None, "docs.jsonl:5: it is a list, not a text or a record"),
        (None, "docs.jsonl:6: it is null, not a text or a record"),
        (None, "just a text"),
        (None, "docs.jsonl:8: its id, `id`, is a list"),
        (None, "docs.jsonl:9: it is not JSON: its brackets nest too deeply, or a number has too many digits"),
        ("1", "same id"),
        (None, "docs.jsonl:11: the key `text` stands twice in one object"),
        (None, "no id, and the last line has no end"),
    ]
    assert open_documents(path, TEXT).count() == 11 and open_documents(path, TEXT).count(4) == 4
    assert read(path, Columns(id="id"))[5:] == [
        (None, "docs.jsonl:7: it is a text, not a record with `text`, `id`"),
        *read(path)[6:-1],
        (None, "docs.jsonl:12: its id, `id`, is null"),
    ]
    assert read(path, Columns(id="text"))[5] == ("just a text", "just a text")
    assert read(path, Columns(("text", "id")))[5] == (
        None, "docs.jsonl:7: it is a text, not a record with `text`, `id`",
    )  # fmt: skip


def test_a_line_that_is_too_long_is_skipped_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 1 << 20)
    long = '{"id": "long", "text": "' + "x" * (5 << 20) + '"}'
    first, huge, last = open_documents(written(tmp_path / "docs.jsonl", f'"a"\n{long}\n"b"\n'), TEXT).documents
    assert isinstance(huge.error, TooLong) and huge.origin == "docs.jsonl:2" and not huge.record
    assert (first.record["text"], last.record["text"]) == ("a", "b")


@pytest.mark.parametrize("cell", ["{}", '"{}"', '"x\n{}\ny"', '"{}'])
def test_a_cell_that_is_too_long_is_that_of_no_other_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    before = csv.field_size_limit()
    monkeypatch.setattr(documents, "MAX_BYTES", 1 << 17)
    try:
        path = written(tmp_path / "docs.csv", f"id,text\n1,a\n2,{cell.format('x' * (1 << 18))}\n3,b\n")
        first, huge, *_, last = open_documents(path, TEXT).documents
        assert isinstance(huge.error, TooLong) and huge.origin == "docs.csv:3" and not huge.record
        assert [(one.id, one.record["text"]) for one in (first, last)] == [("1", "a"), ("3", "b")]
        path = written(tmp_path / "head.csv", f"id,{'x' * (1 << 18)}\n")
        assert refused(path).startswith(f"{path} cannot be read: its first row names the columns, and it is longer")
    finally:
        csv.field_size_limit(before)


def test_every_bad_row_of_a_table_has_its_place(tmp_path: Path) -> None:
    content = b'id,text,x\n1,"a, ""b""\nc",2\n2\n3,\xff,4\n,d,5\n5,,6\n6,"open'
    path = written(tmp_path / "docs.csv", content)
    assert read(path) == [
        ("1", 'a, "b"\nc'),
        (None, "docs.csv:4: the row has 1 cell, and the header 3"),
        (None, "docs.csv:5: it is not UTF-8 text"),
        ("", "d"),
        ("5", ""),
        (None, "docs.csv:8: it is not a row of CSV: the quote that a cell begins with is not closed"),
    ]
    assert read(written(tmp_path / "docs.tsv", "text\tid\nb\t1\n")) == [("1", "b")]


def test_a_wrong_quote_costs_its_own_row_and_no_other(tmp_path: Path) -> None:
    lines = [
        "id,text",
        '1,"never closed',
        "2,b",
        '3,"12" screen"',
        '4,"fine\n""and"" closed"',
        '5,a 5" nail',
        '6,"open',
    ]
    path = written(tmp_path / "docs.csv", "\n".join(lines))
    after = "a cell goes on after its closing quote; a quote in a quoted cell is written twice"
    assert read(path) == [
        (None, f"docs.csv:2: it is not a row of CSV: {after}"),
        ("2", "b"),
        (None, f"docs.csv:4: it is not a row of CSV: {after}"),
        ("4", 'fine\n"and" closed'),
        ("5", 'a 5" nail'),
        (None, "docs.csv:8: it is not a row of CSV: the quote that a cell begins with is not closed"),
    ]
    assert open_documents(path, TEXT).count() == 6


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "docs.csv", "text,other,other,text\n")
    assert refused(path) == f"{path} has 2 columns `text`: rename all but one of them"
    assert read(written(tmp_path / "docs.tsv", "text\tx\tx\n")) == []
    two = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    parquet.write_table(two, tmp_path / "docs.parquet")
    assert "docs.parquet has 2 columns `text`" in refused(tmp_path / "docs.parquet")


def test_numbers_dates_and_what_utf_8_does_not_have_are_ids(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    parquet.write_table(pa.table({"id": [1.5, None], "text": ["a", "b"]}), path)
    assert read(path) == [("1.5", "a"), (None, "b")]
    parquet.write_table(pa.table({"id": [datetime.date(2024, 2, 29)], "text": ["a"]}), path)
    assert read(path) == [("2024-02-29", "a")]
    parquet.write_table(pa.table({"id": pa.array([7], pa.timestamp("ns")), "text": ["a"]}), path)
    assert read(path) == [("1970-01-01 00:00:00.000000007", "a")]
    assert read(written(tmp_path / "docs.jsonl", '{"id": "x\\ud800", "text": "a"}')) == [("x\\ud800", "a")]
    (tmp_path / "names").mkdir()
    written(tmp_path / "names" / os.fsdecode(b"caf\xe9.txt"), "a")
    found = open_documents(tmp_path / "names", TEXT)
    assert found.identity == {"caf\\udce9.txt": "1 bytes"} and [one.id for one in found.documents] == ["caf\\udce9.txt"]


@pytest.mark.parametrize("id", [numpy.int64(-3), numpy.uint8(3), numpy.float64(1.5), numpy.str_("a"), 2**70])
def test_numbers_of_numpy_are_ids_as_those_of_python_are(id: Any) -> None:
    [found] = documents.records_of([{"id": id, "text": "a"}], TEXT)
    same = id if isinstance(id, int) else id.item()
    assert found.error is None and found.id == (str(same) if isinstance(same, float) else same)
    assert type(found.id) in (int, str)


@pytest.mark.parametrize("id", [True, numpy.True_, float("nan"), numpy.array([1, 2]), [3]])
def test_what_identifies_nothing_is_no_id(id: Any) -> None:
    [found] = documents.records_of([{"id": id, "text": "a"}], TEXT)
    assert found.id is None and str(found.error).startswith("document 0: its id, `id`, is ")


def test_parquet_is_read_column_by_column(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    parquet.write_table(pa.table({"id": [1, None, 3], "text": ["a", None, "c"], "large": [["x"]] * 3}), path)
    assert read(path) == [(1, "a"), (None, None), (3, "c")]
    assert read(path, Columns(id="id"))[1] == (None, "docs.parquet:2: its id, `id`, is null")
    data = path.read_bytes()
    for damaged in (data[:-9], b"", b"PAR1"):
        written(path, damaged)
        assert f"{path} is not a Parquet file that can be read" in refused(path)


def test_damage_in_the_middle_of_a_parquet_file_ends_the_reading_there(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    texts = [f"{number}-" + "x" * 50 for number in range(400)]
    parquet.write_table(pa.table({"text": texts}), path, row_group_size=100, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    start = parquet.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    data[start : start + 40] = b"\xff" * 40
    written(path, bytes(data))
    seen = []
    with pytest.raises(FileError, match=r"docs.parquet cannot be read after row \d+"):
        for one in open_documents(path, TEXT).documents:
            seen.append(one.record["text"])
    assert seen == texts[: len(seen)] and len(seen) >= 128


TEXTS = st.none() | st.binary(max_size=3) | st.text(max_size=3).map(str.encode)
DAYS = st.none() | st.integers(-800_000, 3_000_000)  # the years 1 to 9999 and some before and after


def held(day: int | None, text: bytes | None) -> tuple[str | None, str | None, str | None]:
    """The id and the text of a row as Python has them, or what is wrong with it."""
    try:
        id = None if day is None else str(datetime.date(1970, 1, 1) + datetime.timedelta(day))
    except OverflowError:
        return None, None, "`id` cannot be read: date value out of range"
    try:
        return id, None if text is None else text.decode(), None
    except UnicodeDecodeError:
        return id, None, "`text` is not UTF-8 text"


@given(st.lists(st.tuples(DAYS, TEXTS), max_size=5), st.integers(0, 70))
def test_a_cell_that_python_cannot_hold_costs_its_row_and_no_other(
    odd: list[tuple[int | None, bytes | None]], before: int
) -> None:
    rows = [(0, b"x")] * before + odd
    texts = pa.array([text for _, text in rows], pa.binary()).view(pa.string())  # as writers do that check nothing
    table = pa.table({"id": pa.array([day for day, _ in rows], pa.date32()), "text": texts, "other": texts})
    with TemporaryDirectory() as folder:
        path = Path(folder, "docs.parquet")
        parquet.write_table(table, path)
        from_file = list(open_documents(path, TEXT).documents)
    for place, start, found in (
        ("docs.parquet:", 1, from_file),
        ("document ", 0, list(documents.documents_in(table, TEXT))),
    ):
        wanted = enumerate(starmap(held, rows), start)
        expected = [(id, text, said and f"{place}{at}: {said}") for at, (id, text, said) in wanted]
        errors = [(one, None if one.error is None else str(one.error)) for one in found]
        assert [(one.id, None if said else one.record["text"], said) for one, said in errors] == expected


def test_a_folder_of_texts_is_one_document_for_each(tmp_path: Path) -> None:
    written(tmp_path / "b.txt", "B")
    written(tmp_path / "a" / "c.md", "\ufeffC")
    written(tmp_path / "bad.txt", b"ab\xff")
    written(tmp_path / ".hidden" / "d.txt", "D")
    assert read(tmp_path) == [
        ("a/c.md", "C"), ("b.txt", "B"), ("bad.txt", "bad.txt: it is not UTF-8 text (byte 0xff at 2)"),
    ]  # fmt: skip
    assert read(tmp_path / "b.txt") == [("b.txt", "B")] and open_documents(tmp_path, TEXT).count() == 3


def test_a_folder_of_shards_is_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, text in (("2", "b"), ("1", "a")):
        written(tmp_path / f"{name}.jsonl", json.dumps({"text": text}))
    assert read(tmp_path) == [(None, "a"), (None, "b")]
    assert open_documents(tmp_path, TEXT).identity == {"1.jsonl": "13 bytes", "2.jsonl": "13 bytes"}
    written(tmp_path / "_SUCCESS", "")
    assert len(read(tmp_path)) == 2
    written(tmp_path / "3.jsonl", '{"body": "drifted"}')
    assert "3.jsonl has no column `text`; it has `body`" in refused(tmp_path)
    written(tmp_path / "3.jsonl", '"c"')
    written(tmp_path / "4.csv", "text\nd\n")
    assert "holds files of different formats, such as 1.jsonl and 4.csv" in refused(tmp_path)


def test_the_standard_input_holds_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n"b"\n')))
    assert read("-") == [(None, "a"), (None, "b")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"txt": "a"}\n')))
    assert refused("-") == "<stdin> has no column `text`; did you mean `txt`?"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", '{"text": ', "x.json cannot be read: it is not JSON: expecting value"),
        ("x.json", '[{"txt": "a"}]', "x.json has no column `text`; did you mean `txt`?"),
        ("x.jsonl.gz", "no gzip", "x.jsonl.gz is not a gzip file that can be read"),
        ("x.csv.gz", "text\na\n", "x.csv.gz is not a gzip file that can be read"),
        ("x.jsonl.zst", "", "x.jsonl.zst is not a file of documents; decompress it first"),
        ("x.csv", "id;body\n1;a\n", "x.csv has no column `text`; it has `id`, `body`: choose with --text"),
        ("x.csv", "id,text\n".encode("utf-16"), "x.csv is not UTF-8 text"),
        ("x.xlsx", "PK", "x.xlsx is not a file of documents; save the table as CSV (UTF-8): "),
        ("x.csv", "", "x.csv is empty: the first row of a table names its columns"),
        ("x.csv", "id,body\n1,a\n", "x.csv has no column `text`; it has `id`, `body`: choose with --text"),
        ("x.jsonl", '{"title": "a", "body": "b"}', "it has `title`, `body`: choose with --text"),
    ],
)
def test_what_concerns_all_rows_is_refused_before_the_first(
    tmp_path: Path, name: str, content: bytes | str, said: str
) -> None:
    assert said in refused(written(tmp_path / name, content))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "id;text\n1;a, b\n2;c\n"),
        ("x.csv", "text|id\na, b|1\nc|2\n"),
        ("x.csv", 'id;text;more\n1;a, b;"one, two\nthree"\n2;c;"four ""x"" five\nsix"\n'),
        ("x.tsv", 'id,text\n1,"a, b"\n2,c\n'),
        ("x.json", '[{"id": 1, "text": "a, b"},\n {"id": 2, "text": "c"}]'),
        ("x.jsonl", '{"id": 1, "text": "a, b"}\n{"id": 2, "text": "c"}'),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gz"])
def test_marks_between_cells_lists_and_packed_files_are_read(
    tmp_path: Path, name: str, content: str, is_packed: bool
) -> None:
    path = tmp_path / (f"{name}.gz" if is_packed else name)
    path.write_bytes(gzip.compress(content.encode()) if is_packed else content.encode())
    ids = (1, 2) if name.startswith("x.js") else ("1", "2")
    assert read(path) == list(zip(ids, ("a, b", "c"), strict=True)) and open_documents(path, Columns()).count() == 2


@given(st.sampled_from(["x.jsonl.gz", "x.json.gz", "x.csv.gz", "x.tsv.gz"]), st.integers(0, 20_000))
def test_a_packed_file_that_was_cut_off_is_named_wherever_it_ends(name: str, cut: int) -> None:
    lines = [random.Random(seed).randbytes(20).hex() for seed in range(800)]
    texts = "\n".join(map(json.dumps, lines))
    content = {"x.jsonl.gz": texts, "x.json.gz": f"[{','.join(texts.split())}]"}.get(name, "text\n" + "\n".join(lines))
    data = gzip.compress(content.encode(), mtime=0)
    with TemporaryDirectory() as folder:
        path = written(Path(folder, name), data[: -1 - cut % (len(data) - 1)])
        with pytest.raises(FileError, match=rf"{name} is not a gzip file that can be read"):
            open_documents(path, TEXT).count()
        with pytest.raises(FileError, match=rf"{name} is not a gzip file that can be read"):
            read(path)


def test_a_missing_id_file_or_folder_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "text\na\n")
    assert "x.csv has no column `key`; it has `text`: choose with --id" in refused(path, Columns(id="key"))
    assert "there is no file or folder" in refused(tmp_path / "none.jsonl")
    (tmp_path / "empty").mkdir()
    assert "holds no files" in refused(tmp_path / "empty")
    assert read(written(tmp_path / "none.csv", "text\n")) == [] == read(written(tmp_path / "none.jsonl", ""))
