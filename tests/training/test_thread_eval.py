"""What answers with threads cost and gain, counted by hand for a model that writes a script."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import pastalang
from pastalang import Engine, Sampling, build_plan
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.source import Source
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import scripted_model
from pastalang.training.data import Row, read_checked
from pastalang.training.thread_eval import Answered, answer_rows, by_category, report_on
from tests.oracle.toy_models import toy_model
from tests.runtime.test_auto import FOOD, SIGHTS, program, script_of

PLAN = build_plan(program().only_template, program())
RIGHT = "Goulash!\nBaths.\nEnd."


def rows(*categories: str) -> list[Row]:
    lines = "".join(f'{{"value": "{RIGHT}", "category": "{name}"}}\n' for name in categories).replace("!\n", "!\\n")
    return read_checked(Source("rows", lines.replace(".\nE", ".\\nE")), PLAN)


def answered(text: str, **threads: str) -> Answered:
    engine = Engine(scripted_model(script_of(text, threads), 320), byte_tokenizer())
    [found] = answer_rows(engine, PLAN, rows("a"), score=lambda _, text: {"ends": (text.count("End"), 1)})
    assert isinstance(found, Answered), found
    return found


def test_an_answer_with_threads_is_counted() -> None:
    found = answered(f"{FOOD}\n{SIGHTS}\n<sync/>End.", food="Goulash!</async>", sights="Baths.</async>")
    assert found.text == RIGHT
    assert found.written == len(RIGHT) + 1
    assert (found.threads, found.begun, found.act) == (2, 5, 5)
    assert found.announced == ((20, len("<async>Goulash!</async>")), (30, len("<async>Baths.</async>")))
    assert found.path == found.passes < found.drawn
    assert found.parts == {"ends": (1, 1)}


def test_an_answer_without_threads_costs_what_it_costs_from_left_to_right() -> None:
    for found in (answered("Goulash!"), answered("a" * 300)):
        assert found.peak_cells == found.cells == found.plain_cells
        assert found.attended == found.plain_attended
        assert report_on([found], rows("a")).theoretical == pytest.approx(1)


def test_a_thought_is_written_from_left_to_right_as_well() -> None:
    source = 'template t()\nuser """Go."""\nassistant think(max=10) auto(pasta, max=20)\n'
    plan = build_plan(pastalang.compile(source).only_template, pastalang.compile(source))
    engine = Engine(scripted_model(lambda _: ord("a"), 320), byte_tokenizer())
    [found] = answer_rows(engine, plan, read_checked(Source("rows", '{"value": "a", "thought": "b"}\n'), plan))
    assert isinstance(found, Answered) and found.written == found.drawn == found.path == 30


def test_what_is_seen_to_the_end_is_never_released() -> None:
    for food in ("Goulash!</async>", "Goulash!", "Goulash!<sync/>"):
        found = answered(f"{FOOD}\n{SIGHTS}\n<sync/>End.", food=food, sights="Baths.</async>")
        assert found.peak_cells == found.cells
    unseen = answered(f"{FOOD}\nEnd.", food="Goulash!</async>")
    assert unseen.peak_cells <= unseen.cells


def test_rows_that_are_alike_are_sampled_with_seeds_of_their_own() -> None:
    engine = Engine(TransformersModel(toy_model(), cells=2048, check=False), byte_tokenizer())
    found = [
        [one.text for one in answer_rows(engine, PLAN, rows("a", "b", "c"), batch=batch, sampling=Sampling(1.0))
         if isinstance(one, Answered)]
        for batch in (1, 3)
    ]  # fmt: skip
    assert len(set(found[0])) > 1 and found[0] == found[1]


def test_tags_that_do_not_act_are_counted_and_stay_in_the_text() -> None:
    found = answered('<promise tokens="x"/><sync/>End.')
    assert (found.threads, found.begun, found.act) == (0, 2, 1)
    assert found.text == '<promise tokens="x"/>End.'
    empty = answered('<promise topic="food"/>' * 2 + "<sync/>" * 22, food="</async>")
    assert not empty.text and report_on([empty], rows("a")).theoretical == pytest.approx(1 / empty.path)


def test_speed_is_measured_against_the_answers_of_the_baseline() -> None:
    one = answered(f"{FOOD}{SIGHTS}<sync/>.", food="a" * 90 + "</async>", sights="b" * 90 + "</async>")
    plain = answered("a" * 90 + "b" * 90 + ".")
    one = replace(one, processor_seconds=1.0)
    plain = replace(plain, processor_seconds=1.5)
    report = report_on([one, one, "failed"], rows("a", "b", "a"), baseline=[plain, plain, plain])
    assert (report.answers, report.failed) == (2, 1)
    assert report.theoretical == pytest.approx(plain.written / one.path)
    assert report.theoretical_interval == pytest.approx((report.theoretical, report.theoretical))
    assert report.realised == pytest.approx(1.5)
    assert report.room["announced"] == 25 and report.room["enough"] == 0
    assert report.parts["ends"][0] == 0 and not math.isnan(report.word_f1)
    assert [name for name, _ in by_category([one, one, "failed"], rows("a", "b", "a"))] == ["a", "b"]
