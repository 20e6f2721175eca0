"""Many inputs through one engine: their order, what is in flight, what is read when, and what an error ends."""

from __future__ import annotations

import asyncio
import io
import re
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

import pastalang
from tests.api.engines import WARM, hashing, json_program

PRODUCT = json_program('  kind: "tv" | "phone"\n  tags: ["new" | "used"](max=3)\n  name: string(max=4)',
                       inputs="title: text", says="{title}.")  # fmt: skip
TITLES = [{"title": "ab" * (number % 5)} for number in range(12)]
WARMLY: dict[str, Any] = {"sampling": WARM, "on_truncated": "keep"}


@pytest.fixture(scope="module")
def alone() -> list[str]:
    return [hashing().run(PRODUCT, one, **WARMLY).text for one in TITLES]


def test_a_batch_gives_what_each_request_gives_alone(alone: list[str]) -> None:
    assert [one.text for one in hashing().batch(PRODUCT, TITLES, **WARMLY)] == alone  # type: ignore[union-attr]


@pytest.mark.parametrize("in_flight", [1, 3, 100])
def test_a_map_gives_them_in_order_however_many_are_in_flight(in_flight: int, alone: list[str]) -> None:
    assert [one.text for one in hashing().map(PRODUCT, TITLES, in_flight=in_flight, **WARMLY)] == alone


def test_an_unordered_map_has_the_numbers_of_the_inputs(alone: list[str]) -> None:
    pairs = dict(hashing().map_unordered(PRODUCT, [*TITLES, {"titel": ""}], in_flight=5, **WARMLY))
    assert [pairs[number].text for number in range(len(TITLES))] == alone  # type: ignore[union-attr]
    assert isinstance(pairs[len(TITLES)], pastalang.BadInputs)


def test_an_error_is_yielded_in_its_place_or_raised() -> None:
    inputs = [TITLES[1], {"titel": 3}, TITLES[2]]
    first, wrong, last = hashing().map(PRODUCT, inputs, return_errors=True, **WARMLY)
    assert [type(one) for one in (first, wrong, last)] == [pastalang.Result, pastalang.BadInputs, pastalang.Result]
    results = hashing().map(PRODUCT, inputs, **WARMLY)
    next(results)
    with pytest.raises(pastalang.BadInputs, match="did you mean `title`"):
        next(results)


def test_inputs_are_read_as_they_are_needed() -> None:
    taken: list[int] = []

    def source() -> Iterator[dict[str, str]]:
        for number in range(60):
            taken.append(number)
            yield {"title": str(number)}

    results = hashing().map(PRODUCT, source(), in_flight=2, **WARMLY)
    assert taken == []
    next(results)
    assert len(taken) <= 10


def test_what_a_broken_source_gave_is_yielded_before_its_error(alone: list[str]) -> None:
    def broken() -> Iterator[dict[str, str]]:
        yield from TITLES[:3]
        raise OSError("the disk is gone")

    found = []
    with pytest.raises(OSError, match="the disk is gone"):
        for one in hashing().map(PRODUCT, broken(), in_flight=2, **WARMLY):
            found.append(one.text)
    assert found == alone[:3]


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_map_that_is_closed_early_leaves_the_engine_as_it_was(taken: int, alone: list[str]) -> None:
    engine = hashing()
    results = engine.map(PRODUCT, TITLES, in_flight=8, **WARMLY)
    for _ in range(taken):
        next(results)
    results.close()  # type: ignore[attr-defined]
    assert [one.text for one in engine.map(PRODUCT, TITLES, **WARMLY)] == alone


def test_seeds_of_their_own_make_answers_to_one_input_differ() -> None:
    batch: list[Any] = [TITLES[1], pastalang.BadInputs("no row"), *[TITLES[1]] * 3]
    found = hashing().batch(PRODUCT, batch, seeds=[1, 5, 2, 3, 1], **WARMLY)
    texts = [one.text for one in found if isinstance(one, pastalang.Result)]
    assert texts[0] == texts[3] and len(set(texts)) == 3
    assert texts[1] == hashing().run(PRODUCT, TITLES[1], seed=2, **WARMLY).text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seeds": [1]}, "`seeds` has 1 number, and the batch 2 sets of inputs"),
        ({"seeds": [1, True]}, "`seeds` must be a list of whole numbers"),
        ({"seeds": 7}, "`seeds` must be a list of whole numbers, not 7"),
        ({"seeds": [1, 2], "seed": 3}, "leave out one"),
    ],
)
def test_seeds_that_do_not_fit_a_batch_are_refused(options: Any, said: str) -> None:
    with pytest.raises(pastalang.BadInputs, match=said):
        hashing().batch(PRODUCT, TITLES[:2], **options)


@pytest.mark.parametrize("many", [{"title": "x"}, "title", 3, None])
def test_what_is_not_many_inputs_is_refused(many: Any) -> None:
    with pytest.raises(pastalang.BadInputs, match="one dict for each request"):
        hashing().map(PRODUCT, many)
    with pytest.raises(pastalang.BadInputs, match="a batch takes a list of inputs"):
        hashing().batch(PRODUCT, many)
    with pytest.raises(pastalang.BadInputs, match="`in_flight` must be a whole number of at least 1"):
        hashing().map(PRODUCT, [], in_flight=0)
    assert list(hashing().map(PRODUCT, [])) == []


def test_a_field_that_is_cut_is_warned_of_once() -> None:
    for call in (lambda engine: list(engine.map(PRODUCT, TITLES)), lambda engine: engine.batch(PRODUCT, TITLES)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call(hashing())
        assert [one.category for one in found] == [pastalang.TruncationWarning]


def test_an_asynchronous_map_takes_inputs_that_come_late(alone: list[str]) -> None:
    async def slow() -> AsyncIterator[dict[str, str]]:
        for one in TITLES:
            await asyncio.sleep(0)
            yield one

    async def texts(inputs: Any) -> list[str]:
        return [one.text async for one in hashing().amap(PRODUCT, inputs, in_flight=4, **WARMLY)]  # type: ignore[union-attr]

    assert asyncio.run(texts(slow())) == asyncio.run(texts(TITLES)) == alone


def test_leaving_an_asynchronous_map_leaves_the_engine_as_it_was(alone: list[str]) -> None:
    engine = hashing()

    async def first() -> str:
        async with aclosing(engine.amap(PRODUCT, TITLES, in_flight=4, **WARMLY)) as results:
            return (await anext(results)).text  # type: ignore[union-attr]

    assert asyncio.run(first()) == alone[0]
    assert [one.text for one in engine.map(PRODUCT, TITLES, **WARMLY)] == alone


STACK = json_program("  brand: string(max=6)\n  stars: integer(1..5)", inputs="each title: text", says="{title}.")


def test_a_stack_of_documents_gives_what_each_gives_alone() -> None:
    titles = ["one", "two", "three"]
    stacked = hashing().run(STACK, title=titles, **WARMLY)
    assert stacked.is_stacked and len(stacked.answers) == 3
    assert stacked.value == [hashing().run(STACK, title=[one], **WARMLY).value[0] for one in titles]
    assert stacked.field("[1].stars").value == stacked.value[1]["stars"]
    assert all(
        one.text[slice(*field.span)] == field.text for one in (stacked, *stacked.answers) for field in one.fields
    )


def test_a_stack_shares_its_instructions() -> None:
    shared = pastalang.compile(
        'template t(each title: text)\nsystem """A long instruction."""\n'
        'user """{title}"""\nassistant json { a: boolean }\n'
    )
    one, three = (hashing().run(shared, title=titles).usage for titles in (["a"], ["a", "b", "c"]))
    assert three.forward_passes == one.forward_passes
    assert three.input_tokens + 2 * len("System:\nA long instruction.\n\n") == 3 * one.input_tokens


@pytest.mark.parametrize("says", ["{title}.", "Of {shop}: {title}."])
@pytest.mark.parametrize("before", [[], ["Ink"]])
def test_an_empty_stack_is_empty(says: str, before: list[str]) -> None:
    """Nothing is decoded, so nothing is fed, and all that is read was kept from an earlier request."""
    engine, stack = hashing(), json_program("  a: boolean", inputs="each title: text, shop: text", says=says)
    for documents in (before, []):
        found = engine.run(stack, title=documents, shop="a shop with a long name")
    usage = found.usage
    assert (found.value, found.text, usage.output_tokens, usage.forced_tokens) == ([], "", 0, 0)
    assert usage.input_tokens == usage.reused_tokens == sum(one.tokens for one in found.trace.fed)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_on_a_terminal_and_a_last_line_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(documents: Any, **options: Any) -> None:
        list(pastalang.extract_many(bool, documents, model=hashing(), **options))

    run(["a", "b"])
    assert capsys.readouterr().err == ""
    run(iter(["a", "b"]), progress=True)
    assert re.fullmatch(r"2 documents, [\d.]+/s\n", capsys.readouterr().err)
    monkeypatch.setattr("sys.stderr", screen := Screen())
    run(["a", ""], progress=True)
    last = screen.getvalue().rpartition("\r")[2]
    assert last.startswith(f"[{'#' * 24}] 2 of 2 documents") and last.endswith(", 1 failed\x1b[K\n")
    with pytest.raises(pastalang.BadInputs, match="`progress` is True or False"):
        run(["a"], progress="yes")


def test_progress_of_asyncio_ends_with_the_last_document(capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> list[Any]:
        return [one async for one in pastalang.aextract_many(bool, ["a", "b"], model=hashing(), progress=True)]

    assert len(asyncio.run(run())) == 2 and capsys.readouterr().err.startswith("2 of 2 documents")
