"""Branches taken up again: who has seen something wrong, and who stands in the answer instead. Points come in, new
instances go out.

    old  … "brand": ┬ "Foo"                        out of the answer, with all that was forked behind the point
    new             └ the lead … "Bar"             sees what the old one saw there, and its own lead
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pastalang.runtime.binding.spaced import given_to
from pastalang.testing.slow.branch import Again, Instance, Point
from pastalang.testing.slow.run import Run


@dataclass(frozen=True, eq=False)
class Taken:
    """`hidden` is out of the answer together with the old branch."""

    point: Point
    old: Instance
    new: Instance
    hidden: tuple[Instance, ...]


def behind(point: Point) -> list[Instance]:
    """Who has written or seen what stands at the point: its branch, and all that was forked from there on."""
    branch = point.branch.latest
    return [branch, *_descendants(branch.forked[point.forked :])]


def _descendants(forked: Iterable[Instance]) -> Iterator[Instance]:
    for child in forked:
        yield child.latest
        yield from _descendants(child.latest.forked)


def all_behind(points: Iterable[Point]) -> set[Instance]:
    return {one for point in points for one in behind(point)}


def outdated(run: Run, wrong: set[Instance]) -> list[Point]:
    """Who else has joined anything wrong or outdated goes on from the first such join; who is behind another one of
    these comes anew with that."""
    found: Mapping[Instance, Point] = {}
    while True:
        gone = wrong | all_behind(found.values())
        first = {one: _first_join(one, gone) for one in run.live if one not in wrong}
        now = {one: point for one, point in first.items() if point is not None}
        if now.keys() == found.keys() and all(now[one] is found[one] for one in now):
            return [point for one, point in now.items() if not _is_behind_another(one, now)]
        found = now


def _first_join(branch: Instance, gone: set[Instance]) -> Point | None:
    return next((point for point in branch.points if not gone.isdisjoint(point.joined)), None)


def _is_behind_another(branch: Instance, points: Mapping[Instance, Point]) -> bool:
    return any(other is not branch and branch in behind(point) for other, point in points.items())


def take_up(run: Run, places: Sequence[tuple[Point, str]]) -> list[Taken]:
    """All of them stand before the first one is written: who waits for others waits for the new ones. Where somebody
    joins it, what is told something stands behind all positions of the answer, and so does the next one behind it."""
    free = 1 + max(token.position for one in run.live for token in one.path)
    taken = []
    for point, text in places:
        lead = run.given.encoder.text(text.removesuffix(given_to(point.segment)))
        is_moved = bool(text) and point.branch.spec.id in run.joined
        taken.append(_take_up(run, point, lead, free if is_moved else point.position))
        new = taken[-1].new
        free = max(free, new.position + len(lead) + new.spec.reserve)
    return taken


def _take_up(run: Run, point: Point, lead: tuple[int, ...], position: int) -> Taken:
    old = point.branch.latest
    hidden = tuple(one for one in behind(point) if one is not old)
    new = Instance(
        old.spec, old.place, old.key, point.path, position, old.names, point.sees, run.passes,
        again=Again(point, lead), own_before=point.own,
    )  # fmt: skip
    run.add(new)
    old.replaced_by = new
    for one in (old, *hidden):
        one.is_out = True
    return Taken(point, old, new, hidden)


def undo(taken: Taken) -> None:
    """The old branch is in the answer again, and all that was hidden with it."""
    for one in (taken.new, *_descendants(taken.new.forked[taken.point.forked :])):
        one.is_out = True
    for one in (taken.old, *taken.hidden):
        one.is_out = False
    taken.old.replaced_by = None
