"""What changed between two plans, in words."""

from __future__ import annotations

from collections.abc import Iterator

from pastalang.plan.branches import Branch, BranchId, Choose, Hole, Join, Repeat
from pastalang.plan.forecast import forecast
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk
from pastalang.values.describe import counted
from pastalang.values.paths import MAIN


def differences(old: Plan, new: Plan) -> tuple[str, ...]:
    """One sentence for each difference, from the whole to its parts. Places in the source do not count."""
    return (*_whole(old, new), *_branches(old, new), *_cost(old, new))


def _whole(old: Plan, new: Plan) -> Iterator[str]:
    if old.mode is not new.mode:
        yield f"the mode is {new.mode.value} instead of {old.mode.value}"
    before, after = {input.name: input for input in old.inputs}, {input.name: input for input in new.inputs}
    yield from (f"input {name!r} is removed" for name in before if name not in after)
    yield from (f"input {name!r} is new" for name in after if name not in before)
    for name in before.keys() & after.keys():
        if (before[name].type, before[name].each) != (after[name].type, after[name].each):
            yield f"input {name!r} has another type"


def _branches(old: Plan, new: Plan) -> Iterator[str]:
    before = {branch.name: branch for branch in old.branches}
    after = {branch.name: branch for branch in new.branches}
    yield from (f"branch {_name(name)} is removed" for name in before if name not in after)
    yield from (f"branch {_name(name)} is new" for name in after if name not in before)
    for name, branch in after.items():
        if name in before:
            yield from (f"{_name(name)}: {change}" for change in _branch(old, before[name], new, branch))


def _branch(old: Plan, before: Branch, new: Plan, after: Branch) -> Iterator[str]:
    if _parent(old, before) != _parent(new, after):
        yield f"starts from {_name(_parent(new, after))} instead of {_name(_parent(old, before))}"
    waited, waits = _joined(old, before), _joined(new, after)
    if waited != waits:
        yield f"waits for {_listed(waits)} instead of {_listed(waited)}"
    if _seen(old, before) != _seen(new, after):
        yield f"sees {_listed(_seen(new, after))} at its start instead of {_listed(_seen(old, before))}"
    for what in ("reserve", "overrun", "release"):
        one, other = getattr(before, what), getattr(after, what)
        if one != other:
            yield f"its {what} is {_word(other)} instead of {_word(one)}"
    if (before.lockstep is None) != (after.lockstep is None):
        yield "is now in lock-step" if after.lockstep else "is no longer in lock-step"
    yield from _fields(before, after)
    if _texts(before) != _texts(after):
        yield "writes other text"


def _fields(before: Branch, after: Branch) -> Iterator[str]:
    old, new = _decisions(before), _decisions(after)
    yield from (f"field {field!r} is removed" for field in old if field not in new)
    yield from (f"field {field!r} is new" for field in new if field not in old)
    for field in [field for field in new if field in old]:
        yield from (f"{field!r} {change}" for change in _field(old[field], new[field]))


_KINDS = {Hole: "value", Choose: "choice", Repeat: "list"}


def _field(old: Hole | Choose | Repeat, new: Hole | Choose | Repeat) -> Iterator[str]:
    if type(old) is not type(new):
        yield f"is a {_KINDS[type(new)]} instead of a {_KINDS[type(old)]}"
        return
    if isinstance(old, Hole) and isinstance(new, Hole):
        if old.type != new.type:
            yield "has another type"
        if old.max_tokens != new.max_tokens:
            yield f"may take {counted(new.max_tokens, 'token')} instead of {old.max_tokens}"
    if isinstance(old, Repeat) and isinstance(new, Repeat):
        counts = (old.minimum, old.maximum), (new.minimum, new.maximum)
        if counts[0] != counts[1]:
            yield f"has {new.minimum} to {new.maximum} items instead of {old.minimum} to {old.maximum}"
    if isinstance(old, Choose) and isinstance(new, Choose):
        arms = [arm.label for arm in old.arms], [arm.label for arm in new.arms]
        if arms[0] != arms[1]:
            yield f"chooses between {_listed(arms[1])} instead of {_listed(arms[0])}"
    if old.sampling != new.sampling:
        yield "has other sampling options"


def _cost(old: Plan, new: Plan) -> Iterator[str]:
    before, after = forecast(old), forecast(new)
    if before.passes != after.passes:
        passes = "1 pass" if str(after.passes) == "1" else f"{after.passes} passes"
        yield f"takes {passes} instead of {before.passes}"


def _decisions(branch: Branch) -> dict[str, Hole | Choose | Repeat]:
    found = (segment for _, segment in walk(branch.segments) if isinstance(segment, Hole | Choose | Repeat))
    return {segment.field: segment for segment in found}


def _texts(branch: Branch) -> list[tuple[str, object]]:
    """What it writes besides its decisions and branches: without places in the source."""
    return [
        (type(segment).__name__, getattr(segment, "text", getattr(segment, "path", None)))
        for _, segment in walk(branch.segments)
        if type(segment).__name__ in ("Text", "InputText", "TurnStart", "TurnEnd", "ItemNumber")
    ]


def _joined(plan: Plan, branch: Branch) -> list[str]:
    joins = (segment for _, segment in walk(branch.segments) if isinstance(segment, Join))
    return [_name_of(plan, id) for join in joins for id in join.branches]


def _seen(plan: Plan, branch: Branch) -> list[str]:
    return [_name_of(plan, seen.branch) for seen in branch.view]


def _parent(plan: Plan, branch: Branch) -> str:
    return "" if branch.parent is None else plan.branch(branch.parent).name


def _name_of(plan: Plan, id: BranchId) -> str:
    return _name(plan.branch(id).name)


def _name(name: str) -> str:
    return name or MAIN


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "nothing"


def _word(value: object) -> object:
    return getattr(value, "value", value)
