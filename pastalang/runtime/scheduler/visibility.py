"""What a branch sees: when it starts, after a join, among values in lock-step, and as the cells on the path of a token.

The values that a value in lock-step sees are fixed once all of them have begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pastalang.plan.branches import ROOT, BranchId, Instance
from pastalang.plan.positions import after_join
from pastalang.plan.run_log import Skipped, Started, Waited
from pastalang.runtime.events import Joined
from pastalang.runtime.scheduler.again import note_joined
from pastalang.runtime.scheduler.state import BranchState, RequestState, Seen, Source, Stage, view_from
from pastalang.runtime.step import CellId
from pastalang.values.paths import place_of


def start_branch(parent: BranchState, id: BranchId, items: tuple[int, ...], position: int, **more: Any) -> BranchState:
    """A branch that starts here: it sees what its parent sees now."""
    before = parent.sequence
    parent.record.log.append(Started(Instance(id, items), position - before.position))
    child: BranchState = parent.request.add(
        id, items, source=parent.last, view=view_from(parent), position=position, highest=before.highest,
        parent=parent, **more,
    )  # fmt: skip
    return child


def skip_to(branch: BranchState, position: int) -> None:
    """Leave positions free for branches that have started."""
    sequence = branch.sequence
    if position > sequence.position:
        branch.record.log.append(Skipped(position - sequence.position))
        sequence.position = position


def has_pending_instances(joiner: BranchState, id: BranchId, shared: tuple[int, ...]) -> bool:
    """Whether a branch that does not exist yet may become an instance of `id` whose items begin with `shared`."""
    if id == ROOT:
        return False
    request = joiner.request
    origin = request.tokens.nesting.origins[id]
    loops = len(request.tokens.nesting.loops[origin.parent])
    parents = request.live.instances(origin.parent, shared[:loops])
    for parent in parents:
        if parent is not joiner and not parent.has_ended and not parent.cursor.has_passed(origin.address, shared):
            return True
    # The ancestors of the joiner exist already; it does not wait for other instances of them.
    if any(parent is joiner for parent in parents):
        return False
    return has_pending_instances(joiner, origin.parent, shared[:loops])


def joined_by(branch: BranchState) -> tuple[BranchState, ...] | None:
    """The branches that a join waits for, in the order of the program; None while one of them has not ended."""
    assert branch.pending.wait is not None
    found: list[BranchState] = []
    for awaited in branch.pending.wait.awaited:
        instances = branch.request.live.instances(awaited.branch, awaited.items)
        if not all(one.has_ended for one in instances):
            return None
        if has_pending_instances(branch, awaited.branch, awaited.items):
            return None
        found += instances
    return tuple(found)


def join(branch: BranchState, joined: tuple[BranchState, ...]) -> None:
    note_joined(branch, joined)
    branch.record.log.append(Waited(tuple(one.instance for one in joined)))
    sequence = branch.sequence
    index = len(sequence.tokens)
    before = sequence.joins.get(index, ())
    sequence.joins[index] = (*before, *(one for one in joined if one not in before))
    known = {seen.branch: seen.length for seen in sequence.view}
    for one in joined:
        for seen in (*one.sequence.view, Seen(one, len(one.sequence.tokens))):
            if seen.branch is not branch and seen.length > known.get(seen.branch, -1):
                if seen.branch not in known:
                    seen.branch.memory.viewers += 1
                known[seen.branch] = seen.length
    sequence.view = tuple(Seen(seen, length) for seen, length in known.items())
    sequence.sees = sum(known.values())
    sequence.highest = max([sequence.highest, *map(highest_seen, joined)])
    sequence.position = after_join(sequence.position, sequence.highest, branch.spec.overrun)
    if joined:
        branch.record.joins.append((branch.pending.since, index, joined))
        places = tuple(place_of(one.name, one.items) for one in joined)
        branch.request.events.report(Joined(branch.name, branch.items, places))


def prefetch_joined(request: RequestState) -> None:
    """With chunks, feed text that a join will need while other branches are still awaited.

    Otherwise its passes would come after theirs. Without chunks the text takes one pass, the one that needs it.
    """
    for branch in list(request.memory.held):
        length, memory = len(branch.sequence.tokens), branch.memory
        if length > memory.demand:
            if _will_be_seen(branch):
                branch.need(length)
            elif memory.children:
                branch.need(1 + max(index for index, _ in memory.children))


def _will_be_seen(branch: BranchState) -> bool:
    if branch.request.tokens.joiners[branch.spec.id]:
        return True
    return branch.stage is Stage.JOINING and branch.cursor.may_draw


def values_before(branch: BranchState) -> list[BranchState | None]:
    """The earlier values of the branch's group, the nearest first. None stands for a value that has not begun."""
    assert branch.spec.lockstep is not None
    sequence = branch.sequence
    if sequence.values_before is not None:
        return list(sequence.values_before)
    found = [value for index, value in _values(branch) if index < branch.spec.lockstep.index][::-1]
    begun = [value for value in found if value is not None]
    if len(begun) == len(found):
        sequence.values_before = begun
    return found


def values_after(branch: BranchState) -> list[BranchState | None]:
    """The later values of the branch's group. None stands for a value that has not begun."""
    assert branch.spec.lockstep is not None
    return [value for index, value in _values(branch) if index > branch.spec.lockstep.index]


def _values(branch: BranchState) -> Iterator[tuple[int, BranchState | None]]:
    """All values of the branch's group, each with its index."""
    assert branch.spec.lockstep is not None
    for member in branch.request.tokens.lockstep_groups[branch.spec.lockstep.group]:
        assert member.lockstep is not None
        instances = branch.request.live.instances(member.id, branch.items)
        yield member.lockstep.index, instances[0] if instances else None


def highest_seen(branch: BranchState) -> int:
    """The highest position that a branch has or sees, including the tokens it sees in lock-step."""
    sequence = branch.sequence
    if branch.spec.lockstep is None:
        return sequence.highest
    values = (value.sequence for value in values_before(branch) if value is not None)
    levels = ((value, min(len(value.tokens), len(sequence.tokens))) for value in values)
    return max([sequence.highest, *(value.positions[count - 1] for value, count in levels if count)])


def cells_of_path(source: Source) -> tuple[CellId, ...]:
    """The cells that a token sees, its own last. All of them have been fed.

    The order is the one in which they came to be seen, which layers with a window count by: where the branch began,
    then for each token the branches joined before it, the same token of earlier values in lock-step, and itself.
    """
    path = _Path()
    path.add(source)
    return tuple(path.cells)


class _Path:
    def __init__(self) -> None:
        self.cells: dict[CellId, None] = {}
        self._known: dict[BranchState, int] = {}  # how many tokens of a branch have been added

    def add(self, source: Source) -> None:
        branch, count = source.branch, source.index + 1
        known = self._known.get(branch, 0)
        if count <= known:
            return
        sequence, cells = branch.sequence, branch.memory.cells
        if known == 0 and sequence.source is not None:
            self.add(sequence.source)
        self._known[branch] = count
        for index in range(known, count):
            for one in sequence.joins.get(index, ()):
                if one.last is not None:
                    self.add(one.last)
            self._add_level(branch, index)
            self.cells[cells[index]] = None

    def _add_level(self, branch: BranchState, index: int) -> None:
        if branch.spec.lockstep is not None:
            for value in reversed(values_before(branch)):
                if value is not None and index < len(value.sequence.tokens):
                    self.cells[value.memory.cells[index]] = None
