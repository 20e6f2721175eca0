"""A run that is killed at random moments, and started again each time, ends with the same weights."""

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
    """Start the run in a process of its own, which the kernel kills once it has computed for so many seconds."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process at once, as SIGKILL does
        signal.setitimer(signal.ITIMER_PROF, after)
        try:
            run(folder, LONGER)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def check(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)  # a forked process has none of its parent's threads
    run(folder / "first", LONGER)  # what is only slow once
    began = time.process_time()
    expected = run(folder / "whole", LONGER)
    whole = time.process_time() - began
    moments = random.Random(seed)
    hits, number, attempts = 0, 0, 0
    while hits < kills:
        attempts += 1
        assert attempts < 10 * kills, "hardly any kill comes before the end of its run"
        if killed(folder / f"{number}", moments.uniform(0.05, 0.6) * whole):
            hits += 1
        else:  # it came to its end
            assert same(run(folder / f"{number}", LONGER), expected)
            number += 1
    assert same(run(folder / f"{number}", LONGER), expected)


def test_a_run_that_is_killed_a_few_times_ends_with_the_same_weights(tmp_path: Path) -> None:
    check(tmp_path, kills=4, seed=1)


@pytest.mark.long
def test_a_run_that_is_killed_thirty_times_ends_with_the_same_weights(tmp_path: Path) -> None:
    check(tmp_path, kills=30, seed=2)
