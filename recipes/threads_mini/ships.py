"""A task whose dependencies are known: a table of ships, a sentence for each of them, and a line about all.

    1 Calm Otter Peru 1,         1 Calm Otter Peru 1, 1-C; the log says #1 red 12 450 coffee, and the ship leaves …
    2 Brave Lynx Japan 2,        2 Brave Lynx Japan 2, 2-A; the log says #2 …
    3 Old Heron Spain 3.         3 Old Heron Spain 3+1. 3+1-C; the log says #3 …
    #1 red 12 450 coffee         Berths 1-C 2-A 3+1-C.
    …
    with 3+1

The writer chooses the berth of a ship, so nothing but its sentence says which it is. A ship that lies with another one
has the same berth, and the last line repeats all berths. So a sentence depends on another one exactly if its ship lies
with that ship, the last line depends on all of them, and each part of an answer is right or wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final
from zlib import crc32

BERTHS: Final = "ABCDEFGHIJ"
TRAINED_COUNTS: Final = (2, 3, 4, 5, 6, 8, 9)
HELD_OUT_COUNTS: Final = (7,)
FIRST_NUMBERS: Final = (1, 2, 3)  # of the first ship of a table
FIRST: Final = (
    "Calm", "Brave", "Old", "Wild", "Swift", "Quiet", "Proud", "Lucky", "Bold", "Gentle", "Noble", "Merry",
    "Silent", "Golden", "Iron", "Misty", "Royal", "Sunny", "Tiny", "Stormy", "Bright", "Humble", "Northern",
    "Eastern",
)  # fmt: skip
SECOND: Final = (
    "Otter", "Lynx", "Heron", "Falcon", "Badger", "Raven", "Dolphin", "Beaver", "Tiger", "Walrus", "Eagle",
    "Rabbit", "Panther", "Swallow", "Turtle", "Bison", "Weasel", "Pelican", "Marten", "Salmon", "Gull", "Stag",
    "Hare", "Crane",
)  # fmt: skip
FLAGS: Final = (
    "Peru", "Spain", "Italy", "Japan", "China", "India", "Kenya", "Brazil", "France", "Norway", "Greece", "Chile",
)  # fmt: skip
COLOURS: Final = ("red", "blue", "green", "black", "white", "grey", "brown", "pink", "silver", "yellow")
CARGOES: Final = (
    "coffee", "salt", "wood", "steel", "glass", "cotton", "leather", "paper", "stone", "sugar", "wheat", "tea",
)  # fmt: skip
CREWS: Final = tuple(range(12, 60))  # above the numbers of ships
TONS: Final = tuple(range(110, 600, 10))

_ITEM = re.compile(r"^(\d+) (.*)$", re.MULTILINE)
_BERTH = re.compile(r"^\w+ \w+ \w+ \d+(?:\+\d+)?[,.] \d+(?:\+\d+)?-([A-J]);")


@dataclass(frozen=True, slots=True)
class Ship:
    """`mate` is the number of an earlier ship that it lies with; None: it lies alone."""

    name: str
    flag: str
    colour: str
    crew: int
    tons: int
    cargo: str
    mate: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Ships, counted from `first` in texts and from 0 here.

    Tables begin with different numbers, and after the last ship that sentences are about there may be others, `at_sea`.
    So nothing but the full stop after its name says which is the last. Otherwise a model learns which numbers or which
    lengths end a table, and errs where a table ends with another one.
    """

    ships: tuple[Ship, ...]
    first: int = 1
    at_sea: tuple[Ship, ...] = ()

    @property
    def text(self) -> str:
        numbered = list(enumerate((*self.ships, *self.at_sea), start=self.first))
        last = self.first + len(self.ships) - 1
        names = [
            f"{number} {ship.name} {ship.flag} {number}{'.' if number == last else ','}" for number, ship in numbered
        ]
        facts = [f"#{number} {ship.colour} {ship.crew} {ship.tons} {ship.cargo}" for number, ship in numbered]
        pairs = [f" {self.place(at)}" for at, ship in enumerate(self.ships) if ship.mate is not None]
        return "\n".join([*names, *facts, "with" + ("".join(pairs) or " none")])

    def place(self, at: int) -> str:
        """A ship in front of its berth: its number, and that of the ship it lies with."""
        mate = self.ships[at].mate
        return f"{self.first + at}" if mate is None else f"{self.first + at}+{self.first + mate}"

    def waits(self, at: int) -> bool:
        return self.ships[at].mate is not None


def is_held_out(name: str) -> bool:
    """One name in five, chosen by a hash, is kept for tests."""
    return crc32(name.encode()) % 5 == 0


def draw_table(
    random: Random, *, counts: Sequence[int] = TRAINED_COUNTS, held_out: bool = False, is_varied: bool = False
) -> Table:
    """A table with names for tests if `held_out`, with names for training otherwise.

    No two ships share a fact. Up to a third of them lie with others, and these stand last. With `is_varied`, every ship
    may lie with any earlier one, and in up to half of the tables others are still at sea.
    """
    count = random.choice(counts)
    in_harbour = (
        random.choice([few for few in counts if few <= count]) if is_varied and random.random() < 0.5 else count
    )
    first = random.choice(FIRST_NUMBERS)
    columns = [random.sample(values, count) for values in (SECOND, FLAGS, COLOURS, CREWS, TONS, CARGOES)]
    alone = count - random.randint(0, count // 3)
    ships = []
    for number, (second, flag, colour, crew, tons, cargo) in enumerate(zip(*columns, strict=True)):
        name = random.choice([name for first in FIRST if is_held_out(name := f"{first} {second}") is held_out])
        if is_varied:
            mate = random.randrange(number) if number and random.random() < number / (2 * count) else None
        else:
            mate = random.randrange(alone) if number >= alone else None
        ships.append(Ship(name, flag, colour, crew, tons, cargo, mate))
    return Table(tuple(ships[:in_harbour]), first, tuple(replace(ship, mate=None) for ship in ships[in_harbour:]))


def read_table(text: str) -> Table:
    """The table that was written as this text."""
    *lines, pairs = text.split("\n")
    half = len(lines) // 2
    first = int(text.split(maxsplit=1)[0])
    mates = {int(one): int(other) - first for one, other in re.findall(r"(\d+)\+(\d+)", pairs)}
    ships = []
    for number, (name, facts) in enumerate(zip(lines[:half], lines[half:], strict=True), start=first):
        _, given, family, flag, _ = name.split()
        _, colour, crew, tons, cargo = facts.split()
        ships.append(Ship(f"{given} {family}", flag, colour, int(crew), int(tons), cargo, mates.get(number)))
    count = 1 + next(at for at, line in enumerate(lines) if line.endswith("."))
    return Table(tuple(ships[:count]), first, tuple(ships[count:]))


def choose_berths(table: Table, random: Random) -> tuple[str, ...]:
    """What a writer might choose: any berth for a ship that lies alone."""
    berths: list[str] = []
    for ship in table.ships:
        berths.append(random.choice(BERTHS) if ship.mate is None else berths[ship.mate])
    return tuple(berths)


def ship_of(table: Table, at: int) -> str:
    """The first words of a sentence. They say whether another ship is needed, and whether this is the last one."""
    end = "." if at == len(table.ships) - 1 else ","
    return f"{_name(table, at)} {table.place(at)}{end}"


def _name(table: Table, at: int) -> str:
    ship = table.ships[at]
    return f"{table.first + at} {ship.name} {ship.flag}"


def in_brief(table: Table, at: int, berth: str) -> str:
    """A sentence without the words that are the same in all of them, and without saying anything twice."""
    return f"{_name(table, at)}{berth_of(table, at, berth)}{log(table, at)}."


def berth_of(table: Table, at: int, berth: str) -> str:
    """The words after those of `ship_of`, which others depend on."""
    return f" {table.place(at)}-{berth}"


def details(table: Table, at: int) -> str:
    """The rest of the sentence, which nothing depends on. Every other one is shorter, so that lengths differ."""
    end = "." if at % 2 else " with the help of two pilots and a boat."
    return (
        f"{log(table, at)}, and the ship leaves the harbour of our town at high tide on the first day of the week{end}"
    )


def log(table: Table, at: int) -> str:
    ship = table.ships[at]
    return f"; the log says #{table.first + at} {ship.colour} {ship.crew} {ship.tons} {ship.cargo}"


def last_line(table: Table, berths: Sequence[str]) -> str:
    return "Berths" + "".join(f" {table.place(at)}-{berth}" for at, berth in enumerate(berths)) + "."


# ── scores ───────────────────────────────────────────────────────────────────────────────────────────────


def score_answer(inputs: Mapping[str, Any], answer: str) -> Mapping[str, tuple[int, int]]:
    """`score` of an answer to the inputs of the program."""
    return score(read_table(inputs["table"]), answer)


def better_answer(inputs: Mapping[str, Any], first: str, second: str) -> tuple[str, float]:
    """`judge` of two answers: more of which is right, and how sure that is: wholly if nothing of the other one is."""
    shares = [_share_right(score_answer(inputs, answer)) for answer in (first, second)]
    verdict = "tie" if shares[0] == shares[1] else "first" if shares[0] > shares[1] else "second"
    return verdict, max(shares) / (sum(shares) or 1)


def _share_right(counts: Mapping[str, tuple[int, int]]) -> float:
    return sum(right for right, _ in counts.values()) / sum(whole for _, whole in counts.values())


def score(table: Table, answer: str) -> Mapping[str, tuple[int, int]]:
    """Of one answer, (right, all) of its sentences, of the berths of ships that lie with others, and of its last line.

    A sentence is right if it says what the table says, with the berth that its ship has to have.
    """
    written = dict(_ITEM.findall(answer))
    sentences = [written.get(str(table.first + at), "") for at in range(len(table.ships))]
    berths = [found[1] if (found := _BERTH.match(sentence)) else "" for sentence in sentences]
    waiting = [at for at in range(len(sentences)) if table.waits(at)]
    right = [_is_right(table, at, sentence, berths) for at, sentence in enumerate(sentences)]
    is_last_right = "" not in berths and answer.endswith("\n" + last_line(table, berths))
    return {
        "items": (sum(right), len(right)),
        "dependent items": (sum(right[at] for at in waiting), len(waiting)),
        "dependent berths": (sum(_agrees(table, at, berths) for at in waiting), len(waiting)),
        "last lines": (int(is_last_right), 1),
    }


def _is_right(table: Table, at: int, sentence: str, berths: Sequence[str]) -> bool:
    expected = ship_of(table, at) + berth_of(table, at, berths[at]) + details(table, at)
    return f"{table.first + at} {sentence}" == expected and _agrees(table, at, berths)


def _agrees(table: Table, at: int, berths: Sequence[str]) -> bool:
    mate = table.ships[at].mate
    return bool(berths[at]) and (mate is None or berths[mate] == berths[at])
