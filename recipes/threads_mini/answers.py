"""The answers of the task: without threads, and as each policy would write them.

linear   1 Calm Otter …\n2 Brave Lynx …\n3 Old Heron …\nBerths …
pasta    the ship stands in the text, its berth and the rest in a thread; <sync/> for a ship that lies with another one,
         and before the last line
blind    the same without waiting for the berths of others: a wrong policy, to test the measure
apar     ship and berth stand in the text, the rest in a thread
mixed    each table as pasta, as blind or as linear: writers who do not agree, of whom preference rounds choose some
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from pastalang.training.thread_data import CountTokens, promise
from recipes.threads_mini.ships import Table, berth_of, details, in_brief, last_line, ship_of


class Policy(StrEnum):
    LINEAR = "linear"
    PASTA = "pasta"
    BLIND = "blind"
    APAR = "apar"
    MIXED = "mixed"

    @property
    def tags(self) -> str:
        """What `auto(...)` reads. A text without tags is one that opens no threads."""
        return "apar" if self is Policy.APAR else "pasta"


def answer_as(policy: Policy, table: Table, berths: Sequence[str], count: CountTokens) -> str:
    """The right answer with its threads, as a row of training data has it. `count` counts the tokens of a text."""
    sentences = [
        _Sentence(ship_of(table, number), berth_of(table, number, berth), details(table, number))
        for number, berth in enumerate(berths)
    ]
    last = last_line(table, berths)
    match policy:
        case Policy.LINEAR:
            return "".join(f"{one.ship}{one.berth}{one.details}\n" for one in sentences) + last
        case Policy.APAR:
            return "".join(f"{one.ship}{one.berth}[Fork][Child]{one.details}[/Child]\n" for one in sentences) + last
        case Policy.PASTA | Policy.BLIND:
            return _promised(policy, table, sentences, count) + f"<sync/>{last}"
        case Policy.MIXED:
            one = Random(table.text).choice((Policy.PASTA, Policy.BLIND, Policy.LINEAR))
            return answer_as(one, table, berths, count)


def answer_in_brief(table: Table, berths: Sequence[str]) -> str:
    """The answer without threads, in brief sentences."""
    sentences = [in_brief(table, number, berth) + "\n" for number, berth in enumerate(berths)]
    return "".join(sentences) + last_line(table, berths)


@dataclass(frozen=True, slots=True)
class _Sentence:
    ship: str
    berth: str
    details: str


def _promised(policy: Policy, table: Table, sentences: Sequence[_Sentence], count: CountTokens) -> str:
    text = ""
    for number, one in enumerate(sentences):
        wait = "<sync/>" if policy is Policy.PASTA and table.waits(number) else ""
        text += one.ship + wait + promise(str(table.first + number), one.berth + one.details, count) + "\n"
    return text
