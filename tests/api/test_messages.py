"""What is said to somebody who wrote something else than what was meant."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, create_model

import pastalang
from tests.api.engines import hashing


class Note(BaseModel):
    name: Annotated[str, pastalang.Tokens(4)]


def extracting(**options: Any) -> Callable[[], object]:
    return lambda: pastalang.extract(Note, "Bea", **options)


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: hashing().extract(Note, ""), "the text is empty"),
    (lambda: hashing().extract(Note, " \n"), "the text is empty"),
    (lambda: pastalang.extract(Note, 3), "reads one text, not an int"),  # type: ignore[call-overload]
    (lambda: pastalang.extract(Note, {"a": 1}), "reads one text, not a dict"),  # type: ignore[call-overload]
    (lambda: hashing().extract(Note, "abc \ud83d def"), "`text` has half a character at 4: `\\ud83d` is one half"),
    (lambda: hashing().extract_many(Note, ["Bea"]), "`pastalang.extract_many(type, documents, model=engine)`"),  # type: ignore[attr-defined]
    (lambda: create_model("Note", name=pastalang.Verbatim), "write `Annotated[str, pastalang.Verbatim(...)]`"),
    (extracting(temprature=0.3), "unknown option `temprature`; did you mean `temperature`? Write `sampling="),
    (extracting(instrutions="x"), "unknown option `instrutions`; did you mean `instructions`?"),
    (extracting(min_confidence=0.6), "write `details=True`, and look at `confidence`"),
    (lambda: pastalang.extract("x", {"type": "object"}), "the type comes first: `extract(schema, text)`"),  # type: ignore[call-overload]
    (lambda: pastalang.extract({"items": {"minimum": float("nan")}}, "x"), "#/items/minimum: NaN is not a JSON number"),
    (lambda: pastalang.from_schema({"enum": ["a", {1}]}), "record cannot be expressed:\n  #/enum/1: {1} is not JSON"),
    (lambda: pastalang.from_schema({"properties": {3: {}}}), "#/properties: the key 3 is not a string"),
    (lambda: pastalang.from_schema("gh.json"), "`from_schema(Path('gh.json').read_text())`"),
    (extracting(model="gpt-4o"), "gpt-4o is a model of a service: name its address too, http://host:port/v1#gpt-4o"),
    (extracting(model="openai/gpt-4o-mini"), "openai/gpt-4o-mini is a model of a service: name its address too, http://host:port/v1#openai/gpt-4o-mini"),
    (extracting(model="ollama/llama3"), "ollama/llama3 is a model of a service: name its address too, http://host:port/v1#ollama/llama3"),
    (extracting(model="llama3:8b"), "llama3:8b is a model of a service: name its address too, http://host:port/v1#llama3:8b"),
    (extracting(model="claude-sonnet-4"), "claude-sonnet-4 is a model of a service: name its address too, http://host:port/v1#claude-sonnet-4"),
    (extracting(model="http://127.0.0.1:9/v1"), "has the server been started, and is this its address?"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said[:40] for _, said in WRONG])
def test_what_was_meant_is_said(call: Callable[[], object], said: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, pastalang.PastaError), match=re.escape(said)):
        call()


def test_an_empty_text_is_refused_as_one_of_many() -> None:
    [found] = pastalang.extract_many(Note, [""], model=hashing())
    assert found.problem == "document 0: the text is empty"


@pytest.mark.parametrize(("file", "table"), [("pasta.toml", ""), ("pyproject.toml", "[tool.pastalang]\n")])
def test_an_unknown_key_of_a_settings_file_is_named(
    file: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).write_text(f'{table}modle = "x"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PASTALANG_MODEL", raising=False)
    with pytest.raises(pastalang.LoadError, match=f"{file}: unknown key `modle`; did you mean `model`"):
        pastalang.extract(Note, "x")


def test_dir_lists_public_names_only() -> None:
    assert {name for name in dir(pastalang) if not name.startswith("__")} == set(pastalang.__all__)


def test_a_result_has_the_prompt_that_the_model_read() -> None:
    engine = hashing()
    for _ in range(2):  # the second time from the kept prompt
        found = engine.extract(Note, "Bea has called.", details=True)
        assert "Bea has called." in found.result.prompt
        assert found.result.text not in found.result.prompt


def test_requests_and_rows_are_reported_to_hooks_and_to_opentelemetry(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    engine = hashing(on_request=ended.append, max_position=600)
    engine.extract(Note, "Bea has called.", on_truncated="keep")
    texts, rows = ["a", "", "b" * 900], list[Any]()
    found = list(pastalang.extract_many(Note, texts, model=engine, on_row=rows.append, on_truncated="keep"))
    assert found == rows and [one.status == "too_long" for one in rows] == [False, False, True]
    assert "Bea" in ended[0].result.prompt and (ended[0].number, ended[0].mode) == (1, "strict")
    assert len(ended) == 3 and ended[1].outcome is rows[2].error and ended[1].result is None and ended[2].seconds > 0
    engine.on_request = lambda one: 1 / 0  # type: ignore[assignment]
    assert engine.extract(Note, "a", on_truncated="keep") == rows[0].value and "ZeroDivisionError" in caplog.text
    with pytest.raises(pastalang.BadInputs, match="`on_row` is a function"):
        pastalang.extract_many(Note, texts, model=engine, on_row=3)  # type: ignore[call-overload]

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", provider.get_tracer)
    with provider.get_tracer("of the caller").start_as_current_span("call") as caller:
        list(pastalang.extract_many(Note, texts, model=hashing(max_position=600), on_truncated="keep"))
    bad, good, _ = spans.get_finished_spans()
    assert good.parent and good.parent.span_id == caller.get_span_context().span_id and good.start_time < good.end_time
    given = good.attributes
    assert given["gen_ai.usage.output_tokens"] == rows[0].usage.output_tokens and 0 < given["pastalang.confidence"] <= 1
    assert not bad.status.is_ok and bad.attributes["error.type"] == "too_long" and "Bea" not in str(given)


def test_requests_are_written_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pastalang")
    found = hashing().extract(Note, "Bea has called.", details=True, on_truncated="keep")
    [line, read, wrote] = [one for one in caplog.records if one.name == "pastalang"]
    assert line.levelno == logging.INFO and "1 field" in line.message and " s" in line.message
    assert "Bea has called." in read.message and found.result.text in wrote.message
    assert read.levelno == wrote.levelno == logging.DEBUG
