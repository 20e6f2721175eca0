"""The right answer of a row, looked up by the names that the plan gives its fields.

lines[].qty, items (2,)      value["lines"][2]["qty"]
quote(first).text            value["quote"]["text"]: the label only keeps two arms' names apart
lines#2                      value["lines"]: the number only keeps two fields of one place apart
thread[], items (1,)         the second thread of a text in which the model opens threads itself

In an `auto(...)` template, the value is a text in which every thread stands where its tag begins it:

pasta   Food: <promise topic="food" tokens="20"/><async>Goulash.</async> Bye.<sync/>
apar    Food.[Fork][Child] Goulash is a soup.[/Child] Bye.

`[/Child]` exists in rows only: a model ends an APAR thread as it ends its turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pastalang.limits import MAX_THREADS
from pastalang.plan.branches import Arm, Each, Form, Hole
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk
from pastalang.program import types as t
from pastalang.program.types import AutoPolicy
from pastalang.runtime.constraints.tagged_text import Begin, Reading, Tag, reader_of
from pastalang.training.errors import BadRow
from pastalang.values.describe import counted
from pastalang.values.fit import fit
from pastalang.values.json import JsonValue, spell_json
from pastalang.values.paths import WHOLE, is_mark, steps_of
from pastalang.values.quotes import quotable_texts


@dataclass(frozen=True, slots=True)
class Answer:
    """`value` fits its type and has its keys in order; of stacked documents it is the list of their values.

    `thoughts` are what is thought before the answer, of each document; none if the template does not think.
    """

    value: JsonValue
    is_stacked: bool
    thoughts: tuple[str, ...] = ()

    def thought(self, items: Sequence[int]) -> str:
        """What is thought before the answer, or before that of one of the stacked documents."""
        return self.thoughts[items[0] if self.is_stacked else 0]

    @property
    def plain_texts(self) -> list[str]:
        """Of a template in which the model opens threads: each answer as its reader sees it."""
        values = self.value if isinstance(self.value, list) else [self.value]
        return [str(value["plain"]) for value in values if isinstance(value, dict)]

    def at(self, path: str, items: Sequence[int]) -> JsonValue:
        """The value of a field of the plan. Raises `BadRow` if the answer has none."""
        numbers = list(items)
        here: JsonValue = self.value
        if self.is_stacked:
            here = _down(here, "[]", numbers)
        if path == WHOLE and not (isinstance(here, dict) and path in here):
            return here
        for step in steps_of(path):
            try:
                here = _down(here, step, numbers)
            except (KeyError, IndexError) as problem:
                raise BadRow(f"the value has nothing at `{path}`") from problem
        return here


def answer_of(plan: Plan, value: JsonValue, inputs: Mapping[str, Any], *, thought: JsonValue = None) -> Answer:
    """Check a value, as `parse_json` gives it, against the plan. Raises `BadRow` that lists every problem.

    A template that thinks before its answer needs the `thought` too; of stacked documents, the list of them.
    """
    stack = stack_of(plan)
    if stack is None:
        thoughts = _thoughts(plan, [thought])
        return Answer(_fitted(plan, value, inputs, "value"), is_stacked=False, thoughts=thoughts)
    documents = inputs[stack.over]
    if not isinstance(value, list) or len(value) != len(documents):
        raise BadRow(f"value: has to be a list of {counted(len(documents), 'value')}, one for each `{stack.name}`")
    fitted = [
        _fitted(plan, one, {**inputs, stack.name: document}, f"value[{number}]")
        for number, (one, document) in enumerate(zip(value, documents, strict=True))
    ]
    each = thought if isinstance(thought, list) else [thought]
    thoughts = _thoughts(plan, each)
    if thoughts and len(thoughts) != len(documents):
        raise BadRow(f"thought: has to be a list of {len(documents)} texts, one for each `{stack.name}`")
    return Answer(fitted, is_stacked=True, thoughts=thoughts)


def _thoughts(plan: Plan, given: Sequence[JsonValue]) -> tuple[str, ...]:
    if thought_of(plan) is None:
        return ()
    texts = [one for one in given if isinstance(one, str)]
    if len(texts) != len(given):
        raise BadRow("the key `thought` is missing: it holds what the model thinks before its answer, as text")
    return tuple(texts)


def thought_of(plan: Plan) -> Hole | None:
    """The hole in which the model thinks before its answer, if the template lets it."""
    holes = (part for branch in plan.branches for _, part in walk(branch.segments))
    return next((part for part in holes if isinstance(part, Hole) and part.form is Form.THOUGHT), None)


def stack_of(plan: Plan) -> Each | None:
    """The fan-out over stacked documents, if the plan has one."""
    found = (segment for _, segment in walk(plan.branches[0].segments) if isinstance(segment, Each))
    return next((each for each in found if each.stacked), None)


def spelled(value: JsonValue, hole: Hole) -> str:
    """A hole's value as the model writes it."""
    if hole.form in (Form.TEXT, Form.THOUGHT) and isinstance(value, str):
        return value
    return spell_json(value)


def arm_for(value: JsonValue, arms: Sequence[Arm]) -> int | None:
    """The arm whose beginning matches the value, ignoring white space."""
    text = _without_space(spell_json(value))
    fitting = [index for index, arm in enumerate(arms) if text.startswith(_without_space(arm.lead))]
    return max(fitting, key=lambda index: len(arms[index].lead), default=None)


def stop_of(hole: Hole) -> str:
    """The text that the model writes after the value to end it."""
    if hole.form is Form.THOUGHT:
        return "</think>"
    if hole.form is Form.TEXT and isinstance(hole.type, t.String):
        stops = hole.type.stop or ("\n",)
        if hole.follow and not hole.follow.startswith(stops):
            return stops[0]
    return hole.follow


def _fitted(plan: Plan, value: JsonValue, inputs: Mapping[str, Any], name: str) -> JsonValue:
    if plan.auto is not None:
        if not isinstance(value, str):
            raise BadRow(f"{name}: has to be the text of the answer, with its threads")
        read = read_thread_text(value, plan.auto)
        return {"answer": read.main, "thread": list(read.threads), "plain": read.plain}
    if plan.output is None:
        if not isinstance(value, dict):
            raise BadRow(f"{name}: has to be an object with the template's fields")
        return value
    fitted, mismatches = fit(plan.output, value, dict(plan.types), sources=quotable_texts(inputs))
    if mismatches:
        raise BadRow("; ".join(f"{name}: {mismatch}" for mismatch in mismatches))
    return fitted


def _down(value: JsonValue, step: str, numbers: list[int]) -> JsonValue:
    match value:
        case list() if step == "[]":
            return value[numbers.pop(0)]
        case _ if is_mark(step):
            return value
        case dict() if step != "[]":
            return value[json.loads(step) if step.startswith('"') else step]
        case _:
            raise KeyError(step)


def _without_space(text: str) -> str:
    return "".join(text.split())


# ── texts with threads ────────────────────────────────────────────────────────────────────────────────


THREADS = {
    AutoPolicy.PASTA: re.compile(r"<async>(.*?)</async>", re.DOTALL),
    AutoPolicy.APAR: re.compile(r"\[Child\](.*?)\[/Child\]", re.DOTALL),
}
_MARKS = {
    AutoPolicy.PASTA: ("<async>", "</async>", "<promise", "<sync/>", "<sync"),
    AutoPolicy.APAR: ("[Child]", "[/Child]", "[Fork]"),
}
_OTHERS = {AutoPolicy.PASTA: ("[Child]", AutoPolicy.APAR), AutoPolicy.APAR: ("<async>", AutoPolicy.PASTA)}
_TAG = {AutoPolicy.PASTA: re.compile(r"(<promise[^<>\n]*/>|<sync/>)"), AutoPolicy.APAR: re.compile(r"(\[Fork\])")}
_BEGINS = {AutoPolicy.PASTA: "<promise .../>", AutoPolicy.APAR: "[Fork]"}


@dataclass(frozen=True, slots=True)
class ThreadText:
    """`main` has the tags, without their threads; `tags` are what acts in it, each with the length of the text before.

    `plain` is what a reader of the answer sees: each thread in the place of its tag, and no tags.
    """

    main: str
    threads: tuple[str, ...]
    tags: tuple[tuple[int, Tag], ...]
    plain: str

    @property
    def begins(self) -> tuple[Begin, ...]:
        return tuple(tag for _, tag in self.tags if isinstance(tag, Begin))

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where each thread stands in the plain text."""
        starts = [at for at, tag in self.tags if isinstance(tag, Begin)]
        before = [sum(map(len, self.threads[:number])) for number in range(len(starts))]
        return tuple((at + n, at + n + len(thread)) for at, n, thread in zip(starts, before, self.threads, strict=True))


def read_thread_text(text: str, policy: AutoPolicy) -> ThreadText:
    """Raises `BadRow` if a tag has no thread, a thread no tag, or a tag stands where it means nothing."""
    foreign, other = _OTHERS[policy]
    if foreign in text:
        mine = policy.value
        raise BadRow(f"value: {foreign} begins a thread of auto({other.value}), and the program has auto({mine})")
    pieces = THREADS[policy].split(text)
    mains, threads = pieces[::2], tuple(pieces[1::2])
    reader = reader_of(policy, in_thread=False)
    main = "".join(mains)
    reading = reader.finish(reader.read(Reading(), main))
    begun = [at for at, tag in reading.found if isinstance(tag, Begin)]
    _check_threads(mains, threads, len(begun), policy)
    if mark := next((mark for mark in _MARKS[policy] if mark in reading.text), None):
        raise BadRow(f"value: {_around(reading.text, mark)} is not a tag that acts: it would stay in the answer")
    plain, done = "", 0
    for at, thread in zip(begun, threads, strict=True):
        plain, done = plain + reading.text[done:at] + thread, at
    return ThreadText(main, threads, reading.found, plain + reading.text[done:])


def tags_apart(text: str, policy: AutoPolicy) -> list[tuple[str, bool]]:
    """The parts of a text without its threads: (text, False) and (tag, True) in turn, as they stand."""
    pieces = _TAG[policy].split(text)
    return [(piece, bool(number % 2)) for number, piece in enumerate(pieces)]


def _check_threads(mains: list[str], threads: tuple[str, ...], begun: int, policy: AutoPolicy) -> None:
    reader = reader_of(policy, in_thread=False)
    for number, (before, thread) in enumerate(zip(mains, threads, strict=False)):
        found = reader.read(Reading(), before)
        last = [tag for at, tag in found.found if isinstance(tag, Begin) and at == len(found.text)]
        if not last or found.held or not before.endswith(("/>", "[Fork]")):
            place = f"does not follow a tag {_BEGINS[policy]}" + (f", but {_last(before)}" if before else "")
            raise BadRow(f"value: thread {number + 1}, {_short(thread)}, {place}")
        if mark := next((mark for mark in _MARKS[policy] if mark in thread), None):
            raise BadRow(f"value: thread {number + 1} has the tag {mark}: a thread cannot start or wait for threads")
        if not thread:
            raise BadRow(f"value: thread {number + 1} is empty")
    if begun != len(threads):
        raise BadRow(f"value: {counted(begun, 'tag')} {_BEGINS[policy]} and {counted(len(threads), 'thread')}")
    if begun > MAX_THREADS:
        raise BadRow(f"value: {begun} threads, and a text may have {MAX_THREADS}")


def _around(text: str, mark: str) -> str:
    at = text.index(mark)
    return _short(text[at : at + 60])


def _last(text: str) -> str:
    return repr(text if len(text) <= 40 else "..." + text[-37:])


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
