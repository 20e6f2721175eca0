"""Unmodified clients against a server that listens on a port. Those that are not installed are skipped.

`make clients` installs all of them in an environment of its own and runs this file there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from tests.serve.running import in_a_loop, listening

SAID: list[Any] = [{"role": "user", "content": "x"}]


class Coffee(BaseModel):
    """A coffee."""

    roast: Literal["dark", "light"]
    organic: bool


class Set(BaseModel):
    """Sets the clock."""

    hour: Literal[1, 2, 3]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with listening(api_keys=("key",)) as address:
        yield address


@pytest.fixture(autouse=True)
def foreign_warnings() -> Iterator[None]:
    """What clients warn of in their own code is not our fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_the_client_of_openai_parses_streams_calls_and_raises(address: str) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="key", max_retries=0)
    assert [one.id for one in client.models.list()] == ["toy"]
    parsed = client.chat.completions.parse(model="toy", messages=SAID, response_format=Coffee)
    assert isinstance(parsed.choices[0].message.parsed, Coffee)
    with client.chat.completions.stream(model="toy", messages=SAID, response_format=Coffee) as stream:
        partial = [event.parsed for event in stream if event.type == "content.delta" and event.parsed]
    assert partial and stream.get_final_completion().choices[0].message.parsed == parsed.choices[0].message.parsed
    answer = client.responses.parse(model="toy", input="x", text_format=Coffee)
    assert answer.output_parsed == parsed.choices[0].message.parsed
    with client.responses.stream(model="toy", input="x", text_format=Coffee) as events:
        assert events.get_final_response().output_parsed == answer.output_parsed
    tools = [openai.pydantic_function_tool(Set)]
    called = client.chat.completions.parse(model="toy", messages=SAID, tools=tools, tool_choice="required")
    assert isinstance(called.choices[0].message.tool_calls[0].function.parsed_arguments, Set)
    with client.chat.completions.stream(model="toy", messages=SAID, tools=tools, tool_choice="required") as stream:
        [call] = stream.get_final_completion().choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Set)
    whole = client.completions.create(model="toy", prompt="Once", max_tokens=5)
    streamed = client.completions.create(model="toy", prompt="Once", max_tokens=5, stream=True)
    assert "".join(part.choices[0].text for part in streamed) == whole.choices[0].text
    with pytest.raises(openai.BadRequestError, match="logit_bias"):
        client.chat.completions.create(model="toy", messages=SAID, logit_bias={"1": 5})
    with pytest.raises(openai.NotFoundError, match="is not served"):
        client.chat.completions.create(model="gpt", messages=SAID)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{address}/v1", api_key="wrong", max_retries=0).models.list()


def test_the_client_of_openai_for_node_parses_streams_calls_and_raises(address: str, tmp_path: Path) -> None:
    """PASTALANG_NODE_CLIENTS names a folder in which `npm install openai` was run."""
    folder = os.environ.get("PASTALANG_NODE_CLIENTS")
    if folder is None or shutil.which("node") is None:
        pytest.skip("PASTALANG_NODE_CLIENTS names no folder with the client for Node, or node is not installed")
    (tmp_path / "node_modules").symlink_to(Path(folder).absolute() / "node_modules")
    shutil.copy(Path(__file__).with_name("client.mjs"), tmp_path)
    given = {
        "ADDRESS": address,
        "SCHEMA": json.dumps(_strict({"roast": {"enum": ["dark", "light"]}})),
        "TOOL": json.dumps(_strict({"hour": {"enum": [1, 2, 3]}})),
    }
    done = subprocess.run(
        ["node", "client.mjs"], cwd=tmp_path, env=os.environ | given, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert json.loads(found["whole"])["roast"] in ("dark", "light") and found["text"] == found["whole"]
    assert found["call"]["name"] == "set" and json.loads(found["call"]["arguments"])["hour"] in (1, 2, 3)
    assert found["status"] == 400


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA"])
def test_instructor_makes_models_whole_and_in_parts(address: str, mode: str) -> None:
    instructor = pytest.importorskip("instructor")
    plain = pytest.importorskip("openai").OpenAI(base_url=f"{address}/v1", api_key="key", max_retries=0)
    client = instructor.from_openai(plain, mode=instructor.Mode[mode])
    made = client.chat.completions.create(model="toy", messages=SAID, response_model=Coffee, max_retries=0)
    assert isinstance(made, Coffee)
    parts = list(client.chat.completions.create_partial(model="toy", messages=SAID, response_model=Coffee))
    assert parts[-1].model_dump() == made.model_dump()
    with pytest.raises(Exception, match="is not served"):
        client.chat.completions.create(model="gpt", messages=SAID, response_model=Coffee, max_retries=0)


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_makes_models_streams_and_calls(address: str, method: str) -> None:
    langchain = pytest.importorskip("langchain_openai")
    model = langchain.ChatOpenAI(model="toy", base_url=f"{address}/v1", api_key="key", max_retries=0, max_tokens=200)
    structured = model.with_structured_output(Coffee, method=method)
    made = structured.invoke("x")
    assert isinstance(made, Coffee) and list(structured.stream("x"))[-1] == made
    short = model.bind(max_tokens=5)
    assert "".join(part.content for part in short.stream("x")) == short.invoke("x").content
    [call] = model.bind_tools([Set], tool_choice="required").invoke("x").tool_calls
    assert call["name"] == "Set" and call["args"]["hour"] in (1, 2, 3)
    wrong = langchain.ChatOpenAI(model="gpt", base_url=f"{address}/v1", api_key="key", max_retries=0)
    with pytest.raises(Exception, match="is not served"):
        wrong.invoke("x")


@in_a_loop
async def test_pydantic_ai_makes_models_through_tools_and_schemas_whole_and_in_parts(address: str) -> None:
    ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    openai = pytest.importorskip("openai")
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="key", max_retries=0) as client:
        provider = providers.OpenAIProvider(openai_client=client)
        for kind in (Coffee, ai.NativeOutput(Coffee)):
            agent = ai.Agent(models.OpenAIChatModel("toy", provider=provider), output_type=kind)
            made = (await agent.run("x")).output
            async with agent.run_stream("x") as answer:
                parts = [part async for part in answer.stream_output(debounce_by=None)]
            assert isinstance(made, Coffee) and parts[-1] == made
        with pytest.raises(Exception, match="is not served"):
            await ai.Agent(models.OpenAIChatModel("gpt", provider=provider)).run("x")


def test_litellm_completes_streams_calls_and_raises(address: str) -> None:
    litellm = pytest.importorskip("litellm")
    given = {"model": "openai/toy", "api_base": f"{address}/v1", "api_key": "key", "messages": SAID, "num_retries": 0}
    whole = litellm.completion(**given, response_format=Coffee).choices[0].message.content
    assert isinstance(Coffee.model_validate_json(whole), Coffee)
    parts = litellm.completion(**given, response_format=Coffee, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == whole
    tool = {"type": "function", "function": {"name": "set", "parameters": Set.model_json_schema()}}
    [call] = litellm.completion(**given, tools=[tool], tool_choice="required").choices[0].message.tool_calls
    assert isinstance(Set.model_validate_json(call.function.arguments), Set)
    with pytest.raises(litellm.NotFoundError, match="is not served"):
        litellm.completion(**given | {"model": "openai/gpt"})


def test_curl_reads_answers_streams_and_errors(address: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")

    def curl(path: str, *more: str, key: str = "key") -> str:
        command = ["curl", "-sN", f"{address}{path}", "-H", f"Authorization: Bearer {key}", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    body = {"model": "toy", "messages": SAID, "max_tokens": 5}
    whole = json.loads(curl("/v1/chat/completions", "-d", json.dumps(body)))
    streamed = curl("/v1/chat/completions", "-d", json.dumps(body | {"stream": True}))
    assert whole["object"] == "chat.completion" and streamed.endswith("data: [DONE]\n\n")
    assert json.loads(curl("/v1/models", key="wrong"))["error"]["code"] == "invalid_api_key"
