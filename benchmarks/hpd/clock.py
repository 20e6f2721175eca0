"""A clock that other programs disturb little: with one thread and no GPU it counts processor time."""

from __future__ import annotations

import platform
import time

import torch


def now() -> float:
    return time.process_time() if _is_alone() else time.perf_counter()


def machine() -> str:
    """What was measured on, and in which seconds."""
    if torch.cuda.is_available():
        return f"one {torch.cuda.get_device_name()} that others use, too; seconds are on the clock"
    seconds = "processor seconds" if _is_alone() else "on the clock"
    return f"{torch.get_num_threads()} thread(s) of an {platform.machine()} processor; seconds are {seconds}"


def _is_alone() -> bool:
    return torch.get_num_threads() == 1 and not torch.cuda.is_available()
