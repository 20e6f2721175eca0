"""Documents in windows: what is read of each is put together at the places of the whole text, in any order."""

from __future__ import annotations

import asyncio
import json
import random
import warnings
from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, field_validator

import pastalang
from pastalang.program import types as t
from pastalang.runtime.long_document import MergedAnswer, Reading, merge
from pastalang.runtime.quotations import SourceSpan
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.api.engines import hashing, writing
from tests.oracle.toy_models import toy_model
from tests.work import calls_of

Quote = Annotated[str, pastalang.Verbatim("text"), pastalang.Tokens(64)]  # the longest word of a window, in quotes
QUOTE, TEXT = t.Verbatim("text"), "aspirin or ibuprofen " * 500
LINE = t.Object((t.Field("drug", QUOTE), t.Field("days", t.Integer())))
NULLABLE = t.Union((QUOTE, t.Literal(None)))
LEAFLET = t.Object((t.Field("all", t.Array(QUOTE)), t.Field("lines", t.Array(LINE)), t.Field("best", NULLABLE)))
PIECES = st.sampled_from(
    ["Aspirin helps", "一二三。", " ", "\n\n", "\n", ". ", "e\u0301", "👩\u200d👧", "so", "Take", "x" * 30]
)


class Drugs(BaseModel):
    all: Annotated[list[Quote], pastalang.Tokens(36)]
    kind: Literal["drug", "food"]


def even(found: Drugs) -> Drugs:
    if len(found.all) % 2:
        raise ValueError("one has no other")
    return found


class Total(BaseModel):
    total: Literal[1, 2, 7] | None

    @field_validator("total")
    @classmethod
    def positive(cls, found: int | None) -> int | None:
        assert found != 7, "seven is unlucky"
        return found


@settings(max_examples=30)
@given(st.lists(PIECES, max_size=24).map("".join).filter(str.strip), st.integers(4, 60), st.data())
def test_windows_cover_a_text_share_no_more_than_asked_and_are_never_too_long(text: str, size: int, data: Any) -> None:
    overlap, asked = data.draw(st.integers(0, size - 1)), Annotated[Drugs, AfterValidator(even)]
    with warnings.catch_warnings(action="ignore"):
        found = hashing().extract(asked, text, window=size, overlap=overlap, details=True, keep_invalid=True)
    places = [(one.start, one.end) for one in found.windows]
    assert {at for at, sign in enumerate(text) if not sign.isspace()} <= {at for each in places for at in range(*each)}
    assert all(len(text[start:end].encode()) <= max(size, len("👩\u200d👧".encode())) for start, end in places)
    for (start, end), (after, last) in pairwise(places):
        assert start < after and end < last and len(text[after:end].encode()) <= overlap
    spans, quotes = found.field("all").sources, found.result.exact["all"]
    assert [text[one.start : one.end] for one in spans] == quotes and len({*spans}) == len(spans)
    assert [one.problem for one in found.fields] == ["one has no other" if len(quotes) % 2 else None, None]
    said = [(one, quote) for one in found.windows for quote in one.found.field("all").sources]
    assert {*quotes} <= {quote for one in found.windows for quote in one.found.result.exact["all"]}
    assert all(any(one.start < at.end + w.start and at.start + w.start < one.end for one in spans) for w, at in said)
    assert all(found.result.text[slice(*one.span)] == one.text for one in found.fields)


def quoting(start: int, all: Iterable[str] = (), lines: Iterable[str] = (), rng: Any = None) -> Reading:
    """A window in which these words of the text were quoted, each from its first place behind the start or later."""
    spans: dict[Any, SourceSpan] = {}

    def quote(words: str, *path: str | int) -> str:
        at = TEXT.index(words, start + (rng.choice((0, 21, 42)) if rng else 0))
        spans[path] = SourceSpan("text", "text", None, at, at + len(words))
        return words

    value: Any = {"all": [quote(words, "all", n) for n, words in enumerate(all)], "lines": [], "best": None}
    for n, words in enumerate(lines):
        value["lines"].append({"drug": quote(words, "lines", n, "drug"), "days": rng.randrange(3) if rng else 1})
    if rng and rng.random() < 0.5:
        value["best"] = quote(rng.choice(("aspirin", "ibuprofen")), "best")
    return Reading(start, start + 63, value, (), spans)


def reading(start: int, rng: random.Random) -> Reading:
    drugs = rng.choices(("aspirin", "ibuprofen", "aspirin or ibuprofen", "ibuprofen aspirin", "or"), k=5)
    return quoting(start, drugs[: rng.randrange(4)], drugs[3 : 3 + rng.randrange(3)], rng)


def merged(readings: list[Reading], rule: Any) -> MergedAnswer:
    return merge(readings, LEAFLET, {}, rule)


@given(st.randoms(use_true_random=False), st.sampled_from(["confidence", "agreement", "first"]))
def test_merging_depends_on_neither_order_nor_doubles_and_again_changes_nothing(rng: random.Random, rule: Any) -> None:
    windows = [reading(21 * number, rng) for number in range(rng.randrange(1, 6))]
    once: Any = merged(windows, rule)
    assert merged(rng.sample([*windows, *windows], 2 * len(windows)), rule) == once
    best = [one.value["best"] for one in windows if one.value["best"]]
    assert once.value["best"] in best or (once.value["best"] is None and not best)
    plain = mentions(windows)
    assert once.value["all"] == plain if rule == "first" else len(once.value["all"]) == len(plain)
    paths: list[Any] = [("all", n) for n in range(len(once.value["all"]))]
    paths += [("lines", n, "drug") for n in range(len(once.value["lines"]))]
    spans = {path: SourceSpan("text", "text", None, n, n + 1) for n, path in enumerate(paths)}  # each its own
    whole = Reading(0, len(TEXT), once.value, (), spans)
    assert merged([whole, whole], rule).value == once.value


def mentions(windows: list[Reading]) -> list[str]:
    """The items of `all`, of which every new one is compared with every earlier one."""
    groups: list[list[range]] = []
    for window in windows:
        found = dict.fromkeys(range(one.start, one.end) for path, one in window.spans.items() if path[0] == "all")
        free = [group for group in groups if found.keys().isdisjoint(group)]
        for place in [one for one in found if all(one not in group for group in groups)]:
            shared = [max(len({*place} & {*one}) for one in group) for group in free]
            group = free.pop(shared.index(max(shared))) if any(shared) else []
            groups += [] if group else [group]
            group.append(place)
    return [TEXT[group[0].start : group[0].stop] for group in groups]


def test_twice_as_many_windows_are_twice_the_work() -> None:
    half, whole = ([reading(21 * number, random.Random(number)) for number in range(size)] for size in (200, 400))
    assert calls_of(lambda: merged(whole, "first")) < 2.2 * calls_of(lambda: merged(half, "first"))


def test_quotations_that_overlap_are_one_mention_of_two_windows_and_two_of_one() -> None:
    first, second = quoting(0, ["aspirin", "ibuprofen aspirin"]), quoting(15, ["aspirin or", "or ibuprofen"])
    assert merged([first, second], "first").value["all"] == ["aspirin", "ibuprofen aspirin", "or ibuprofen"]
    lines = [quoting(start, lines=[words]) for start, words in ((0, "ibuprofen aspirin"), (15, "aspirin"))]
    assert merged(lines, "first").value["lines"] == [{"drug": "ibuprofen aspirin", "days": 1}]
    one = quoting(0, ["aspirin or ibuprofen", "ibuprofen", "aspirin"])
    assert merged([one], "first").value["all"] == ["aspirin or ibuprofen", "ibuprofen", "aspirin"]
    again = merged([one, quoting(5, ["ibuprofen", "aspirin or ibuprofen", "aspirin"])], "first")
    assert again.value["all"] == ["aspirin or ibuprofen", "ibuprofen", "aspirin", "aspirin or ibuprofen", "aspirin"]


def test_null_says_nothing_and_the_rule_decides_between_the_other_values() -> None:
    engine = writing(lambda seen: "1" if "one" in seen else "2" if "two" in seen else "null")
    text = "Two is said: two.\n\nNothing is.\n\nOnce one.\n\nThe two.\n\n"
    asked = [engine.extract(Total, text, window=20, overlap=0, merge=rule).total for rule in ("first", "agreement")]
    assert asked == [2, 2] and engine.extract(Total, "Nothing.\n\n" * 9, window=12).total is None
    assert asyncio.run(engine.aextract(Total, "So.\n\nOne one.\n\n", window=9, overlap=0)).total == 1


def test_what_a_validator_refuses_in_one_window_is_refused_if_it_is_in_the_whole() -> None:
    engine = writing(lambda seen: "7" if "seven" in seen else "1")
    text = "One.\n\nThe seven.\n\nOne.\n\n"
    found = engine.extract(Total, text, window=13, overlap=0, merge="agreement", details=True)
    statuses = [one.status for one in found.windows]
    assert (found.value.total, found.status, statuses) == (1, "ok", ["ok", "invalid", "ok"])
    with pytest.raises(pastalang.Invalid, match="seven is unlucky"):
        engine.extract(Total, "The seven.", window=13)
    texts, options = [text, "The seven.", ""], {"window": 13, "overlap": 0, "merge": "first"}
    many = list(pastalang.extract_many(Total, texts, model=engine, **options))
    assert [(one.status, len(one.windows)) for one in many] == [("ok", 3), ("invalid", 1), ("error", 0)]
    kept = list(pastalang.extract_many(Total, texts[1:2], model=engine, keep_invalid=True, **options))
    kept += [engine.extract(Total, texts[1], details=True, keep_invalid=True, **each) for each in ({}, options)]
    assert [(one.status, one.value) for one in kept] == [("invalid", {"total": 7})] * 3
    assert "windows, in characters" in found.to_html() and "seven is unlucky" in found.to_html()


def test_the_key_answer_of_a_map_is_no_field_by_itself() -> None:
    text, asked = "One two three four.", dict[Literal["answer"], Quote]
    [field] = hashing(1).extract(asked, text, window=100, details=True).fields
    assert json.loads(field.text) == field.value == {"answer": text[field.source.start : field.source.end]}


def test_fifty_thousand_tokens_are_read_in_the_cells_of_a_few_windows() -> None:
    rng = random.Random(0)
    words = ((rng.randbytes(9).hex(), rng.randbytes(20).hex(), rng.choice((" ", "\n\n"))) for _ in range(840))
    text = "".join(f"{first} {second}.{space}" for first, second, space in words)
    runner = pastalang.Engine.load(toy_model(positions=2048), byte_tokenizer(), cells=6_000)
    with warnings.catch_warnings(action="ignore"):
        found = runner.extract(Drugs, text, window=1_500, overlap=100, details=True)
    assert len(text) > 50_000 and len(found.windows) > 33 and found.usage.peak_cells < 2_000
    assert [text[one.start : one.end] for one in found.field("all").sources] == found.value.all
    assert found.usage.forward_passes < sum(one.found.usage.forward_passes for one in found.windows) / 2


def test_a_call_that_cannot_be_read_in_windows_says_why() -> None:
    for options in ({"window": 0}, {"overlap": 4}, {"window": 8, "overlap": 8}, {"window": 8, "merge": "best"}):
        with pytest.raises(pastalang.BadInputs, match=r"`(window|overlap|merge)` (must be|is about)"):
            hashing().extract(Total, "One.", **options)
    with pytest.raises(pastalang.BadInputs, match="`text` has half a character at 4"):
        asyncio.run(hashing().aextract(Total, "bad \ud83d half", window=16))
    with pytest.raises(pastalang.TooLong, match=r"\(characters 0 to 300\): choose a smaller `window`"):
        hashing(max_position=400).extract(Total, "x" * 600, window=500)
