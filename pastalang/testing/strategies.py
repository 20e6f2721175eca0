"""Strategies for checked programs and their plans: JSON skeletons, running text with branches, stacked documents."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from hypothesis import strategies as st

from pastalang.plan.branches import Mode, Overrun
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Plan
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, JsonBody, ListOf, Message, Program, Role, Template, TextBody
from pastalang.source import Source, Span

# Of both, a part is left to the check of the finished value.
CHECKED = (
    t.Schema('{"type":"integer","minimum":0,"maximum":9,"not":{"multipleOf":3}}', max_tokens=3),
    t.Schema('{"type":"array","items":{"type":"boolean"},"maxItems":2,"uniqueItems":true}', max_tokens=24),
)

KEYS = ("brand", "size", "price", "first-key", "note", "größe", "x")


def scalars() -> st.SearchStrategy[t.Type]:
    """Types that one hole decodes."""
    return st.one_of(
        st.builds(t.String, max_tokens=st.integers(1, 9)),
        st.builds(t.Integer, minimum=st.just(0), maximum=st.integers(1, 99)),
        st.builds(t.Number, minimum=st.just(Decimal(0)), max_tokens=st.integers(2, 9)),
        st.just(t.Boolean()),
        st.just(t.Temporal(t.Moment.DATE)),
        st.just(t.Regex("[A-Z]{2}-[0-9]{4}", max_tokens=9)),
        st.just(t.Union((t.Literal("tv"), t.Literal("phone")))),
        st.builds(lambda most: t.Array(t.String(max_tokens=4), max_items=most, max_tokens=24), st.integers(1, 3)),
    )


def values(*, depth: int = 2, checked: bool = False) -> st.SearchStrategy[t.Type]:
    """Types of JSON values: scalars, fixed and optional values, objects, lists of objects, unions of objects.

    `checked` adds JSON Schemas that are checked on the finished value, which only a JSON answer can hold.
    """
    known: tuple[t.Type, ...] = (t.Null(), t.Literal("fixed"), t.Object(()))
    simple: st.SearchStrategy[t.Type] = st.one_of(
        scalars(),
        st.sampled_from((*known, *CHECKED) if checked else known),
        scalars().map(lambda type: t.Union((type, t.Null()))),
    )
    if depth == 0:
        return simple
    inside = objects(depth=depth - 1, checked=checked)
    return st.one_of(
        simple,
        simple,
        inside,
        inside.map(lambda type: t.Union((type, t.Null()))),
        st.builds(_list_of, inside, st.integers(0, 2), st.integers(1, 2)),
        st.builds(_tagged, inside, inside),
    )


@st.composite
def objects(draw: st.DrawFn, *, depth: int = 2, max_fields: int = 4, checked: bool = False) -> t.Object:
    """Objects whose fields are independent, wait for others in either order, or form a sequential group."""
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=max_fields, unique=True))
    order = draw(st.permutations(keys))
    groups = _groups(draw, keys)
    rank = _ranks(keys, order, groups)
    fields = []
    for key in keys:
        earlier = [other for other in keys if rank[other] < rank[key]]
        after = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        fields.append(
            t.Field(key, draw(values(depth=depth, checked=checked)), after=tuple(after), group=groups.get(key))
        )
    return t.Object(tuple(fields))


def _groups(draw: st.DrawFn, keys: list[str]) -> dict[str, int]:
    """At most one group of neighbours."""
    if len(keys) < 2 or not draw(st.booleans()):
        return {}
    start = draw(st.integers(0, len(keys) - 2))
    end = draw(st.integers(start + 2, len(keys)))
    return dict.fromkeys(keys[start:end], 0)


def _ranks(keys: list[str], order: list[str], groups: dict[str, int]) -> dict[str, int]:
    """An order in which all fields can be decoded: `order`, with the members of a group in the order of the keys."""
    members = iter([key for key in keys if key in groups])
    return {(next(members) if key in groups else key): place for place, key in enumerate(order)}


def _list_of(item: t.Object, least: int, more: int) -> t.Array:
    return t.Array(item, min_items=least, max_items=least + more)


def _tagged(one: t.Object, other: t.Object) -> t.Union:
    """A union of two objects, distinguished by a literal in their first field."""

    def tag(object: t.Object, value: str) -> t.Object:
        return t.Object((t.Field("kind", t.Literal(value)), *object.fields))

    return t.Union((tag(one, "a"), tag(other, "b")), "kind")


_NOWHERE = Span(0, 0)
_PLAIN = t.Sampling()
_TITLE = Input("title", InputKind.TEXT, None, False, _NOWHERE)
_POINTS = Input("points", ListOf(InputKind.TEXT), None, False, _NOWHERE)
_NOTE = Input("note", InputKind.TEXT, None, True, _NOWHERE)


@st.composite
def programs(draw: st.DrawFn, *, depth: int = 2, stacked: bool | None = None) -> Program:
    """Checked programs of one template. Together they use every construct of the language.

    `depth` limits how deep objects and blocks nest. `stacked` chooses programs with or without stacked documents.
    """
    body = draw(st.one_of(json_bodies(depth=depth), text_bodies(depth=depth)))
    is_stacked = draw(st.booleans()) if stacked is None else stacked
    mentioned = _NOTE if is_stacked else _TITLE
    user = TextBody((p.Text("Read "), p.InputValue((mentioned.name,), _NOWHERE), p.Text(".")))
    messages = (
        Message(Role.SYSTEM, TextBody((p.Text("Be brief."),)), _NOWHERE),
        Message(Role.USER, user, _NOWHERE),
        Message(Role.ASSISTANT, body, _NOWHERE, draw(st.sampled_from((None, None, None, 1, 4, 12)))),
    )
    template = Template("sample", (mentioned, _POINTS), messages, _PLAIN, None, _NOWHERE)
    return Program(Source("sample.pasta", ""), {}, {"sample": template}, {})


def json_bodies(*, depth: int = 2) -> st.SearchStrategy[JsonBody]:
    bodies = st.one_of(objects(depth=depth, checked=True), values(depth=depth, checked=True))
    return st.builds(JsonBody, bodies, st.just(_PLAIN))


@st.composite
def text_bodies(draw: st.DrawFn, *, depth: int = 2) -> TextBody:
    return TextBody(_Writer(draw).pieces(depth=depth))


@dataclass
class _Writer:
    """Writes pieces from left to right. It keeps track of used names, branches to join, and lists to loop over."""

    draw: st.DrawFn
    names: int = 0

    def pieces(self, *, depth: int, number: bool = False) -> tuple[p.Piece, ...]:
        """The pieces of a block: text first and between all others, and every promise is kept."""
        written: list[p.Piece] = [p.ItemNumber(_NOWHERE)] if number else []
        branches: list[str] = []
        lists: list[str] = []
        owed: list[p.Promise] = []
        for _ in range(self.draw(st.integers(1, 4))):
            written.append(p.Text(self.draw(st.sampled_from(("\n", ". ", "\n- ", "so: ", "## more\n")))))
            written.extend(self._piece(depth, branches, lists, owed))
        for promise in owed:
            written.extend((p.Text("\n"), self._keep(promise, depth)))
            branches.append(promise.name)
        has_sync: bool = self.draw(st.booleans())
        if branches and has_sync:
            names = self.draw(st.lists(st.sampled_from(branches), min_size=1, unique=True))
            written.extend((p.Text("\n"), p.Sync(tuple(names), _NOWHERE), p.Text(" in short: "), self._hole()))
        has_end: bool = self.draw(st.booleans())
        if has_end:
            written.append(p.Text("\nend"))
        return tuple(written)

    def _piece(self, depth: int, branches: list[str], lists: list[str], owed: list[p.Promise]) -> tuple[p.Piece, ...]:
        kinds = ["hole", "object", "list", "input"]
        if depth:
            kinds += ["async", "async", "promise", "fork", "each", *(["over list"] if lists else [])]
        kind = self.draw(st.sampled_from(kinds))
        match kind:
            case "hole":
                return (self._hole(),)
            case "object":
                return (p.Hole(self._name("object"), self.draw(objects(depth=1, max_fields=3)), _PLAIN, _NOWHERE),)
            case "list":
                lists.append(self._name("list"))
                return (
                    p.Hole(lists[-1], t.Array(t.String(max_tokens=3), max_items=3, max_tokens=24), _PLAIN, _NOWHERE),
                )
            case "async":
                name = self._name("aside")
                branches.append(name)
                return (p.Async(name, self._reserve(), self.pieces(depth=depth - 1), False, _NOWHERE),)
            case "promise":
                owed.append(p.Promise(self._name("promised"), "a topic", self._reserve(), _NOWHERE))
                return (owed[-1],)
            case "fork":
                return (self._fork(depth),)
            case "each":
                return (self._each(("points",), False, depth, branches),)
            case "over list":
                return (self._each((self.draw(st.sampled_from(lists)),), True, depth, branches),)
            case _:
                return (p.InputValue(("points",), _NOWHERE),)

    def _keep(self, promise: p.Promise, depth: int) -> p.Async:
        return p.Async(promise.name, promise.reserve, self.pieces(depth=depth - 1), True, _NOWHERE)

    def _fork(self, depth: int) -> p.Fork:
        least = self.draw(st.integers(0, 2))
        most = least + self.draw(st.integers(0, 2)) or 1
        name = self._name("fork")
        return p.Fork(name, least, most, self.pieces(depth=depth - 1, number=self.draw(st.booleans())), _NOWHERE)

    def _each(self, over: tuple[str, ...], over_hole: bool, depth: int, branches: list[str]) -> p.Each:
        name = self._name("item")
        branches.append(name)
        body = (p.Text("* "), p.InputValue((name,), _NOWHERE), *self.pieces(depth=depth - 1))
        return p.Each(name, over, over_hole, self._reserve(), body, _NOWHERE)

    def _hole(self) -> p.Hole:
        return p.Hole(self._name("hole"), self.draw(scalars()), _PLAIN, _NOWHERE)

    def _reserve(self) -> int | None:
        return self.draw(st.one_of(st.none(), st.integers(1, 30)))

    def _name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"


def plans(
    sources: st.SearchStrategy[Program] | None = None, *, modes: tuple[Mode, ...] = tuple(Mode)
) -> st.SearchStrategy[Plan]:
    """Plans of your programs, or of random ones, in every mode and overrun policy."""
    return st.builds(
        _plan, programs() if sources is None else sources, st.sampled_from(modes), st.sampled_from(Overrun)
    )


def _plan(program: Program, mode: Mode, overrun: Overrun) -> Plan:
    return build_plan(program.only_template, program, mode=mode, overrun=overrun)
