"""Plans of a few programs: what the drawings and their tests are shown."""

from __future__ import annotations

from decimal import Decimal

from pastalang import Mode, Plan
from pastalang.program import pieces as p
from pastalang.program import types as t
from tests.plan.programs import (
    NOWHERE,
    async_,
    field,
    fork,
    given,
    hole,
    json_body,
    or_null,
    plan_of,
    record,
    sync,
    text,
    text_body,
    value,
)


def product() -> Plan:
    """A JSON skeleton with an `after` field, an optional object and an array of objects."""
    unit = t.Union((t.Literal("cm"), t.Literal("in")))
    ports = record(field("name", t.String(6)), field("count", t.Integer(1, 9999)))
    body = json_body(
        field("brand", or_null(t.String(12))),
        field("screen_size", or_null(t.Number(minimum=Decimal(0)))),
        field("sku", or_null(t.Regex("[A-Z]{2}-[0-9]{4}"))),
        field("kind", t.Union((t.Literal("tv"), t.Literal("phone")))),
        field("size", or_null(record(field("width", t.Number()), field("unit", unit)))),
        field("ports", t.Array(ports, max_items=4)),
        field("headline", t.String(24), after=("brand", "screen_size")),
    )
    return plan_of(body, inputs=(given("title"),), prompt=(text("Title: "), value("title")))


def travel() -> Plan:
    """Two asyncs and a sync."""
    return plan_of(
        text_body(
            text("# Two days in "), value("city"), text("\n\n"), hole("opening", t.String(40)),
            text("\n\n## Food\n"), async_("food", hole("food", t.String(90)), reserve=60),
            text("\n\n## Sights\n"), async_("sights", hole("sights", t.String(70)), reserve=60),
            text("\n\n"), sync("food", "sights"), text("In short: "), hole("summary", t.String(40)),
        ),
        inputs=(given("city"),),
    )  # fmt: skip


def tips() -> Plan:
    """A fork tree: roots in a chain, a detail beside each."""
    detail = async_("detail", hole("detail", t.String(60)))
    item = (p.ItemNumber(NOWHERE), text(". "), hole("root", t.String(12)), text(": "), detail, text("\n"))
    return plan_of(text_body(fork("tip", 3, 7, *item)))


def stacked() -> Plan:
    """Several documents on shared instructions, each with a small skeleton of its own."""
    topics = t.Array(t.String(6), max_tokens=30)
    body = json_body(field("stars", t.Integer(1, 5)), field("topics", topics))
    return plan_of(body, inputs=(given("reviews", is_each=True),), prompt=(value("reviews"),))


def wide(count: int, *, mode: Mode = Mode.STRICT, name: str = "field_{}") -> Plan:
    """A skeleton of `count` strings, whose limits go up and down."""
    numbers = range(1, count + 1)
    fields = (field(name.format(number), t.String(4 + (number * 7) % 40)) for number in numbers)
    return plan_of(json_body(*fields), mode=mode)
