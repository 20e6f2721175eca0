"""Plans written by hand, as the planner would build them: what the drawings and their tests are shown."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from pastalang import Mode, Plan, Sampling
from pastalang.plan.branches import (
    ROOT,
    WHOLE,
    Arm,
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Form,
    Hole,
    InputText,
    ItemNumber,
    Join,
    LockStep,
    Overrun,
    Release,
    Repeat,
    Seen,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.program.program import Input, InputKind, Role
from pastalang.program.types import Array, Integer, Literal, Null, Number, Regex, String, Type, Union
from pastalang.source import Span

NOWHERE = Span(0, 0)
PLAIN = Sampling()


def hole(field: str, kind: Type, limit: int, *, form: Form = Form.JSON, follow: str = "") -> Hole:
    return Hole(field, kind, form, limit, PLAIN, follow, NOWHERE)


def branch(
    number: int, name: str, *segments: Segment, parent: int = 0, reserve: int = 0, lockstep: LockStep | None = None
) -> Branch:
    """A branch that sees its parent up to where it is forked (which the drawings never look at)."""
    return Branch(
        id=BranchId(number),
        name=name,
        parent=None if number == ROOT else BranchId(parent),
        segments=segments,
        view=() if number == ROOT else (Seen(BranchId(parent), WHOLE),),
        reserve=reserve,
        overrun=Overrun.CONTINUE,
        release=Release.NEVER if number == ROOT else Release.AT_END,
        lockstep=lockstep,
    )


def plan(name: str, *branches: Branch, inputs: tuple[str, ...] = (), mode: Mode = Mode.STRICT) -> Plan:
    given = tuple(Input(each, InputKind.TEXT, None, False, NOWHERE) for each in inputs)
    return Plan(name, mode, given, branches, None, (), f"{name}.pasta", "")


def prompt(system: str, *user: Segment) -> tuple[Segment, ...]:
    return (
        TurnStart(Role.SYSTEM, 0),
        Text(system),
        TurnEnd(Role.SYSTEM, 0),
        TurnStart(Role.USER, 1),
        *user,
        TurnEnd(Role.USER, 1),
        TurnStart(Role.ASSISTANT, 2),
    )


def fork(number: int) -> Fork:
    return Fork(BranchId(number))


def or_null(kind: Type) -> Type:
    return Union((kind, Null()))


def product() -> Plan:
    """A JSON skeleton with an `after` field, an optional object and an array of objects."""
    words = Text("You extract attributes. Write null when the listing does not say.")
    port_item = (hole("ports[].name", String(6), 6, follow=",\n"), Text(',\n      "count": '), fork(9), Text("\n    }"))
    ports = Repeat(
        "ports", 0, 4, (Text('[\n    {\n      "name": '),), (Text(',\n    {\n      "name": '),), "\n  ]", "[]",
        port_item, PLAIN, NOWHERE,
    )  # fmt: skip
    size = Choose(
        "size",
        (
            Arm("null", "null", ()),
            Arm("object", "{\n", (Text('    "width": '), fork(6), Text(',\n    "unit": '), fork(7), Text("\n  }"))),
        ),
        PLAIN,
        NOWHERE,
    )
    unit = Union((Literal("cm"), Literal("in")))
    return plan(
        "product",
        branch(
            0, "", *prompt(words.text, Text("Title: "), InputText(("title",), NOWHERE)),
            Text('{\n  "brand": '), fork(1), Text(',\n  "screen_size": '), fork(2), Text(',\n  "sku": '), fork(3),
            Text(',\n  "kind": '), fork(4), Text(',\n  "size": '), fork(5), Text(',\n  "ports": '), fork(8),
            Text(",\n  "), fork(10), Text("\n}"), TurnEnd(Role.ASSISTANT, 2),
        ),
        branch(1, "brand", hole("brand", or_null(String(12)), 12, follow=","), reserve=12),
        branch(2, "screen_size", hole("screen_size", or_null(Number(minimum=Decimal(0))), 8, follow=","), reserve=8),
        branch(3, "sku", hole("sku", or_null(Regex("[A-Z]{2}-[0-9]{4}")), 10, follow=","), reserve=10),
        branch(4, "kind", hole("kind", Union((Literal("tv"), Literal("phone"))), 4, follow=","), reserve=4),
        branch(5, "size", size, reserve=36),
        branch(6, "size.width", hole("size.width", Number(), 8, follow=","), parent=5, reserve=8),
        branch(7, "size.unit", hole("size.unit", unit, 3, follow="\n"), parent=5, reserve=3),
        branch(8, "ports", ports, reserve=64),
        branch(9, "ports[].count", hole("ports[].count", Integer(1, 9), 4, follow="\n"), parent=8, reserve=4),
        branch(
            10, "headline", Join((BranchId(1), BranchId(2))), Text('"headline": '),
            hole("headline", String(24), 24, follow="\n"), reserve=28,
        ),
        inputs=("title",),
    )  # fmt: skip


def travel() -> Plan:
    """Two asyncs and a sync."""
    text = Form.TEXT
    return plan(
        "trip",
        branch(
            0, "", TurnStart(Role.USER, 0), Text("Plan two days in "), InputText(("city",), NOWHERE), Text("."),
            TurnEnd(Role.USER, 0), TurnStart(Role.ASSISTANT, 1),
            Text("# Two days in "), InputText(("city",), NOWHERE), Text("\n\n"),
            hole("opening", String(40), 40, form=text, follow="\n"),
            Text("\n\n## Food\n"), fork(1), Text("\n\n## Sights\n"), fork(2), Text("\n\n"),
            Join((BranchId(1), BranchId(2))), Text("In short: "), hole("summary", String(40), 40, form=text),
            TurnEnd(Role.ASSISTANT, 1),
        ),
        branch(1, "food", hole("food", String(90), 90, form=text, follow="\n"), reserve=60),
        branch(2, "sights", hole("sights", String(70), 70, form=text, follow="\n"), reserve=60),
        inputs=("city",),
    )  # fmt: skip


def tips() -> Plan:
    """A fork tree: roots in a chain, a detail beside each."""
    text = Form.TEXT
    item = (hole("tip[].root", String(12), 12, form=text, follow=":"), Text(": "), fork(1), Text("\n"))
    chain = Repeat(
        "tip", 3, 7, (ItemNumber(), Text(". ")), (ItemNumber(), Text(". ")), None, None, item, PLAIN, NOWHERE
    )
    return plan(
        "tips",
        branch(
            0, "", TurnStart(Role.USER, 0), InputText(("question",), NOWHERE), TurnEnd(Role.USER, 0),
            TurnStart(Role.ASSISTANT, 1), chain, TurnEnd(Role.ASSISTANT, 1),
        ),
        branch(1, "tip[].detail", hole("tip[].detail", String(60), 60, form=text, follow="\n")),
        inputs=("question",),
    )  # fmt: skip


def stacked() -> Plan:
    """Several documents on shared instructions, each with a small skeleton of its own."""
    documents = Each("reviews", "reviews", False, BranchId(1), True, 16, NOWHERE)
    return plan(
        "review",
        branch(0, "", TurnStart(Role.SYSTEM, 0), Text("You read reviews."), TurnEnd(Role.SYSTEM, 0), documents),
        branch(
            1, "reviews[]", TurnStart(Role.USER, 1), InputText(("reviews",), NOWHERE), TurnEnd(Role.USER, 1),
            TurnStart(Role.ASSISTANT, 2), Text('{\n  "stars": '), fork(2), Text(',\n  "topics": '), fork(3),
            Text("\n}"), TurnEnd(Role.ASSISTANT, 2),
        ),
        branch(2, "reviews[].stars", hole("stars", Integer(1, 5), 2, follow=","), parent=1, reserve=2),
        branch(3, "reviews[].topics", hole("topics", Array(String(6)), 30, follow="\n"), parent=1, reserve=30),
        inputs=("reviews",),
    )  # fmt: skip


def wide(count: int, *, mode: Mode = Mode.STRICT, name: str = "field_{}") -> Plan:
    """A skeleton of `count` strings, whose limits go up and down."""
    names = [name.format(number) for number in range(1, count + 1)]
    limits = [4 + (number * 7) % 40 for number in range(1, count + 1)]
    skeleton = [
        segment
        for number in range(1, count + 1)
        for segment in (Text(f'{"{" if number == 1 else ","}\n  "{names[number - 1]}": '), fork(number))
    ]
    values = [
        branch(
            number, names[number - 1], hole(names[number - 1], String(limits[number - 1]), limits[number - 1]),
            reserve=limits[number - 1], lockstep=LockStep(0, number - 1) if mode is Mode.LOCKSTEP else None,
        )
        for number in range(1, count + 1)
    ]  # fmt: skip
    root = branch(0, "", *prompt("Extract.", InputText(("title",), NOWHERE)), *skeleton, Text("\n}"))
    return plan("wide", root, *values, inputs=("title",), mode=mode)


def inline(count: int) -> Plan:
    """The same skeleton left to right in one branch: the baseline."""
    beside = wide(count)
    holes = {each.id: each.segments for each in beside.branches[1:]}
    segments: list[Segment] = []
    for segment in beside.branches[0].segments:
        segments.extend(holes[segment.branch] if isinstance(segment, Fork) else (segment,))
    return replace(beside, mode=Mode.SEQUENTIAL, branches=(replace(beside.branches[0], segments=tuple(segments)),))
