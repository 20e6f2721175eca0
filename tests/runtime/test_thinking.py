"""Thoughts before the answer: for templates that think first, and for those that know nothing of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import Engine, Limits, Mode, Plan, PlanError, Sampling, build_plan
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.binding.guide_cache import control_tags
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model, scripted_model
from pastalang.testing.strategies import programs
from tests.properties.schedules import FEW, MANY, SEEDS, check_schedules, outcome
from tests.properties.schedules import engine as engine_on

END = 256
# As Qwen3 has it: a thought that is not wanted is written empty. As others have it: a thought is always opened.
ASKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
ALWAYS = ASKED.replace("{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}", "<think>\n")
CONTROL = ("<|im_start|>", "<|im_end|>", "<think>", "</think>")
TEMPLATES = pytest.mark.parametrize("chat", [None, ASKED, ALWAYS], ids=["plain", "asked", "always"])


def program(thought: str = "think(max=40) ", body: str = "json {\n  a: boolean\n  b: boolean\n}") -> pastalang.Program:
    return pastalang.compile(f'template t()\nuser """\nGo.\n"""\nassistant {thought}{body}\n')


def tokenizer_of(chat: str | None) -> Any:
    return byte_tokenizer(control=() if chat is None else CONTROL, chat_template=chat)


def run(thought: str, chat: str | None, *, most: int = 40, body: str = "json {\n  a: boolean\n  b: boolean\n}") -> Any:
    """The model thinks this and then says `true` to everything. Gives the result and all that was seen."""
    tokenizer = tokenizer_of(chat)
    seen: list[str] = []

    def next_token(fed: FedToken) -> int:
        path = tokenizer.decode([one.token for one in fed.path])
        seen.append(path)
        done = path.rpartition("<think>\n")[2]
        if "</think>" in done:
            return ord("t")
        closing = "</think>"
        if done == thought and chat is not None:
            return int(tokenizer.convert_tokens_to_ids(closing))
        return (thought + closing).encode()[len(done.encode())]

    engine = Engine(scripted_model(next_token, 320), tokenizer)
    result = engine.run(program(f"think(max={most}) ", body), {})
    engine.check_integrity()
    return result, seen


@TEMPLATES
def test_the_answer_sees_the_thought_and_does_not_hold_it(chat: str | None) -> None:
    result, seen = run(" Let me see.\nYes.\n", chat)
    assert result.value == {"a": True, "b": True} and json.loads(result.text) == result.value
    assert result.thinking == (" Let me see.\nYes.\n",)
    assert [field.path for field in result.fields] == ["a", "b"]
    values = [path for path in seen if path.endswith(('"a": ', '"b": '))]
    assert len(values) == 2
    for path in values:
        assert path.count("<think>") == path.count("</think>") == 1
        assert "<think>\n Let me see.\nYes.\n</think>\n\n{" in path


@TEMPLATES
def test_a_thought_that_reaches_its_limit_is_closed(chat: str | None) -> None:
    result, seen = run("x" * 100, chat, most=12)
    assert result.thinking == ("x" * 12,)
    assert any("<think>\n" + "x" * 12 + "\n</think>\n\n{" in path for path in seen)
    assert result.value == {"a": True, "b": True}


@TEMPLATES
def test_a_thought_costs_its_tokens_before_everything_else(chat: str | None) -> None:
    result, _ = run("Hm. Yes.", chat)
    closing = 1 if chat else len("</think>")
    assert result.usage.forward_passes == result.usage.critical_path
    assert result.usage.forward_passes >= len("Hm. Yes.") + closing + 1
    assert result.usage.output_tokens >= len("Hm. Yes.") + closing + 2


@pytest.mark.parametrize("chat", [ASKED, ALWAYS], ids=["asked", "always"])
def test_without_think_the_model_is_told_not_to(chat: str) -> None:
    tokenizer = tokenizer_of(chat)
    seen: list[str] = []

    def next_token(fed: FedToken) -> int:
        seen.append(tokenizer.decode([one.token for one in fed.path]))
        return ord("t")

    assert Engine(scripted_model(next_token, 320), tokenizer).run(program(""), {}).thinking == (None,)
    assert all("<think>\n\n</think>\n\n{" in path for path in seen)


def test_a_text_may_have_a_thought_before_it() -> None:
    engine = Engine(hashed_model(320, seed=5), tokenizer_of(None))
    body = 'text """\n{word: string(max=5)}\n{async more: string(max=4)}\n"""'
    result = engine.run(program("think(max=9) ", body), {}, sampling=Sampling(temperature=1.0))
    assert set(result.value) == {"word", "more"} and isinstance(result.thinking[0], str)
    assert result.usage.forward_passes == result.usage.critical_path


def test_the_model_may_think_before_it_places_branches() -> None:
    engine = Engine(hashed_model(320, seed=5), tokenizer_of(None))
    result = engine.run(program("think(max=9) ", "auto(pasta, max=20)"), {}, sampling=Sampling(temperature=1.0))
    assert result.usage.forward_passes == result.usage.critical_path
    assert result.text == result.value["answer"] and result.thinking[0] not in (None, result.text)


def test_every_document_of_a_stack_has_its_own_thought() -> None:
    stacked = pastalang.compile('''
    template t(each title: text)
    user """
    {title}
    """
    assistant think(max=6) json {
      a: boolean
    }
    ''')
    engine = Engine(hashed_model(320, seed=2), tokenizer_of(None))
    result = engine.run(stacked, {"title": ["x", "y", "z"]}, sampling=Sampling(temperature=1.0))
    assert len(result.thinking) == len(result.value) == 3
    assert len(set(result.thinking)) > 1


@st.composite
def thinking_plans(draw: st.DrawFn) -> Plan:
    """Random programs whose answer has a thought before it."""
    made = draw(programs())
    template = next(iter(made.templates.values()))
    *others, answer = template.messages
    messages = (*others, replace(answer, thought=draw(st.integers(1, 12))))
    try:
        return build_plan(replace(template, messages=messages), made, mode=draw(st.sampled_from(Mode)))
    except PlanError:
        return draw(thinking_plans())


@settings(FEW, max_examples=3)
@given(thinking_plans(), SEEDS)
def test_every_program_may_think_first(plan: Plan, seed: int) -> None:
    """`outcome` refuses internal errors, among them passes that the plan does not ask for."""
    chunks = engine_on(limits=Limits(chunk=3), prefix_cells=0)
    assert outcome(engine_on(), plan, seed=seed) == outcome(chunks, plan, seed=seed)


@pytest.mark.long
@MANY
@given(thinking_plans(), SEEDS)
def test_many_programs_may_think_first(plan: Plan, seed: int) -> None:
    check_schedules(plan, seed)


def test_behind_a_thought_a_text_may_have_empty_lines() -> None:
    """What separates the thought from the answer is no tag that a value could be mistaken for."""
    source = program("think(max=5) ", 'text """\n{word: string(max=5, stop="END")}\n"""')
    assert control_tags(build_plan(source.only_template, source)) == ("</think", "<think")
