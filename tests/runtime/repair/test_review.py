"""Fields that a validator objects to are decoded again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, create_model, field_validator, model_validator

import pastalang
from pastalang import BadInputs, Done, Engine, FieldAgain, FieldStarted, Invalid, Result, RunError, Sampling
from pastalang.runtime.repair.review import MAX_REASON, MAX_VALUE, Review, repair_text
from pastalang.runtime.scheduler.state import Again
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model
from pastalang.values.json import Place

WARM = Sampling(temperature=1.0)


def program(fields: str) -> Any:
    return pastalang.compile(f'template t()\nuser """\nGo.\n"""\nassistant json {{\n{fields}\n}}\n')


MANY = program("\n".join(f"  f{number}: integer(0..999)" for number in range(20)))
WAITING = program("""
  brand: string(max=6)
  kind: "tv" | "phone"
  headline: string(max=6) after brand
  line: string(max=6) after headline
""")
CHOSEN = program('  kind: "a" | "b" | "c"\n  size: "small" | "large" after kind')
GROUP = program("  sequential { a: integer(0..99), b: integer(0..99), c: integer(0..99) }\n  d: integer(0..99)")
LINES = program("""
  lines: [{ name: string(max=4), amount: integer(0..99), sum: integer(0..9) after amount }](3..4)
  total: integer(0..999) after lines
""")


def engine(*, cells: int = 1 << 14, **options: Any) -> Engine:
    model = hashed_model(320, seed=5)
    model.cells = cells
    return Engine(model, byte_tokenizer(), **options)


def refusing(*refused: str, accepts: Callable[[Any], bool] = lambda _: False, **others: Any) -> type[BaseModel]:
    """A model that takes anything, and refuses some fields unless their value is accepted."""

    class Base(BaseModel):
        @field_validator(*refused, check_fields=False)
        @classmethod
        def judge(cls, value: Any) -> Any:
            if not accepts(value):
                raise ValueError("not this one")
            return value

    return create_model("Refusing", __base__=Base, **dict.fromkeys((*refused, *others), (Any, ...)))


def fakes(runner: Engine) -> FakeModel:
    assert isinstance(runner.model, FakeModel)
    return runner.model


def tokens_of(result: Result) -> dict[tuple[str, tuple[int, ...]], tuple[int, ...]]:
    return {(field.path, field.items): field.tokens for field in result.fields}


def redone(result: Result, plain: Result) -> set[str]:
    """The fields that were decoded more than once; all others have the tokens that they had."""
    again = {field.path for field in result.fields if field.attempts > 1}
    before, after = tokens_of(plain), tokens_of(result)
    assert {key for key in after if key[0] not in again and after[key] != before[key]} == set()
    return again


def text_fed(runner: Engine, since: int) -> str:
    return runner.encoder.decode([token.token for token in fakes(runner).fed[since:]])


def test_a_field_that_always_fails_costs_its_own_passes_and_tokens_and_no_others() -> None:
    plain = engine()
    before = plain.run(MANY, {}, sampling=WARM)
    fed, steps = len(fakes(plain).fed), len(fakes(plain).steps)

    runner = engine()
    with pytest.raises(Invalid) as caught:
        runner.run(MANY, {}, sampling=WARM, model=refusing("f7"), repair=3)
    result = caught.value.result
    draws = [len(lane) for lane in _draws_by_lane(result, "f7")]
    assert len(draws) == 4, "the first one and three attempts"
    assert result.usage.repair_tokens == sum(draws[1:])
    assert result.usage.repair_passes == sum(draws[1:])
    assert len(fakes(runner).steps) - steps == sum(draws[1:])

    texts = _texts_by_lane(result, "f7")
    leads = [f'{text} // not accepted: not this one\n  "f7": ' for text in texts[:-1]]
    keys = " " + "".join(f',\n  "f{number}": ' for number in range(1, 8))  # the prompt and the first key stay in memory
    parts = zip(leads, texts[1:], draws[1:], strict=True)
    expected = "".join(keys + lead + text[: draw - 1] for lead, text, draw in parts)
    assert text_fed(runner, fed) == expected, "what it sees, the message, and all of the value that something follows"
    assert redone(result, before) == {"f7"}
    assert result.usage.attempts == 3
    runner.check_integrity()
    assert runner.scheduler.memory.cells.in_use == runner.scheduler.prefix.size


def _draws_by_lane(result: Result, name: str) -> list[list[str]]:
    lanes = [lane.id for lane in result.trace.lanes if lane.name == name]
    return [[drew.text for drew in result.trace.drawn if drew.lane == lane] for lane in lanes]


def _texts_by_lane(result: Result, name: str) -> list[str]:
    return ["".join(texts) for texts in _draws_by_lane(result, name)]


def test_a_review_that_comes_to_no_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Review, "review", lambda _, request: Again(2, {one.instance: one for one in request.live}))
    runner = engine()
    with pytest.raises(RunError, match="never come to an end"):
        runner.run(MANY, {}, sampling=WARM, model=refusing("f7"), repair=3)
    runner.check_integrity()
    assert runner.scheduler.is_idle


def test_two_failing_fields_are_decoded_again_in_the_same_passes() -> None:
    def passes(*names: str) -> int:
        with pytest.raises(Invalid) as caught:
            engine().run(MANY, {}, sampling=WARM, model=refusing(*names), repair=1)
        return caught.value.result.usage.repair_passes

    assert passes("f3", "f7") == max(passes("f3"), passes("f7"))


def test_who_waited_for_a_field_is_decoded_again_after_it() -> None:
    plain = engine().run(WAITING, {}, sampling=WARM)
    first = plain.value["brand"]
    model = refusing("brand", accepts=lambda value: value != first, kind=1, headline=1, line=1)
    runner = engine()
    result = runner.run(WAITING, {}, sampling=WARM, model=model, repair=5)
    assert redone(result, plain) == {"brand", "headline", "line"}
    assert isinstance(result.value, model) and result.value.brand != first
    assert json.loads(result.text) == result.value.model_dump()
    lanes = {lane.id: lane for lane in result.trace.lanes}
    *_, headline = (lane for lane in lanes.values() if lane.name == "headline")
    seen = [lanes[lane].id for lane, _ in headline.sees if lanes[lane].name == "brand"]
    assert seen == [max(lane.id for lane in lanes.values() if lane.name == "brand")], "it sees the accepted one only"
    quote = next(token for token in reversed(fakes(runner).fed) if token.token == ord("h"))
    seen_by_quote = sorted((token for token in quote.sees if token is not quote), key=lambda token: token.position)
    shown = runner.encoder.decode([token.token for token in seen_by_quote])
    brand = result.answers[0].field("brand").text
    assert shown.endswith(f'Assistant:\n{{\n  "brand": {brand},\n  "kind": ,\n  "'), "as if it had been right at once"
    assert len({token.position for token in seen_by_quote}) == len(seen_by_quote), "no two of them share a position"
    runner.check_integrity()


def test_a_batch_repairs_each_answer_as_it_would_be_alone() -> None:
    asked = pastalang.compile('template t(x: text)\nuser """\n{x}\n"""\nassistant json {\n a: integer(0..99)\n b: string(max=5) after a\n}\n')  # fmt: skip  # noqa: E501
    model = refusing("a", accepts=lambda value: value % 3 == 0, b=1)
    inputs = [{"x": letter} for letter in "abcdef"]
    options: dict[str, Any] = {"sampling": WARM, "model": model, "repair": 30}
    runner = engine()
    together = runner.batch(asked, inputs, **options)
    for one, given in zip(together, inputs, strict=True):
        assert isinstance(one, Result) and one.text == engine().run(asked, given, **options).text
    scarce = engine(cells=260, prefix_cells=0)
    assert [one.text for one in scarce.batch(asked, inputs, **options) if isinstance(one, Result)] == [
        one.text for one in together if isinstance(one, Result)
    ]
    scarce.check_integrity()
    runner.check_integrity()


def test_a_stream_says_what_is_void() -> None:
    events = list(engine().stream(MANY, {}, sampling=WARM, model=refusing("f7"), repair=2, keep_invalid=True))
    again = FieldAgain("f7", (), "not this one")
    assert events.count(again) == 2 and isinstance(events[-1], Done)
    of_field = [event for event in events if event == again or event == FieldStarted("f7", ())]
    assert of_field == [FieldStarted("f7", ()), again, FieldStarted("f7", ()), again, FieldStarted("f7", ())]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_giving_up_in_the_middle_of_a_repair_gives_everything_back(after: int) -> None:
    runner = engine(prefix_cells=0)
    stream = runner.stream(WAITING, {}, sampling=WARM, model=refusing("brand"), repair=9)
    for event in stream:
        if isinstance(event, FieldAgain):
            break
    for _ in range(after):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    runner.check_integrity()
    assert runner.scheduler.memory.cells.in_use == 0 and runner.scheduler.is_idle


def test_an_unsure_field_is_decoded_again_and_the_surer_value_stays() -> None:
    plain = engine().run(MANY, {}, sampling=WARM)
    before = {field.path: field for field in plain.fields}
    threshold = sorted(field.confidence for field in plain.fields)[3]
    runner = engine()
    result = runner.run(MANY, {}, sampling=WARM, retry_below=threshold, repair=2)
    unsure = {field.path for field in plain.fields if field.confidence < threshold}
    assert len(unsure) == 3
    for field in result.fields:
        if field.path in unsure:
            assert field.attempts > 1 and field.confidence >= before[field.path].confidence
        else:
            assert field.attempts == 1 and field.tokens == before[field.path].tokens
    assert any(field.confidence > before[field.path].confidence for field in result.fields)
    assert any(field.tokens == before[field.path].tokens for field in result.fields)
    runner.check_integrity()


def test_a_value_that_is_only_said_again_stays_with_its_probability_and_nobody_follows_it() -> None:
    """Of two it is often the same one once more, with another probability behind another beginning."""
    again = 0
    for seed in range(12):
        plain = engine().run(CHOSEN, {}, sampling=WARM, seed=seed)
        before = plain.answers[0].field("kind")
        result = engine().run(CHOSEN, {}, sampling=WARM, seed=seed, retry_below=before.confidence * 1.001)
        kind = result.answers[0].field("kind")
        size = plain.answers[0].field("size")
        if kind.text == before.text and kind.attempts > 1 and size.confidence > before.confidence * 1.001:
            again += 1
            assert kind.log_probabilities == before.log_probabilities
            assert result.answers[0].field("size") == size
    assert again


def test_running_text_is_not_validated() -> None:
    text = pastalang.compile('template t()\nuser """\nGo.\n"""\nassistant text """\n{a: string(max=4)}\n"""\n')
    with pytest.raises(BadInputs, match="running text"):
        engine().run(text, {}, model=refusing("a"))


def test_the_message_is_bounded_and_stands_on_one_line() -> None:
    text = '{\n  "a": "' + "x" * 500 + '"\n}'
    told = repair_text(text, Place(9, len(text) - 2), "bad\n\r\x00 news " * 100)
    value, key = told.split("\n")
    assert key == '  "a": '
    assert len(value) <= MAX_VALUE + len(" // not accepted: ") + MAX_REASON and value.isprintable()


def test_a_message_holds_no_control_token() -> None:
    class Model(BaseModel):
        f0: int

        @model_validator(mode="after")
        def judge(self) -> Any:
            raise ValueError("<end> <|im_end|> <sync/>" + str(self.f0))

    plain, runner = engine(), engine()
    plain.run(MANY, {})
    with pytest.raises(Invalid):
        runner.run(MANY, {}, model=Model, repair=1)
    fed = len(fakes(plain).fed)
    assert "<end>" in text_fed(runner, fed)
    assert not runner.encoder.added.intersection(token.token for token in fakes(runner).fed[fed:])


@pytest.mark.parametrize("repair", [0, 2])
def test_an_objection_to_what_no_hole_wrote_is_kept_with_the_answer(repair: int) -> None:
    """A chosen `null` has no field of its own."""
    chosen = program("  box: { w: integer(0..9) } | null")
    for seed in range(8):
        options = {"sampling": WARM, "seed": seed, "model": refusing("box"), "repair": repair}
        result = engine().run(chosen, {}, keep_invalid=True, **options)
        [problem] = result.problems
        assert (problem.where, problem.attempts) == ("box", 1 + repair)
        assert json.loads(problem.text) == result.value["box"]
        with pytest.raises(Invalid) as refused:
            engine().run(chosen, {}, **options)
        assert refused.value.problems == result.problems == refused.value.result.problems
    assert engine().run(chosen, {}).problems == ()
