"""Texts with threads among other values: what the model writes is a script, by the text that comes before it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

import pastalang
from pastalang import Engine, FieldDone, Joined, Mode, PlanError, ProgramError, Result, TextDelta, TooLong, build_plan
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, scripted_model
from tests.runtime.test_auto import END, FOOD, SIGHTS, text_of

JOINED = re.compile(r"<async>.*?</async>|\[Child\][^\[\]]*", re.DOTALL)


def program(body: str) -> pastalang.Program:
    return pastalang.compile(f'template t()\nuser """\nGo.\n"""\nassistant {body}\n')


def scripted(after: Mapping[str, str]) -> FakeModel:
    """Writes what `after` has for the last of its keys that a token sees."""

    def next_token(fed: FedToken) -> int:
        seen = text_of(fed.path).partition("Assistant:\n")[2]
        at, _, key = max((seen.rfind(key) + len(key), len(key), key) for key in after if key in seen)
        done, written = seen[at:], after[key].encode().decode("latin-1")
        if not written.startswith(done):
            done = JOINED.sub("", done)
        assert written.startswith(done), (written, done)
        left = written[len(done) :]
        return ord(left[0]) if left else END

    return scripted_model(next_token, 320)


def run(body: str, after: Mapping[str, str], *, mode: Mode = Mode.STRICT, **options: Any) -> tuple[Result, FakeModel]:
    asked, model = program(body), scripted(after)
    engine = Engine(model, byte_tokenizer())
    result = engine.run(build_plan(asked.only_template, asked, mode=mode), {}, details=True, **options)
    engine.check_integrity()
    assert engine.scheduler.memory.cells.in_use == engine.scheduler.prefix.size
    assert result.usage.forward_passes == result.usage.critical_path
    return result, model


TRIP = "json { food: auto(pasta, max=90), name: string(max=9), sum: string(max=9) after food }"
FOOD_THREAD = f"{FOOD}<async>"
WRITTEN = {
    '"food": "': f'Eat "well":\n{FOOD}.', FOOD_THREAD: 'Goulash "soup".</async>',
    '"name": ': '"Ann"', '"sum": ': '"good"',
}  # fmt: skip


def test_the_value_is_the_text_with_its_threads_and_the_answer_is_json() -> None:
    result, _ = run(TRIP, WRITTEN)
    assert result.value == {"food": 'Eat "well":\nGoulash "soup"..', "name": "Ann", "sum": "good"}
    assert json.loads(result.text) == result.value
    assert [(one.path, one.items) for one in result.fields] == [
        ("food", ()), ("food.thread[]", (0,)), ("name", ()), ("sum", ()),
    ]  # fmt: skip
    for one in result.fields:
        assert result.text[slice(*one.span)] == one.text
    food, thread = result.fields[:2]
    assert food.text == json.dumps(food.value) and food.value == result.value["food"]
    assert (thread.text, thread.value) == ('Goulash \\"soup\\".', 'Goulash "soup".')


def seen_by(model: FakeModel, ending: str) -> str:
    [seen] = {text for one in model.fed if (text := text_of(one.path).partition("Assistant:\n")[2]).endswith(ending)}
    return seen


def test_who_waits_for_a_text_sees_its_threads_and_nobody_else_does() -> None:
    _, model = run(TRIP, WRITTEN)
    assert seen_by(model, '"sum": "good') == (
        f'{{\n  "food": ,\n  "name": ,\n  "Eat "well":\n{FOOD}."<async>Goulash "soup".</async>"sum": "good'
    )
    assert seen_by(model, '"name": "Ann') == '{\n  "food": ,\n  "name": "Ann'
    assert seen_by(model, f"{FOOD}.") == f'{{\n  "food": "Eat "well":\n{FOOD}.'


@pytest.mark.parametrize("mode", [Mode.LOCKSTEP, Mode.SEQUENTIAL])
def test_every_mode_gives_the_same_value(mode: Mode) -> None:
    result, model = run(TRIP, WRITTEN, mode=mode)
    assert result.value == run(TRIP, WRITTEN)[0].value
    if mode is Mode.SEQUENTIAL:  # what follows in the same branch waits, too
        assert seen_by(model, '"name": "Ann').count("Goulash") == 1


def test_several_texts_run_at_the_same_time() -> None:
    long = {'"a": "': f"{FOOD}{'x' * 40}", '"b": "': f"{FOOD}{'y' * 40}", "<async>": "z" * 30 + "</async>"}
    both, _ = run("json { a: auto(pasta, max=90), b: auto(pasta, max=90) }", long)
    alone, _ = run("json { a: auto(pasta, max=90) }", long)
    assert both.usage.forward_passes == alone.usage.forward_passes
    assert both.value == {"a": "z" * 30 + "x" * 40, "b": "z" * 30 + "y" * 40}


def test_a_text_may_be_null_or_an_item_of_a_list() -> None:
    body = "json { a: auto(pasta, max=90) | null, b: auto(apar, max=20) | null, c: [auto(apar, max=40)](0..3) }"
    after = {
        '"a": ': "null", '"b": ': '"', '"b": "': "B[Fork].", "[Child]": "+",
        '"c": ': '[\n    "', '"c": [\n    "': "one[Fork]", 'one[Fork]"': ",", '",\n    "': "two", 'two"': "\n  ]",
        'one[Fork][Child]+"': ",",
    }  # fmt: skip
    result, _ = run(body, after)
    assert result.value == {"a": None, "b": "B+.", "c": ["one+", "two"]}
    assert [(one.path, one.items) for one in result.fields if "thread" in one.path] == [
        ("b.thread[]", (0,)), ("c[].thread[]", (0, 0)),
    ]  # fmt: skip


def test_the_alternatives_of_a_union_name_their_texts() -> None:
    union = program("json { a: auto(pasta, max=9) | [auto(apar, max=9)](1..2) }")
    names = [branch.name for branch in build_plan(union.only_template, union).branches]
    assert names == ["", "a", "a(text 1).thread[]", "a(list 2)[].thread[]"]


TEXT = '''text """
Day one: {first: auto(pasta, max=90)}
Again: {copy: verbatim(first, max=40)}
{async more: auto(apar, max=30)}
{sync}
End: {end: string(max=9)}
"""'''


def test_in_running_text_what_follows_waits_for_the_threads_and_can_quote_them() -> None:
    after = {
        "one: ": f"See {FOOD}.", FOOD_THREAD: "a big bridge</async>", "Again: ": "a big bridge",
        "Again: a big bridge\n": "A[Fork].", "[Child]": "!", "End: ": "bye\n",
    }  # fmt: skip
    result, model = run(TEXT, after)
    assert result.value == {"first": "See a big bridge.", "copy": "a big bridge", "more": "A!.", "end": "bye"}
    assert result.text == "Day one: See a big bridge.\nAgain: a big bridge\nA!.\nEnd: bye"
    waited = f"See {FOOD}.<async>a big bridge</async>\nAgain: a big bridge\n\nA[Fork].[Child]!End: bye"
    assert seen_by(model, "End: bye") == f"Day one: {waited}"


def test_a_stream_reports_the_text_as_it_is_written_and_every_thread_apart() -> None:
    engine, told = Engine(scripted(WRITTEN), byte_tokenizer()), dict[str, str]()
    events = list(engine.stream(program(TRIP), {}))
    for event in events:
        if isinstance(event, TextDelta):
            told[f"{event.field}{event.items}"] = told.get(f"{event.field}{event.items}", "") + event.text
    assert told == {
        "food()": 'Eat "well":\n.',
        "food.thread[](0,)": 'Goulash "soup".',
        "name()": '"Ann"',
        "sum()": '"good"',
    }
    assert all(event.text == told[f"{event.field}{event.items}"] for event in events if isinstance(event, FieldDone))
    assert [event.joined for event in events if isinstance(event, Joined)] == [("food", "food.thread[0]")]


def test_the_cells_of_a_thread_that_nobody_sees_are_free_at_its_end() -> None:
    threads = {"[Child]": "x" * 30, '"a": "': "[Fork]" + "y" * 80}
    unseen, _ = run("json { a: auto(apar, max=90) }", threads)
    awaited, _ = run(
        "json { a: auto(apar, max=90), b: string(max=9) after a }", threads | {'"b": ': '"ok"'}
    )  # fmt: skip
    assert unseen.usage.peak_cells + 30 < awaited.usage.peak_cells


def test_a_text_that_is_objected_to_is_written_again_with_its_threads() -> None:
    from pydantic import BaseModel, field_validator

    class Trip(BaseModel):
        food: str
        name: str
        sum: str

        @field_validator("food")
        @classmethod
        def is_short(cls, food: str) -> str:
            if "Goulash" in food:
                raise ValueError("no soup")
            return food

    again = '"Eat \\"well\\":\\nGoulash \\"soup\\".." // not accepted: no soup\n  "food": "'
    after = WRITTEN | {again: f"Only {SIGHTS}!", f"{SIGHTS}<async>": "baths</async>"}
    asked, model = program(TRIP), scripted(after)
    result = Engine(model, byte_tokenizer()).run(asked, {}, model=Trip, repair=1)
    assert result.value.food == "Only baths!" and result.usage.attempts == 1
    assert "baths" in seen_by(model, f'{SIGHTS}!"<async>baths</async>"sum": "good')


def test_a_text_that_is_cut_says_so_and_an_error_can_be_made_of_it() -> None:
    result, _ = run("json { a: auto(apar, max=5) }", {'"a": "': "abcdefgh"}, on_truncated="keep")
    assert result.value == {"a": "abcde"} and result.field("a").truncated
    with pytest.raises(pastalang.PastaError, match="cut at its limit: a "):
        run("json { a: auto(apar, max=5) }", {'"a": "': "abcdefgh"}, on_truncated="raise")


def test_positions_have_room_for_the_text_its_promises_and_a_last_thread() -> None:
    plan = build_plan(program(TRIP).only_template, program(TRIP))
    room = {branch.name: branch.reserve for branch in plan.branches}
    assert room["food"] == len('""') + 90 + 4 * 90 + 90 + len("<async></async>")
    with pytest.raises(PlanError, match="`food` cannot be closed at its reserve"):
        build_plan(program(TRIP).only_template, program(TRIP), overrun="cap")


def test_a_text_that_leaves_the_positions_of_the_model_is_named() -> None:
    engine = Engine(scripted(WRITTEN), byte_tokenizer())
    engine.scheduler._max_position = 100
    with pytest.raises(TooLong, match="100"):
        engine.run(program(TRIP), {})
    engine.check_integrity()


@pytest.mark.parametrize(
    "body",
    [
        "json { a: {string: auto(pasta, max=9)} }",
        "json { a: [auto(pasta, max=9), integer] }",
        "json { a: [auto(pasta, max=9)](2..3, unique=true) }",
        'json { a: auto(pasta, max=9) | "none" }',
        "json { a: auto(pasta, max=9) | integer }",
        'text """\n{a: auto(pasta, max=9) | null}\n"""',
    ],
)
def test_a_text_with_threads_inside_a_value_that_is_one_hole_is_refused(body: str) -> None:
    with pytest.raises(ProgramError, match="misplaced-auto"):
        program(body)
