"""The worked examples of the papers whose methods become policies here."""

from __future__ import annotations

import pytest

from pastalang import Mode, Plan
from pastalang.plan.branches import Instance, Overrun, Placement, Release
from pastalang.plan.positions import after_fork, after_join, tokens_left
from pastalang.plan.run_log import Drawn, RunLog
from pastalang.plan.serialise import from_json, to_json
from pastalang.plan.simulate import Simulator, simulate
from pastalang.program import types as t
from pastalang.runtime.attention.plain_views import FedToken, PlainViews
from pastalang.runtime.step import CellId, RowId, Run, StepBatch, TokenId
from tests.plan.given_runs import Outcome, Outcomes, first_pass, given_run, last_draw
from tests.plan.programs import async_, field, hole, json_body, named, plan_of, sync, text, text_body


def skeleton(attributes: int, k_max: int, mode: Mode = Mode.STRICT) -> Plan:
    return plan_of(json_body(*[field(f"a{n}", t.String(k_max)) for n in range(attributes)]), mode=mode)


def run(plan: Plan, prompt: int, blocks: list[int], draws: list[int]) -> RunLog:
    """A prompt and attribute blocks of so many tokens; values of so many draws."""
    turns = (0, 0, 0, 0, 0, 0, 0)  # the texts and marks in front of the skeleton; the prompt is counted in one piece
    runs = {Instance(plan.branches[0].id): Outcomes((), (*turns[:-1], prompt, *blocks, 1))}
    for branch, count in zip(plan.branches[1:], draws, strict=True):
        runs[Instance(branch.id)] = Outcomes((Drawn.plain(count),))
    return given_run(plan, runs)


def starts(plan: Plan, run_log: RunLog) -> list[int]:
    found = simulate(plan, run_log).starts
    return [found[Instance(branch.id)] for branch in plan.branches[1:]]


# ── hyper-parallel decoding ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.LOCKSTEP])
def test_figure_2_values_read_at_12_22_32_stand_at_13_23_33(mode: Mode) -> None:
    plan = skeleton(3, k_max=7, mode=mode)
    # The first block ends at position 12; each of the others has three tokens behind a gap of seven.
    run_log = run(plan, prompt=10, blocks=[3, 3, 3], draws=[3, 3, 3])
    assert starts(plan, run_log) == [13, 23, 33]
    assert simulate(plan, run_log).passes == 3  # "three values of three tokens in three inference steps"


def test_without_gaps_values_stand_right_behind_their_keys_and_a_join_behind_the_longest() -> None:
    plan = plan_of(json_body(field("a0"), field("a1")), placement=Placement.DENSE)
    assert starts(plan, run(plan, prompt=10, blocks=[3, 3], draws=[2, 5])) == [13, 16]
    assert from_json(to_json(plan)) == plan
    assert after_join(16, highest_seen=20, overrun=plan.branches[0].overrun) == 21


@pytest.mark.parametrize(("prompt", "blocks", "k_max"), [(1, [1], 1), (17, [4, 2, 9, 1], 30), (300, [5] * 16, 30)])
def test_algorithm_2_assigns_the_same_positions(prompt: int, blocks: list[int], k_max: int) -> None:
    ids = list(range(prompt + sum(blocks)))
    offset, start = 0, prompt
    ends = []
    for length in blocks:
        for index in range(start, start + length):
            ids[index] += offset
        ends.append(ids[start + length - 1])
        start, offset = start + length, offset + k_max
    plan = skeleton(len(blocks), k_max)
    assert starts(plan, run(plan, prompt, blocks, [1] * len(blocks))) == [end + 1 for end in ends]


def test_in_lock_step_a_draw_sees_the_earlier_values_up_to_its_own_token() -> None:
    """The mask of training: no later token of an earlier value, and nothing of a later value."""
    plan = skeleton(3, k_max=7, mode=Mode.LOCKSTEP)
    lengths = [3, 1, 5]
    views = simulate(plan, run(plan, prompt=10, blocks=[3, 3, 3], draws=lengths), keep_views=True).views
    values = [Instance(branch.id) for branch in plan.branches[1:]]
    for value, instance in enumerate(values):
        for token in range(lengths[value]):
            seen = [views[instance, token].get(other, 0) for other in values]
            earlier = [min(token, length) for length in lengths[:value]]
            assert seen == [*earlier, token, *[0] * (2 - value)]


# ── PASTA ────────────────────────────────────────────────────────────────────────────────────────────────


def test_figure_2_the_sync_sampled_at_3_enters_the_cache_at_80_behind_34() -> None:
    one = async_("fork1", text("<async>"), hole("one", t.String(99)), text("</async>"))
    two = async_("fork2", text("<async>"), hole("two", t.String(99)), text("</async>"))
    tail = (sync("fork1", "fork2"), text("<sync/>"), hole("rest"))
    plan = plan_of(text_body(text("prompt"), hole("promise1"), one, hole("promise2"), two, hole("sync"), *tail))
    tag = Drawn((0, 0))
    run_log = given_run(
        plan,
        {
            Instance(plan.branches[0].id): Outcomes(
                (tag, tag, Drawn((0, 0), dropped=True), Drawn.plain(5)), (0, 0, 0, 0, 0, 0, 0, 21, 1)
            ),
            Instance(named(plan, "fork1").id): Outcomes((Drawn.plain(33),), (1, 1)),
            Instance(named(plan, "fork2").id): Outcomes((Drawn.plain(20),), (1, 1)),
        },
    )
    done = simulate(plan, run_log)
    assert last_draw(done, Instance(named(plan, "fork1").id)) == 34
    assert last_draw(done, Instance(named(plan, "fork2").id)) == 22
    simulator = Simulator(plan, run_log)
    for _ in range(34):
        simulator.step()
    behind = simulator.result.fed + 2  # the last token of fork 1 and its closing tag are fed before the sync
    assert behind == 80
    simulator.step()
    assert simulator.result.fed == 81 and simulator.result.draws == 2 + 1 + 33 + 20 + 1  # the main text goes on


@pytest.mark.parametrize(
    ("overrun", "position"), [(Overrun.CONTINUE, 19), (Overrun.PAPER, 14), (Overrun.CAP, 19)]
)  # fmt: skip
def test_announced_4_and_written_9_main_goes_on_behind_it_or_repeats_its_positions(
    overrun: Overrun, position: int
) -> None:
    forked = after_fork(10, reserve=4)
    assert (forked.child, forked.parent) == (10, 14)
    assert after_join(forked.parent, forked.child + 9 - 1, overrun) == position


@pytest.mark.parametrize("overrun", Overrun)
def test_announced_too_long_a_gap_remains(overrun: Overrun) -> None:
    assert after_join(after_fork(10, reserve=20).parent, 15, overrun) == 30


def test_only_a_capped_branch_has_to_stop_at_its_reserve() -> None:
    assert tokens_left(13, start=10, reserve=4, overrun=Overrun.CAP) == 1
    assert tokens_left(19, start=10, reserve=4, overrun=Overrun.CAP) == 0
    assert tokens_left(13, start=10, reserve=4, overrun=Overrun.CONTINUE) is None
    assert tokens_left(13, start=10, reserve=0, overrun=Overrun.CAP) is None  # an overlap has nothing to pass


# ── APAR ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_figure_3_child_and_parent_both_go_on_one_position_behind_the_fork() -> None:
    t1 = 41
    forked = after_fork(t1 + 1, reserve=0)
    assert (forked.child, forked.parent) == (t1 + 1, t1 + 1)


def test_figure_3_a_detail_and_the_next_root_are_issued_together_and_freed_at_their_ends() -> None:
    pieces = (text("p0"), async_("detail0", hole("d0")), text("[Fork]"), hole("p1"))
    plan = plan_of(text_body(*pieces, async_("detail1", hole("d1")), text("[Fork]"), hole("p2")))
    outcomes: tuple[Outcome, ...] = (Drawn.plain(4), Drawn.plain(3))
    detail0, detail1 = Instance(named(plan, "detail0").id), Instance(named(plan, "detail1").id)
    runs = {Instance(plan.branches[0].id): Outcomes(outcomes, (1,) * 20)}
    runs |= {detail0: Outcomes((Drawn.plain(6),)), detail1: Outcomes((Drawn.plain(2),))}
    done = simulate(plan, given_run(plan, runs))
    assert first_pass(done, detail0) == 1  # with the first token of p1's root
    assert first_pass(done, detail1) == 5  # with the first token of p2's root
    assert {named(plan, name).release for name in ("detail0", "detail1")} == {Release.AT_END}


# ── SPACE and PPD: trees of tokens that are not accepted yet ─────────────────────────────────────────────

MAIN = RowId(0)


def feed_tree(*parents: int | None) -> list[FedToken]:
    """Two accepted tokens, then a tree fed in one step: each node follows the node at `parents`, None the accepted."""
    views = PlainViews()
    accepted = views.feed(_step((Run(MAIN, 0, 2),), first_cell=0))
    nodes = [
        Run(MAIN, index, 1, after=() if parent is None else (parent,), keep=False)
        for index, parent in enumerate(parents)
    ]
    return [*accepted, *views.feed(_step(tuple(nodes), first_cell=2))]


def _step(runs: tuple[Run, ...], *, first_cell: int) -> StepBatch:
    count = runs[-1].end
    cells = tuple(CellId(first_cell + index) for index in range(count))
    return StepBatch((TokenId(7),) * count, tuple(range(count)), cells, runs, wanted=())


def test_figure_7_masks_see_their_own_group_and_the_candidates_before_it() -> None:
    # Each of nothing, "auto" and "model" hosts a group of two masks; "model" follows "auto".
    host, auto, model = None, 2, 5
    fed = feed_tree(host, 0, None, auto, 3, auto, model, 6)
    mask = ["".join("1" if query.may_see(key) else "." for key in fed) for query in fed]
    assert mask == [
        "1.........",
        "11........",
        "111.......",
        "1111......",
        "11..1.....",
        "11..11....",
        "11..111...",
        "11..1..1..",
        "11..1..11.",
        "11..1..111",
    ]


def test_prompt_tokens_see_their_host_and_its_ancestors_and_nobody_sees_them() -> None:
    """A tree of candidates, each node with a chain of prompt tokens of its own."""
    before, root, left, right, below, chain, second = feed_tree(None, None, 0, 0, 3)
    assert all(second.may_see(key) for key in (before, root, left, chain, second))
    assert not any(second.may_see(key) for key in (right, below))
    assert not any(key.may_see(chain) for key in (root, left, right, below))
    assert below.may_see(left) and not below.may_see(right)
