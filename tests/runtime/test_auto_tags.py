"""What a tag of an `auto` text is, however it is spelled and wherever the tokens end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang import Engine
from pastalang.limits import MAX_TAG_CHARS
from pastalang.program.types import AutoPolicy
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.constraints.tagged_text import Reading, reader_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel
from tests.runtime.test_auto import END, FOOD, SIGHTS, program, run, text_of


@pytest.mark.parametrize(
    "tag",
    [
        '<promise subject="food" tokens="20"/>', '<promise topic="food" tokens="many"/>',
        '<promise topic="food" topic="x"/>', '<promise topic="food" tokens="20">', "<promise", "<promise topic=",
        '<promise topic="a\nb"/>', "<sync>", "<sync", "</async>", "<async>", "<", "[Fork]",
        '<promise topic="' + "x" * MAX_TAG_CHARS + '"/>', '<promise topic="food" tokens="-1"/>', "< sync/>",
        '<promise topic="food" tokens="1.0"/>', '<promise topic="food" tokens=""/>',
    ],
)  # fmt: skip
def test_what_is_not_exactly_a_tag_is_text(tag: str) -> None:
    for text in (f"a {tag} b", f"a {tag}"):
        result, _ = run(text, most=1_100)
        assert result.text == text and result.value["threads"] == []
        assert len(result.fields) == 1


def test_a_promise_may_leave_out_its_topic_and_its_room() -> None:
    tag = '<promise topic=""/>'
    result, model = run(f"a{tag}b<sync/>c", {"": "x</async>"})
    assert result.value["threads"] == [{"topic": "", "text": "x"}]
    [before, behind] = [
        next(one.position for one in model.fed if text_of(one.path).endswith(text)) for text in (tag, tag + "b")
    ]
    assert behind == before + 1


def test_a_topic_and_a_number_are_of_any_length_that_a_tag_may_have() -> None:
    topic = "x" * 600
    tag = f'<promise topic="{topic}" tokens="{"9" * 300}"/>'
    result, model = run(f"a{tag}b<sync/>c", {topic: "x</async>"}, most=1_000)
    assert result.text == "axbc" and result.value["threads"] == [{"topic": topic, "text": "x"}]
    [before, after] = [
        next(one.position for one in model.fed if text_of(one.path).endswith(text)) for text in (tag, tag + "b")
    ]
    assert after == before + 1 + 1_000, "the room is cut at `max`"


def test_tokens_that_stand_for_tags_are_tags() -> None:
    tags = ("<promise", "<sync/>", "<async>", "</async>", "<secret>")
    tokenizer = byte_tokenizer(control=tags)
    ids = {tag: tokenizer.convert_tokens_to_ids(tag) for tag in tags}
    text = [97, ids["<promise"], *b' topic="x"/>', ids["<sync/>"], 98, END]
    thread = [120, ids["</async>"]]

    def score(fed: FedToken) -> list[float]:
        path = [one.token for one in fed.path]
        answer = path[path.index(10, path.index(ord("A"))) + 1 :]
        logits = [0.0] * 320
        logits[ids["<secret>"]] = 50.0
        if ids["<async>"] in answer and ids["</async>"] not in answer:
            logits[thread[len(answer) - answer.index(ids["<async>"]) - 1]] = 20.0
        else:
            begun = [token for token in answer if token not in (120, ids["<async>"], ids["</async>"]) or token == 120]
            done = len(begun) - (1 if ids["</async>"] in answer else 0)
            logits[text[done]] = 20.0
        return logits

    result = Engine(FakeModel(score, vocabulary=320), tokenizer).run(program(), {})
    assert result.text == "axb"
    assert ids["<secret>"] not in {token for field in result.fields for token in field.tokens}


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "\n", "é", "<", "<sync/>", FOOD, SIGHTS, "<promise", "/>", "</async>"]), max_size=8)
)
def test_whatever_a_model_writes_a_text_comes_of_it(pieces: list[str]) -> None:
    result, _ = run("".join(pieces), {"food": "F</async>", "sights": "S<sync/></async>"}, most=500)
    assert result.usage.forward_passes == result.usage.critical_path
    assert all(thread["text"] in ("F", "S<sync/>") for thread in result.value["threads"])


_SPACES = st.text(" \n\t\x0b", max_size=2)
_ATTRIBUTES = st.builds(
    "{}{}={}".format, _SPACES, st.sampled_from(("topic", "tokens", "x")), st.sampled_from(('"9"', '"f"', '"'))
)
_PROMISES = st.builds("<promise{}{}/>".format, st.lists(_ATTRIBUTES, max_size=2).map("".join), _SPACES)
_TEXTS = st.lists(
    _PROMISES | st.sampled_from(("<sync/>", "[Fork]", "</async>")) | st.text("<>/=[]ap \n", max_size=4), max_size=6
)


@settings(max_examples=250, deadline=None)
@given(_TEXTS.map("".join), st.data(), st.sampled_from(AutoPolicy), st.booleans())
def test_tags_are_told_wherever_the_tokens_end(
    text: str, data: st.DataObject, policy: AutoPolicy, in_thread: bool
) -> None:
    reader = reader_of(policy, in_thread=in_thread)
    whole = reader.finish(reader.read(Reading(), text))
    parts = Reading()
    while text:
        size = data.draw(st.integers(1, len(text)))
        parts, text = reader.read(parts, text[:size]), text[size:]
    assert reader.finish(parts) == whole
