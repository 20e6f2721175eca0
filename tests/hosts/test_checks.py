"""What a server cannot be asked is refused before anything is sent, and no option is left out silently."""

from __future__ import annotations

from typing import Any

import pytest

import pastalang
from pastalang.errors import Unsupported
from tests.hosts.stand_in import StandIn
from tests.hosts.test_branches import PRODUCT

SAMPLING = pastalang.Sampling


def asking(answer: str, inputs: str = "x: text") -> Any:
    return pastalang.compile(f'template t({inputs})\nuser """{{x}}"""\nassistant {answer}\n')


def refused(kind: str, program: Any, **options: Any) -> str:
    host = StandIn(kind)
    with pytest.raises(Unsupported) as problem:
        host.connect().run(program, {"title": "x"} if program is PRODUCT else {"x": "x"}, **options)
    assert host.asked == []
    return str(problem.value)


@pytest.mark.parametrize("kind", ["vllm", "openai"])
@pytest.mark.parametrize(
    ("program", "options", "message"),
    [
        (PRODUCT, {"mode": "lockstep"}, "lock-step needs the model in this process"),
        (PRODUCT, {"drafts": 4}, "drafts are guessed inside the model's process"),
        (PRODUCT, {"sampling": SAMPLING(drafts=4)}, "drafts are guessed inside the model's process"),
        (PRODUCT, {"retry_below": 0.5}, "`retry_below` decodes fields again inside the model's process"),
        (asking("think(max=9) json { a: boolean }"), {}, "begins with a thought of at most 9 tokens"),
        (asking("auto(pasta)"), {}, "lets the model open threads"),
        (asking("json { a: string(max=9) with (drafts=4) }"), {}, "`a` is guessed ahead"),
    ],
)
def test_what_needs_the_model_in_this_process_is_refused(kind: str, program: Any, options: Any, message: str) -> None:
    assert message in refused(kind, program, **options)


@pytest.mark.parametrize(
    ("program", "options", "message"),
    [
        (asking('text """{a: string(max=9)}"""'), {}, "a text with holes needs a server that takes raw prompts"),
        (asking("json { a: boolean, b: boolean with (temperature=2) }"), {}, "`a` and `b` are drawn differently"),
        (asking("json { a: boolean with (min_p=0.5) }"), {}, "which have no `min_p`"),
        (PRODUCT, {"sampling": SAMPLING(top_k=4)}, "which have no `top_k`"),
        (PRODUCT, {"sampling": SAMPLING(repetition_penalty=1.1)}, "which have no `repetition_penalty`"),
        (asking("json { a: boolean }", "each x: text"), {}, "takes chats only: call `batch` or `map` in place of"),
    ],
)
def test_what_no_chat_can_be_asked_is_refused(program: Any, options: Any, message: str) -> None:
    assert message in refused("openai", program, **options)


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama.cpp"])
def test_all_sampling_is_sent_where_raw_prompts_can_be_asked(kind: str) -> None:
    host = StandIn(kind)
    sampling = SAMPLING(temperature=0.5, top_p=0.9, top_k=4, min_p=0.125, repetition_penalty=1.25)
    host.connect().run(PRODUCT, title="x", sampling=sampling)
    for body in host.bodies:
        assert {0.5, 0.9, 4, 0.125, 1.25} <= {one for one in _values(body) if isinstance(one, int | float)}


def _values(body: Any) -> list[Any]:
    return [one for part in body.values() for one in (_values(part) if isinstance(part, dict) else [part])]
