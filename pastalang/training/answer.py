"""The right answer of a row, looked up by the names that the plan gives its fields.

lines[].qty, items (2,)      value["lines"][2]["qty"]
quote(first).text            value["quote"]["text"]: the label only keeps two arms' names apart
lines#2                      value["lines"]: the number only keeps two fields of one place apart
thread[], items (1,)         the second thread of a text in which the model opens threads itself
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pastalang.plan.branches import Arm, Each, Form, Hole
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk
from pastalang.program import types as t
from pastalang.training.errors import BadRow
from pastalang.training.thread_text import read_thread_text
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
