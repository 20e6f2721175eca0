"""A run over very many documents on a thousand actors that fail, simulated with the dispatcher that `--ray` uses.

    python -m benchmarks.simulate_cluster

The dispatcher is `pastalang.bulk.pool` itself; only time, the actors and the disk are simulated. Each driver commits
chunks one after another, as `pasta extract` does, and cannot give out work meanwhile. Every rate below is printed with
the result, and is an option of the command.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice

from pastalang.bulk.documents import Document
from pastalang.bulk.pool import rows_of_pool
from pastalang.bulk.rows import Row

CHUNK = 256
_HOUR = 3600.0
_GOOD, _POISON = Document({}, "good"), Document({}, "poison")
_ROW: Row = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Where each figure comes from is in docs/scale.md.

    documents      in all
    actors         processes that decode, all drivers together
    drivers        processes that read, give out and commit, each a share of the documents
    rate           documents per second of an actor that nothing disturbs
    slow           the share of actors that work at half that rate
    crash_hours    the mean time between failures of an actor with its machine
    preempt_hours  the mean time until an actor is preempted
    crash_back     seconds until a failed actor is there again
    preempt_back   seconds until a preempted one is replaced
    poison         the share of documents that kill the process that decodes them
    commit         seconds in which a driver encodes and writes a chunk
    """

    documents: int = 500_000_000
    actors: int = 1_000
    drivers: int = 16
    rate: float = 40.0
    slow: float = 0.01
    crash_hours: float = 50_000.0
    preempt_hours: float = 7_200.0
    crash_back: float = 600.0
    preempt_back: float = 300.0
    poison: float = 1e-7
    commit: float = 0.04


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one driver. `busy` is the share of the time in which actors decoded what counts, of what they could have."""

    hours: float
    busy: float
    committing: float  # the share of its time in which the driver commits
    deaths: int
    failed: int  # documents
    redone: float  # the share of all decoding that was lost with a process
    waiting: int  # the most chunks that a driver held because an earlier one was missing
    last: float  # hours from when the first actor has nothing to do until the end
    journal: float  # MiB


class SimulatedActors:
    """Actors on a clock of their own. An actor that has died is not idle until it is back."""

    def __init__(self, rates: Rates, *, seed: int) -> None:
        self.now = 0.0
        self.deaths = 0
        self.worked = self.lost = 0.0
        self._rates = rates
        self._chance = random.Random(seed)
        self.size = rates.actors // rates.drivers
        slow = self._chance.sample(range(self.size), round(rates.slow * self.size))
        self._speed: dict[Hashable, float] = dict.fromkeys(range(self.size), rates.rate)
        self._speed.update(dict.fromkeys(slow, rates.rate / 2))
        self._free: dict[Hashable, None] = dict.fromkeys(range(self.size))
        self._events: list[tuple[float, int, bool, float, int]] = []  # when, who, whether it dies, its work, documents
        self._back: list[tuple[float, int]] = []

    @property
    def idle(self) -> Sequence[Hashable]:
        while self._back and self._back[0][0] <= self.now:
            self._free[heapq.heappop(self._back)[1]] = None
        return list(self._free)

    def start(self, worker: Hashable, documents: Sequence[Document]) -> None:
        assert isinstance(worker, int)
        del self._free[worker]
        work = len(documents) / self._speed[worker] * self._chance.lognormvariate(0.0, 0.1)
        hourly = 1 / self._rates.crash_hours + 1 / self._rates.preempt_hours
        end = self._chance.expovariate(hourly / _HOUR)
        if _POISON in documents:
            end = min(end, self._chance.uniform(0, work))
        event = (self.now + min(end, work), worker, end < work, min(end, work), len(documents))
        heapq.heappush(self._events, event)

    def wait(self, seconds: float) -> Mapping[Hashable, list[Row] | str]:
        if self._back and self._free == {} and self._back[0][0] < self._events[0][0]:
            self.now = max(self.now, self._back[0][0])
            return {}
        when, worker, is_dead, work, count = heapq.heappop(self._events)
        self.now = max(self.now, when)
        if is_dead:
            self.deaths += 1
            self.lost += work
            crashes = 1 / self._rates.crash_hours
            is_crash = self._chance.random() < crashes / (crashes + 1 / self._rates.preempt_hours)
            back = self._rates.crash_back if is_crash else self._rates.preempt_back
            heapq.heappush(self._back, (self.now + back, worker))
            return {worker: "preempted"}
        self.worked += work
        self._free[worker] = None
        return {worker: [_ROW] * count}

    def kill(self, worker: Hashable) -> None:
        raise AssertionError("no simulated actor hangs")

    def failed(self, document: Document, reason: str) -> Row:
        return {"_status": "error"}


def simulate(rates: Rates, *, seed: int = 0) -> Outcome:
    """One driver with its share of the documents and of the actors."""
    actors = SimulatedActors(rates, seed=seed)
    count = rates.documents // rates.drivers
    chance = random.Random(seed + 1)
    taken = failed = given = waiting = 0
    idle_since: float | None = None

    def documents() -> Iterator[Document]:
        nonlocal taken, idle_since
        gap = int(chance.expovariate(rates.poison)) if rates.poison else count
        while taken < count:
            taken += 1
            gap -= 1
            yield _GOOD if gap >= 0 else _POISON
            if gap < 0:
                gap = int(chance.expovariate(rates.poison))
        idle_since = actors.now

    rows = rows_of_pool(actors, documents(), batch=CHUNK, clock=lambda: actors.now)
    while chunk := list(islice(rows, CHUNK)):
        failed += sum(row is not _ROW for _, row in chunk)
        given += len(chunk)
        waiting = max(waiting, (taken - given) // CHUNK - actors.size)
        actors.now += rates.commit
    assert given == count
    chunks = count / CHUNK
    return Outcome(
        hours=actors.now / _HOUR,
        busy=actors.worked / (actors.now * actors.size),
        committing=chunks * rates.commit / actors.now,
        deaths=actors.deaths,
        failed=failed,
        redone=actors.lost / (actors.worked + actors.lost),
        waiting=max(waiting, 0),
        last=(actors.now - (idle_since or actors.now)) / _HOUR,
        journal=chunks * 166 / 2**20,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for one in fields(Rates):
        default = one.default
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=type(default), default=default)
    rates = Rates(**vars(parser.parse_args()))
    found = simulate(rates)
    for name, value in {**asdict(rates), **asdict(found)}.items():
        print(f"{name:<16} {value:,.4g}" if isinstance(value, float) else f"{name:<16} {value:,}")


if __name__ == "__main__":
    main()
