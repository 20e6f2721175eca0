"""Rows with threads, made from texts: what becomes a thread, what waits, and what is rejected with which reason."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import Engine, build_plan
from pastalang.program.types import AutoPolicy
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.source import Source
from pastalang.testing.fakes import scripted_model
from pastalang.training.answer import read_thread_text
from pastalang.training.data import read_checked
from pastalang.training.thread_data import (
    Annotator,
    Rejected,
    Tagged,
    Tagging,
    Unfit,
    annotation_prompt,
    check_independence,
    engine_annotator,
    statistics_of,
    tag_rows,
)
from tests.training.lessons import TOKENIZER

LIST = """Three dishes:
1. Goulash: beef with much paprika.
2. Langos: fried dough with sour cream.
3. Then order a soup, as mentioned above.
Enjoy them."""


def words(text: str) -> int:
    return len(text.split())


def tag(policy: AutoPolicy, text: str, *, least: int = 3, inputs: str = "") -> str:
    return Tagging(policy, words, least, inputs).tag(text)


def test_items_become_threads_and_what_refers_to_them_waits() -> None:
    assert (
        tag(AutoPolicy.PASTA, LIST)
        == """Three dishes:
1. <promise topic="Goulash beef with" tokens="10"/><async>Goulash: beef with much paprika.</async>
2. <promise topic="Langos fried dough" tokens="10"/><async>Langos: fried dough with sour cream.</async>
<sync/>3. <promise topic="Then order a" tokens="10"/><async>Then order a soup, as mentioned above.</async>
<sync/>Enjoy them."""
    )


def test_the_first_sentence_stays_in_the_text_and_its_details_become_threads() -> None:
    assert (
        tag(AutoPolicy.APAR, LIST.replace("3. Then order a soup, as", "3. A soup: order it, as"))
        == """Three dishes:
1. Goulash:[Fork][Child] beef with much paprika.[/Child]
2. Langos:[Fork][Child] fried dough with sour cream.[/Child]
3. A soup: order it, as mentioned above.
Enjoy them."""
    )


def test_a_name_that_a_thread_was_the_first_to_mention_is_waited_for() -> None:
    text = "- Ask for Anna at the desk.\n- Pay in cash at the door.\n- Say good bye to Anna later on."
    assert tag(AutoPolicy.PASTA, text).count("<sync/>") == 1
    assert tag(AutoPolicy.PASTA, text, inputs="Anna has the keys").count("<sync/>") == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("One line.", "it has no structure"),
        ("- a b c\n- d\n- e", "fewer than 2 of its parts have 3 tokens"),
        ("- see http://x for more\n- b b b\n- c c c", "it contains http://"),
        ("- see <sync/> for more\n- b b b\n- c c c", "it contains <sync/>"),
        ("- One is a word.\n- Then it goes on.\n- This is the end.", "its parts seem to refer to one another"),
    ],
)
def test_a_text_without_independent_parts_is_unfit(text: str, reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        tag(AutoPolicy.PASTA, text)


LINES = st.sampled_from(
    ("1. ", "2) ", "- ", "* ", "## Head\n", "**Bold**\n", "\n", "\n\n", " ", "A word. Another one: and more! ",
     "Then it. ", "Dr. Who says", "  more", "step 2", 'a "quote"')
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=3, max_size=20).map("".join), st.sampled_from(AutoPolicy), st.integers(1, 4))
def test_without_its_tags_a_text_is_what_it_was(text: str, policy: AutoPolicy, least: int) -> None:
    try:
        tagged = tag(policy, text, least=least)
    except Unfit:
        return
    read = read_thread_text(tagged, policy)
    assert read.plain == text and len(read.threads) >= 2
    for begin, thread in zip(read.begins, read.threads, strict=True):
        assert policy is AutoPolicy.APAR or (begin.tokens % 10 == 0 and begin.tokens >= words(thread) + 2)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────

PROGRAM = pastalang.compile('template t(city: text)\nuser """{city}"""\nassistant auto(pasta, max=400)\n')
PLAN = build_plan(PROGRAM.only_template, PROGRAM)


def made(*texts: str, annotate: Annotator | None = None) -> Sequence[Tagged | Rejected]:
    lines = "".join(json.dumps({"city": "Buda", "value": text, "category": "food"}) + "\n" for text in texts)
    return list(tag_rows(read_checked(Source("rows", lines), PLAN), PLAN, TOKENIZER, least=10, annotate=annotate))


def test_rows_are_tagged_recorded_and_counted() -> None:
    good, bad = made(LIST, "One line.")
    assert isinstance(good, Tagged) and isinstance(bad, Rejected)
    assert good.row == {"city": "Buda", "category": "food", "value": good.row["value"]}
    assert (good.threads, good.tokens) == (3, len(LIST) + 1)
    assert (bad.origin, bad.reason) == ("rows:2", "it has no structure")
    found = statistics_of([good], [bad], 0)
    assert found.theoretical == pytest.approx(good.tokens / good.passes)
    assert found.rejected == {"it has no structure": 1}


@pytest.mark.parametrize(("policy", "count", "shortest"), [(AutoPolicy.PASTA, 7, 20), (AutoPolicy.APAR, 3, 10)])
def test_demonstrations_keep_the_rules_that_they_show(policy: AutoPolicy, count: int, shortest: int) -> None:
    prompt = annotation_prompt("Goulash.", policy)
    copies = [re.split("\n\n(?:An|The) answer:", part)[0] for part in prompt.split("Its copy:\n\n")]
    assert len(copies) == count + 1
    without = 0
    for copy in copies[1:]:
        check_independence(copy, policy)
        read = read_thread_text(copy, policy)
        assert f"An answer:\n\n{read.plain}\n\nIts copy:" in prompt
        assert len(read.threads) >= 2 or not read.threads
        assert all(words(thread) >= shortest for thread in read.threads)
        without += not read.threads
        for begin, thread in zip(read.begins, read.threads, strict=True):
            assert len(begin.topic.split()) <= 3
            assert policy is AutoPolicy.APAR or (begin.tokens % 10 == 0 and begin.tokens >= words(thread) + 2)
    assert without, "an answer without threads is shown as well"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ('<promise topic="a" tokens="990"/><async>Goulash.</async>\n<promise topic="b"/><async>Soup.</async>', None),
        ("Goulash.\nSoup.", "the annotator marked nothing"),
        ('<promise topic="a"/><async>\ud83c</async>', "the annotator returns half of a surrogate pair"),
        ('<promise topic="a"/><async>Goulash!</async>\nSoup.', "without its tags, it is another text"),
        ('<promise topic="a"/><async>Goulash.</async>\n<async>Soup.</async>', "thread 2, 'Soup.', does not follow"),
    ],
)  # fmt: skip
def test_what_an_annotator_writes_is_checked(written: str, reason: str | None) -> None:

    def annotate(prompt: str) -> str:
        assert prompt.endswith("The answer:\n\nGoulash.\nSoup.\n")
        return f"\n{written}\n"

    [found] = made("Goulash.\nSoup.", annotate=annotate)
    if reason is None:
        assert isinstance(found, Tagged)
        [first, second] = read_thread_text(found.row["value"], AutoPolicy.PASTA).begins
        assert (first.tokens, second.tokens) == (30, 20)  # of bytes: what it takes, with its tags
    else:
        assert isinstance(found, Rejected) and reason in found.reason


def test_a_thread_that_refers_to_another_one_is_rejected_whoever_wrote_it() -> None:
    text = '<promise topic="a"/><async>Goulash.</async>\n<promise topic="b"/><async>It is hot.</async>'
    [found] = made("Goulash.\nIt is hot.", annotate=lambda _: text)
    assert isinstance(found, Rejected) and "seems to refer to one that it cannot see: 'It is hot.'" in found.reason


def test_an_engine_can_be_the_annotator() -> None:
    copy = "Goulash.\nSoup."

    def next_token(fed: FedToken) -> int:
        written = bytes(one.token for one in fed.path if one.token < 256).partition(b"Assistant:\n")[2]
        return copy.encode()[len(written)] if len(written) < len(copy) else TOKENIZER.eos_token_id

    assert engine_annotator(Engine(scripted_model(next_token, 320), TOKENIZER))("Copy it.") == copy
