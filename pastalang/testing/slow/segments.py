"""A branch through its segments, in order: the meaning of each kind of segment, in one place.

`write` is a generator: it gives a condition wherever the branch has to wait for others, and goes on once that holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, assert_never

from pastalang.plan import plan as p
from pastalang.plan.plan import Address, Form, Segment
from pastalang.program.program import Role
from pastalang.runtime.binding.spaced import fed_end, fed_text
from pastalang.runtime.inputs import text_of, value_at
from pastalang.testing.slow.answer import Field, Items, Of, Place, agree
from pastalang.testing.slow.branch import Instance, Level
from pastalang.testing.slow.free_text import think, write_freely
from pastalang.testing.slow.holes import Refused, decide, fill
from pastalang.testing.slow.run import Run
from pastalang.values.read import read, to_plain

Waits: TypeAlias = Iterator[Callable[[], bool]]


class Writer:
    """A branch being written."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self.may_go_on: Callable[[], bool] = lambda: True
        self.is_done = False

    def go_on(self) -> None:
        """As far as it goes without the others."""
        try:
            self.may_go_on = next(self._waits)
        except StopIteration:
            self.is_done = True


def write_all(run: Run) -> None:
    """All that have not been written yet, and whoever they begin."""
    writers: list[Writer] = []
    while run.begun < len(run.branches) or writers:
        writers += [Writer(write(run, branch)) for branch in run.branches[run.begun :]]
        run.begun = len(run.branches)
        ready = [writer for writer in writers if writer.may_go_on()]
        assert ready, "everybody waits for somebody"
        for writer in ready:
            writer.go_on()
        writers = [writer for writer in writers if not writer.is_done]


def write(run: Run, branch: Instance) -> Waits:
    """The whole branch. In lock-step it begins when the values before it have ended, and sees them level by level."""
    if branch.spec.lockstep is not None:
        yield lambda: run.values_before(branch) is not None
        branch.beside = run.values_before(branch) or ()
    yield from _all(run, branch, branch.levels[0], ())
    branch.has_ended = True


def _all(run: Run, branch: Instance, level: Level, address: Address) -> Waits:
    for index, segment in enumerate(level.segments):
        level.index = index
        yield from _one(run, branch, segment, level.place, (*address, index))


def _inside(run: Run, branch: Instance, segments: Sequence[Segment], place: Place, address: Address) -> Waits:
    level = Level(tuple(segments), place)
    branch.levels.append(level)
    yield from _all(run, branch, level, address)
    branch.levels.pop()


def _one(run: Run, branch: Instance, segment: Segment, place: Place, address: Address) -> Waits:
    encoder = run.given.encoder
    match segment:
        case p.TurnStart(role=role, index=index):
            if role is Role.ASSISTANT and index == len(run.turns) - 1:
                branch.page_now.clear()  # what stands before the answer is no part of it
            branch.feed(encoder.control(run.turns[index].opening))
        case p.TurnEnd(index=index):
            branch.feed(encoder.control(run.turns[index].closing))
        case p.Text(text=text, shown=False):
            branch.feed(encoder.control(text))
        case p.Text(text=text):
            branch.page_now.append(text)
            branch.feed(encoder.text(fed_text(segment)))
        case p.InputText(path=path):
            name, *rest = path
            _show(run, branch, text_of(value_at({**run.given.values, **branch.names}[name], tuple(rest))))
        case p.ItemNumber():
            _show(run, branch, str([*place.values()][-1] + 1))
        case p.Hole(form=p.Form.THOUGHT):
            branch.come_to_point(segment)
            branch.page_now.append(branch.once(lambda: think(run.given, branch, segment)))
        case p.Hole() if run.given.plan.auto is not None:
            yield from write_freely(run, branch, segment, place)
        case p.Hole():
            branch.come_to_point(segment)
            sources = sources_of(run, branch, place)
            written = branch.once(lambda: fill(run.given, branch, segment, place, sources))
            branch.page_now.append(written)
            branch.fields.append(written)
        case p.Fork():
            run.fork(branch, segment, place)
        case p.Each():
            elements = elements_of(run, branch, place, segment.over, segment.over_hole, segment.maximum)
            run.fan_out(branch, segment, place, address, elements)
        case p.Place(branch=id):
            [placed] = run.instances(id, place)
            branch.page_now.append(Of(placed))
        case p.Join(branches=ids):
            point = branch.come_to_point(segment)
            if branch.again is None:
                yield lambda: all(run.is_complete(id, place, branch) for id in ids)
                point.joined = tuple(one for id in ids for one in run.instances(id, place))
                branch.join(point.joined)
        case p.Choose():
            branch.come_to_point(segment)
            leads = [encoder.text(fed_text(arm)) for arm in segment.arms]
            number = branch.once(lambda: decide(run.given, branch, leads, segment.sampling))
            branch.page_now.append(segment.arms[number].lead)
            yield from _inside(run, branch, segment.arms[number].segments, place, (*address, number))
        case p.Repeat():
            yield from _repeat(run, branch, segment, place, address)
        case _:
            assert_never(segment)


def _show(run: Run, branch: Instance, text: str) -> None:
    branch.page_now.append(text)
    branch.feed(run.given.encoder.text(text))


def _repeat(run: Run, branch: Instance, repeat: p.Repeat, place: Place, address: Address) -> Waits:
    """Item by item. Over a list there is one item for each element; else the model goes on or stops before each."""
    branch.come_to_point(repeat)
    loop = (branch.spec.id, address)
    ahead = Level(repeat.body, place, loop=loop)
    branch.levels.append(ahead)
    outside, names = branch.page_now, branch.names
    items = Items(repeat.field)
    outside.append(items)
    elements = None
    if repeat.over is not None:
        elements = elements_of(run, branch, place, repeat.over, repeat.over_hole, repeat.maximum)
    while True:
        number = ahead.item + 1
        text = None
        if elements is None:
            text, goes_on = _decide_on_item(run, branch, repeat, number)
        else:
            goes_on = number < len(elements)
        if not goes_on:
            break
        ahead.item = number
        items.pages.append([])
        branch.page_now = items.pages[-1]
        if text:
            branch.page_now.append(text)
        if elements is not None:
            branch.names = {**names, repeat.item: elements[number]}
        yield from _inside(run, branch, repeat.body, {**place, loop: number}, (*address, 0))
        branch.page_now = outside
    branch.names = names
    if text:
        outside.append(text)
    branch.levels.pop()


def _decide_on_item(run: Run, branch: Instance, repeat: p.Repeat, number: int) -> tuple[str, bool]:
    """What is written, and whether another item comes. Where nothing is left to choose nothing is drawn."""
    encode = run.given.encoder.text
    lead = repeat.between if number else repeat.first
    parts = [str(number + 1) if isinstance(part, p.ItemNumber) else part.text for part in lead]
    stop = repeat.empty if number == 0 and repeat.empty is not None else repeat.stop
    fed = [str(number + 1) if isinstance(part, p.ItemNumber) else fed_text(part) for part in lead]
    opening = [token for part in fed for token in encode(part)]
    fed_stop = fed_end(repeat, is_empty=number == 0)
    closing = None if fed_stop is None else encode(fed_stop)
    if number >= repeat.maximum:
        branch.feed(closing or ())
        return stop or "", False
    if number < repeat.minimum:
        branch.feed(opening)
        return "".join(parts), True
    option = branch.once(lambda: decide(run.given, branch, [opening, closing], repeat.sampling))
    return ("".join(parts) if option == 0 else stop or ""), option == 0


def elements_of(run: Run, branch: Instance, place: Place, over: str, over_hole: bool, maximum: int) -> tuple[Any, ...]:
    """Of an input, of an element of a loop around, or of a value that the branch has written or sees."""
    if over_hole:
        value = _from_hole(run, branch, place, over)
    else:
        name, *rest = over.split(".")
        value = value_at({**run.given.values, **branch.names}[name], tuple(rest))
    if not isinstance(value, list | tuple) or len(value) > maximum:
        raise Refused("bad_list", f"`{over}` is no list of at most {maximum}")
    return tuple(value)


def _from_hole(run: Run, branch: Instance, place: Place, over: str) -> Any:
    written = (one for one in _fields(run, branch, place) if f"{over}.".startswith(f"{one.hole.field}."))
    field = next(written, None)
    if field is None:  # it stands behind a fork or a list that went over nothing
        raise Refused("bad_list", f"nothing was written for `{over}`")
    types = dict(run.given.plan.types)
    reading = read(field.text, field.hole.type, types, quoted=field.hole.form is Form.JSON)
    if not reading.fits:
        raise Refused("bad_list", f"the list `{over}` could not be read")
    rest = over[len(field.hole.field) + 1 :]
    return value_at(to_plain(reading.value), tuple(rest.split(".")) if rest else ())


def sources_of(run: Run, branch: Instance, place: Place) -> dict[str, str]:
    """Inputs and elements, their parts by dotted names, and the values that the branch has written or sees."""
    sources: dict[str, str] = {}
    for name, value in {**run.given.values, **branch.names}.items():
        sources.update(_texts(name, value))
    for field in _fields(run, branch, place):
        sources.setdefault(field.hole.field, field.text)
    return sources


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(f"{name}.{key}", part)


def _fields(run: Run, branch: Instance, place: Place) -> Iterator[Field]:
    """Finished values of the same items, the latest first, its own before those of others."""
    for writer in (branch, *reversed(branch.sees)):
        for field in reversed(writer.fields):
            if agree(field.place, place):
                yield field
