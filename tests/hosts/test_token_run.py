"""Where the tokens of a server are known, values are those of a model in this process, whatever the server writes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import Engine, Plan
from pastalang.errors import HostError, PastaError
from pastalang.plan.branches import Hole
from pastalang.plan.structure import fields_of
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.testing import programs
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel
from pastalang.values.schema.split import has_checks
from tests.hosts.stand_in import TEMPLATE, ModelHost, faults, given_inputs
from tests.hosts.test_branches import PRODUCT
from tests.hosts.test_properties import RAW, is_refused

WORDS = (' "', '",', ' "x', '."', '"\n', " true", ", ", "12", '": ')
PRODUCT_FIELDS = ("brand", "kind", "size", "headline")
SIZE = len(byte_tokenizer(words=WORDS))
Score = Callable[[tuple[int, ...]], Any]


def hashed(seed: int) -> Score:
    """Random logits, which depend on all tokens and their order, and favour bytes of English text."""
    favoured = np.zeros(SIZE)
    favoured[[*b"abcdefgxyz .,"]] = 2.0
    favoured[256:] = 3.0

    def score(tokens: tuple[int, ...]) -> Any:
        chance = np.random.Generator(np.random.PCG64(hash((seed, *tokens)) & ((1 << 63) - 1)))
        return (chance.standard_normal(SIZE) * 2 + favoured).astype(np.float32).astype(float)

    return score


def here(score: Score) -> Engine:
    """A model in this process that scores what a token sees as a server would, in the same order."""

    def fed(token: FedToken) -> Any:
        return score(tuple(one.token for one in token.path))

    model = FakeModel(fed, vocabulary=SIZE)
    return Engine(model, byte_tokenizer(words=WORDS, chat_template=TEMPLATE), placement="dense")


def _are_checked_when_whole(plan: Plan) -> bool:
    """Whether values are drawn again where a schema is not satisfied, at random on a server and in this process."""
    return has_checks(
        [*(one.type for _, _, one in fields_of(plan) if isinstance(one, Hole)), *dict(plan.types).values()]
    )


def test_random_programs_have_the_values_of_this_process() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(program=programs(), kind=st.sampled_from(RAW), seed=st.integers(0, 10**6), ahead=st.integers(1, 4))
    def same(program: Any, kind: str, seed: int, ahead: int) -> None:
        engine, score = here(hashed(seed)), hashed(seed)
        plan = engine.plan(program)
        if is_refused(plan, kind) or _are_checked_when_whole(plan):
            seen["left out"] += 1
            return
        inputs = given_inputs(program)
        host = ModelHost(kind, score=score, words=WORDS, ahead=ahead)
        try:
            wanted: Any = engine.run(program, inputs, on_truncated="keep")
        except PastaError as problem:
            with pytest.raises(type(problem)) as found:
                host.connect().run(program, inputs, on_truncated="keep")
            assert str(found.value) == str(problem)
            seen["failed"] += 1
            return
        result = host.connect().run(program, inputs, on_truncated="keep")
        assert result.text == wanted.text and result.exact == wanted.exact
        assert [one.text for one in result.fields] == [one.text for one in wanted.fields]
        assert result.prompt == wanted.prompt
        assert [str(one) for one in result.truncations] == [str(one) for one in wanted.truncations]
        seen["same"] += 1

    same()
    assert seen["same"] >= 0.2 * seen.total(), seen


@pytest.mark.parametrize("kind", RAW)
def test_servers_that_fail_give_the_same_values_or_one_clear_error(kind: str) -> None:
    score = hashed(1)
    wanted = here(score).run(PRODUCT, title="x", on_truncated="keep")
    failed = 0
    for seed in range(12):
        host = ModelHost(kind, score=score, words=WORDS, faults=faults(seed, 400))
        try:
            found = host.connect(retries=2).run(PRODUCT, title="x", on_truncated="keep")
        except HostError as problem:
            assert problem.field in PRODUCT_FIELDS and host.failed
            failed += 1
            continue
        assert found.text == wanted.text
        assert found.usage.requests == len(host.answered)
    assert 0 < failed < 12, "some runs end with an error and others do not"


# ── one string ───────────────────────────────────────────────────────────────────────────────────────────


def one_value(script: str, type: str | pastalang.Program, kind: str = "llama.cpp") -> tuple[Any, ModelHost]:
    """A value whose model would write the script, and the server that was asked for it."""
    tokenizer = byte_tokenizer(words=WORDS, chat_template=TEMPLATE)
    spelling = vocabulary_of(tokenizer).spelling

    def score(tokens: tuple[int, ...]) -> list[float]:
        written = b"".join(spelling[token] or b"" for token in tokens).rpartition(b'"a":')[2]
        rest = script.encode()[len(written) :] if script.encode().startswith(written) else b""
        fitting = [token for token, text in enumerate(spelling) if text and rest.startswith(text)]
        likeliest = max(fitting, key=lambda token: len(spelling[token] or b""), default=tokenizer.eos_token_id)
        return [0.0 if token == likeliest else -20.0 - token / SIZE for token in range(SIZE)]

    host = ModelHost(kind, score=score, words=WORDS, ahead=99)
    if isinstance(type, str):
        type = pastalang.compile(f'template t()\nuser """x"""\nassistant json {{ a: {type} }}\n')
    return host.connect().run(type, {one.name: "x" for one in type.only_template.inputs}, on_truncated="keep"), host


@pytest.mark.parametrize("kind", RAW)
@pytest.mark.parametrize(
    ("script", "limit", "value", "requests"),
    [
        (' "Norvika"\n}', 4, "No", 2),  # room is kept for the quote, which takes a request of its own
        (' "Nor"\n}', 9, "Nor", 1),  # the token `"\n` ends it
        (' "Nö"\n}', 9, "Nö", None),  # ö is two tokens, and llama.cpp says nothing of the first
    ],
)
def test_a_string_ends_as_in_this_process(kind: str, script: str, limit: int, value: str, requests: int | None) -> None:
    result, host = one_value(script, f"string(max={limit})", kind)
    assert result.value == {"a": value} and result.fields[0].truncated == (limit == 4)
    assert requests in (None, len(host.bodies))


def test_a_token_of_which_no_others_are_named_is_not_drawn_again_where_it_does_not_fit() -> None:
    result, host = one_value(' "ö', "/[a-c]{2}/")
    assert result.value == {"a": "aa"}
    assert any(body.get("logit_bias") == [[0xC3, False]] for body in host.bodies)


def test_a_value_that_a_schema_rejects_when_it_is_whole_is_asked_for_again() -> None:
    integer = '{"type": "integer", "not": {"multipleOf": 3}}'
    schema = f'{{"type": "object", "properties": {{"a": {integer}}}, "required": ["a"]}}'
    with pytest.raises(HostError, match="the server's 3 answers do not fit its type"):
        one_value(" 12", pastalang.from_schema(schema))


@pytest.mark.parametrize("kind", RAW)
@pytest.mark.parametrize("type", ["string(max_chars=2000)", "[string(max_chars=500)](0..10)"])
def test_a_type_whose_expression_is_too_large_is_asked_for_all_the_same(kind: str, type: str) -> None:
    written = ' "No"' if type[0] == "s" else ' ["No"]'
    assert one_value(f"{written}\n}}", type, kind)[0].value == {"a": json.loads(written)}


def test_what_a_server_writes_behind_the_end_of_a_turn_is_not_compared() -> None:
    class Goes(ModelHost):
        def _reply(self, path: str, body: Any) -> Any:
            found = super()._reply(path, body)
            more = {"tokens": [*found["tokens"], self.end, ord("x")], "content": found["content"] + "x"}
            return {**found, **more} if found.get("tokens") else found

    found = Goes("llama.cpp", score=hashed(1), words=WORDS).connect().run(PRODUCT, title="x", on_truncated="keep")
    assert found.text == here(hashed(1)).run(PRODUCT, title="x", on_truncated="keep").text


def test_control_tokens_in_data_are_text() -> None:
    host = ModelHost("vllm", score=hashed(1), words=WORDS)
    host.connect().run(PRODUCT, title="<end>", on_truncated="keep")
    assert host.bodies and not any(host.end in body["prompt"] for body in host.bodies)


def test_the_environment_may_name_the_tokenizer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = ModelHost("sglang", score=hashed(1), words=WORDS)
    host.tokenizer.save_pretrained(tmp_path)
    monkeypatch.setenv("PASTALANG_TOKENIZER", str(tmp_path))
    engine = pastalang.connect("http://host:8000/v1", transport=httpx.MockTransport(host.handle))
    found = engine.run(PRODUCT, title="x", on_truncated="keep")
    assert found.text == here(hashed(1)).run(PRODUCT, title="x", on_truncated="keep").text


def test_a_tokenizer_of_another_model_is_named() -> None:
    class Other(ModelHost):
        def _reply(self, path: str, body: Any) -> Any:
            return {**super()._reply(path, body), "content": "another word"}

    with pytest.raises(HostError, match="the tokenizer is not that of the server's model: the server has written 'an"):
        Other("llama.cpp", score=hashed(1), words=WORDS).connect().run(PRODUCT, title="x")
