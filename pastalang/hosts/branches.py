"""Runs a plan on a server that takes raw prompts: each value is a request, as soon as the plan lets it begin.

A branch is a task that moves a cursor. Known text is appended to what the branch sees, a value is asked for behind
exactly that text, a fork starts another task, and a join waits for tasks. What can run at the same time does.

White space before a value is asked for with the value, as in this process: see `runtime.binding.whitespace`.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from pastalang.hosts.constraints import Constraint, constraint_of, lead_constraint, may_be_empty, spaced
from pastalang.hosts.errors import HostError
from pastalang.hosts.servers import Ask, Reply, Server
from pastalang.hosts.text_path import LikelyBorders, TextPath
from pastalang.plan.branches import (
    ROOT,
    Arm,
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Form,
    Hole,
    Instance,
    KnownText,
    Place,
    Repeat,
    Text,
    TurnEnd,
    TurnStart,
    Value,
)
from pastalang.plan.machine import Awaited, Closing, Cursor, Draw, End, Feed, Machine, Opening, Start, Wait
from pastalang.plan.plan import Plan
from pastalang.plan.structure import Nesting, visit
from pastalang.program.types import Sampling
from pastalang.runtime.binding.chat import Turn
from pastalang.runtime.binding.whitespace import move_whitespace
from pastalang.runtime.errors import RunError
from pastalang.runtime.events import Event, FieldDone, FieldStarted, TextDelta
from pastalang.runtime.quotations import QuotingHole, quoting_holes
from pastalang.runtime.scheduler.known_text import texts_of
from pastalang.runtime.scheduler.scope import elements_of, names_here, sources_of
from pastalang.runtime.scheduler.transcript import (
    Field,
    FieldDecoding,
    Written,
    WrittenBranch,
    WrittenField,
    WrittenLoop,
    WrittenText,
    WrittenValue,
)
from pastalang.values.fit import find_mismatches, read
from pastalang.values.json import NotJson, parse_json
from pastalang.values.quotes import no_texts, quotable_texts

ATTEMPTS: Final = 3  # of a value that the server's constraint let through and that does not fit its type
_WARMER: Final = 0.7  # the temperature of another attempt at a greedy value, which would come out the same


Report: TypeAlias = Callable[[Event], None]
Key: TypeAlias = tuple[str, tuple[int, ...]]  # a field, and the numbers of the items around it
Prompt: TypeAlias = str | tuple[int, ...]  # the text that a branch sees, or its tokens


@dataclass(frozen=True, slots=True)
class Kept:
    """The text of a value, how probable it is, whether its limit has cut it, and its tokens if these are known."""

    text: str
    log_probability: float | None
    was_cut: bool
    tokens: tuple[int, ...] = ()


@dataclass(slots=True)
class Memory:
    """What was answered in earlier rounds of a run. A value is asked for once behind the same text.

    A round of repair forgets the values that were rejected. All others come from here, unless what they see changed.
    """

    values: dict[tuple[Key, Prompt], Kept] = field(default_factory=dict)
    choices: dict[tuple[Key, Prompt], int] = field(default_factory=dict)  # the option that was taken
    rejected: Counter[Key] = field(default_factory=Counter)
    reported: dict[Key, str] = field(default_factory=dict)  # what the events of a value have said that it is

    def forget(self, fields: Iterable[Key]) -> None:
        for key in fields:
            self.rejected[key] += 1
            self.reported.pop(key, None)
            for known in [one for one in self.values if one[0] == key]:
                del self.values[known]


@dataclass(frozen=True, slots=True)
class Seen:
    branch: HostBranch


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the layout of an answer asks of a plan that is bound to a tokenizer."""

    quoting: Mapping[str, QuotingHole]


@dataclass(eq=False)
class HostBranch:
    """One instance of a branch."""

    run: PlanRun
    spec: Branch
    items: tuple[int, ...]
    number: int
    path: TextPath
    names: Mapping[str, Any]
    cursor: Cursor
    in_answer: bool
    parent: HostBranch | None
    view: list[Seen] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    lists: list[_OpenList] = field(default_factory=list)
    wave: int = 0  # how many requests had to be answered one after another before it is where it is
    prompt: int = 0  # how many pieces it has written before the model's turn

    @property
    def request(self) -> PlanRun:
        return self.run

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def has_ended(self) -> bool:
        return self.cursor.has_ended

    @property
    def here(self) -> list[Written]:
        """Where it writes: into the innermost item, or its own transcript."""
        return self.lists[-1].written if self.lists else self.written


@dataclass(slots=True)
class _OpenList:
    """A list that a branch is inside of."""

    repeat: Repeat
    loop: WrittenLoop
    elements: tuple[Any, ...] | None
    item: int = -1
    written: list[Written] = field(default_factory=list)

    @property
    def items(self) -> list[list[Written]]:
        return self.loop.items


class PlanRun:
    """One run of a plan. `branches` are all instances so far; the answer is laid out from their transcripts."""

    def __init__(
        self,
        plan: Plan,
        values: Mapping[str, Any],
        *,
        server: Server,
        turns: Sequence[Turn],
        sampling: Sampling,
        seed: int,
        end: float | None,
        memory: Memory | None = None,
        report: Report,
        bound: Plan | None = None,
    ) -> None:
        """`bound` is the plan with white space moved as the server's tokenizer has it, if that is known."""
        self.plan = plan
        self.values = values
        self.base = sampling
        self._bound = move_whitespace(plan, LikelyBorders()) if bound is None else bound
        self._machine = Machine(self._bound)
        self.tokens = Tokens(quoting_holes(plan, self._machine.nesting))
        self.texts = no_texts(plan.inputs) | quotable_texts(values) if self.tokens.quoting else {}
        self.decoded: Counter[tuple[str, tuple[int, ...]]] = Counter()
        self.branches: list[HostBranch] = []
        self.replies: list[Reply] = []
        self.waves = 0
        self._server = server
        self._turns = turns
        self._seed = seed
        self._end = end
        self._memory = memory or Memory()
        self._report = report
        self._types = dict(plan.types)
        self._placed = {
            visited.segment.branch
            for branch in self._bound.branches
            for visited in visit(branch.segments)
            if isinstance(visited.segment, Place)
        }
        self._known: dict[BranchId, dict[tuple[int, ...], HostBranch]] = {}
        self._moved = asyncio.Condition()

    @property
    def root(self) -> HostBranch:
        return self.branches[0]

    @property
    def prompt(self) -> str:
        """The text before the model's turn."""
        first, *others = self.branches
        shared = first.path.own.pieces[: first.prompt or None]
        return "".join([*shared, *(piece for one in others for piece in one.path.own.pieces[: one.prompt])])

    @property
    def documents(self) -> list[HostBranch]:
        """The branches of stacked documents, in order."""
        return [one for one in self.branches if one.parent is self.root and one.items]

    async def run(self) -> None:
        """Raises `HostError` or `RunError`; then no request is left open."""
        self._tasks = asyncio.TaskGroup()
        try:
            async with self._tasks:
                self._begin(None, Instance(ROOT), names={}, in_answer=False)
        except BaseExceptionGroup as group:
            raise _first(group) from None

    # ── branches ─────────────────────────────────────────────────────────────────────────────────────────

    def _begin(
        self, parent: HostBranch | None, instance: Instance, *, names: Mapping[str, Any], in_answer: bool
    ) -> HostBranch:
        branch = HostBranch(
            run=self, spec=self._bound.branch(instance.branch), items=instance.items, number=len(self.branches),
            path=TextPath() if parent is None else parent.path.fork(), names=names,
            cursor=self._machine.begin(instance), in_answer=in_answer, parent=parent,
            view=[] if parent is None else [*parent.view, Seen(parent)], wave=0 if parent is None else parent.wave,
        )  # fmt: skip
        self.branches.append(branch)
        self._known.setdefault(instance.branch, {})[instance.items] = branch
        self._tasks.create_task(self._advance(branch))
        return branch

    async def _advance(self, branch: HostBranch) -> None:
        while True:
            match self._machine.action(branch.cursor):
                case Feed(segment=segment):
                    self._feed(branch, segment)
                    answer = 0
                case Draw(segment=Hole() as hole):
                    await self._fill(branch, hole)
                    answer = 0
                case Draw() as draw:
                    answer = await self._decide(branch, draw)
                case Start(segment=segment):
                    answer = self._start(branch, segment)
                case Wait(awaited=awaited):
                    await self._wait(branch, awaited)
                    answer = 0
                case End():
                    break
            branch.cursor = branch.cursor.after(answer)
            _follow(branch)
            await self._tell()
        await self._tell()

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    # ── known text ───────────────────────────────────────────────────────────────────────────────────────

    def _feed(self, branch: HostBranch, segment: Any) -> None:
        match segment:
            case TurnStart(index=index):
                self._show(branch, self._turns[index].opening, is_control=True)
                if index == len(self._turns) - 1:
                    branch.in_answer, branch.prompt = True, len(branch.path.own.pieces)
            case TurnEnd(index=index):
                self._show(branch, self._turns[index].closing, is_control=True)
            case Text(text=text, shown=shown, begins=begins):
                self._begin_value(branch, begins)
                self._write(branch, text, segment.fed_text, shown=shown)
            case _ if isinstance(segment, KnownText):
                for text in texts_of(segment, named=partial(_named, branch), items=branch.cursor.items):
                    self._write(branch, text)
            case Place(branch=id):
                branch.here.append(WrittenBranch(self._known[id][branch.cursor.items]))
            case Opening() | Closing():
                self._open_or_close(branch, segment)
            case _:
                raise AssertionError(f"{segment} is no known text")

    def _open_or_close(self, branch: HostBranch, option: Opening | Closing) -> None:
        """The text of an opening belongs to its item, that of a closing stands behind the list."""
        if isinstance(option, Closing):
            outer = branch.lists[-2].written if len(branch.lists) > 1 else branch.written
            if option.text:
                outer.append(WrittenText(option.text))
            self._show(branch, _fed(option) or "")
            return
        _enter_item(branch.lists[-1])
        items = (*branch.cursor.items, option.item)
        for part in option.parts:
            if isinstance(part, Text):
                self._begin_value(branch, part.begins, items)
                self._write(branch, part.text, part.fed_text)
            else:
                self._write(branch, str(option.item + 1))

    def _begin_value(self, branch: HostBranch, value: Value | None, items: tuple[int, ...] | None = None) -> None:
        if value is not None:
            branch.here.append(WrittenValue(value, branch.cursor.items if items is None else items))

    def _write(self, branch: HostBranch, text: str, fed: str | None = None, *, shown: bool = True) -> None:
        self._show(branch, text if fed is None else fed, is_control=not shown)
        if shown and text:
            branch.here.append(WrittenText(text, in_answer=branch.in_answer))

    def _show(self, branch: HostBranch, text: str, *, is_control: bool = False) -> None:
        """Put text where the model reads it. `is_control`: its control tokens are meant as such."""
        branch.path.own.write(text)

    def _prompt(self, branch: HostBranch) -> Prompt:
        """What the branch sees, as the server is asked about it."""
        return branch.path.text

    def _behind(self, prompt: Prompt, space: str) -> Prompt:
        assert isinstance(prompt, str)
        return prompt + space

    # ── forks and joins ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, branch: HostBranch, segment: Fork | Each | Repeat) -> int:
        match segment:
            case Fork(branch=id):
                instance = Instance(id, branch.cursor.items)
                child = self._begin(branch, instance, names=names_here(branch), in_answer=branch.in_answer)
                if id not in self._placed:
                    branch.here.append(WrittenBranch(child))
                return 0
            case Each():
                return self._fan_out(branch, segment)
            case Repeat():
                self._begin_value(branch, segment.begins)
                elements = None
                if segment.over is not None:
                    elements = self._elements(branch, segment)
                loop = WrittenLoop(segment.field, [], repeat=segment, place=branch.cursor.items)
                branch.here.append(loop)
                branch.lists.append(_OpenList(segment, loop, elements))
                return len(elements or ())

    def _fan_out(self, branch: HostBranch, each: Each) -> int:
        elements = self._elements(branch, each)
        names, items = names_here(branch), branch.cursor.items
        loop = WrittenLoop(each.name, [], stacked=each.stacked)
        branch.here.append(loop)
        for number, element in enumerate(elements):
            child = self._begin(
                branch, Instance(each.branch, (*items, number)), names={**names, each.name: element},
                in_answer=branch.in_answer,
            )  # fmt: skip
            loop.items.append([WrittenBranch(child)])
        return len(elements)

    def _elements(self, branch: HostBranch, segment: Each | Repeat) -> tuple[Any, ...]:
        return elements_of(branch, segment)

    async def _wait(self, branch: HostBranch, awaited: tuple[Awaited, ...]) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: all(self._are_over(branch, one) for one in awaited))
        for one in awaited:
            for joined in self._instances(one):
                branch.path.join(joined.path)
                branch.view.append(Seen(joined))
                branch.view += [seen for seen in joined.view if seen not in branch.view]
                branch.wave = max(branch.wave, joined.wave)

    def _instances(self, awaited: Awaited) -> list[HostBranch]:
        known = self._known.get(awaited.branch, {})
        return [one for items, one in sorted(known.items()) if items[: len(awaited.items)] == awaited.items]

    def _are_over(self, joiner: HostBranch, awaited: Awaited) -> bool:
        if not all(one.has_ended for one in self._instances(awaited)):
            return False
        return not self._may_begin(joiner, awaited.branch, awaited.items)

    def _may_begin(self, joiner: HostBranch, id: BranchId, items: tuple[int, ...]) -> bool:
        """True if an instance that does not exist yet may still begin."""
        if id == ROOT:
            return False
        nesting: Nesting = self._machine.nesting
        origin = nesting.origins[id]
        around = items[: len(nesting.loops[origin.parent])]
        parents = self._instances(Awaited(origin.parent, around))
        for parent in parents:
            if parent is joiner or parent.has_ended:
                continue
            if not parent.cursor.has_passed(origin.address, items):
                return True
        if any(parent is joiner for parent in parents):
            return False
        return self._may_begin(joiner, origin.parent, around)

    # ── what the model writes ────────────────────────────────────────────────────────────────────────────

    async def _fill(self, branch: HostBranch, hole: Hole) -> None:
        items = branch.cursor.items
        found = Field(
            hole.field, hole.type, hole.form, hole.span, branch.name, items, FieldDecoding(hole.max_tokens),
            on_truncated=hole.sampling.on_truncated or self.base.on_truncated,
        )  # fmt: skip
        branch.here.append(WrittenField(found))
        key, prompt = (hole.field, items), self._prompt(branch)
        kept = self._memory.values.get((key, prompt))
        is_news = kept is None or self._memory.reported.get(key) != kept.text
        if is_news:
            self._report(FieldStarted(found.path, items))
        if kept is None:
            kept = await self._asked_value(branch, hole, prompt, sources_of(branch, items))
            self._memory.values[key, prompt] = kept
        self.decoded[key] = 1 + self._memory.rejected[key]
        found.text, found.truncated, found.is_done = kept.text, kept.was_cut, True
        found.decoding.log_probabilities = [math.nan if kept.log_probability is None else kept.log_probability]
        branch.path.own.write(hole.space + kept.text, kept.tokens)
        if is_news:
            self._report(TextDelta(found.path, items, kept.text))
            self._report(FieldDone(found.path, items, kept.text, kept.was_cut))
            self._memory.reported[key] = kept.text

    def _constraint(self, hole: Hole) -> Constraint | None:
        """That of the white space before the value and the value; None if no server understands one."""
        space, bare = hole.space, constraint_of(hole, self._types)
        return spaced(bare, space, hole, self._types) if space else bare

    async def _asked_value(self, branch: HostBranch, hole: Hole, prompt: Prompt, sources: Mapping[str, str]) -> Kept:
        """A value that fits its type. Raises `HostError` if the server gives none."""
        sampling = hole.sampling.over(self.base)
        key = hole.field, branch.cursor.items
        space, constraint = hole.space, self._constraint(hole)
        if constraint is None:
            prompt, space, constraint = self._behind(prompt, space), "", constraint_of(hole, self._types)
        reason, reply = "", None
        for attempt in range(ATTEMPTS):
            if (attempt or self._memory.rejected[key]) and not sampling.temperature:
                sampling = replace(sampling, temperature=_WARMER)
            number = attempt + ATTEMPTS * self._memory.rejected[key]
            ask = Ask(
                prompt, constraint, hole.max_tokens, sampling,
                _seed_of(self._seed, hole.field, branch.cursor.items, number),
            )  # fmt: skip
            reply = await self._ask(branch, ask, hole)
            is_json = hole.form is Form.JSON
            text = reply.text.strip() if is_json else reply.text.removeprefix(space)
            if reply.was_cut and is_json:
                text = _closed(text)
            reading = read(text, hole.type, self._types, quoted=is_json, sources=sources)
            is_empty = not text and not may_be_empty(hole)
            if reading.fits and not is_empty:
                return Kept(text, reply.log_probability, reply.was_cut)
            reason = "it is empty" if is_empty else f"{reading.mismatches[0].reason}: {text[:60]!r}"
        if hole.form is Form.JSON and not find_mismatches(hole.type, None, self._types):
            assert reply is not None
            return Kept("null", reply.log_probability, was_cut=False)
        raise self._error(f"the server's {ATTEMPTS} answers do not fit its type: {reason}", branch, hole)

    async def _decide(self, branch: HostBranch, draw: Draw) -> int:
        leads, segment = [_fed(option) for option in draw.options], draw.segment
        assert not isinstance(segment, Hole)
        if isinstance(segment, Choose):
            self._begin_value(branch, segment.begins)
        key = (segment.field, branch.cursor.items), self._prompt(branch)
        if key not in self._memory.choices:
            self._memory.choices[key] = await self._asked_choice(branch, draw, segment, leads)
        taken = self._memory.choices[key]
        option = draw.options[taken]
        if isinstance(option, Opening | Closing):
            self._open_or_close(branch, option)
        else:
            self._write(branch, option.lead, option.fed_text)
        return taken

    async def _asked_choice(
        self, branch: HostBranch, draw: Draw, segment: Choose | Repeat, leads: Sequence[str | None]
    ) -> int:
        """The number of the option that the model takes."""
        ask = Ask(
            self._prompt(branch), lead_constraint(leads), longest_lead(leads), segment.sampling.over(self.base),
            _seed_of(self._seed, segment.field, branch.cursor.items, 0),
        )  # fmt: skip
        text = (await self._ask(branch, ask, segment)).text
        taken = next((number for number, lead in enumerate(leads) if (lead or "") == text), None)
        if taken is None:
            reason = f"the server answered {text[:60]!r}, which is none of the ways to go on"
            raise self._error(reason, branch, segment)
        return taken

    async def _ask(self, branch: HostBranch, ask: Ask, segment: Hole | Choose | Repeat) -> Reply:
        try:
            reply = await self._server.ask(ask, end=self._end)
        except HostError as problem:
            raise self._error(problem.reason, branch, segment, type(problem)) from problem
        self.replies.append(reply)
        branch.wave += 1
        self.waves = max(self.waves, branch.wave)
        return reply

    def _error(
        self, reason: str, branch: HostBranch, segment: Hole | Choose | Repeat, kind: type[HostError] = HostError
    ) -> HostError:  # fmt: skip
        return kind(reason, plan=self.plan, field=segment.field, items=branch.cursor.items, span=segment.span)


def longest_lead(leads: Sequence[str | None]) -> int:
    """More tokens than any of the ways to go on has."""
    return max(len(lead.encode()) for lead in leads if lead is not None) + 1


def _fed(option: Arm | Opening | Closing) -> str | None:
    """What is read where the option is taken; None for the end of the turn."""
    match option:
        case Arm():
            return option.fed_text
        case Opening(parts=parts, item=item):
            return "".join(part.fed_text if isinstance(part, Text) else str(item + 1) for part in parts)
        case Closing(repeat=repeat, items=items):
            return repeat.fed_end(is_empty=items == 0)


def _follow(branch: HostBranch) -> None:
    """Keep the open lists in step with the cursor: it enters items of known elements, and leaves lists, by itself."""
    frames = branch.cursor.lists if not branch.cursor.has_ended else ()
    del branch.lists[len(frames) :]
    for open, frame in zip(branch.lists, frames, strict=True):
        while open.item < frame.item:
            _enter_item(open)


def _enter_item(open: _OpenList) -> None:
    open.item += 1
    open.written = []
    open.loop.items.append(open.written)


def _named(branch: HostBranch, name: str) -> Any:
    names = names_here(branch)
    return names[name] if name in names else branch.run.values[name]


def _seed_of(seed: int, field: str, items: tuple[int, ...], attempt: int) -> int:
    """A seed for each value, the same in every run: values of one run are drawn independently."""
    digest = blake2b(repr((seed, field, items, attempt)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def _closed(text: str) -> str:
    """A JSON string that its limit has cut, with its quote; other values as they are."""
    if not text.startswith('"') or (len(text) > 1 and text.endswith('"') and not text.endswith('\\"')):
        return text
    for length in range(len(text), max(0, len(text) - 12), -1):  # half an escape at the end is left out
        try:
            parse_json(text[:length] + '"')
        except NotJson:
            continue
        return text[:length] + '"'
    return text


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a run ends with: one of ours if there is any, else the first."""
    found = list(_leaves(group))
    return next((one for one in found if isinstance(one, HostError | RunError)), found[0])


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one
