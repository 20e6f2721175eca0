"""A clock that other programs disturb little: with one thread it counts processor time."""

from __future__ import annotations

import time

import torch


def now() -> float:
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def kind() -> str:
    return "processor seconds" if torch.get_num_threads() == 1 else "seconds on the clock"
