"""Recognises the errors of a device that has run out of memory, and describes them."""

from __future__ import annotations

import torch

_PHRASES = ("not enough memory: you tried to allocate", "can't allocate memory", "out of memory")


class CacheTooLarge(MemoryError):
    """The KV cache does not fit into the device, so no step can run, however small."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether the device ran out of memory. torch has an error type only for GPUs; on a CPU the message decides."""
    if isinstance(problem, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(problem, RuntimeError) and any(phrase in str(problem) for phrase in _PHRASES)


def first_sentence(problem: BaseException) -> str:
    """The first sentence of the message, which says how much memory was requested."""
    lines = str(problem).strip().splitlines()
    return lines[0].split(". GPU ")[0].rstrip(".") if lines else type(problem).__name__


def describe_shortage(problem: BaseException, *, tokens: int) -> tuple[str, bool]:
    """The message for a step of so many tokens, and whether a smaller step may fit."""
    if isinstance(problem, CacheTooLarge):
        return str(problem), False
    noun = "token" if tokens == 1 else "tokens"
    return f"the device has no memory for a step of {tokens} {noun}: {first_sentence(problem)}", True


def empty_caches(device: torch.device) -> None:
    """Returns to the device the memory that torch keeps, which may be in pieces too small to use."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
