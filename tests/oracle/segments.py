"""Write a branch, segment by segment. This module defines what each kind of segment means.

`write` is a generator: where the branch must wait for others, it yields a condition, and continues once that holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, assert_never

from pastalang.plan import branches as p
from pastalang.plan.branches import Address, Form, Segment
from pastalang.program.program import Role
from pastalang.program.types import Sampling
from pastalang.values.fit import read, to_plain
from pastalang.values.quotes import BORDER
from pastalang.values.text import message_texts, value_at
from tests.oracle.answer import BegunValue, Field, LoopItems, WrittenBranch, WrittenLoop, same_items, whole_text
from tests.oracle.branch import BranchState, Frame, Key
from tests.oracle.free_text import think, write_tagged_text
from tests.oracle.holes import Refused, decide, fill
from tests.oracle.run import Run

_FED = p.TurnStart | p.TurnEnd | p.Text | p.InputText | p.ItemNumber
T = TypeVar("T")
Waits: TypeAlias = Iterator[Callable[[], bool]]


class Writer:
    """A branch that is being written."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self.can_advance: Callable[[], bool] = lambda: True
        self.is_done = False

    def advance(self) -> None:
        """Write until the branch must wait, or ends."""
        try:
            self.can_advance = next(self._waits)
        except StopIteration:
            self.is_done = True


def write_all(run: Run) -> None:
    """Write all new branches, and the branches that they fork."""
    writers: list[Writer] = []
    while run.started < len(run.branches) or writers:
        writers += [Writer(write(run, branch)) for branch in run.branches[run.started :]]
        run.started = len(run.branches)
        ready = [writer for writer in writers if writer.can_advance()]
        assert ready, "every branch waits for another one"
        for writer in ready:
            writer.advance()
        writers = [writer for writer in writers if not writer.is_done]


def write(run: Run, branch: BranchState) -> Waits:
    """Write the whole branch. In lock-step it is written after the earlier values, and token k sees their token k."""
    if branch.spec.lockstep is not None:
        yield lambda: run.values_before(branch) is not None
        branch.lockstep_values = run.values_before(branch) or ()
    yield from _segments(run, branch, branch.frames[0], ())
    branch.has_ended = True


def _segments(run: Run, branch: BranchState, frame: Frame, address: Address) -> Waits:
    for index, segment in enumerate(frame.segments):
        frame.index = index
        yield from _segment(run, branch, segment, frame.loops, (*address, index))


def _enter(run: Run, branch: BranchState, segments: Sequence[Segment], loops: LoopItems, address: Address) -> Waits:
    frame = Frame(tuple(segments), loops)
    branch.frames.append(frame)
    yield from _segments(run, branch, frame, address)
    branch.frames.pop()


def _segment(run: Run, branch: BranchState, segment: Segment, loops: LoopItems, address: Address) -> Waits:
    encoder = run.request.encoder
    if branch is run.branches[0] and run.prompt is None and not isinstance(segment, _FED):
        run.prompt = len(branch.tokens)
    match segment:
        case p.TurnStart(role=role, index=index):
            if role is Role.ASSISTANT and index == len(run.turns) - 1:
                branch.written_here.clear()  # the text before the answer is not part of it
            branch.feed(encoder.control(run.turns[index].opening))
        case p.TurnEnd(index=index):
            branch.feed(encoder.control(run.turns[index].closing))
        case p.Text(text=text, shown=False):
            branch.feed(encoder.control(text))
        case p.Text(text=text):
            _begin(branch, segment.begins)
            branch.written_here.append(text)
            branch.feed(encoder.text(segment.fed_text))
        case p.InputText(piece=piece):
            for text in message_texts([piece], {**run.request.values, **branch.names}.__getitem__):
                _show(run, branch, text)
        case p.ItemNumber():
            _show(run, branch, str([*loops.values()][-1] + 1))
        case p.Hole(form=p.Form.THOUGHT):
            branch.written_here.append(_filled(branch, lambda: think(run.request, branch, segment)))
        case p.Hole() if segment.auto is not None:
            yield from _tagged_text(run, branch, segment, loops, address)
        case p.Hole():
            _reach(run, branch, segment, (segment.field, tuple(loops.values())))
            sources = sources_of(run, branch, loops)
            is_new = branch.before is None
            field = _filled(branch, lambda: fill(run.request, branch, segment, loops, sources))
            run.attempts[segment.field, field.items] += is_new
            branch.written_here.append(field)
            branch.fields.append(field)
        case p.Fork():
            run.fork(branch, segment, loops)
        case p.Each():
            over = segment.over
            elements = branch.repeated_or(
                lambda: elements_of(run, branch, loops, over, segment.over_hole, segment.maximum)
            )
            run.fan_out(branch, segment, loops, address, elements)
        case p.Place(branch=id):
            [placed] = run.branches_at(id, loops)
            branch.written_here.append(WrittenBranch(placed))
        case p.Join(branches=ids):
            yield lambda: all(run.is_complete(id, loops, branch) for id in ids)
            joined = tuple(one for id in ids for one in run.branches_at(id, loops))
            run.note_joined(branch, joined)
            branch.join(joined)
        case p.Choose():
            _reach(run, branch, segment)
            leads = [encoder.text(arm.fed_text) for arm in segment.arms]
            number = _decided(run, branch, leads, segment.sampling)
            _begin(branch, segment.begins)
            branch.written_here.append(segment.arms[number].lead)
            yield from _enter(run, branch, segment.arms[number].segments, loops, (*address, number))
        case p.Repeat():
            yield from _repeat(run, branch, segment, loops, address)
        case _:
            assert_never(segment)


def _reach(run: Run, branch: BranchState, segment: Segment, field: Key | None = None) -> None:
    """The text of a lead, without the white space that the segment writes anew, and with the quote before bare text."""
    ending = segment.space if isinstance(segment, p.Hole | p.Choose | p.Repeat) else ""
    quote = segment.opening_quote if isinstance(segment, p.Hole) else ""
    branch.reach(field, lambda text: run.request.encoder.text(text.removesuffix(ending) + quote))


def _filled(branch: BranchState, fill: Callable[[], T]) -> T:
    """What is written in a hole, and was before."""
    start, repeats = len(branch.tokens), branch.before is not None
    found, tokens = branch.repeated_or(lambda: (fill(), [token.token for token in branch.tokens[start:]]))
    branch.feed(tokens if repeats else ())
    return found


def _decided(
    run: Run, branch: BranchState, options: Sequence[Sequence[int] | None], sampling: Sampling
) -> int:  # fmt: skip
    repeats = branch.before is not None
    number = branch.repeated_or(lambda: decide(run.request, branch, options, sampling))
    branch.feed((options[number] or ()) if repeats else ())
    return number


def _tagged_text(run: Run, branch: BranchState, hole: p.Hole, loops: LoopItems, address: Address) -> Waits:
    """A text in which the model begins branches."""
    if not hole.is_thread:
        _reach(run, branch, hole, (hole.field, tuple(loops.values())))
    run.attempts[hole.field, tuple(loops.values())] += branch.before is None
    field = yield from write_tagged_text(run, branch, hole, loops, address)
    if branch.before is not None:
        field.problem = branch.before.fields[len(branch.fields)].problem
    branch.written_here.append(field)
    branch.fields.append(field)


def _begin(branch: BranchState, value: p.Value | None) -> None:
    if value is not None:
        branch.written_here.append(BegunValue(value))


def _show(run: Run, branch: BranchState, text: str) -> None:
    branch.written_here.append(text)
    branch.feed(run.request.encoder.text(text))


def _repeat(run: Run, branch: BranchState, repeat: p.Repeat, loops: LoopItems, address: Address) -> Waits:
    """Write item by item: one for each element of a list, or as many as the model decides."""
    _reach(run, branch, repeat)
    loop = (branch.spec.id, address)
    frame = Frame(repeat.body, loops, loop=loop)
    branch.frames.append(frame)
    outside, names = branch.written_here, branch.names
    written = WrittenLoop(repeat.field)
    _begin(branch, repeat.begins)
    outside.append(written)
    elements = None
    if repeat.over is not None:
        over = repeat.over
        elements = branch.repeated_or(lambda: elements_of(run, branch, loops, over, repeat.over_hole, repeat.maximum))
    while True:
        number = frame.item + 1
        text = None
        if elements is None:
            text, has_item = _decide_on_item(run, branch, repeat, number)
        else:
            has_item = number < len(elements)
        if not has_item:
            break
        frame.item = number
        written.items.append([])
        branch.written_here = written.items[-1]
        for part in (repeat.between if number else repeat.first) if elements is None else ():
            if isinstance(part, p.Text):
                _begin(branch, part.begins)
            branch.written_here.append(part.text if isinstance(part, p.Text) else str(number + 1))
        if elements is not None:
            branch.names = {**names, repeat.item: elements[number]}
        yield from _enter(run, branch, repeat.body, {**loops, loop: number}, (*address, 0))
        branch.written_here = outside
    branch.names = names
    if text:
        outside.append(text)
    branch.frames.pop()


def _decide_on_item(run: Run, branch: BranchState, repeat: p.Repeat, number: int) -> tuple[str, bool]:
    """The text to write, and whether another item follows. Draws nothing if the limits leave no choice."""
    encode = run.request.encoder.text
    lead = repeat.between if number else repeat.first
    parts = [str(number + 1) if isinstance(part, p.ItemNumber) else part.text for part in lead]
    stop = repeat.empty if number == 0 and repeat.empty is not None else repeat.stop
    fed = [str(number + 1) if isinstance(part, p.ItemNumber) else part.fed_text for part in lead]
    opening = [token for part in fed for token in encode(part)]
    fed_stop = repeat.fed_end(is_empty=number == 0)
    closing = None if fed_stop is None else encode(fed_stop)
    if number >= repeat.maximum:
        branch.feed(closing or ())
        return stop or "", False
    if number < repeat.minimum:
        branch.feed(opening)
        return "".join(parts), True
    option = _decided(run, branch, [opening, closing], repeat.sampling)
    return ("".join(parts) if option == 0 else stop or ""), option == 0


def elements_of(
    run: Run, branch: BranchState, loops: LoopItems, over: str, over_hole: bool, maximum: int
) -> tuple[Any, ...]:
    """The elements of an input, of an element of an outer loop, or of a value that the branch has written or sees."""
    if over_hole:
        value = _from_hole(run, branch, loops, over)
    else:
        name, *rest = over.split(".")
        value = value_at({**run.request.values, **branch.names}[name], tuple(rest))
    if not isinstance(value, list | tuple) or len(value) > maximum:
        raise Refused("bad_list", f"`{over}` is not a list of at most {maximum}")
    return tuple(value)


def _from_hole(run: Run, branch: BranchState, loops: LoopItems, over: str) -> Any:
    candidates = (one for one in _fields(run, branch, loops) if f"{over}.".startswith(f"{one.hole.field}."))
    field = next(candidates, None)
    if field is None:  # it belongs to a fork or a list without items
        raise Refused("bad_list", f"nothing was written for `{over}`")
    types = dict(run.request.plan.types)
    reading = read(field.text, field.hole.type, types, quoted=field.hole.form is Form.JSON)
    if not reading.fits:
        raise Refused("bad_list", f"the list `{over}` could not be read")
    rest = over[len(field.hole.field) + 1 :]
    return value_at(to_plain(reading.value), tuple(rest.split(".")) if rest else ())


def sources_of(run: Run, branch: BranchState, loops: LoopItems) -> dict[str, str]:
    """The texts that may be quoted: inputs and elements, their parts by dotted names, and values written or seen."""
    sources: dict[str, str] = {}
    for name, value in {**run.request.values, **branch.names}.items():
        sources.update(_texts(name, value))
    for field in (one for one in _fields(run, branch, loops) if not one.hole.is_thread):
        sources.setdefault(field.hole.field.rsplit(".", 1)[-1], whole_text(field))
    return sources


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(f"{name}.{key}", part)
    elif isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        yield name, BORDER.join(value) if any(value) else ""
    elif isinstance(value, list | tuple) and all(isinstance(part, dict) for part in value):
        for key in value[0]:
            yield from _texts(f"{name}.{key}", [part[key] for part in value])


def _fields(run: Run, branch: BranchState, loops: LoopItems) -> Iterator[Field]:
    """Values of the same items that the branch has written or sees: its own first, the latest first."""
    for writer in (branch, *reversed(branch.sees)):
        for field in reversed(writer.fields):
            if same_items(field.loops, loops):
                yield field
