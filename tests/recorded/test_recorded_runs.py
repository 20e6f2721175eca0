"""Runs that were recorded once: the same programs, models and seeds give the same answers, token for token.

`make recorded-update` records them anew, after a change that was meant to change an answer; the difference between
the files of `data` is then read by a person. Random weights are those of one version of torch, so runs are compared
with that version only.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.recorded.compare import difference
from tests.recorded.plans import PLANNED, plan_records
from tests.recorded.record import record
from tests.recorded.runs import GROUPS

DATA = Path(__file__).parent / "data"
TORCH = DATA / "torch-version"
MUST_UPDATE = os.environ.get("PASTA_UPDATE_RECORDED") == "1"
LONG = {
    "examples-lockstep", "examples-sequential", "corpus-warm", "holes-other-modes", "more-limits", "more-memory",
}  # fmt: skip
SHOWN = 12


@pytest.fixture(autouse=True)
def same_torch() -> None:
    found = torch.__version__.partition("+")[0]
    if MUST_UPDATE:
        TORCH.write_text(f"{found}\n", encoding="utf-8")
    recorded = TORCH.read_text("utf-8").strip()
    if found != recorded:
        pytest.skip(f"recorded with torch {recorded}, this is {found}")


def check(name: str, found: list[dict[str, Any]], *, every: int = 1) -> None:
    """Compare with what was recorded; if not all runs were made, with those that were."""
    path = DATA / f"{name}.jsonl"
    if MUST_UPDATE:
        lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in found]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    recorded = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line][::every]
    assert [one["run"] for one in recorded] == [one["run"] for one in found], "other runs than those that were recorded"
    changed = [
        f"{before['run']} ({before['how']}): {said}"
        for before, after in zip(recorded, found, strict=True)
        if (said := difference(before, after))
    ]
    more = [f"… and {len(changed) - SHOWN} more"] if len(changed) > SHOWN else []
    assert not changed, "\n".join([f"{len(changed)} of {len(found)} runs differ", *changed[:SHOWN], *more])


def check_runs(group: str, *, every: int) -> None:
    check(group, [json.loads(json.dumps(record(run))) for run in list(GROUPS[group]())[::every]], every=every)


@pytest.mark.skipif(MUST_UPDATE, reason="all runs are recorded anew")
@pytest.mark.parametrize("group", [name for name in GROUPS if name not in LONG])
def test_every_third_run_gives_what_it_gave_when_it_was_recorded(group: str) -> None:
    check_runs(group, every=3)


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_runs_give_what_they_gave_when_they_were_recorded(group: str) -> None:
    check_runs(group, every=1)


def test_plans_are_what_they_were_when_they_were_recorded() -> None:
    check("plans", [one for path in PLANNED for one in plan_records(path)])


def test_every_file_of_records_belongs_to_a_group() -> None:
    assert {path.stem for path in DATA.glob("*.jsonl")} == {*GROUPS, "plans"}


def test_names_of_runs_are_unique() -> None:
    for group in GROUPS.values():
        names = [run.name for run in group()]
        assert len(names) == len(set(names))


def test_only_the_group_of_refusals_has_inputs_that_are_refused() -> None:
    assert [path.stem for path in DATA.glob("*.jsonl") if '"bad_inputs"' in path.read_text("utf-8")] == ["ways"]


def test_there_are_enough_runs_to_mean_something() -> None:
    assert sum(len(list(group())) for group in GROUPS.values()) >= 300
