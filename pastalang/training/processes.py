"""The processes of a run. `torchrun` and `accelerate launch` start one for each GPU.

Each has the whole model and takes its share of every batch, and their gradients are added up. The first one answers
the validation rows, saves and reports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist

from pastalang.runtime.models.loading import check_device, default_device
from pastalang.training.errors import BadData, LostProcess

_T = TypeVar("_T")
_CPU: Final = torch.device("cpu")
_PATIENCE: Final = timedelta(days=1)  # others wait while the first one judges
_SPLITS_WEIGHTS: Final = ("FSDP", "DEEPSPEED", "MEGATRON_LM")  # settings of `accelerate launch`


@dataclass(frozen=True, slots=True)
class Processes:
    """This process is number `rank` of `count`. All of them have to make the same calls in the same order."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def from_first(self, make: Callable[[], _T]) -> _T:
        """What `make` gives in the first process, which alone calls it."""
        if self.count == 1:
            return make()
        box = [make() if self.is_first else None]
        with _lost_if_broken():
            dist.broadcast_object_list(box, src=0, device=_CPU)
        return box[0]  # type: ignore[return-value]

    def first_then_others(self, make: Callable[[], _T]) -> _T:
        """Every process calls `make`, the first one before all others: they find what it has kept."""
        if self.is_first:
            found = make()
            self.from_first(lambda: None)
            return found
        self.from_first(lambda: None)
        return make()

    def sums(self, *numbers: float) -> list[float]:
        """Each number, added up over all processes."""
        if self.count == 1:
            return list(numbers)
        found = torch.tensor(numbers, dtype=torch.float64)
        with _lost_if_broken():
            dist.all_reduce(found)
        return [float(one) for one in found]

    def joined(self, names: Sequence[str]) -> list[str]:
        """The names of all processes."""
        if self.count == 1:
            return list(names)
        found: list[Any] = [None] * self.count
        with _lost_if_broken():
            dist.all_gather_object(found, list(names))
        return [name for some in found for name in some]

    def add_gradients(self, weights: Sequence[torch.Tensor]) -> None:
        """Give every process the sum of the gradients of all. A weight may have one in some processes only."""
        if self.count == 1:
            return
        used = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.uint8)
        with _lost_if_broken():
            dist.all_reduce(used, dist.ReduceOp.MAX)
            begun = []
            for weight in (weight for weight, is_used in zip(weights, used.tolist(), strict=True) if is_used):
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
                begun.append(dist.all_reduce(weight.grad, async_op=True))
            for one in begun:
                one.wait()


ALONE: Final = Processes()


@contextmanager
def all_processes(device: str | None) -> Iterator[tuple[Processes, str | None]]:
    """The processes that a launcher has started, and the device of this one. Raises `BadData`."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield ALONE, device
        return
    for name in _SPLITS_WEIGHTS:
        if os.environ.get(f"ACCELERATE_USE_{name}", "false").lower() in ("1", "true"):
            raise BadData(
                f"the launcher is set up to split the weights ({name}), and `pasta train` only splits batches: use "
                "torchrun, or accelerate launch with --multi_gpu"
            )
    own = _own_device(device, count)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    with _lost_if_broken():
        dist.init_process_group("cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Processes(dist.get_rank(), count), str(own)
    finally:
        dist.destroy_process_group()


def _own_device(device: str | None, count: int) -> torch.device:
    given = torch.device(device or default_device())
    if given.type == "cpu":
        return given
    if str(given) != "cuda":
        raise BadData(
            f"{count} processes cannot share the device {given}; they take a GPU each without --device, "
            "and the processor with --device cpu"
        )
    number, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= gpus:
        raise BadData(f"there are more processes on this machine than GPUs, of which it has {gpus}")
    return check_device(f"cuda:{number}")


@contextmanager
def _lost_if_broken() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as problem:  # a connection that was closed, or an address that is wrong
        raise LostProcess("another process of this run has ended, or cannot be reached") from problem
