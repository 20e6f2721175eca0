"""A training row holds what decoding feeds, and a label for every token that the model would draw."""

from __future__ import annotations

import numpy as np
import pytest

from pastalang import Mode, compile
from pastalang.training.batches import PackedBatches, collate, of_like_length, pack
from pastalang.training.errors import BadData, BadRow
from pastalang.training.recording import IGNORED, Lesson, Recorder, TrainingRow, planner
from tests.training.lessons import PRODUCT, TOKENIZER, product, row_of, taught_text


def test_values_and_what_closes_them_are_taught_and_forced_tokens_are_not() -> None:
    row = product("a Sony tv", brand="Sony")
    assert taught_text(row, "brand") == '"Sony"'
    assert taught_text(row, "kind") == "t"  # after it, nothing else is possible
    assert taught_text(row, "quote") == "n"
    assert int((row.labels != IGNORED).sum()) == len(row.taught) == 8


def test_the_logits_after_the_key_decide_the_first_token_of_its_value() -> None:
    row = product("a Sony tv", brand="Sony")
    first = next(taught for taught in row.taught if taught.field == "brand")
    assert TOKENIZER.decode(row.tokens[row.visible[first.place]]).endswith('{\n  "brand": ')
    assert (first.token, row.labels[first.place]) == (ord('"'), ord('"'))


def test_a_value_sees_no_other_value_in_strict_mode_and_the_earlier_ones_in_sequence() -> None:
    def seen_behind(row: TrainingRow, field: str) -> str:
        last = [taught.place for taught in row.taught if taught.field == field][-1]
        return str(TOKENIZER.decode(row.tokens[row.visible[last]]))

    assert "Sony" not in seen_behind(product("tv", brand="Sony"), "kind")
    assert '"Sony"' in seen_behind(product("tv", brand="Sony", mode=Mode.SEQUENTIAL), "kind")


def test_a_row_takes_as_many_passes_as_decoding_it() -> None:
    assert product("a Sony tv", brand="Sony").passes == len('"Sony"')
    assert product("a Sony tv", brand="Sony", mode=Mode.SEQUENTIAL).passes == len('"Sony"' + "t" + "n")


def test_positions_jump_by_the_limits_of_the_values() -> None:
    row = product("tv")
    skeleton = np.flatnonzero(row.visible[next(taught.place for taught in row.taught if taught.field == "quote")])
    assert [int(jump) for jump in np.diff(row.positions[skeleton]) - 1 if jump] == [12, len('"phone"')]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kind": "radio"}, r"rows\.jsonl:1: value: kind: "),
        ({"brand": 5}, r"rows\.jsonl:1: value: brand: "),
        ({"colour": "red"}, r'rows\.jsonl:1: value: there is no key "colour"'),
        ({"quote": "Philips"}, r"rows\.jsonl:1: value: quote: "),
        ({"brand": "a name that is far too long"}, r"`brand` cannot be written as .*takes 29 tokens, .*limit is 12"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_file_and_row(value: dict[str, object], message: str) -> None:
    with pytest.raises(BadRow, match=message):
        product("a Sony tv", **value)


def test_a_value_that_just_fits_its_limit_is_taught() -> None:
    assert taught_text(product("tv", brand="0123456789"), "brand") == '"0123456789"'
    with pytest.raises(BadRow, match="`brand` cannot be written"):
        product("tv", brand="01234567890")


def test_a_missing_input_is_refused_with_its_file_and_row() -> None:
    with pytest.raises(BadRow, match=r"rows\.jsonl:1: missing input `title`"):
        row_of(PRODUCT, {}, {"brand": None, "kind": "tv", "quote": None})


@pytest.mark.parametrize("value", [[{"b": "c"}, {"b": "d"}], [], None])
def test_a_list_of_objects_that_may_be_null_is_taught(value: object) -> None:
    program = compile('template t(x: text)\nuser """{x}"""\nassistant json { a: [{ b: string(max=4) }] | null }')
    lesson = Lesson(planner(program), {"x": "y"}, {"a": value}, "row")  # type: ignore[dict-item]
    row = Recorder(TOKENIZER).row(lesson, Mode.STRICT)
    assert all(taught.is_absent is (value is None) for taught in row.taught if taught.field == "a")


def test_two_values_drawn_from_one_place_are_both_taught() -> None:
    source = '''
    template pair(word: text)
    user """{word}"""
    assistant text """
    Go: {async aside: string(max=20)}{main: string(max=20)}
    """
    '''
    row = row_of(source, {"word": "x"}, {"aside": "left", "main": "right"})
    assert (taught_text(row, "aside")[:4], taught_text(row, "main")[:5]) == ("left", "right")
    for taught in row.taught:
        assert row.labels[taught.place] == taught.token


THINKING = 'template t()\nuser """Go."""\nassistant think(max=14) json { a: boolean }\n'


def test_a_thought_is_taught_before_its_answer_with_what_closes_it() -> None:
    lesson = Lesson(planner(compile(THINKING)), {}, {"a": True}, "row", thought=" Hm.\n")
    row = Recorder(TOKENIZER).row(lesson, Mode.STRICT)
    assert taught_text(row, "thinking") == " Hm.\n</think>"
    assert taught_text(row, "a") == "t"


@pytest.mark.parametrize(
    ("thought", "message"),
    [
        (None, "the key `thought` is missing: it holds what the model thinks before its answer"),
        ("far too long for it", "`thinking` .*limit"),
        ("just too long", "`thinking` reaches its limit of tokens before it is closed"),
        ("a</think>b", "`thinking`"),
    ],
)
def test_a_thought_that_cannot_be_taught_is_refused(thought: str | None, message: str) -> None:
    lesson = Lesson(planner(compile(THINKING)), {}, {"a": True}, "row", thought=thought)
    with pytest.raises(BadRow, match=message):
        Recorder(TOKENIZER).row(lesson, Mode.STRICT)


def test_packed_rows_do_not_see_one_another() -> None:
    first, second = product("a Sony tv", brand="Sony"), product("b")
    batch = collate([[first, second]], len(first) + len(second) + 2)
    assert batch.visible is not None
    visible = batch.visible[0].numpy()
    border, end = len(first), len(first) + len(second)
    assert not visible[border:end, :border].any()
    assert not visible[:border, border:].any()
    assert np.array_equal(visible[border:end, border:end], second.visible)
    assert np.array_equal(visible[end:], np.eye(end + 2, dtype=bool)[end:])


def test_batches_are_a_function_of_their_number_and_an_epoch_shows_every_row_once() -> None:
    variants = [[product("x" * number, mode=mode) for mode in Mode] for number in range(1, 6)]
    batches = PackedBatches(variants, rows=1, length=130, seed=0)
    again = PackedBatches(variants, rows=1, length=130, seed=0)
    for number in (0, 3, 1):
        assert batches(number).tokens.equal(again(number).tokens)
    shown = [batches(number) for number in range(6)]
    lines = sum(int((batch.labels != IGNORED).sum()) for batch in shown[:3])
    assert lines == sum(len(row.taught) for row, *_ in variants)  # two rows fit into a line


def test_a_mixture_shows_a_row_in_another_mode_in_the_next_epoch() -> None:
    batches = PackedBatches([[product("x", brand="ab", mode=mode) for mode in Mode]], rows=1, length=200, seed=0)
    lengths = [int(batches(number).positions.max()) for number in range(4)]
    assert lengths[0] == lengths[3]
    assert lengths[0] != lengths[2]


def blank(length: int, number: int) -> TrainingRow:
    """A row without contents. Its number is its first token."""
    tokens = np.full(length, number, dtype=np.int32)
    sees = np.packbits(np.eye(length, dtype=bool), axis=1)
    return TrainingRow(tokens, np.arange(length, dtype=np.int32), tokens, sees, (), Mode.STRICT, 0, f"{number}")


def test_lines_of_like_length_share_a_batch_and_an_epoch_still_shows_every_row_once() -> None:
    draw = np.random.default_rng(3)
    rows = [blank(int(draw.integers(50, 250)), number) for number in range(301)]
    batches = PackedBatches([[row] for row in rows], rows=4, length=256, seed=1)
    lines = batches.lines(0)
    count = lines // 4 + 1
    shown = [batches(number) for number in range(count)]
    in_packed_order = pack([rows[index] for index in np.random.default_rng((1, 0)).permutation(301)], 256)
    places = [[row.origin for row in line] for line in in_packed_order]
    origins = [line.split(", ") for batch in shown for line in batch.origins]
    assert sorted(origins[:lines]) == sorted(places) != origins[:lines]
    fed = sum(batch.tokens.numel() for batch in shown)
    wasted = sum(int((batch.labels == IGNORED).sum()) for batch in shown) / fed
    assert wasted < 0.08 < 1 - sum(map(len, rows)) / (lines * 256)
    # The batch at the border of two epochs is completed, and the next ones are of like length again.
    more = [batches(number) for number in range(count, 2 * lines // 4)]
    spread = [np.ptp([int((line != IGNORED).sum()) for line in batch.labels]) for batch in (*shown[:-1], *more)]
    assert np.median(spread) < 15
    seen = [row for batch in (*shown, *more) for line in batch.origins for row in line.split(", ")]
    assert max(seen.count(str(number)) for number in range(301)) == 2


def test_the_shares_of_processes_are_the_lines_of_the_batch() -> None:
    batches = PackedBatches([[blank(40 + number, number)] for number in range(10)], rows=5, length=64, seed=0)
    whole, shares = batches(1), [batches.share(rank, 2, 1) for rank in range(2)]
    assert [share.origins for share in shares] == [whole.origins[0::2], whole.origins[1::2]]
    assert sum(share.predicted for share in shares) == whole.predicted


def test_lines_of_equal_length_stay_in_the_order_in_which_they_were_packed() -> None:
    lines = [[blank(100, number)] for number in range(45)]
    assert of_like_length(lines, 4, 3) == lines


def test_nothing_to_train_on_and_a_row_longer_than_a_line_are_refused() -> None:
    with pytest.raises(BadData, match="nothing to train on"):
        PackedBatches([], rows=1, length=10, seed=0)
    with pytest.raises(BadRow, match=r"rows\.jsonl:1: takes \d+ tokens .* holds 10; raise --length"):
        PackedBatches([[product("x")]], rows=1, length=10, seed=0)
