"""Programs of a folder as endpoints: what they take and answer, when their files change, and what is kept of them."""

from __future__ import annotations

import gc
from pathlib import Path

import jsonschema
import pytest

from tests.serve.running import chat, in_a_loop, json_format, parts_of, serving
from tests.serve.test_server import COFFEE, PROGRAM, object_of


@in_a_loop
async def test_a_program_is_an_endpoint_with_its_types(tmp_path: Path) -> None:
    (tmp_path / "greet.pasta").write_text(PROGRAM)
    async with serving(programs=tmp_path) as (client, _):
        answer = await client.post("/programs/greet", json={"name": "Ada"})
        streamed = parts_of((await client.post("/programs/greet?stream=true", json={"name": "Ada"})).text)
        described = (await client.get("/openapi.json")).json()
        wrong = await client.post("/programs/greet", json={"nome": "Ada"})
        absent = await client.post("/programs/gret", json={})
        outside = await client.post("/programs/..%2F..%2Fgreet", json={})
    assert answer.json()["value"] == streamed[-1]["value"] and 0 <= answer.json()["value"]["size"] <= 9
    assert {part["field"] for part in streamed if part["type"] == "done"} == {"hello", "size"}
    inputs = described["paths"]["/programs/greet"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert inputs["properties"]["tone"] == {"type": "string", "enum": ["warm", "dry"]}
    assert inputs["required"] == ["name"]
    jsonschema.validate(answer.json()["value"], described["components"]["schemas"]["greet"])
    assert wrong.status_code == 400 and "did you mean `name`?" in wrong.json()["error"]["message"]
    assert absent.status_code == 404 and "did you mean `greet`?" in absent.json()["error"]["message"]
    assert outside.status_code == 404


REVIEWS = '''
type Topic = { name: string(max=4), parts: [Topic](max=1) }

template rate(each review: text)

system """
You rate reviews.
"""

user """
{review}
"""

assistant json {
  stars: 1 | 2 | 3
  topics: [Topic](max=1)
}
'''


@pytest.mark.parametrize("reviews", [["good", "bad"], ["good"], []])
@in_a_loop
async def test_a_program_of_many_documents_answers_with_a_list(tmp_path: Path, reviews: list[str]) -> None:
    """Of none, with an empty one; and its schema says so."""
    (tmp_path / "rate.pasta").write_text(REVIEWS)
    async with serving(programs=tmp_path) as (client, _):
        answer = (await client.post("/programs/rate", json={"review": reviews})).json()
        streamed = parts_of((await client.post("/programs/rate?stream=true", json={"review": reviews})).text)
        described = (await client.get("/openapi.json")).json()
    assert streamed[-1]["value"] == answer["value"] and len(answer["value"]) == len(reviews)
    schema = {"$ref": "#/components/schemas/rate", "components": described["components"]}
    jsonschema.validate(answer["value"], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"stars": 1, "topics": []}, schema)


@in_a_loop
async def test_a_plan_is_drawn_without_a_run(tmp_path: Path) -> None:
    (tmp_path / "greet.pasta").write_text(PROGRAM)
    async with serving(programs=tmp_path) as (client, server):
        of_chat = await client.post("/plan", json=chat("x", **json_format(COFFEE)))
        of_program = await client.get("/programs/greet/plan")
        unknown = await client.get("/programs/gret/plan")
        wrong = await client.post("/plan", json=chat("x", **json_format({"type": "nothing"})))
        assert server.driver.passes == 0
    assert of_chat.headers["content-type"] == of_program.headers["content-type"] == "image/svg+xml"
    assert "roast" in of_chat.text and "hello" in of_program.text
    assert (unknown.status_code, wrong.status_code) == (404, 400)


@in_a_loop
async def test_a_changed_program_is_read_again_and_a_broken_one_keeps_its_old_meaning(tmp_path: Path) -> None:
    file = tmp_path / "greet.pasta"
    file.write_text(PROGRAM)
    async with serving(programs=tmp_path, reload=True) as (client, _):
        file.write_text(PROGRAM.replace("greet", "meet"))
        assert (await client.post("/programs/meet", json={"name": "Ada"})).status_code == 200
        file.write_text("template meet(")
        assert (await client.post("/programs/meet", json={"name": "Ada"})).status_code == 200


@in_a_loop
async def test_a_folder_of_programs_that_is_being_changed_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Links that lead nowhere are no programs, and a second template does not take the name of one that is served."""
    (tmp_path / "greet.pasta").write_text(PROGRAM)
    async with serving(programs=tmp_path, reload=True) as (client, _):
        (tmp_path / "broken.pasta").symlink_to(tmp_path / "nowhere.pasta")
        (tmp_path / "another.pasta").write_text("template greet(name: text)\n\nassistant json { taken: boolean }")
        answer = await client.post("/programs/greet", json={"name": "Ada"})
        assert answer.status_code == 200 and "hello" in answer.json()["value"]
        assert f"{tmp_path / 'greet.pasta'} and {tmp_path / 'another.pasta'}: rename one of them" in caplog.text
        (tmp_path / "greet.pasta").unlink()
        answer = await client.post("/programs/greet", json={"name": "Ada"})
        assert answer.status_code == 200 and "taken" in answer.json()["value"]


QUOTING = """
template read(said: text)

assistant json {
%s}
"""


@in_a_loop
async def test_what_is_kept_of_schemas_and_documents_has_a_bound(tmp_path: Path) -> None:
    """A server meets new ones for as long as it runs. A guide keeps the masks that it has made."""
    fields = "".join(f"  f{number}: verbatim(said, max={number + 8})\n" for number in range(40))
    (tmp_path / "read.pasta").write_text(QUOTING % fields)
    whole = [
        object_of({f"{n}": {"type": "integer", "minimum": 0, "maximum": 100 * k + n} for n in range(100)})
        for k in range(7)
    ]

    def count() -> int:
        gc.collect()
        return sum(type(one).__name__ == "MachineGuide" for one in gc.get_objects())

    before = count()
    async with serving(programs=tmp_path) as (client, _):
        for schema in whole:
            answer = await client.post("/v1/chat/completions", json=chat("x", **json_format(schema)))
            assert answer.status_code == 200
        assert count() - before < 600, "700 types"
        for number in range(8):
            answer = await client.post("/programs/read", json={"said": f"this is the document {number}"})
            assert answer.status_code == 200
        assert count() - before < 800, "320 quotations"
