"""Check a plan against every rule, on each plan that is built or read; a breach is a mistake of ours.

A rule is a function that yields a sentence for each breach. The rules of views and memory do not repeat the computation
of `views.py` and `liveness.py`. Those carry views forward along the branches; the rules look back from each branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, TypeAlias

from pastalang.graphs import find_cycle
from pastalang.plan.branches import (
    ROOT,
    WHOLE,
    Address,
    BranchId,
    Choose,
    Each,
    Fork,
    Hole,
    ItemNumber,
    Join,
    Overrun,
    Place,
    Placement,
    Release,
    Repeat,
    Seen,
    Segment,
    Text,
    TurnEnd,
    TurnStart,
)
from pastalang.plan.dependencies import Piece, pieces_of
from pastalang.plan.plan import Plan
from pastalang.plan.structure import (
    fields_of,
    forked_by,
    joined_in,
    joins_of,
    origins_of,
    synced_in,
    visit,
    walk,
    walk_plan,
)
from pastalang.plan.token_bounds import max_tokens_of


def every_branch_is_forked_once_by_its_parent(plan: Plan) -> Iterator[str]:
    for index, branch in enumerate(plan.branches):
        if branch.id != index:
            yield f"branch {branch.id} is at index {index}"
    forks: Counter[BranchId] = Counter()
    for branch, _, segment in walk_plan(plan):
        child = forked_by(segment)
        if child is not None:
            forks[child] += 1
            if plan.branches[child].parent != branch.id:
                yield f"{_name(plan, child)} is forked by {_name(plan, branch.id)}, which is not its parent"
    for branch in plan.branches:
        expected = 0 if branch.id == ROOT else 1
        if forks[branch.id] != expected:
            yield f"{_name(plan, branch.id)} is forked {forks[branch.id]} times"


def every_branch_can_be_reached(plan: Plan) -> Iterator[str]:
    reached = {ROOT}
    for branch in plan.branches:
        path = []
        id: BranchId | None = branch.id
        while id is not None and id not in reached and id not in path:
            path.append(id)
            id = plan.branches[id].parent
        if id is None or id not in reached:
            yield f"{_name(plan, branch.id)} cannot be reached"
        else:
            reached.update(path)


def a_text_is_placed_after_its_fork(plan: Plan) -> Iterator[str]:
    for branch in plan.branches:
        forked: set[BranchId] = set()
        placed: set[BranchId] = set()
        for _, segment in walk(branch.segments):
            if isinstance(segment, Fork):
                forked.add(segment.branch)
            if isinstance(segment, Place):
                if segment.branch not in forked or segment.branch in placed:
                    yield f"{_name(plan, segment.branch)} is placed before its fork, or twice"
                placed.add(segment.branch)


def _name(plan: Plan, id: BranchId) -> str:
    return f"branch {id} ({plan.branches[id].name or 'the root'})"


def fields_have_names_of_their_own(plan: Plan) -> Iterator[str]:
    fields = Counter(segment.field for _, _, segment in fields_of(plan))
    yield from (f"{count} fields are called {name!r}" for name, count in fields.items() if count > 1)


def branches_have_names_of_their_own(plan: Plan) -> Iterator[str]:
    names = Counter(branch.name for branch in plan.branches)
    yield from (f"{count} branches are called {name!r}" for name, count in names.items() if count > 1)


def a_list_to_go_through_exists(plan: Plan) -> Iterator[str]:
    fields = {segment.field for _, _, segment in fields_of(plan)}
    for _, _, segment in walk_plan(plan):
        match segment:
            case Each(over=over, over_hole=True) | Repeat(over=str() as over, over_hole=True):
                if not any(over == field or over.startswith(f"{field}.") for field in fields):
                    yield f"nothing writes the list {over!r}"
            case _:
                pass


def the_leads_of_a_choice_are_distinct(plan: Plan) -> Iterator[str]:
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Choose) and not tells_apart([arm.lead for arm in segment.arms]):
            yield f"the arms of {segment.field!r} begin with the same text"


def an_item_differs_from_the_end_of_its_list(plan: Plan) -> Iterator[str]:
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Repeat) and segment.over is None:
            yield from _repeat(segment)


def a_hole_has_room(plan: Plan) -> Iterator[str]:
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Hole) and segment.max_tokens < 1:
            yield f"{segment.field!r} may take no token at all"


def threads_follow_the_tags_of_their_text(plan: Plan) -> Iterator[str]:
    texts = {
        segment.threads: segment
        for _, _, segment in walk_plan(plan)
        if isinstance(segment, Hole) and segment.threads is not None
    }
    for branch in plan.branches:
        holes = [segment for _, segment in walk(branch.segments) if isinstance(segment, Hole) and segment.is_thread]
        policies = [hole.auto for hole in holes]
        text = texts.get(branch.id)
        if policies != ([] if text is None else [text.auto]):
            yield f"{_name(plan, branch.id)} has the holes of {len(holes)} threads, or of another policy than its text"
    if plan.auto is not None and [text.auto for text in texts.values()] != [plan.auto]:
        yield f"the answer is one text of {plan.auto.value}, and there are {len(texts)}"


def tells_apart(texts: list[str]) -> bool:
    """Whether reading on decides between these texts: none is empty, and none begins another."""
    ordered = sorted(texts)
    return all(ordered) and not any(second.startswith(first) for first, second in pairwise(ordered))


def _repeat(repeat: Repeat) -> Iterator[str]:
    if not 0 <= repeat.minimum <= repeat.maximum:
        yield f"{repeat.field!r} has {repeat.minimum} to {repeat.maximum} items"
    if repeat.minimum == repeat.maximum:
        return
    if repeat.stop is None:
        if not repeat.first or not repeat.between:
            yield f"an item of {repeat.field!r} begins with nothing"
        return
    if repeat.maximum > 1 and not tells_apart([_start(repeat.between), repeat.stop]):
        yield f"another item of {repeat.field!r} begins with the same text as its end"
    if repeat.minimum == 0 and not tells_apart([_start(repeat.first), repeat.empty or ""]):
        yield f"the first item of {repeat.field!r} begins with the same text as the empty list"


def _start(lead: tuple[Text | ItemNumber, ...]) -> str:
    """How the second item begins; the numbers of others have been looked at by the policy."""
    return "".join("2" if isinstance(segment, ItemNumber) else segment.text for segment in lead)


def no_branches_wait_for_one_another(plan: Plan) -> Iterator[str]:
    pieces, edges = pieces_of(plan)
    needs: dict[Piece, list[Piece]] = {piece: [] for piece in pieces}
    for source, target in edges:
        needs[target].append(source)
    cycle = find_cycle(needs)  # every plan is verified, also by commands that should not wait for networkx
    if cycle is not None:
        around = " -> ".join(plan.branches[piece.branch].name or "the root" for piece in (*cycle, cycle[0]))
        yield f"these wait for one another: {around}"


def only_what_can_end_is_joined(plan: Plan) -> Iterator[str]:
    for branch, _, segment in walk_plan(plan):
        if isinstance(segment, Join):
            above = set(_line(plan, branch.id))
            for joined in segment.branches:
                if joined in above:
                    yield f"{branch.name!r} joins {plan.branches[joined].name!r}, from which it is forked itself"
            if not segment.branches or len(set(segment.branches)) != len(segment.branches):
                yield f"{branch.name!r} has a join of nothing, or of one branch twice"


def something_is_fed_after_a_join(plan: Plan) -> Iterator[str]:
    for branch in plan.branches:
        for found in visit(branch.segments):
            if isinstance(found.segment, Join) and found.following is not None and not _is_fed(found.following):
                yield f"{branch.name!r} decides right after a join, having read nothing of what it joined"


def _is_fed(segment: Segment) -> bool:
    return isinstance(segment, Join | TurnEnd | TurnStart) or (isinstance(segment, Text) and bool(segment.text))


def _line(plan: Plan, id: BranchId) -> Iterator[BranchId]:
    """The branch, its parent, and so on to the root."""
    here: BranchId | None = id
    while here is not None:
        yield here
        here = plan.branches[here].parent


def a_view_holds_only_what_comes_before(plan: Plan) -> Iterator[str]:
    known = _Known(plan)
    for branch in plan.branches:
        way, joined = known.before(branch.id)
        for seen in branch.view:
            on_the_way = way.get(seen.branch)
            is_prefix = on_the_way is not None and seen.until != WHOLE and seen.until <= on_the_way
            if not is_prefix and seen.branch not in joined:
                yield f"{branch.name!r} sees {plan.branches[seen.branch].name!r} before it is known"


def a_view_holds_the_whole_way_from_the_root(plan: Plan) -> Iterator[str]:
    origins = origins_of({branch.id: branch.segments for branch in plan.branches})
    for branch in plan.branches:
        if branch.id != ROOT:
            origin = origins[branch.id]
            if Seen(origin.parent, origin.address) not in branch.view:
                yield f"{branch.name!r} does not see its parent up to its fork"
            missing = {seen.branch for seen in plan.branches[origin.parent].view} - {
                seen.branch for seen in branch.view
            }
            if missing:
                yield f"{branch.name!r} does not see all that its parent sees"


def memory_is_kept_while_it_can_be_seen(plan: Plan) -> Iterator[str]:
    """Joining a branch shows all that it sees, so none of that may be released when that branch alone has ended."""
    ends = _Ends(plan)
    forgotten = {branch.id for branch in plan.branches if branch.release is Release.AT_END}
    seen_by_root = {ROOT}
    for branch in plan.branches:
        mine = {branch.id} | {seen.branch for seen in branch.view}
        for joined in ends.joins[branch.id]:
            shown = ends.seen_by(joined) - mine
            for other in sorted(shown & forgotten):
                yield f"{plan.branches[other].name!r} is released at its end, and {branch.name!r} still joins it"
            if branch.id == ROOT:
                seen_by_root |= shown
    for other in sorted(seen_by_root):
        if plan.branches[other].release is not Release.NEVER:
            yield f"{plan.branches[other].name!r} is released, and the root sees it to the end"


class _Ends:
    """What a branch sees when it has ended: itself, its view, what it joined, and what those saw at their ends."""

    def __init__(self, plan: Plan) -> None:
        self._views = [{seen.branch for seen in branch.view} | {branch.id} for branch in plan.branches]
        self._known: dict[BranchId, set[BranchId]] = {}
        self.joins = [(*joined_in(each.segments), *synced_in(each.segments)) for each in plan.branches]

    def seen_by(self, id: BranchId) -> set[BranchId]:
        if id not in self._known:
            found: set[BranchId] = set()
            looked_at, waiting = {id}, [id]
            while waiting:
                branch = waiting.pop()
                known = self._known.get(branch)
                found |= self._views[branch] if known is None else known
                if known is None:
                    waiting.extend(other for other in self.joins[branch] if other not in looked_at)
                    looked_at.update(self.joins[branch])
            self._known[id] = found
        return self._known[id]


class _Known:
    """What has surely been written when a branch starts: its way from the root, and what was joined on the way."""

    def __init__(self, plan: Plan) -> None:
        segments = {branch.id: branch.segments for branch in plan.branches}
        self._joins = {id: joins_of(written) for id, written in segments.items()}
        self._origins = origins_of(segments)
        self._ends = _Ends(plan)

    def before(self, id: BranchId) -> tuple[dict[BranchId, Address], set[BranchId]]:
        way: dict[BranchId, Address] = {}
        joined: set[BranchId] = set()
        here = id
        while here != ROOT:
            origin = self._origins[here]
            way[origin.parent] = origin.address
            for join in self._joins[origin.parent][: origin.joined]:
                for branch in join:
                    joined |= self._ends.seen_by(branch)
            here = origin.parent
        return way, joined


def documents_of_a_stack_start_at_one_position(plan: Plan) -> Iterator[str]:
    for _, _, segment in walk_plan(plan):
        if isinstance(segment, Each) and segment.stacked and plan.branches[segment.branch].reserve != 0:
            yield f"the documents of {segment.name!r} do not start at one position"


def positions_never_go_back(plan: Plan) -> Iterator[str]:
    for branch in plan.branches:
        if branch.reserve < 0:
            yield f"{branch.name!r} reserves {branch.reserve} positions"
        if plan.placement is Placement.DENSE and (branch.reserve or branch.overrun is not Overrun.CONTINUE):
            yield f"{branch.name!r} has a gap in a dense plan"


def values_in_lock_step_fit_their_gaps(plan: Plan) -> Iterator[str]:
    """Later text sees them, so an overrun would put two visible tokens at one position."""
    reserves = {branch.id: branch.reserve for branch in plan.branches}
    for branch in plan.branches:
        if branch.lockstep is not None and max_tokens_of(branch.segments, reserves) > branch.reserve:
            yield f"{branch.name!r} can become longer than its gap of {branch.reserve}"


def a_lock_step_group_counts_its_values(plan: Plan) -> Iterator[str]:
    groups: dict[int, list[int]] = {}
    for branch in plan.branches:
        if branch.lockstep is not None:
            groups.setdefault(branch.lockstep.group, []).append(branch.lockstep.index)
    for group, indexes in groups.items():
        if sorted(indexes) != list(range(len(indexes))):
            yield f"the values of group {group} are numbered {sorted(indexes)}"


# ── all of them ───────────────────────────────────────────────────────────────────────────────────────


Rule: TypeAlias = Callable[[Plan], Iterator[str]]

# The others take these for granted.
FORM: Final[tuple[tuple[str, Rule], ...]] = (
    (
        "every branch but the root is forked exactly once, by its parent",
        every_branch_is_forked_once_by_its_parent,
    ),
    ("every branch, and so every hole, can be reached from the root", every_branch_can_be_reached),
)

RULES: Final[tuple[tuple[str, Rule], ...]] = (
    *FORM,
    ("a text is placed once, after its fork", a_text_is_placed_after_its_fork),
    ("no two fields have the same name", fields_have_names_of_their_own),
    ("no two branches have the same name", branches_have_names_of_their_own),
    ("a list to go through is written by some branch", a_list_to_go_through_exists),
    ("every hole may take at least one token", a_hole_has_room),
    ("threads follow the tags of their text", threads_follow_the_tags_of_their_text),
    (
        "the leads of a choice are distinct, and none begins another",
        the_leads_of_a_choice_are_distinct,
    ),
    ("an item differs at once from the end of its list", an_item_differs_from_the_end_of_its_list),
    ("no branches wait for one another", no_branches_wait_for_one_another),
    ("only what can end is joined", only_what_can_end_is_joined),
    ("something is fed between a join and the next decision", something_is_fed_after_a_join),
    ("a view holds only what comes before", a_view_holds_only_what_comes_before),
    ("a view holds the whole way from the root", a_view_holds_the_whole_way_from_the_root),
    ("memory is kept while it can be seen", memory_is_kept_while_it_can_be_seen),
    ("positions never go back", positions_never_go_back),
    ("documents of a stack start at one position", documents_of_a_stack_start_at_one_position),
    ("values in lock-step fit their gaps", values_in_lock_step_fit_their_gaps),
    ("the values of a lock-step group are numbered from 0", a_lock_step_group_counts_its_values),
)


class BrokenPlan(AssertionError):
    """A plan breaks one of the  The program is correct."""

    def __init__(self, plan: Plan, rule: str, breach: str) -> None:
        super().__init__(
            f"the plan of template {plan.template!r} breaks a rule ({rule}): {breach}. "
            "This is a mistake in PastaLang, not in the program; please report it together with the program."
        )
        self.rule = rule
        self.breach = breach


def verify(plan: Plan) -> None:
    """Raise `BrokenPlan` for the first rule that is broken."""
    for rule, breach in breaches(plan):
        raise BrokenPlan(plan, rule, breach)


def breaches(plan: Plan) -> Iterator[tuple[str, str]]:
    """Every broken rule with what breaks it; of a plan that is not even a tree only that."""
    is_formed = True
    for sentence, rule in RULES:
        if (sentence, rule) not in FORM and not is_formed:
            return
        for breach in rule(plan):
            is_formed = is_formed and (sentence, rule) not in FORM
            yield sentence, breach
