"""What changed between two plans, in words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

from pastalang.plan.branches import (
    Branch,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    InputText,
    ItemNumber,
    Join,
    Place,
    Repeat,
    Text,
    TurnStart,
)
from pastalang.plan.forecast import forecast
from pastalang.plan.plan import Plan
from pastalang.plan.serialise import encode, without_places
from pastalang.plan.structure import walk
from pastalang.values.describe import counted
from pastalang.values.paths import MAIN


def differences(old: Plan, new: Plan) -> tuple[str, ...]:
    """One sentence for each difference, from the whole to its parts: none if the plans are the same.

    Places in the source do not count. Where no sentence fits, the first difference is named by its place in the plan.
    """
    return (*_whole(old, new), *_answer(old, new), *_branches(old, new), *_cost(old, new)) or tuple(_rest(old, new))


def _whole(old: Plan, new: Plan) -> Iterator[str]:
    for what in ("template", "mode", "placement"):
        one, other = getattr(old, what), getattr(new, what)
        if one != other:
            yield f"the {what} is {_word(other)} instead of {_word(one)}"
    before, after = {input.name: input for input in old.inputs}, {input.name: input for input in new.inputs}
    yield from (f"input {name!r} is removed" for name in before if name not in after)
    yield from (f"input {name!r} is new" for name in after if name not in before)
    for name in (name for name in after if name in before):
        if (before[name].type, before[name].each) != (after[name].type, after[name].each):
            yield f"input {name!r} has another type"
        if before[name].default != after[name].default:
            yield f"input {name!r} has another default"


def _answer(old: Plan, new: Plan) -> Iterator[str]:
    """What the type of the answer says of its keys besides their types."""
    before, after = (dict(_keys(encode((plan.output, plan.types)))) for plan in (old, new))
    for path in (path for path in after if path in before):
        for what in ("description", "default"):
            if before[path].get(what) != after[path].get(what):
                yield f"{path!r} has another {what}"


def _keys(data: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    match data:
        case {"$": "Field", "key": key}:
            path = f"{path}.{key}".lstrip(".")
            yield path, data
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _keys(inner, path)


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
    if _roles(before) != _roles(after):
        yield f"writes messages of {_listed(_roles(after))} instead of {_listed(_roles(before))}"
    lists, others = _lists(old, before), _lists(new, after)
    for name in (name for name in others if lists.get(name, others[name]) != others[name]):
        yield f"{name} goes over {others[name]} instead of {lists[name]}"
    yield from _fields(before, after)
    one, other = _order(old, before), _order(new, after)
    if [part for part in one if part in other] != [part for part in other if part in one]:
        yield "writes its parts in another order"
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


def _rest(old: Plan, new: Plan) -> Iterator[str]:
    before, after = (without_places(encode(plan)) for plan in (old, new))
    for data in (before, after):
        del data["source_name"], data["source_text"]
    place = _first_difference(before, after)
    if place is not None:
        yield f"something else differs: {place.lstrip('.')}"


_MISSING: Final = object()


def _first_difference(old: Any, new: Any) -> str | None:
    """Its place in encoded data; None if there is none."""
    parts: list[tuple[str, Any, Any]] = []
    match old, new:
        case {"$": one}, {"$": other} if one == other:
            parts = [(f".{key}", old.get(key, _MISSING), new.get(key, _MISSING)) for key in {**old, **new}]
        case list(), list():
            pairs = zip_longest(old, new, fillvalue=_MISSING)
            parts = [(f"[{index}]", *pair) for index, pair in enumerate(pairs)]
        case _:
            return None if type(old) is type(new) and old == new else ""
    for step, one, other in parts:
        place = _first_difference(one, other)
        if place is not None:
            return step + place
    return None


def _decisions(branch: Branch) -> dict[str, Hole | Choose | Repeat]:
    found = (segment for _, segment in walk(branch.segments) if isinstance(segment, Hole | Choose | Repeat))
    return {segment.field: segment for segment in found}


def _texts(branch: Branch) -> list[Any]:
    """What it writes besides its decisions and branches: without places in the source."""
    found: list[object] = []
    for _, segment in walk(branch.segments):
        match segment:
            case Text(text=text):
                found.append(text)
            case InputText(path=path, block=block):
                found.append((path, block))
            case ItemNumber():
                found.append(segment)
            case Repeat():
                found += [segment.first, segment.between, segment.stop, segment.empty]
            case _:
                pass
    texts: list[Any] = without_places(encode(tuple(found)))
    return texts


def _roles(branch: Branch) -> list[str]:
    return [segment.role.value for _, segment in walk(branch.segments) if isinstance(segment, TurnStart)]


def _lists(plan: Plan, branch: Branch) -> dict[str, str]:
    """The list that each loop over a list goes over."""
    found: dict[str, str] = {}
    for _, segment in walk(branch.segments):
        match segment:
            case Each(branch=id, over=over):
                found[_name_of(plan, id)] = over
            case Repeat(field=field, over=str(over)):
                found[field] = over
            case _:
                pass
    return found


def _order(plan: Plan, branch: Branch) -> dict[tuple[str, str], None]:
    """What it decodes, starts, places and waits for, in order."""
    found: list[tuple[str, str]] = []
    for _, segment in walk(branch.segments):
        match segment:
            case Hole(field=field) | Choose(field=field) | Repeat(field=field):
                found.append(("field", field))
            case Fork(branch=id) | Each(branch=id):
                found.append(("branch", _name_of(plan, id)))
            case Place(branch=id):
                found.append(("place", _name_of(plan, id)))
            case Join(branches=ids):
                found += [("join", _name_of(plan, id)) for id in ids]
            case _:
                pass
    return dict.fromkeys(found)


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
