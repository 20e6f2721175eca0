"""Events of a stream: what they tell of every field is what the answer says in the end."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import assume, given
from hypothesis import strategies as st

import pastalang
from pastalang import Done, Engine, Event, Failed, FieldAgain, FieldDone, FieldStarted, OutOfMemory, Result, TextDelta
from pastalang.plan.branches import Hole
from pastalang.plan.structure import walk_plan
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model
from tests.properties.autos import auto_cases
from tests.properties.cases import FEW, Case, cases, is_refused
from tests.properties.models import Hashes
from tests.properties.repairs import repaired_cases
from tests.properties.ways import PLENTY, Way, engine_for, ways
from tests.runtime.float64 import wide_softmax

HASHES = [Hashes(seed, liking) for seed in (5, 6) for liking in (0.0, 3.0, 6.0)]
Key = tuple[str, tuple[int, ...]]


def told_in_the_end(events: Iterable[Event]) -> dict[Key, str]:
    """What somebody knows who follows them; the parts of every text that was ended add up to it."""
    growing: dict[Key, str] = {}
    known: dict[Key, str] = {}
    for event in events:
        match event:
            case FieldStarted(field=field, items=items):
                growing[field, items] = ""
            case TextDelta(field=field, items=items, text=text):
                growing[field, items] += text
            case FieldDone(field=field, items=items, text=text):
                assert growing.pop((field, items)) == text
                known[field, items] = text
            case FieldAgain(field=field, items=items):
                for fields in (growing, known):
                    fields.pop((field, items), None)
    assert not growing, "a field was begun and never ended"
    return known


def check_events(case: Case, way: Way) -> None:
    assume(not is_refused(case.plan, case.words))
    with wide_softmax():
        engine = engine_for(case.kind.model(way.cells or PLENTY), way, words=case.words)
        events = list(engine.stream(case.plan, case.requests[0], **case.options))
        twin = engine_for(case.kind.model(way.cells or PLENTY), way, words=case.words)
        [plain] = twin.batch(case.plan, case.requests[:1], seed=case.seed, sampling=case.sampling)
    if isinstance(events[-1], Failed):
        assert not isinstance(events[-1].error, OutOfMemory) or isinstance(plain, OutOfMemory), "an answer was lost"
        return
    assert isinstance(events[-1], Done)
    result = events[-1].result
    known = told_in_the_end(events)
    texts = {hole.field: hole for _, _, hole in walk_plan(case.plan) if isinstance(hole, Hole) and hole.auto}
    for field in result.fields:
        if field.path not in texts:
            assert known[field.path, field.items] == field.text, f"`{field.path}`"
        elif texts[field.path].is_thread:  # the text of another one has those of its threads in it
            assert known[field.path, field.items] == field.value, f"`{field.path}`"


@FEW(40)
@given(st.one_of(cases(kinds=HASHES, most=1), repaired_cases()), ways())
def test_what_is_told_of_any_run_is_its_answer(case: Case, way: Way) -> None:
    check_events(case, way)


@FEW(14)
@given(auto_cases(), st.sampled_from((None, 3)))
def test_what_is_told_of_texts_with_branches_of_the_model_is_the_answer(case: Case, chunk: int | None) -> None:
    check_events(case, Way(chunk=chunk))


def writing(text: str) -> Engine:
    tokens = iter([*text.encode(), 256])  # which ends the turn

    def score(_: object) -> list[float]:
        row = [0.0] * 320
        row[next(tokens, 256)] = 50.0
        return row

    return Engine(FakeModel(score, vocabulary=320), byte_tokenizer())


def test_what_could_have_become_a_tag_is_told_when_it_has_not() -> None:
    auto = pastalang.compile('template t()\nuser """go"""\nassistant auto(pasta, max=30)\n')
    assert "a < b <" in told_in_the_end(writing("a < b <").stream(auto, {})).values()
    thinking = pastalang.compile(
        'template t()\nuser """go"""\nassistant think(max=6) text """\n{a: string(max=2)}\n"""\n'
    )
    assert told_in_the_end(writing("1 < 2<").stream(thinking, {}))["thinking", ()] == "1 < 2<"


def test_a_value_that_stays_though_it_was_unsure_is_told_last() -> None:
    program = pastalang.compile('template t()\nuser """go"""\nassistant json { a: string(max=6) }\n')
    stayed = 0
    for seed in range(20):
        events = list(Engine(hashed_model(320, seed=seed), byte_tokenizer()).stream(program, {}, retry_below=0.9))
        last = events[-1]
        assert isinstance(last, Done) and isinstance(last.result, Result)
        stayed += any(isinstance(event, FieldAgain) and "stays" in event.reason for event in events)
        assert told_in_the_end(events)["a", ()] == last.result.fields[0].text
    assert stayed
