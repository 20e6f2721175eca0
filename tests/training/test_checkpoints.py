"""Whatever happens to a run, the weights that come out are those of a run to which nothing happened."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastalang.training.errors import CheckpointError, Interrupted, UnwritableCheckpoint
from pastalang.training.run_folder import RESUME
from tests.training.lessons import PulledPlug
from tests.training.toy import IDENTITY, SETTINGS, plug_pulled_at, run, same


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, and to force each file to the disk takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """What comes out of the toy's run if nothing happens."""
    return run(tmp_path_factory.mktemp("whole"))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pulled=st.lists(st.integers(0, 60), min_size=1, max_size=4))
def test_a_run_whose_plug_is_pulled_at_any_disk_operation_ends_with_the_same_weights(
    expected: dict[str, torch.Tensor], pulled: list[int]
) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place) / "broken"
        for operation in pulled:
            with plug_pulled_at(operation):
                try:
                    run(folder)
                except PulledPlug:
                    continue
        assert same(run(folder), expected)
        assert not list(folder.rglob("*.partial"))


def test_the_disk_of_the_toy_has_more_operations_than_the_test_pulls_at(tmp_path: Path) -> None:
    with plug_pulled_at(1000) as count:
        run(tmp_path)
    assert 40 < count() < 60


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "checkpoint.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_checkpoint_is_left_out_and_the_one_before_it_taken(
    name: str, damage: str, tmp_path: Path, expected: dict[str, torch.Tensor]
) -> None:
    with pytest.raises(Interrupted, match=r"stopped after step 6 of 7; a checkpoint is saved"):
        steps = iter(range(1, 100))
        run(tmp_path / "run", is_stopped=lambda: next(steps) == 6)
    file = tmp_path / "run" / RESUME / "step-0000006" / name
    content = file.read_bytes()
    match damage:
        case "cut":
            file.write_bytes(content[:-9])
        case "changed":
            file.write_bytes(content[:-9] + b"x" + content[-8:])
        case _:
            file.unlink()
    lines: list[str] = []
    assert same(run(tmp_path / "run", report=lines.append), expected)
    assert f"a checkpoint is left out: {file.parent}: {name}" in lines[0]
    assert lines[1] == "going on after step 3 of 7"


def test_a_run_without_a_readable_checkpoint_says_so(tmp_path: Path) -> None:
    run(tmp_path)
    for place in (tmp_path / RESUME).iterdir():
        (place / "weights.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"(?s)no checkpoint in .* can be read; .*weights.safetensors is cut off"):
        run(tmp_path)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A disk on which every file ends after so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_and_the_run_can_go_on(tmp_path: Path, expected: dict[str, torch.Tensor]) -> None:
    with files_of_at_most(200), pytest.raises(UnwritableCheckpoint, match=r"step-0000002 could not be written: .*\w"):
        run(tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.partial"))
    assert same(run(tmp_path / "run"), expected)


def test_dropout_and_a_judge_with_random_numbers_of_its_own_change_nothing(tmp_path: Path) -> None:
    plain, judged = run(tmp_path / "plain", replace(SETTINGS, judge_every=0), judge=None), run(tmp_path / "judged")
    assert same(plain, {name: value for name, value in judged.items() if not name.startswith("best")})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"learning_rate": 0.1}, "learning-rate was 0.3, now 0.1"),
        ({"steps": 9, "seed": 4}, "steps was 7, now 9, seed was 3, now 4"),
        ({"accumulation": 2}, "accumulation was 1, now 2"),
    ],
)
def test_a_run_goes_on_with_the_settings_that_it_was_started_with(
    changed: dict[str, float], message: str, tmp_path: Path
) -> None:
    run(tmp_path)
    with pytest.raises(CheckpointError, match=f"started with something else: {message}; .* --overwrite"):
        run(tmp_path, replace(SETTINGS, **changed))  # type: ignore[arg-type]
    run(tmp_path, replace(SETTINGS, save_every=1))  # how often it saves changes no result


def test_a_run_of_something_else_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(CheckpointError, match="data was toy, now other, mode was unset, now strict"):
        run(tmp_path, identity=IDENTITY | {"data": "other", "mode": "strict"})


def test_the_last_step_is_judged_and_a_score_that_no_longer_rises_ends_the_run_for_good(tmp_path: Path) -> None:
    lines: list[str] = []
    run(tmp_path / "late", replace(SETTINGS, judge_every=100), report=lines.append)
    assert sum("step 7: validation score" in line for line in lines) == 1
    falling = iter([0.5, 0.4, 0.3])
    patient = replace(SETTINGS, judge_every=1, patience=2)
    for _ in range(2):  # the second time there is nothing left to do
        assert run(tmp_path / "early", patient, judge=lambda _: next(falling))["at"] == 3
