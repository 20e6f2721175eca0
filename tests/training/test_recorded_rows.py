"""Rows are recorded once, the same by any number of processes, and bad ones are found without stopping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pastalang
from pastalang import Mode
from pastalang.training.data import Row, held_out, read_against
from pastalang.training.errors import BadRow
from pastalang.training.method import CHUNK, ParallelValues, Recording, Variants, record_rows
from tests.training.lessons import PRODUCT, TOKENIZER

METHOD = ParallelValues(pastalang.compile(PRODUCT), (Mode.STRICT, Mode.SEQUENTIAL))
RECORDING = Recording(METHOD, TOKENIZER, window=30)


@pytest.fixture
def rows(tmp_path: Path) -> Sequence[Row]:
    """Three rows more than a chunk. Two of them cannot be recorded: their brands are too long."""
    names = ["far too long a name" if number in (2, CHUNK + 1) else f"b{number}" for number in range(CHUNK + 3)]
    lines = [
        f'{{"title": "a {name} tv", "value": {{"brand": "{name}", "kind": "tv", "quote": null}}}}' for name in names
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_against(path, METHOD.evaluated_plans()["strict"]).rows


def same(one: Sequence[Variants | BadRow], other: Sequence[Variants | BadRow]) -> bool:
    def parts(given: Variants | BadRow) -> object:
        if isinstance(given, BadRow):
            return str(given)
        arrays = [(row.tokens, row.positions, row.labels, row.visible, row.near) for row in given]
        facts = [(row.mode, row.passes, row.origin) for row in given]
        return facts, [[array.astype(np.int64).tolist() for array in each] for each in arrays]

    return [parts(given) for given in one] == [parts(given) for given in other]


def test_recorded_rows_come_back_from_disk_without_being_recorded_again(
    rows: Sequence[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []
    first = record_rows(rows, RECORDING, cache=tmp_path / "cache", on_done=done.append)
    assert done == [0, CHUNK, CHUNK + 3]
    assert [number for number, one in enumerate(first) if isinstance(one, BadRow)] == [2, CHUNK + 1]
    assert str(first[2]).startswith(f"{tmp_path / 'rows.jsonl'}:3: `brand` cannot be written")
    files = sorted((tmp_path / "cache").iterdir())
    assert len(files) == 2
    recorded = Recording.chunk
    chunks: list[int] = []

    def counted(self: Recording, part: Sequence[Row]) -> list[Variants | BadRow]:
        chunks.append(len(part))
        return recorded(self, part)

    monkeypatch.setattr(Recording, "chunk", counted)
    assert same(record_rows(rows, RECORDING, cache=tmp_path / "cache"), first)
    assert chunks == []
    files[0].write_bytes(files[0].read_bytes()[:-50])
    assert same(record_rows(rows, RECORDING, cache=tmp_path / "cache"), first)
    assert len(chunks) == 1, "the damaged chunk is recorded again"
    moved = [replace(row, origin=f"moved {row.origin}") for row in rows]
    assert str(record_rows(moved, RECORDING, cache=tmp_path / "cache")[2]).startswith("moved ")
    record_rows(rows[:1], Recording(METHOD, TOKENIZER, window=None), cache=tmp_path / "cache")
    assert chunks[1:] == [1], "another window is another recording"


@pytest.mark.long
def test_several_processes_record_what_one_records(rows: Sequence[Row]) -> None:
    assert same(record_rows(rows, RECORDING, workers=2), record_rows(rows, RECORDING, workers=1))


def test_rows_with_the_same_inputs_are_held_out_together(rows: Sequence[Row]) -> None:
    assert len(held_out(rows, 0.1)) == 7 == round(0.1 * len(rows))
    again = held_out([row for row in rows for _ in range(2)], 0.1)
    assert all((number ^ 1) in again for number in again)
    often = [*rows, *(rows[0] for _ in range(30))]
    assert len(held_out(often, 0.1)) == 10 and held_out(often[-30:], 0.1) == frozenset()
    assert held_out(rows[:19], 0.1) == held_out(rows, 0.0) == frozenset()
