"""The page of a run: its figures are those of the rows, its texts are whole, and nothing in them acts."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import pastalang
from pastalang import Engine
from pastalang.bulk.compare import Advice, Comparison, Example, FieldAgreement
from pastalang.bulk.documents import Columns, Document, open_documents
from pastalang.bulk.outputs import ALL, Shape, output_for
from pastalang.bulk.report import BLOCK, SavedRun, write_report
from pastalang.bulk.rows import Origin, Row, task_of_type
from pastalang.bulk.run import Job, Ledger, fingerprint_of, rows_of_engine, run_job
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model
from tests.command import pasta

HOSTILE = '</script><img src=x onerror="document.title=1">%SCRIPT%%DATA%<!--\u2028 & é 😀'
META = {"input_tokens": 3, "output_tokens": 2, "passes": 1, "milliseconds": 5, "attempts": 1}
META |= {"model": "m", "revision": "r", "program": "p", "version": "0"}
CHROMIUM = pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine")


def row(
    value: Any, *fields: Mapping[str, Any], id: str | None = "a", status: str = "ok", error: str | None = None
) -> Row:
    marks = [{"truncated": False, "source": None, "start": None, "end": None, **one} for one in fields]
    return {"id": id, "value": value, "_status": status, "_error": error, "_fields": marks, "_meta": META}


def page_of(rows: list[tuple[Row, str | None]], run: SavedRun | None = None, *, title: str = "out.jsonl") -> str:
    stream = io.StringIO()
    pairs = ((one, None if text is None else Document({"text": text}, one["id"])) for one, text in rows)
    write_report(stream, pairs, run or SavedRun(), title=title)
    return stream.getvalue()


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None
    return dict(json.loads(found[1]))


def rows_of(page: str) -> list[Any]:
    packed = re.findall(r'<script type="text/plain" class="block">([A-Za-z0-9+/=]*)</script>', page)
    return [one for block in packed for one in json.loads(gzip.decompress(base64.b64decode(block)))]


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────

Quote = Annotated[str, pastalang.Verbatim("text"), pastalang.Tokens(24)]


class Line(BaseModel):
    what: Quote | None
    kind: Literal["fee", "item"]


class Order(BaseModel):
    name: Quote | None
    lines: Annotated[list[Line], Field(max_length=2)]
    price: float


@cache
def engine() -> Engine:
    return Engine(hashed_model(320), byte_tokenizer())


def extracted(folder: Path, suffix: str, shape: Shape = ALL) -> Path:
    """Six documents, one of them empty, as an output in this format."""
    source, out = folder / "docs.jsonl", folder / f"out{suffix}"
    texts = ["two fees", "", "an item 😀 and a fee", "nothing", "fee", "items"]
    source.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts)))
    task = task_of_type(Order)
    job, corpus = Job(task, Origin("fake", "1", "p"), 2, chunk=4), open_documents(source, task.read)
    with Ledger(out, fingerprint_of(job, corpus, shape), output_for(out, task, shape)) as ledger:
        ledger.open(resume=False, overwrite=True)
        run_job(
            partial(rows_of_engine, engine(), job),
            job,
            corpus,
            ledger,
            report=lambda totals: None,
            is_stopped=lambda: False,
        )
    return out


def reported(out: Path, *more: str) -> str:
    """What the command writes, as a user calls it."""
    said = pasta("report", out, *more)
    assert said.exit_code == 0, said.output
    page = out.with_name(f"{out.name}.html")
    assert f"{page}: 6 rows" in said.output
    return page.read_text(encoding="utf-8")


def values_at(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield value
    elif path[0] == "[]":
        for item in value or []:
            yield from values_at(item, path[1:])
    elif value is not None:
        yield from values_at(value.get(path[0]), path[1:])


def test_the_figures_are_those_of_the_rows_in_every_format(tmp_path: Path) -> None:
    out = extracted(tmp_path, ".jsonl")
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    data = data_of(reported(out, str(tmp_path / "docs.jsonl")))
    assert data["rows"] == 6 and sum(data["statuses"].values()) == 6 and data["statuses"]["error"] == 1
    assert data["statuses"] | {one["_status"]: 0 for one in rows} == dict.fromkeys(data["statuses"], 0)
    for name in ("input_tokens", "output_tokens", "passes"):
        assert data[name] == sum(one["_meta"][name] for one in rows)
    fields = {one["name"]: one for one in data["fields"]}
    values = [one["value"] for one in rows]
    for name in ("name", "lines", "lines[].what", "lines[].kind", "price"):
        found = list(values_at({"all": values}, ["all", "[]", *name.replace("[]", ".[]").split(".")]))
        found = [one for one, value in zip(found, values, strict=True) if value] if len(found) == 6 else found
        assert fields[name]["of"] == len(found) and fields[name]["filled"] == sum(
            one not in (None, []) for one in found
        )
        decisions = [one for found in rows for one in found["_fields"] if re.sub(r"\d", "", one["field"]) == name]
        assert fields[name]["decided"] == len(decisions) == sum(fields[name]["confidences"])
        assert fields[name]["low"] == sum(one["confidence"] < 0.5 for one in decisions)
        assert fields[name]["truncated"] == sum(one["truncated"] for one in decisions)
    assert [length for _, length in data["speed"]["bars"]] == [4, 2]
    least = [min((one["confidence"] for one in found["_fields"]), default=2.55) for found in rows]
    assert list(base64.b64decode(data["least_of_rows"])) == [round(100 * one) for one in least]
    for suffix, shape in product((".csv", ".parquet"), (ALL, Shape(has_confidence=True))):
        other = data_of(reported(extracted(tmp_path, suffix, shape)))
        for name in ("statuses", "fields", "least_of_rows", "status_of_rows", "output_tokens"):
            assert other[name] == data[name], (suffix, shape, name)


def test_a_key_that_is_left_out_counts_as_empty_and_fields_of_maps_are_not_endless() -> None:
    whole, half = {"a": {"b": 1, "c": None}}, {"a": {"b": ""}}
    fields = {
        one["name"]: one
        for one in data_of(page_of([(row(whole), None), (row(half), None), (row(None), None)]))["fields"]
    }
    assert [(fields[name]["filled"], fields[name]["of"]) for name in ("a.b", "a.c", "a")] == [(1, 2), (0, 2), (2, 2)]
    assert not fields["a"]["is_shown"]
    many = data_of(page_of([(row({f"k{number}": 1 for number in range(1000)}), None)]))["fields"]
    assert len(many) == 201 and many[-1]["name"] == "(other fields)" and many[-1]["filled"] == 801
    assert len({(one["hue"], one["under"]) for one in many[:25]}) == 25  # told apart by colours and lines


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    st.text(max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=4), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_a_text_is_whole_and_its_quotations_are_marked(
    text: str, places: list[tuple[int, int]], is_long: bool, is_one_list: bool
) -> None:
    text += "x" * 10_000 * is_long
    spans = [{"source": "text", "start": start, "end": start + length} for start, length in places]
    fields = [{"field": f"f{number}", "confidence": 1.0, **one} for number, one in enumerate(spans)]
    if is_one_list and spans:
        fields = [{**fields[0], "sources": spans}]
    [[_, _, [[_, parts]], _, _]] = rows_of(page_of([(row(None, *fields), text)]))
    at = 0
    for part in parts:
        if isinstance(part, int):
            at += part
            continue
        piece, quote = part if isinstance(part, list) else (part, None)
        assert text[at : at + len(piece)] == piece
        over = [n for n, (start, length) in enumerate(places) if start <= at < start + length]
        assert (quote in ([0] if is_one_list else over)) if over else quote is None
        at += len(piece)
    assert at == len(text) and any(isinstance(part, int) for part in parts) == is_long


def hostile() -> str:
    fields = {"field": HOSTILE, "confidence": 0.25, "source": "text", "start": 2, "end": 20}
    rows = [
        (row({HOSTILE: HOSTILE, "list": [HOSTILE]}, fields, id=HOSTILE), HOSTILE),
        (row(None, status="error", error=HOSTILE), "\ud800 a surrogate"),
    ]
    rows += [(row({"n": number}, id=f"id {number}"), "plain") for number in range(BLOCK)]
    example, advice = Example(HOSTILE, HOSTILE, HOSTILE), Advice(HOSTILE, 1, 2)
    compared = Comparison("strict", 3, 0, 1, (FieldAgreement(HOSTILE, 1, 3, (example,), advice),), (HOSTILE,))
    run = SavedRun({HOSTILE: HOSTILE, "columns": Columns().described}, comparison=compared)
    rows[0][0]["_meta"] = {**META, "model": HOSTILE}
    return page_of(rows, run, title=HOSTILE)


def test_hostile_text_is_inert_in_every_place_and_nothing_is_loaded() -> None:
    page = hostile()
    assert page.count("<script") == page.count("</script") == 4 and "<img" not in page and page.count("<!--") == 0
    assert page.encode("utf-8") and "://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'" in page
    data, rows = data_of(page), rows_of(page)
    assert data["title"] == HOSTILE and data["run"][HOSTILE] == HOSTILE
    assert rows[0][0] == HOSTILE and rows[0][3][0][1] == HOSTILE and rows[1][1] == HOSTILE and len(rows) == BLOCK + 2


def drawn(page: str, folder: Path) -> str:
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    place = [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom", file.as_uri()]
    ran = subprocess.run(["chromium", *flags, *place], capture_output=True, text=True, timeout=120, check=True)
    return re.sub(r"<script.*?</script>", "", ran.stdout, flags=re.S)


@CHROMIUM
def test_a_browser_draws_the_rows_and_runs_nothing_from_them(tmp_path: Path) -> None:
    found = drawn(hostile(), tmp_path)
    assert found.count('class="row"') == 25 and 'of <b id="last">11</b>' in found
    assert "<mark title" in found and found.count("<svg") == 1
    assert "1 of 3 documents are the same in all fields" in found and " makes 1 of 2 the same" in found
    assert "<img" not in found and "<title>1</title>" not in found


@CHROMIUM
@pytest.mark.parametrize(
    ("act", "shown"),
    [
        ('find("find").value = "ID 249"; find("status").value = "ok";', ">id 249<"),
        ('find("below").value = "0.3";', ">0.25<"),
        ('find("below").value = "0.3"; find("field").value = "0";', ">0.25<"),
    ],
)
def test_a_browser_finds_rows_in_blocks_that_are_closed(act: str, shown: str, tmp_path: Path) -> None:
    found = drawn(hostile().replace("choose();\n\n</script>", f"{act} choose();\n</script>"), tmp_path)
    assert found.count('class="row"') == 1 and shown in found and ">1 row<" in found


@pytest.mark.long
def test_a_hundred_thousand_rows_fit_into_a_page(tmp_path: Path) -> None:
    def rows() -> Iterator[tuple[Row, Document]]:
        for number in range(100_000):
            text = (
                f"Norvika Coffee {number * 7919 % 1000}, Dark Roast, {number % 40} oz, lot {number * 104_729 % 99_991}"
            )
            quote = {"field": "brand", "confidence": number % 100 / 100, "source": "text", "start": 0, "end": 14}
            rest = [{"field": name, "confidence": number * 31 % 1000 / 1000} for name in ("roast", "size", "lot")]
            value = {"brand": text[:14], "roast": "Dark Roast", "size": None, "lot": number}
            yield row(value, quote, *rest, id=str(number)), Document({"text": text}, str(number))

    path = tmp_path / "large.html"
    with path.open("w", encoding="utf-8") as stream:
        write_report(stream, rows(), SavedRun(), title="large")
    assert path.stat().st_size < 12 << 20
    if shutil.which("chromium"):
        assert 'of <b id="last">4,000</b>' in drawn(path.read_text(encoding="utf-8"), tmp_path)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


def refused(*words: str) -> str:
    said = pasta("report", *words)
    assert said.exit_code == 3, said.output
    return said.output


def test_what_is_not_an_output_or_not_its_documents_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = extracted(tmp_path, ".jsonl")
    docs = Path("docs.jsonl").read_text()
    assert "row 1 of docs.jsonl is not one of `pasta extract`: it has no `_status`" in refused("docs.jsonl")
    Path("docs.jsonl").write_text(docs.replace("two", "three"))
    assert "docs.jsonl is not what the rows were made of: docs.jsonl 185 bytes then" in refused(out.name, "docs.jsonl")
    Path("docs.jsonl").write_text(docs.replace('"id": 2', '"id": 7'))
    assert "row 3, with the id 2, is not of the document there: it has the id 7" in refused(out.name, "docs.jsonl")
    assert not Path("out.jsonl.html").exists() and not list(tmp_path.glob("*.draft"))
    out.unlink()
    assert "its run has not ended: go on with `pasta extract` and --resume" in refused(out.name)
    for name, content in (("x.jsonl", "{}\n[1"), ("y.jsonl", "nonsense"), ("z.csv", "a,b\n1"), ("p.parquet", "no")):
        Path(name).write_text(content)
        assert f"of {name} is not one of `pasta extract`" in refused(name)
    assert "rows.txt cannot be read: there is no such file" in refused("rows.txt")


def test_rows_of_an_earlier_run_are_not_reported_as_those_of_the_last_one(tmp_path: Path) -> None:
    out = extracted(tmp_path, ".jsonl")
    whole = out.read_text(encoding="utf-8")
    out.write_text(whole + whole, encoding="utf-8")
    assert "out.jsonl has 12 rows, and its run has written 6" in refused(str(out))
    out.write_text(whole, encoding="utf-8")
    reported(out)
    chunk, _ = (tmp_path / "out.jsonl.run/journal.jsonl").read_text().split("\n", 1)
    with Ledger(out, {}, output_for(out, task_of_type(Order))) as ledger:
        ledger.open(resume=False, overwrite=True)
        for journal in (None, f"{chunk}\n", f"{chunk}\n{chunk[:20]}"):
            if journal is not None:
                (ledger.folder / "journal.jsonl").write_text(journal)
            assert f"the run of {out} has not ended" in refused(str(out))
    assert data_of(reported(out))["run"] == {}
