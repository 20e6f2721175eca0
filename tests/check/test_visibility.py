"""Which values are visible where in running text: the smallest program for each rule."""

from __future__ import annotations

import pytest

from pastalang import check_source, compile
from pastalang.program import pieces as p
from pastalang.program.program import TextBody


def codes(body: str, inputs: str = "") -> list[str]:
    used = "".join(f"{{{one.split(':')[0].strip()}}} " for one in inputs.split(",") if one.strip())
    text = f'template t({inputs})\n\nuser """\n{used}\n"""\n\nassistant text """\n{body}\n"""\n'
    return [one.code for one in check_source(text)[1] if one.is_error]


def pieces(body: str) -> tuple[p.Piece, ...]:
    found = compile(f'template t()\n\nassistant text """\n{body}\n"""\n').only_template.messages[-1].body
    assert isinstance(found, TextBody)
    return found.pieces


def of_kind(body: str, kind: type[p.Piece]) -> list[p.Piece]:
    return [piece for piece in pieces(body) if isinstance(piece, kind)]


@pytest.mark.parametrize(
    "body",
    [
        "{a: string} then {quote: verbatim(a)}",  # what stands before is seen
        "{a: string}\n{async b}and {c: verbatim(a)}{end}",  # also by a branch that begins later
        "{async a: string}\n{sync}\nso {quote: verbatim(a)}",  # what was joined is seen
        "{async a}x {b: string}{end}\n{sync a}\nso {quote: verbatim(b)}",  # with all that it wrote
        "{async a: string}\n{async b}x {c: string}\n{sync a}\nso {d: verbatim(a)}{end}",  # a branch may join a sister
        "{fork x (1..3)}\n- {a: string}: {b: verbatim(a)}\n{end}",  # an item sees its own root
        "{fork x (1..3)}\n- {a: string}: {async b: string}\n{end}\n{sync}\nso {c: string}",
        "{async a}x {async b: string}{end}\n{sync b}\nso {c: verbatim(b)}",  # a branch of a branch, by its name
        "{l: [string](1..3)}\n{fork x in l}\n- {a: verbatim(x)}\n{end}",
    ],
)
def test_it_can_be_seen(body: str) -> None:
    assert codes(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "{quote: verbatim(a)} then {a: string}",  # not what comes later
        "{async a: string}\n{quote: verbatim(a)}",  # not what runs beside
        "{async a: string}\n{async b}x {c: verbatim(a)}{end}",  # not from a sister branch
        "{async a}x {b: string}{end}\n{quote: verbatim(b)}",
        "{async a}x {b: string} {async c: string}{end}\n{sync a}\nso {d: verbatim(c)}",  # joining a does not join c
        "{fork x (1..3)}\n- {a: string}\n{end}\nso {b: verbatim(a)}",  # outside, it is not clear of which item
        '{promise a "x"}\n{b: string}\n{async a}y {c: verbatim(b)}{end}',  # a branch begins where it was promised
        "{async a: [string](1..3)}\n{fork x in a}\n- {b: string}\n{end}",
    ],
)
def test_it_cannot_be_seen(body: str) -> None:
    assert codes(body) == ["used-before-known"]


def test_a_sync_of_all_waits_for_branches_of_branches_too() -> None:
    (sync,) = of_kind("{async a}x {async b: string}{end}\n{sync}\nso {c: verbatim(b)}", p.Sync)
    assert isinstance(sync, p.Sync) and set(sync.names) == {"a", "b"}


def test_a_branch_takes_the_length_of_its_promise() -> None:
    (branch,) = of_kind('{promise a "x" ~40}\n{async a: string(max=30)}', p.Async)
    assert isinstance(branch, p.Async) and (branch.promised, branch.reserve) == (True, 40)


def test_an_async_hole_is_a_branch_with_one_hole_of_its_name() -> None:
    (branch,) = of_kind("x {async a: date}", p.Async)
    assert isinstance(branch, p.Async)
    assert [piece.name for piece in branch.body if isinstance(piece, p.Hole)] == ["a"]


def test_the_number_of_an_item_is_known_inside_a_fork_only() -> None:
    assert codes("{fork x (1..3)}\n{n}. {a: string}\n{end}") == []
    assert codes("{n}. {a: string}") == ["unknown-name"]


def test_an_item_of_a_list_of_records_has_its_parts() -> None:
    body = "{fork x in list}\n- {x.name}: {a: string}\n{end}"
    assert codes(body, "list: [{name: text}]") == []
    assert codes(body.replace("x.name", "x.title"), "list: [{name: text}]") == ["unknown-name"]


def test_text_between_a_sync_and_a_hole_may_stand_anywhere_between_them() -> None:
    assert codes("{async a: string}\n{sync}\n- {b: string}") == []
    assert codes("{async a: string}\n{sync}\n{async b}- {c: string}{end}") == []
    assert codes("{async a: string}\n{sync}\n{async b}{c: string}{end}") == ["sync-needs-text"]


def test_a_value_with_a_visible_end_may_touch_the_next_one() -> None:
    assert codes("{a: boolean}{b: string}") == []
    assert codes('{a: "x" | "y"}{b: string}') == []
    assert codes('{a: "x" | "xy"}{b: string}') == ["touching-holes"]
    assert codes("{a: integer}{b: integer}") == ["touching-holes"]
