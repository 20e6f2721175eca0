"""Running text: what stands where, what sees what, and how many passes it takes."""

from __future__ import annotations

import pytest

from tests.api.engines import WARM, hashing, text_program, uniform, writing

TRIP = text_program(
    "{opening: string(max=8)}\n\nFood: {async food ~9: string(max=8)}\n\nSights: {async sights ~9: string(max=8)}\n\n"
    "{sync}\nIn short: {summary: string(max=8)}"
)


def test_text_is_what_was_written_in_the_places_of_the_holes() -> None:
    engine = writing({"Assistant:": "\nGo east\n\n", "Food: ": "cake\n\n", "Sights: ": "sea\n\n", "In short: ": "fine"})
    result = engine.run(TRIP, on_truncated="keep")
    assert result.text == "Go east\n\nFood: cake\n\nSights: sea\n\nIn short: fine"
    assert result.value == {"opening": "Go east", "food": "cake", "sights": "sea", "summary": "fine"}


def test_two_blocks_are_written_at_the_same_time() -> None:
    result = hashing().run(TRIP, sampling=WARM, on_truncated="keep")
    assert result.usage.forward_passes <= 8 + 8 + 8 + 3 < result.usage.output_tokens
    assert result.usage.forward_passes == result.usage.critical_path


def test_a_block_sees_the_text_before_it_and_not_its_neighbour() -> None:
    """The same seed gives the same text to one block, whatever the other one is asked to write."""
    longer = text_program(
        "{opening: string(max=8)}\n\nFood: {async food ~9: string(max=8)}\n\nSights: {async sights ~9: string(max=5)}"
    )
    shorter = text_program(
        "{opening: string(max=8)}\n\nFood: {async food ~9: string(max=8)}\n\nSights: {async sights ~9: string(max=2)}"
    )
    found = [hashing(2).run(one, sampling=WARM, on_truncated="keep").value for one in (longer, shorter)]
    assert found[0]["food"] == found[1]["food"] and found[0]["sights"] != found[1]["sights"]


def test_what_a_sync_joins_is_seen_after_it() -> None:
    result = hashing().run(TRIP, sampling=WARM, on_truncated="keep")
    [joined] = result.trace.joins
    names = {lane.id: lane.where for lane in result.trace.lanes}
    assert sorted(names[id] for id in joined.joined) == ["food", "sights"] and names[joined.lane] == "main"
    last = max(one.forward_pass for one in result.trace.drawn if names[one.lane] != "main")
    assert [one.forward_pass for one in result.trace.drawn if names[one.lane] == "main"][8:] > [last] * 8


def test_a_sync_by_name_waits_for_one() -> None:
    blocks = "A: {async a: string(max=3)}\nB: {async b: string(max=12)}\n"
    one, both = (
        hashing(4).run(text_program(f"{blocks}{sync}\nSo: {{c: string(max=2)}}"), sampling=WARM, on_truncated="keep")
        for sync in ("{sync a}", "{sync}")
    )
    assert one.usage.forward_passes < both.usage.forward_passes
    assert (one.value["a"], one.value["b"]) == (both.value["a"], both.value["b"])
    assert [len(found.trace.joins[0].joined) for found in (one, both)] == [1, 2]


def test_a_block_may_hold_text_and_several_holes() -> None:
    program = text_program("{async dish ~30}\nDish: {name: string(max=6)}\nWhy: {why: string(max=6)}\n{end}\nEnd.")
    result = writing({"Dish: ": "cake\n", "Why: ": "sweet\n"}).run(program, on_truncated="keep")
    assert result.text == "Dish: cake\nWhy: sweet\nEnd." and {one.path for one in result.fields} == {"name", "why"}


def test_a_chain_has_as_many_items_as_the_model_writes() -> None:
    program = text_program(
        '{fork tip (2..4)}\n{n}. {root: string(max=6, stop=":")}: {async detail: string(max=4)}\n{end}'
    )
    result = writing({"1. ": "one:", "2. ": "two:", ": ": "yes\n"}).run(program, on_truncated="keep")
    assert result.value == {"tip": [{"root": "one", "detail": "yes"}, {"root": "two", "detail": "yes"}]}
    assert result.text == "1. one: yes\n2. two: yes\n" and result.fields[3].where == "tip[1].detail"


def test_a_fork_goes_over_a_list_of_the_input() -> None:
    program = text_program("{fork point in points ~9}\n{point}: {note: string(max=6)}\n{end}", inputs="points: [text]")
    result = writing({"a: ": "first\n", "b: ": "second\n"}).run(program, points=["a", "b"], on_truncated="keep")
    assert result.text == "a: first\nb: second\n" and [item["note"] for item in result.value["point"]] == [
        "first",
        "second",
    ]
    assert [one.where for one in result.fields] == ["point[0].note", "point[1].note"]


def test_a_fork_goes_over_a_list_that_the_model_wrote() -> None:
    program = text_program(
        "Plan: {plan: [string(max=6)](2..3, max_tokens=40)}\n\n"
        "{fork point in plan ~20}\n## {point}\n{section: string(max=6)}\n{end}"
    )
    engine = writing({"Plan: ": '["x", "y"]', "## x\n": "on x\n", "## y\n": "on y\n"})
    result = engine.run(program, on_truncated="keep")
    assert result.value["plan"] == ["x", "y"] and len(result.value["point"]) == 2
    assert result.text.endswith("## x\non x\n## y\non y\n")


def test_a_hole_ends_where_the_text_after_it_begins() -> None:
    result = writing({"Name: ": "Ann\nAge: 7"}).run(
        text_program("Name: {name: string(max=20)}\nAge: {age: integer(0..9)}")
    )
    assert result.value == {"name": "Ann", "age": 7} and result.text == "Name: Ann\nAge: 7"


def test_a_stop_ends_a_text_and_is_no_part_of_it() -> None:
    result = writing({"Say: ": "one. two"}).run(
        text_program('Say: {a: string(max=20, stop=".")}!'), on_truncated="keep"
    )
    assert result.value == {"a": "one"} and result.text == "Say: one!"


@pytest.mark.parametrize(("least", "written"), [("", "so"), (", min_chars=0", "")])
def test_a_text_is_not_empty_unless_it_may_be(least: str, written: str) -> None:
    """A model that would like to end its line at once writes the next best thing."""
    engine = writing(lambda seen: "\n" if seen.endswith("In short: ") else "so\n"[seen[-3:].count("s") :])
    result = engine.run(text_program(f"In short: {{a: string(max=5{least})}}\nEnd."), on_truncated="keep")
    assert (result.value["a"] == "") is (written == "") and result.text.endswith("\nEnd.")
    assert [one.where for one in result.empty] == ([] if written else ["a"])
    assert ("empty: a" in result.summary) is (written == "")


@pytest.mark.parametrize(("stop", "written"), [('":"', "Tyre"), ('[":", ";"]', "Tyre"), ('"END"', "Tyre\nnew")])
def test_a_text_that_ends_at_a_character_ends_at_the_end_of_its_line(stop: str, written: str) -> None:
    engine = writing({"1. ": "Tyre\nnewEND:"})
    result = engine.run(text_program(f"1. {{a: string(max=30, stop={stop})}}!"), on_truncated="keep")
    assert result.value == {"a": written}


def test_tags_never_enter_the_answer_of_a_model_that_does_not_know_them() -> None:
    program = text_program(
        '{promise cause "why" ~30}# Report\n{async cause ~30: string(max=40)}\n{sync}\nSo: {a: string(max=40)}'
    )
    engine = writing(lambda seen: "1</async/></promise>"[len(seen) % 20 :] + "<sync>")
    text = engine.run(program, on_truncated="keep").text
    assert "/" in text and not any(tag in text for tag in ("<async", "</async", "<promise", "</promise", "<sync"))


@pytest.mark.parametrize("seed", range(4))
def test_announced_lengths_never_change_what_is_written_alone(seed: int) -> None:
    """A promise reserves positions after the block, and the block itself is where it always was."""
    texts = [f"Food: {{async food ~{length}: string(max=8)}}" for length in (2, 9, 40)]
    found = {hashing(seed).run(text_program(text), sampling=WARM, on_truncated="keep").value["food"] for text in texts}
    assert len(found) == 1


def test_uniform_text_is_still_the_text_of_the_program() -> None:
    assert uniform().run(text_program("Yes or no: {a: 'yes' | 'no'}.".replace("'", '"'))).text in (
        "Yes or no: yes.",
        "Yes or no: no.",
    )
