"""What a device says when it has no memory left: an exception comes in, whether it is that goes out."""

from __future__ import annotations

import torch

_WORDS = ("not enough memory: you tried to allocate", "can't allocate memory", "out of memory")


class CacheTooLarge(MemoryError):
    """The memory of all cells does not fit: no step, however small, can be run."""


def is_out_of_memory(problem: BaseException) -> bool:
    """torch has a type for GPUs only; on a CPU it is a `RuntimeError` like any other, told by its words."""
    if isinstance(problem, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(problem, RuntimeError) and any(words in str(problem) for words in _WORDS)


def first_sentence(problem: BaseException) -> str:
    """The first sentence of what the device said, which names what was wanted."""
    lines = str(problem).strip().splitlines()
    return lines[0].split(". GPU ")[0].rstrip(".") if lines else type(problem).__name__


def describe_shortage(problem: BaseException, *, tokens: int) -> tuple[str, bool]:
    """What to tell of a step of so many tokens, and whether a smaller one may go through."""
    if isinstance(problem, CacheTooLarge):
        return str(problem), False
    noun = "token" if tokens == 1 else "tokens"
    return f"the device has no memory for a step of {tokens} {noun}: {first_sentence(problem)}", True


def empty_caches(device: torch.device) -> None:
    """What torch keeps for later goes back to the device, where it may come in pieces that are too small."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
