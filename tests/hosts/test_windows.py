"""Long documents on servers: windows are runs, and what they say is merged as in this process."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import pastalang
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.command import typed
from tests.hosts.stand_in import TEMPLATE, StandIn, listening

Quote = Annotated[str, pastalang.Verbatim("text"), pastalang.Tokens(12)]
TEXT = "Ada takes aspirin.\n\nAda takes ibuprofen and aspirin.\n\nNothing is said here.\n\n"


class Chart(BaseModel):
    drugs: list[Quote]
    patient: Quote | None


def reading(prompt: str, constraint: Any) -> str:
    """Reads the last message of a prompt as a person would."""
    is_chat = prompt.startswith("[")
    said = json.loads(prompt)[-1]["content"] if is_chat else prompt.rpartition("<user>")[2]
    window, _, written = said.partition("</>")
    drugs, patient = re.findall("aspirin|ibuprofen", window), "Ada" if "Ada" in window else None
    found = patient if written.endswith('"patient": ') else drugs
    return json.dumps({"drugs": drugs, "patient": patient} if is_chat else found)


@pytest.mark.parametrize("kind", ("vllm", "sglang", "llama.cpp", "openai"))
def test_windows_of_a_server_have_every_mention_at_its_place(kind: str) -> None:
    host = StandIn(kind, answer=reading)
    engine = host.connect(tokenizer=byte_tokenizer(chat_template=TEMPLATE))
    found = engine.extract(Chart, TEXT, window=40, overlap=0, details=True)
    assert found.value == Chart(drugs=["aspirin", "ibuprofen", "aspirin"], patient="Ada")
    assert [TEXT[one.start : one.end].split()[0] for one in found.windows] == ["Ada", "Ada", "Nothing"]
    assert [one.status for one in found.windows] == ["ok"] * 3
    assert found.usage.requests == len(host.asked) and found.usage.forward_passes == 0
    if kind != "openai":
        assert [TEXT[one.start : one.end] for one in found.field("drugs").sources] == found.value.drugs
    overlapping = engine.extract(Chart, TEXT, window=60, overlap=36, details=True)
    assert len(overlapping.windows) > 1 and overlapping.value == found.value
    assert asyncio.run(engine.aextract(Chart, TEXT, window=40, overlap=0)) == found.value


def test_without_a_tokenizer_three_bytes_are_a_token() -> None:
    engine = StandIn(answer=reading).connect()
    found = engine.extract(Chart, TEXT, window=18, overlap=0, details=True)
    assert max(one.end - one.start for one in found.windows) <= 54 and len(found.windows) == 3


def test_commands_read_windows_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = "assistant json {\n  drugs: [verbatim(text, max=12)]\n}\n"
    Path("chart.pasta").write_text(f'template chart(text: text)\nuser """{{text}}"""\n{answer}', "utf-8")
    Path("notes.txt").write_text(TEXT, "utf-8")
    with listening(StandIn(answer=reading)) as address:
        done = typed(f"extract chart.pasta notes.txt -o out.jsonl --model {address}#m --window 18 --overlap 0")
    assert done.exit_code == 0, done.stderr
    row = json.loads(Path("out.jsonl").read_text("utf-8"))
    assert row["value"]["drugs"] == ["aspirin", "ibuprofen", "aspirin"]
    assert [one["status"] for one in row["_meta"]["windows"]] == ["ok"] * 3
