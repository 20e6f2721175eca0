"""Tables for people: whatever columns are chosen and whatever their cells hold, readers find each cell in its place."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pastalang
from pastalang.bulk.outputs import Shape, output_for
from pastalang.bulk.rows import Task, task_of_program
from pastalang.errors import InputError

MARKS = {".csv": ",", ".tsv": "\t"}
TEXTS = st.none() | st.text('a ,;"\t\n\r\u2028é', max_size=4)


def task(*keys: str) -> Task:
    fields = ", ".join(f'"{key}": string | null' for key in keys)
    return task_of_program(pastalang.compile(f'template t(x: text)\nuser """{{x}}"""\nassistant json {{ {fields} }}\n'))


def row(value: dict[str, Any]) -> dict[str, Any]:
    return {"id": None, "value": value, "_status": "ok", "_error": None, "_fields": [], "_meta": {}}


@given(st.sampled_from(sorted(MARKS)), st.permutations(["id", "a", "b"]), st.integers(1, 3), st.data())
def test_readers_of_tables_find_every_row_and_every_cell(
    suffix: str, names: list[str], width: int, data: st.DataObject
) -> None:
    chosen = names[:width]
    values = data.draw(st.lists(st.fixed_dictionaries({"a": TEXTS, "b": TEXTS}), max_size=4))
    with TemporaryDirectory() as folder:
        path, part = Path(folder, f"out{suffix}"), Path(folder, "part")
        output = output_for(path, task("a", "b"), Shape(columns=tuple(chosen)))
        output.write(part, [row(value) for value in values])
        output.join(path, [part])
        text = path.read_bytes().decode()
    expected = [chosen, *([value.get(name) or "" for name in chosen] for value in values)]
    read = csv.reader(io.StringIO(text, newline=""), delimiter=MARKS[suffix], strict=True)
    assert [cells for cells in read if cells] == expected
    frame = pandas.read_csv(io.BytesIO(text.encode()), sep=MARKS[suffix], dtype=str, keep_default_na=False)
    assert [list(frame.columns), *frame.values.tolist()] == expected


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize(
    ("keys", "shape", "said"),
    [
        (("a", "b"), Shape(columns=("a", "a", "id")), "--columns names `a` twice"),
        (("a", "a.confidence"), Shape(has_confidence=True), "the table would have two columns `a.confidence`"),
        (("id", "value.id"), Shape(columns=("value.id",)), "the table would have two columns `value.id`"),
    ],
)
def test_no_two_columns_have_the_same_name(suffix: str, keys: tuple[str, ...], shape: Shape, said: str) -> None:
    with pytest.raises(InputError, match=said):
        output_for(Path(f"out{suffix}"), task(*keys), shape)
