"""Unmodified clients against a server that listens on a port."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel

from tests.serve.running import listening

openai = pytest.importorskip("openai")


class Coffee(BaseModel):
    roast: Literal["dark", "light"]
    sizes: tuple[bool, bool]


def test_the_client_of_openai_parses_streams_calls_and_raises() -> None:
    with listening(api_keys=("key",)) as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="key", max_retries=0)
        assert [one.id for one in client.models.list()] == ["toy"]
        said = [{"role": "user", "content": "x"}]
        parsed = client.chat.completions.parse(model="toy", messages=said, response_format=Coffee)
        assert isinstance(parsed.choices[0].message.parsed, Coffee)
        with client.chat.completions.stream(model="toy", messages=said, response_format=Coffee) as stream:
            partial = [event.parsed for event in stream if event.type == "content.delta" and event.parsed]
        assert partial and stream.get_final_completion().choices[0].message.parsed == parsed.choices[0].message.parsed
        answer = client.responses.parse(model="toy", input="x", text_format=Coffee)
        assert answer.output_parsed == parsed.choices[0].message.parsed
        tools = [openai.pydantic_function_tool(Coffee)]
        called = client.chat.completions.parse(model="toy", messages=said, tools=tools, tool_choice="required")
        assert isinstance(called.choices[0].message.tool_calls[0].function.parsed_arguments, Coffee)
        with pytest.raises(openai.BadRequestError, match="logit_bias"):
            client.chat.completions.create(model="toy", messages=said, logit_bias={"1": 5})
        with pytest.raises(openai.NotFoundError, match="is not served"):
            client.chat.completions.create(model="gpt", messages=said)
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{address}/v1", api_key="wrong", max_retries=0).models.list()
