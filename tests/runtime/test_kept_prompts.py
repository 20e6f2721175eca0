"""Which prompts the prefix cache keeps, seen in the tokens that later requests reuse."""

from __future__ import annotations

from functools import cache

import pytest

import pastalang
from pastalang import Engine, Result, TooLong
from pastalang.runtime.scheduler.prefix_cache import SHORTEST
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

PROGRAM = pastalang.compile('''
template t(title: text)
system """
Read the title below.
"""
user """
{title}
"""
assistant json { stars: integer(1..5) }
''')
LENGTH = 24  # tokens of a title


def engine_of(prefix_cells: int, *, cells: int = 1 << 12) -> Engine:
    model = hashed_model(320, seed=1)
    model.cells = cells
    return Engine(model, byte_tokenizer(), prefix_cells=prefix_cells)


def reused(engine: Engine, letter: str) -> int:
    return engine.run(PROGRAM, {"title": letter * LENGTH}).usage.reused_tokens


@cache
def prompt() -> int:
    """The tokens of a prompt that can be kept."""
    engine = engine_of(1 << 10)
    assert reused(engine, "a") == 0
    return reused(engine, "a")


@cache
def own() -> int:
    """The tokens of a prompt from its title on."""
    engine = engine_of(1 << 10)
    reused(engine, "a")
    return prompt() - reused(engine, "b")


def shared() -> int:
    return prompt() - own()


def room_for(others: int) -> Engine:
    """It keeps a first prompt and, next to that, the titles of so many others."""
    engine = engine_of(prompt() + others * own())
    assert reused(engine, "-") == 0
    return engine


def test_the_prompt_that_was_used_least_recently_goes_first() -> None:
    engine = room_for(2)
    assert [reused(engine, letter) for letter in "ab"] == [shared(), shared()]
    assert reused(engine, "a") == prompt()
    assert reused(engine, "c") == shared(), "which takes the place of `b`"
    assert reused(engine, "a") == prompt()
    assert reused(engine, "b") == shared(), "which takes the place of `c`"
    assert [reused(engine, letter) for letter in "ab"] == [prompt(), prompt()]
    assert reused(engine, "c") == shared()
    engine.check_integrity()


def test_prompts_go_in_the_order_of_their_last_use() -> None:
    engine = room_for(4)
    for letter in "abcd" + "cadb":
        reused(engine, letter)
    for newcomer, gone in zip("efgh", "cadb", strict=True):
        assert reused(engine, newcomer) == shared()
        kept = {letter for letter in "abcd" if keeps(engine, letter)}
        assert gone not in kept
        assert len(kept) == 3 - "efgh".index(newcomer)


def keeps(engine: Engine, letter: str) -> bool:
    """Whether a title is kept, without using it."""
    spelled = tuple(letter.encode()) * 8
    return any(tuple(node.sequence.tokens[:8]) == spelled for node in engine.scheduler.prefix.nodes)


def test_the_limit_is_used_up_and_never_exceeded() -> None:
    for others in (1, 2, 3):
        engine = room_for(others)
        letters = "abcd"[:others]
        for letter in letters:
            reused(engine, letter)
        assert engine.scheduler.prefix.size == engine.scheduler.prefix.limit
        assert [reused(engine, letter) for letter in letters] == [prompt()] * others
        reused(engine, "x")
        assert engine.scheduler.prefix.size <= engine.scheduler.prefix.limit
    too_small = engine_of(prompt() - 1)
    assert [reused(too_small, letter) for letter in "aab"] == [0, prompt() - 1, shared()], "what fits is kept"
    for_one = engine_of(prompt() + 2 * own() - 1)
    assert [reused(for_one, letter) for letter in "-aba"] == [0, *[shared()] * 3]


def test_what_other_prompts_go_on_from_is_evicted_neither_before_them_nor_for_what_is_refused_or_given_up() -> None:
    engine = room_for(1)
    engine.scheduler._max_position = 300
    for letter in "abcdef":
        assert reused(engine, letter) == shared()
    assert isinstance(engine.batch(PROGRAM, [{"title": "z" * 300}])[0], TooLong) and reused(engine, "f") == prompt()
    next(stream := engine.stream(PROGRAM, {"title": "f" * LENGTH}))
    stream.close()  # type: ignore[attr-defined]
    assert reused(engine, "f") == prompt()
    assert reused(engine, "-") == prompt()


def test_a_request_that_needs_the_memory_of_kept_prompts_gets_it() -> None:
    """The least recently used goes first here, too, and no more than is needed."""
    cells = prompt() + 3 * own() + 8  # the last is what a run takes for itself
    engine = engine_of(prompt() + 3 * own(), cells=cells)
    for letter in "-abca":
        assert isinstance(engine.run(PROGRAM, {"title": letter * LENGTH}), Result)
    assert engine.scheduler.prefix.size == engine.scheduler.prefix.limit
    engine.run(PROGRAM, {"title": "short"})
    assert not keeps(engine, "b")
    assert keeps(engine, "a") and keeps(engine, "c")
    engine.check_integrity()


@pytest.mark.parametrize(("length", "is_kept"), [(SHORTEST - 1, False), (SHORTEST, True)])
def test_a_stretch_of_eight_tokens_is_kept_and_a_shorter_one_is_not(length: int, is_kept: bool) -> None:
    engine = engine_of(1 << 10)

    def reused_before(text: str) -> int:
        template = f'template t()\nuser """\nGo.\n"""\nassistant text """\n{text}{{note: string(max=3)}}\n"""\n'
        return engine.run(pastalang.compile(template), {}).usage.reused_tokens

    assert reused_before("-" * 40) == 0
    text = "-" * 20 + "a" * (length + 1)  # the last token is never kept: its row is drawn from
    before = reused_before(text)
    assert before > 20
    assert reused_before(text) == before + (length if is_kept else 0)


def test_evicting_makes_no_place_by_dropping_what_the_new_prompt_goes_on_from() -> None:
    """The shared part is in the only prompt that could go, and all of the new one does not fit next to it."""
    engine = engine_of(prompt() + own() - 1)
    assert [reused(engine, letter) for letter in "aabb"] == [0, prompt(), shared(), prompt() - 1]
    assert reused(engine, "a") == prompt()


OTHER = pastalang.compile(
    'template t()\nuser """\nGo on with something else.\n"""\nassistant json { stars: integer(1..5) }\n'
)


def test_a_stretch_is_evicted_before_the_one_that_it_goes_on_from() -> None:
    """Both were used last by the same prompt. Nothing of the other program begins like them."""
    engine = engine_of(1 << 10, cells=prompt() + own() + 20)
    for letter in "-a":
        reused(engine, letter)
    assert engine.run(OTHER, {}).usage.reused_tokens == 0
    assert not keeps(engine, "a")
    assert reused(engine, "-") == prompt()
    engine.check_integrity()
