"""The memory that a run will need, known before the weights are loaded: a step is taken on tensors without contents.

Every tensor of a step is made as the step makes it, but holds no data. What is counted is what exists at the same time:
weights, gradients, moments of the optimiser, and what the forward pass keeps for the backward pass.
"""

from __future__ import annotations

import ctypes
import os
import resource
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from pastalang.training.batches import Batch, loss_of
from pastalang.training.settings import Precision, Settings
from pastalang.training.trainer import Masters, autocast, keep_few_activations, trained

_MMAP_THRESHOLD: Final = -3  # the name of a setting in malloc.h
_GIVEN_BACK: Final = 1 << 20  # bytes of an allocation
_KEPT: Final = 1.25  # what a run takes if the memory of freed tensors is kept, of what it needs
_MOMENTS: Final = 2  # of the optimiser, for each weight


@dataclass(frozen=True, slots=True)
class Shape:
    """The largest batch of a run. `predicted` tokens have a loss; `is_windowed` says that some layers have windows."""

    rows: int
    length: int
    predicted: int
    is_windowed: bool = False

    def batch(self) -> Batch:
        tokens = torch.zeros(self.rows, self.length, dtype=torch.long)
        visible = torch.zeros(self.rows, self.length, self.length, dtype=torch.bool)
        near = torch.zeros_like(visible) if self.is_windowed else None
        return Batch(tokens, tokens.clone(), tokens.clone(), visible, ("",) * self.rows, near)


def step_bytes(make_model: Callable[[], Any], shape: Shape, settings: Settings, device: torch.device) -> int:
    """The most bytes that exist at one time in a step. `make_model` makes the model as a run loads it.

    The first step would do; the moments of the optimiser, which it makes at its end, are there from the beginning.
    """
    with torch.device("meta"):
        model = make_model()
    counter = _Counter()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(device):
        _put_tensors(model)
        model.train()
        if settings.checkpointing:
            keep_few_activations(model)
        with counter:
            is_rounded = settings.precision is Precision.BFLOAT16 and not hasattr(model, "merge_and_unload")
            weights = Masters(model).tensors if is_rounded else trained(model)
            counter.hold([*model.parameters(), *model.buffers(), *weights])
            moments = [torch.empty_like(one, dtype=torch.float32) for one in weights for _ in range(_MOMENTS)]
            batch = shape.batch()
            places = torch.zeros(shape.predicted, dtype=torch.long)
            with autocast(device, settings):
                loss = loss_of(model, batch, (places, places))
            loss.backward()  # type: ignore[no-untyped-call]
            del loss, batch, places
            largest = max(one.numel() for one in weights) * 4
            counter.for_a_moment((3 if is_rounded else 2) * largest)  # of the weight that the optimiser is at
            del moments
    return counter.peak


def _put_tensors(model: Any) -> None:
    """Tensors of this mode and device in place of those of the device `meta`. Those that are shared stay shared."""
    made: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, old in module._parameters.items():
            if old is not None and id(old) not in made:
                made[id(old)] = torch.nn.Parameter(torch.empty(old.shape, dtype=old.dtype), old.requires_grad)
            module._parameters[name] = None if old is None else made[id(old)]
        for name, value in module._buffers.items():
            module._buffers[name] = None if value is None else torch.zeros(value.shape, dtype=value.dtype)


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that exist."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._now = 0
        self._known: weakref.WeakKeyDictionary[torch.UntypedStorage, int] = weakref.WeakKeyDictionary()

    def hold(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage in self._known:
                continue
            size = storage.nbytes()
            self._known[storage] = size
            weakref.finalize(storage, self._drop, size)
            self._now += size
            self.for_a_moment(0)

    def for_a_moment(self, size: int) -> None:
        self.peak = max(self.peak, self._now + size)

    def _drop(self, size: int) -> None:
        self._now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.hold(one for one in tree_iter(out) if isinstance(one, torch.Tensor))
        return out


def give_back_freed_memory() -> None:
    """Return the memory of freed tensors to the system at once, on Linux.

    Its allocator keeps that of all but the largest ones, so that a run takes up to a quarter more than it needs. But
    memory that was given back is cleared before it is used again, which takes a quarter of the time of a small model.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _GIVEN_BACK)


# ── what is there ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bytes of the device: what a process takes at most, the same with checkpointing, and what is free."""

    needed: int
    checkpointed: int | None
    free: int | None
    processes: int = 1

    @property
    def is_scarce(self) -> bool:
        """Whether the run might not fit if the memory of freed tensors is kept. Unknown counts as scarce."""
        return self.free is None or self.processes * self.needed * _KEPT > self.free

    def __str__(self) -> str:
        free = "" if self.free is None else f", {_gigabytes(self.free)} are free"
        less = "" if self.checkpointed is None else f"; with --checkpointing {_gigabytes(self.checkpointed)}"
        each = f", for each of {self.processes} processes" if self.processes > 1 else ""
        return f"memory: needs about {_gigabytes(self.needed)}{free}{less}{each}"


@dataclass(frozen=True, slots=True)
class NoForecast:
    """The model cannot take a step without contents; `problem` is the name of what it raised."""

    problem: str
    is_scarce: bool = True

    def __str__(self) -> str:
        return f"memory: cannot be estimated for this model ({self.problem})"


def forecast(
    make_model: Callable[[], Any], shape: Shape, settings: Settings, device: torch.device, *, more: int = 0,
    processes: int = 1,
) -> Forecast:  # fmt: skip
    """`more` is what the run holds besides its steps."""
    more += _own_bytes() if device.type == "cpu" else 0

    def needed(checkpointing: bool) -> int:
        return more + step_bytes(make_model, shape, replace(settings, checkpointing=checkpointing), device)

    checkpointed = None if settings.checkpointing else needed(True)
    return Forecast(needed(settings.checkpointing), checkpointed, free_bytes(device), processes)


def free_bytes(device: torch.device) -> int | None:
    """Of the device; None if nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024 + _own_bytes()
    return None


def _own_bytes() -> int:
    """What this process holds already."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
