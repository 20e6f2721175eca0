"""Documents through processes that die: every document has its row, in order, and one that kills has an error."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pastalang import LoadError
from pastalang.bulk.documents import Document
from pastalang.bulk.pool import Workers, WorkersDied, rows_of_pool
from pastalang.bulk.rows import Origin, Row
from pastalang.ray import _check_revision, _line, own_code
from pastalang.runtime.models.choice import revision_of


class Fakes(Workers):
    """Workers that end in an order drawn at random, die now and then, and always of some documents."""

    def __init__(self, size: int, data: Any, *, poison: frozenset[int] = frozenset(), bad_luck: int = 0) -> None:
        self.running: dict[Hashable, list[Document]] = {}
        self.killed: list[Hashable] = []
        self.deaths = 0
        self._size = size
        self._data = data
        self._poison = poison
        self._bad_luck = bad_luck

    @property
    def size(self) -> int:
        return self._size

    @property
    def idle(self) -> Sequence[Hashable]:
        return [number for number in range(self._size) if number not in self.running]

    def start(self, worker: Hashable, documents: Sequence[Document]) -> None:
        assert worker not in self.running and documents
        self.running[worker] = list(documents)

    def wait(self, seconds: float) -> Mapping[Hashable, list[Row] | str]:
        workers = self._data.draw(st.sets(st.sampled_from(sorted(self.running, key=str)), min_size=1))
        return {worker: self._end(self.running.pop(worker)) for worker in workers}

    def _end(self, documents: list[Document]) -> list[Row] | str:
        is_unlucky = self._bad_luck > 0 and self._data.draw(st.booleans())
        self._bad_luck -= is_unlucky
        if is_unlucky or any(int(document.id or 0) in self._poison for document in documents):
            self.deaths += 1
            return "killed"
        return [{"id": document.id, "_status": "ok"} for document in documents]

    def kill(self, worker: Hashable) -> None:
        self.killed.append(worker)

    def failed(self, document: Document, reason: str) -> Row:
        return {"id": document.id, "_status": "error", "_error": reason}


def documents(count: int) -> Iterator[Document]:
    return (Document({}, str(number)) for number in range(count))


@given(st.data(), st.integers(1, 3), st.integers(0, 40), st.integers(1, 7), st.sets(st.integers(0, 39), max_size=3))
def test_every_document_has_its_row_whoever_dies(
    data: st.DataObject, size: int, count: int, batch: int, poison: set[int]
) -> None:
    workers = Fakes(size, data, poison=frozenset(poison), bad_luck=2)
    taken: list[int] = []
    source = (taken.append(int(one.id or 0)) or one for one in documents(count))  # type: ignore[func-returns-value]
    given = 0
    for document, row in rows_of_pool(workers, source, batch=batch):
        assert document.id == row["id"] == str(given)
        given += 1
        assert len(taken) - given <= batch * (size * 5 + 1)
        if row["_status"] == "error":
            assert int(row["id"]) in poison or workers.deaths >= 3
            assert row["_error"] == "the process that decoded it died 3 times: killed"
        else:
            assert int(row["id"]) not in poison
    assert given == count and not workers.running
    killing = len([number for number in poison if number < count])
    assert workers.deaths <= 2 + 5 * killing  # a batch is taken apart after two deaths, a document fails after three


@given(st.data(), st.integers(1, 3))
@example(None, 1)
def test_workers_that_die_of_everything_end_the_run(data: Any, size: int) -> None:
    if data is not None:
        workers = Fakes(size, data, poison=frozenset(range(10_000)))
        with pytest.raises(WorkersDied, match=r"workers died one after another, the last one so: killed"):
            list(rows_of_pool(workers, documents(10_000), batch=300))


@given(st.data())
def test_what_was_read_before_the_documents_broke_is_decoded(data: st.DataObject) -> None:
    def broken() -> Iterator[Document]:
        yield from documents(5)
        raise OSError("damaged")

    rows = rows_of_pool(Fakes(2, data), broken(), batch=2)
    assert [next(rows)[0].id for _ in range(5)] == list("01234")
    with pytest.raises(OSError, match="damaged"):
        next(rows)


def test_a_worker_that_hangs_is_killed() -> None:
    class Hanging(Fakes):
        def wait(self, seconds: float) -> Mapping[Hashable, list[Row] | str]:
            found = {worker: self._end(self.running.pop(worker)) for worker in list(self.running) if worker != 1}
            return found | {worker: "hung" for worker in self.killed if self.running.pop(worker, None) is not None}

    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    workers = Hanging(2, None)
    found = [row for _, row in rows_of_pool(workers, documents(20), batch=2, clock=clock)]
    assert [row["id"] for row in found] == [str(number) for number in range(20)] and set(workers.killed) == {1}


def test_a_machine_with_another_version_of_the_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    model = str(tmp_path)
    _check_revision(model, Origin("m", revision_of(model), "p"))
    _check_revision("not/here", Origin("m", "abc", "p"))  # nobody knows
    with pytest.raises(LoadError, match=r"m is of revision \w{12}, and of abc where the run began"):
        _check_revision(model, Origin("m", "abc", "p"))


def test_the_code_of_a_type_is_sent_but_for_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "alone_module.py").write_text("class One: ...")
    (tmp_path / "whole_package").mkdir()
    (tmp_path / "whole_package" / "__init__.py").touch()
    (tmp_path / "whole_package" / "part.py").write_text("class Two: ...")
    one, two = import_module("alone_module").One, import_module("whole_package.part").Two
    assert own_code(one) == [str(tmp_path / "alone_module.py")] and own_code(two) == [str(tmp_path / "whole_package")]
    assert own_code(list[one | two]) == [*own_code(one), *own_code(two)]  # type: ignore[valid-type]
    assert own_code(None) == own_code(int) == own_code(pytest.Item) == own_code(Origin) == []


def test_what_is_said_of_an_error_is_its_reason_and_not_where_it_was_raised() -> None:
    assert _line(ValueError("one.\ntwo")) == "one" and _line(ValueError()) == "ValueError"
    died = (
        "The actor died because of an error raised in its creation task, \x1b[36mray::x()\x1b[39m\n  File a\nNo shop."
    )
    assert _line(RuntimeError(died)) == "No shop"
