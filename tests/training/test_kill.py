"""A run that is killed (SIGKILL) at random moments, and started again each time, ends with the same weights."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.training.toy import SETTINGS, run, same

LONGER = replace(SETTINGS, steps=40, save_every=4, judge_every=3)


def killed(folder: Path, after: float) -> bool:
    """Start the run in a process of its own and kill it after so many seconds. Whether it was still running."""
    child = os.fork()
    if child == 0:
        try:
            run(folder, LONGER)
        finally:
            os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def check(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)  # a forked process has none of its parent's threads
    began = time.monotonic()
    expected = run(folder / "whole", LONGER)
    whole = time.monotonic() - began
    moments = random.Random(seed)
    hit = 0
    for number in range(kills):
        hit += killed(folder / f"{number % 3}", moments.uniform(0.05, 0.9) * whole)
    assert hit > 0, "no kill came before the end of its run"
    for number in range(min(3, kills)):
        assert same(run(folder / f"{number}", LONGER), expected)


def test_a_run_that_is_killed_a_few_times_ends_with_the_same_weights(tmp_path: Path) -> None:
    check(tmp_path, kills=4, seed=1)


@pytest.mark.long
def test_a_run_that_is_killed_thirty_times_ends_with_the_same_weights(tmp_path: Path) -> None:
    check(tmp_path, kills=30, seed=2)
