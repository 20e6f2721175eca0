"""Which branches a program becomes: one small program per policy."""

from __future__ import annotations

from pastalang.plan.branches import ROOT, Choose, Fork, Hole, Join, Release, Repeat, Seen, Text
from pastalang.program import pieces as p
from pastalang.program import types as t
from tests.plan.programs import (
    NOWHERE,
    async_,
    field,
    fork,
    hole,
    json_body,
    named,
    or_null,
    plan_of,
    record,
    sync,
    text,
    text_body,
)


def _skeleton(plan_branch: object) -> str:
    """The text of a branch with a dot for everything else."""
    segments = plan_branch.segments  # type: ignore[attr-defined]
    return "".join(segment.text if isinstance(segment, Text) else "·" for segment in segments)


def test_every_value_of_a_skeleton_is_a_branch_forked_behind_its_key() -> None:
    plan = plan_of(json_body(field("brand", t.String(12)), field("price", t.Number(max_tokens=6))))
    assert _skeleton(plan.branches[0]).endswith('{\n  "brand": ·,\n  "price": ·\n}')
    brand, price = plan.branches[1:]
    assert [brand.name, price.name] == ["brand", "price"]
    assert [brand.reserve, price.reserve] == [12, 6]
    assert brand.view == (Seen(ROOT, (8,)),)
    assert price.view == (Seen(ROOT, (10,)),)
    assert brand.release is Release.AT_END
    (hole_,) = brand.segments
    assert isinstance(hole_, Hole) and hole_.follow == ',\n  "price": '


def test_what_is_known_beforehand_is_never_decoded() -> None:
    plan = plan_of(json_body(field("kind", t.Literal("tv")), field("none", t.Null()), field("size", record())))
    assert _skeleton(plan.branches[0]).endswith('{\n  "kind": "tv",\n  "none": null,\n  "size": {}\n}')
    assert len(plan.branches) == 1


def test_a_field_with_after_waits_and_writes_its_own_key() -> None:
    plan = plan_of(json_body(field("brand"), field("headline", after=("brand",))))
    join, key, _ = named(plan, "headline").segments
    assert join == Join((named(plan, "brand").id,))
    assert key == Text('"headline": ')
    assert named(plan, "brand").release is Release.AFTER_JOIN


def test_a_sequential_group_is_one_branch() -> None:
    plan = plan_of(json_body(field("a", group=1), field("b", group=1), field("c")))
    assert [branch.name for branch in plan.branches] == ["", "a", "c"]
    assert _skeleton(named(plan, "a")) == '·,\n  "b": ·'


def test_a_group_is_cut_where_a_member_waits_for_something_that_waits_for_the_group() -> None:
    plan = plan_of(json_body(field("a", group=1), field("b", group=1, after=("x",)), field("x", after=("a",))))
    a, b, x = (named(plan, name) for name in "abx")
    assert b.segments[0] == Join((a.id, x.id))
    assert x.segments[0] == Join((a.id,))


def test_an_optional_object_is_a_choice_of_how_it_begins() -> None:
    plan = plan_of(json_body(field("size", or_null(record(field("width"))))))
    (choose,) = named(plan, "size").segments
    assert isinstance(choose, Choose)
    assert [arm.lead for arm in choose.arms] == ['{\n    "width": ', "null"]
    assert named(plan, "size.width").view[-1] == Seen(named(plan, "size").id, (0, 0, 0))


def test_an_object_may_begin_with_a_group_that_begins_with_something_known() -> None:
    group = record(field("kind", t.Null(), group=0), field("x", group=0))
    (choose,) = named(plan_of(json_body(field("it", or_null(group)))), "it").segments
    assert isinstance(choose, Choose)
    assert choose.arms[0].lead == '{\n    "kind": '


def test_objects_that_cannot_be_told_apart_are_one_hole() -> None:
    plan = plan_of(json_body(field("shape", t.Union((record(field("a")), record(field("a"), field("b")))))))
    (only,) = named(plan, "shape").segments
    assert isinstance(only, Hole)


def test_the_first_field_of_an_item_is_decoded_in_the_chain_and_the_others_beside_it() -> None:
    lines = t.Array(record(field("name"), field("qty"), field("total", after=("qty",))), max_items=3)
    plan = plan_of(json_body(field("lines", lines)))
    (repeat,) = named(plan, "lines").segments
    assert isinstance(repeat, Repeat)
    assert repeat.first == (Text('[\n    {\n      "name": '),)
    assert repeat.between == (Text(',\n    {\n      "name": '),)
    assert (repeat.stop, repeat.empty) == ("\n  ]", "[]")
    assert [type(segment) for segment in repeat.body] == [Hole, Text, Fork, Text, Fork, Text]
    assert named(plan, "lines[].total").segments[0] == Join((named(plan, "lines[].qty").id,))


def test_a_list_whose_objects_must_differ_is_one_hole() -> None:
    plan = plan_of(json_body(field("lines", t.Array(record(field("name"), field("qty")), unique=True))))
    (only,) = named(plan, "lines").segments
    assert isinstance(only, Hole)


def test_a_sync_with_a_hole_behind_it_feeds_a_tag_first() -> None:
    root = plan_of(text_body(async_("food", hole("food")), text("B"), sync("food"), hole("end"))).branches[0]
    join, tag, _ = root.segments[-3:]
    assert isinstance(join, Join) and tag == Text("<sync/>", shown=False)


def test_a_fork_takes_the_text_behind_it_as_its_stop() -> None:
    tips = fork("tip", 1, 3, text("- "), hole("root"), async_("detail", hole("detail")), text("\n"))
    repeat, end = plan_of(text_body(tips, text("Done: "), hole("end"))).branches[0].segments[-2:]
    assert isinstance(repeat, Repeat) and repeat.stop == "Done: "
    assert isinstance(end, Hole)


def test_a_fork_whose_end_looks_like_another_item_stops_with_the_turn() -> None:
    tips = fork("tip", 1, 3, p.ItemNumber(NOWHERE), text(". "), hole("root"), text("\n"))
    repeat, behind = plan_of(text_body(tips, text("2. more"))).branches[0].segments[-2:]
    assert isinstance(repeat, Repeat) and repeat.stop is None
    assert behind == Text("2. more")


def test_deep_types_are_looked_at_once_per_level() -> None:
    deep: t.Type = record(field("x"))
    for _ in range(30):
        deep = or_null(t.Array(deep, max_items=1))
    plan = plan_of(json_body(field("deep", deep)))
    assert [segment.field for segment in named(plan, "deep").segments if isinstance(segment, Choose)] == ["deep"]
