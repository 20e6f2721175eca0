"""Texts in which the model places the branches: what it writes is a script, what becomes of it is compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice, pairwise
from typing import Any

import pytest

import pastalang
from pastalang import Engine, Result, TooLong, build_plan
from pastalang.plan.forecast import Capacity, DoesNotFit, fit, forecast
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, scripted_model

END = 256
ASYNC = re.compile(r"<async>.*?</async>", re.DOTALL)


def program(policy: str = "pasta", most: int = 200) -> pastalang.Program:
    return pastalang.compile(f'template t()\nuser """\nGo.\n"""\nassistant auto({policy}, max={most})\n')


def script_of(text: str, threads: Mapping[str, str]) -> Any:
    """Writes `text`, and in a thread what `threads` has for its topic."""

    def next_token(fed: FedToken) -> int:
        seen = text_of(fed.path).partition("Assistant:\n")[2]
        opened = seen.rfind("<async>")
        topics = re.findall('topic="(.*?)"', seen[:opened])
        if topics and opened > seen.rfind("</async>"):
            written, done = threads[topics[-1]], seen[opened + len("<async>") :]
        else:
            written, done = text, ASYNC.sub("", seen)
        written = written.encode().decode("latin-1")
        assert written.startswith(done), (written, done)
        left = written[len(done) :]
        return ord(left[0]) if left else END

    return next_token


def run(text: str, threads: Mapping[str, str] = {}, **options: Any) -> tuple[Result, FakeModel]:
    model = scripted_model(script_of(text, threads), 320)
    engine = Engine(model, byte_tokenizer())
    result = engine.run(program(**options), {})
    engine.check_integrity()
    assert engine.scheduler.memory.cells.in_use == engine.scheduler.prefix.size
    return result, model


FOOD, SIGHTS = '<promise topic="food" tokens="20"/>', '<promise topic="sights" tokens="30"/>'


def test_the_text_has_its_threads_where_their_tags_stood() -> None:
    text = f"Food: {FOOD}\nSights: {SIGHTS}\n<sync/>The end."
    result, _ = run(text, {"food": "Goulash.</async>", "sights": "Bridges\nand baths.</async>"})
    assert result.text == "Food: Goulash.\nSights: Bridges\nand baths.\nThe end."
    assert result.value == {
        "answer": result.text,
        "threads": [{"topic": "food", "text": "Goulash."}, {"topic": "sights", "text": "Bridges\nand baths."}],
    }
    assert [(field.path, field.items, field.truncated) for field in result.fields] == [
        ("answer", (), False), ("thread[]", (0,), False), ("thread[]", (1,), False),
    ]  # fmt: skip
    for field in result.fields:
        assert result.text[slice(*field.span)] == field.text


@pytest.mark.parametrize(("tag", "written"), [("", 30), (' tokens="60"', 50)])
def test_a_thread_reserves_what_is_expected_of_it(tag: str, written: int) -> None:
    """What its tag announces, or the length of its text so far. With the 200 tokens that it may take, both threads of
    a small memory would have to wait."""
    said = "-" * written + "</async>"
    text = f'Food: <promise topic="food"{tag}/> Sights: <promise topic="sights"{tag}/><sync/>The end.'
    passes = []
    for cells in (600, 6000):
        model = scripted_model(script_of(text, {"food": said, "sights": said}), 320)
        model.cells = cells
        engine = Engine(model, byte_tokenizer())
        assert engine.run(program(most=200), {}).text.count("-") == 2 * written
        passes.append(len(model.steps))
    assert passes[0] == passes[1]


def test_a_text_without_tags_is_a_text() -> None:
    result, _ = run("One line.\nAnother one.")
    assert result.text == "One line.\nAnother one."
    assert result.value == {"answer": result.text, "threads": []}
    assert result.usage.forward_passes == result.usage.critical_path == len(result.text) + 1


def text_of(tokens: Any) -> str:
    """Bytes as characters, so that any number of them is a text."""
    return bytes(one.token for one in tokens if one.token < 256).decode("latin-1")


def seen_when_drawing(model: FakeModel, wanted: str) -> list[str]:
    """What was seen, the prompt left out, where the text that was seen ended like this."""
    seen = [text_of(one.path).partition("Assistant:\n")[2] for one in model.fed]
    return [text for text in seen if text.endswith(wanted)]


def test_a_wait_without_threads_waits_for_nobody_and_leaves_no_trace() -> None:
    result, _ = run(f"<sync/>a<sync/>{FOOD}<sync/><sync/>b", {"food": "x</async>"})
    assert result.text == "axb"


def test_rooms_are_cut_once_they_are_four_times_the_limit_together() -> None:
    """The run goes on at the positions that the forecast names."""
    tag, most = '<promise topic="t" tokens="9999"/>', 400
    result, model = run(tag * 8 + "<sync/>end", {"t": "x</async>"}, most=most)
    assert result.text == "x" * 8 + "end" and len(result.value["threads"]) == 8
    tags = [next(one.position for one in model.fed if text_of(one.path).endswith(tag * count)) for count in range(1, 9)]
    assert [after - before - len(tag) for before, after in pairwise(tags)] == [most] * 4 + [0] * 3
    plan = build_plan(program(most=most).only_template, program(most=most))
    assert max(one.position for one in model.fed) <= forecast(plan).highest_position.high
    with pytest.raises(DoesNotFit, match="lower the `max` of the text: its threads may reserve 1,600"):
        fit(plan, Capacity(positions=1_600))


def test_threads_begin_no_threads() -> None:
    result, _ = run(f"a{FOOD}b<sync/>", {"food": f"x{SIGHTS}<sync/>y</async>"}, most=400)
    assert result.text == f"ax{SIGHTS}<sync/>yb"
    assert len(result.value["threads"]) == 1


def test_more_threads_than_there_may_be_are_left_out() -> None:
    result, _ = run('<promise topic="t"/>' * 70 + "<sync/>.", {"t": "x</async>"}, most=2000)
    assert result.text == "x" * 64 + "."


def test_the_limit_ends_a_text_and_a_thread_and_says_so() -> None:
    result, model = run(f"{FOOD}<sync/>" + "b" * 100, {"food": "x" * 100}, most=60)
    text, thread = result.fields
    assert thread.text == "x" * 60 and thread.truncated
    assert text.truncated and result.text == "x" * 60 + "b" * (60 - len(FOOD + "<sync/>"))
    assert seen_when_drawing(model, "x</async>>b") != []


def test_a_thread_that_ends_the_turn_is_closed_for_who_sees_it() -> None:
    result, model = run(f"{FOOD}<sync/>b", {"food": "x</asy"})
    assert result.text == "x</asyb"
    assert seen_when_drawing(model, "<async>x</asy</async>>b") != []


def test_a_fork_of_apar_is_a_thread_that_nobody_ever_sees() -> None:
    def next_token(fed: FedToken) -> int:
        head, child, done = text_of(fed.path).partition("Assistant:\n")[2].partition("[Child]")
        written = f" detail {head.count('[Fork]')}" if child else "1. Food[Fork]\n2. Sights[Fork]\n"
        left = written[len(done if child else head) :]
        return ord(left[0]) if left else END

    model = scripted_model(next_token, 320)
    engine = Engine(model, byte_tokenizer())
    result = engine.run(program("apar"), {})
    assert result.text == "1. Food detail 1\n2. Sights detail 2\n"
    assert result.usage.forward_passes == result.usage.critical_path
    assert not any("detail" in text_of(one.path) and "[Child]" not in text_of(one.path) for one in model.fed)
    forks = [one.position for one in model.fed if text_of(one.path).endswith("Food[Fork]")]
    behind = [one.position for one in model.fed if text_of(one.path).endswith(("Food[Fork][", "Food[Fork]\n"))]
    assert behind == [forks[0] + 1] * 2
    engine.check_integrity()


# ── whatever else runs ───────────────────────────────────────────────────────────────────────────────────

TEXT = f"Food {FOOD} and {SIGHTS}<sync/> more {FOOD}."
THREADS = {"food": "Goulash soup.</async>", "sights": "B" * 30 + "</async>"}


def test_a_text_that_is_given_up_gives_everything_back() -> None:
    for steps in range(1, 30, 4):
        engine = Engine(scripted_model(script_of(TEXT, THREADS), 320), byte_tokenizer(), prefix_cells=0)
        events = engine.stream(program(), {})
        engine.loop.submit(stopped := engine.prepare(program(), {}, {}, with_events=False))
        list(islice(events, steps * 4))
        events.close()  # type: ignore[attr-defined]
        engine.loop.stop([stopped])
        assert len(engine.outcome_of(stopped).trace.drawn) == stopped.stats.drawn  # type: ignore[union-attr]
        engine.check_integrity()
        assert engine.scheduler.memory.cells.in_use == 0


def test_a_text_that_leaves_the_positions_of_the_model_is_told() -> None:
    engine = Engine(scripted_model(script_of(TEXT, THREADS), 320), byte_tokenizer())
    engine.scheduler._max_position = 60
    with pytest.raises(TooLong, match="last one is 60: lower the `max` of the text, whose threads may reserve 800"):
        engine.run(program(), {})
    engine.check_integrity()
