"""Which requests run at the same time: who is admitted, who is preempted when cells run out, and who comes next."""

from __future__ import annotations

import pytest

import pastalang
from pastalang import Engine, Limits, Result, Sampling
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, hashed_model

# A list reserves cells for as few items as it may have, so longer ones come to need cells that others have taken.
LISTS = pastalang.compile(
    'template t(title: text)\nuser """\n{title}\n"""\nassistant json {\n  rows: [{ a: string(max=6) }](3..12)\n}\n'
)
SMALL = pastalang.compile('template t(title: text)\nuser """\n{title}\n"""\nassistant json { stars: integer(1..5) }\n')
FIELDS = pastalang.compile(
    'template t(title: text)\nuser """\n{title}\n"""\nassistant json {\n'
    + "\n".join(f"  f{number}: string(max=12)" for number in range(6))
    + "\n}\n"
)
TIGHT = 330  # cells: the third request is preempted
PLENTY = 1 << 12


def engine_of(cells: int, *, limits: Limits | None = None) -> tuple[Engine, FakeModel]:
    model = hashed_model(320, seed=5)
    model.cells = cells
    return Engine(model, byte_tokenizer(), prefix_cells=0, limits=limits), model


def run(engine: Engine, letters: str, program: pastalang.Program = LISTS) -> list[str]:
    """The answers to requests with a letter each."""
    found = engine.batch(
        program, [{"title": letter * 4} for letter in letters], sampling=Sampling(temperature=1.0), on_truncated="keep"
    )
    assert all(isinstance(one, Result) for one in found), found
    engine.check_integrity()
    return [one.text for one in found if isinstance(one, Result)]


def starts(model: FakeModel, letters: str) -> str:
    """The letters of the requests in the order in which their prompts were fed, and fed again."""
    at = min(fed.position for fed in model.fed if fed.token == ord(letters[0]))
    return "".join(chr(fed.token) for fed in model.fed if fed.position == at and chr(fed.token) in letters)


def passes(engine: Engine, letters: str, program: pastalang.Program = LISTS) -> int:
    before = engine.scheduler.forward_passes
    run(engine, letters, program)
    return engine.scheduler.forward_passes - before


def test_the_newest_request_is_preempted_and_comes_again_once_another_one_has_left() -> None:
    engine, model = engine_of(TIGHT)
    assert run(engine, "ABC") == run(engine_of(PLENTY)[0], "ABC")
    assert starts(model, "ABC") == "ABCC"


def test_preempted_requests_come_again_in_the_order_in_which_they_came_first() -> None:
    engine, model = engine_of(TIGHT)
    run(engine, "ABCDE")
    assert starts(model, "ABCDE") == "ABCCDE", "a preempted request comes back before newer ones begin"


@pytest.mark.parametrize("cells", [104, 118, 136])
def test_a_request_alone_begins_only_the_branches_that_it_has_room_for(cells: int) -> None:
    """It would have to start again if all of them began at once."""
    engine, model = engine_of(cells)
    assert run(engine, "A", FIELDS) == run(engine_of(PLENTY)[0], "A", FIELDS)
    assert starts(model, "A") == "A"


@pytest.mark.parametrize("cells", [TIGHT, 300, 230])
def test_a_shortage_leaves_no_trace_in_later_batches(cells: int) -> None:
    """At 230 cells, every request but the first starts more than once."""
    engine, _ = engine_of(cells)
    alone = passes(engine_of(cells)[0], "abcd", SMALL)
    crowded = passes(engine, "ABC")
    assert passes(engine, "abcd", SMALL) == alone
    assert passes(engine, "ABC") == crowded


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_requests_are_active_than_the_limit_says_and_no_fewer(limit: int) -> None:
    engine, model = engine_of(PLENTY, limits=Limits(requests=limit))
    run(engine, "ABCD", SMALL)
    first = "".join(chr(token) for token in model.steps[0].tokens if chr(token) in "ABCD")
    assert sorted(set(first)) == list("ABCD"[:limit])


def test_view_rows_are_used_again() -> None:
    """Rows of kept prompts, too, once these have been evicted: after the first one, there is place for two titles."""

    def rows(requests: int) -> int:
        model = hashed_model(320, seed=1)
        engine = Engine(model, byte_tokenizer(), prefix_cells=150)
        for number in range(requests):
            engine.run(SMALL, {"title": chr(65 + number) * 30})
        assert 1 < len(engine.scheduler.prefix.nodes) < 5
        return 1 + max(run.row for step in model.steps for run in step.runs)

    assert rows(24) == rows(12)
