"""The training loop, in one process or in several.

A step depends only on its number: its batches, its learning rate and its random numbers. So a run that was interrupted
and resumed equals an unbroken one bit for bit, and a checkpoint holds tensors only.

`torchrun` and `accelerate launch` start a process for each GPU. Each has the whole model and takes its share of every
batch, and their gradients are added up. The first one answers the validation rows, saves and reports.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import torch
import torch.distributed as dist

from pastalang.runtime.attention.attention import ready_kernels
from pastalang.runtime.models.loading import check_device, default_device
from pastalang.runtime.models.packed import can_pack
from pastalang.training.batches import loss_of
from pastalang.training.errors import BadData, Interrupted, LostProcess, TrainingStopped
from pastalang.training.run_folder import (
    Checkpoints,
    Identity,
    Progress,
    ReportLine,
    Step,
    StepLines,
    Weights,
    put_weights,
    trained_weights,
)
from pastalang.training.settings import Precision, Settings

# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────

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


# ── the loop ─────────────────────────────────────────────────────────────────────────────────────────────────


class Fed(Protocol):
    """What one forward and backward pass takes. `origins` names the rows, so that a bad one can be found."""

    @property
    def tokens(self) -> torch.Tensor: ...
    @property
    def origins(self) -> Sequence[str]: ...
    @property
    def predicted(self) -> int:
        """How many tokens the loss is over."""
        ...

    def to(self, device: torch.device) -> Fed: ...


Batches: TypeAlias = Callable[[int], Fed]  # the batch with this number, the same at every call
Loss: TypeAlias = Callable[[Any, Any], torch.Tensor]  # of a model on a batch
Grader: TypeAlias = Callable[[Any], float]  # a validation score of the model: higher is better
OnStep: TypeAlias = Callable[[Step], None]


def train(
    model: Any,
    batches: Batches,
    settings: Settings,
    folder: Path,
    *,
    identity: Identity,
    judge: Grader | None = None,
    loss: Loss = loss_of,
    report: ReportLine = print,
    on_step: OnStep | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    processes: Processes = ALONE,
) -> Progress:
    """Train until the steps are done or the score stops rising. Resumes from the checkpoint in `folder`.

    `identity` names what is trained, and the settings are added to it: a checkpoint of something else is refused. The
    last step is always judged. `on_step` is called after each step; by default, one in twenty is reported. With
    `settings.average`, the model has the averaged weights when this returns. If `is_stopped` after a step, saves a
    checkpoint and raises `Interrupted`. With several `processes`, `batches` gives the share of this one.
    """
    run = _Run(
        model,
        settings,
        Checkpoints(folder, {**identity, **settings.identity}),
        loss,
        report,
        on_step or StepLines(report),
        processes,
    )
    run.resume()
    while not run.is_over:
        run.step(batches)
        if judge is not None and (run.is_last_step or run.is_due(settings.judge_every)):
            run.judge(judge)
        is_interrupted = any(processes.sums(is_stopped())) and not run.is_over
        if is_interrupted or run.is_over or run.is_due(settings.save_every):
            run.save()
        if is_interrupted:
            raise Interrupted(f"stopped after step {run.progress.step} of {settings.steps}; a checkpoint is saved")
    run.finish()
    return run.progress


class _Run:
    """A model in training, and how far it is."""

    def __init__(
        self,
        model: Any,
        settings: Settings,
        checkpoints: Checkpoints,
        loss: Loss,
        report: ReportLine,
        on_step: OnStep,
        processes: Processes,
    ) -> None:
        self.progress = Progress()
        self._processes = processes
        self._model, self._settings, self._checkpoints = model, settings, checkpoints
        self._loss, self._report, self._on_step = loss, report, on_step
        self._device = next(model.parameters()).device
        if settings.checkpointing:
            keep_few_activations(model)
        # Adapters are float32 next to frozen weights of any type, and need no copies.
        is_rounded = settings.precision is Precision.BFLOAT16 and not hasattr(model, "merge_and_unload")
        self._masters = Masters(model) if is_rounded else None
        self._optimizer = optimizer_of(self._masters.tensors if self._masters else trained(model), settings)
        self._average = Average(self._weights, settings.average) if settings.average else None

    @property
    def is_over(self) -> bool:
        settings = self._settings
        has_stopped_rising = bool(settings.patience) and self.progress.judgements_since_best >= settings.patience
        return self.is_last_step or has_stopped_rising

    @property
    def is_last_step(self) -> bool:
        return self.progress.step >= self._settings.steps

    def is_due(self, every: int) -> bool:
        return bool(every) and self.progress.step % every == 0

    def resume(self) -> None:
        found = self._processes.from_first(self._checkpoints.latest)
        if found is None:
            return
        self._put(found.tensors("weights"))
        _put_state(self._optimizer, found.tensors("optimizer"))
        if self._average is not None:
            self._average.restore(found.tensors("average"))
        self.progress = found.progress
        for reason in found.damaged:
            self._report(f"a checkpoint is left out: {reason}")
        self._report(f"going on after step {self.progress.step} of {self._settings.steps}")

    def step(self, batches: Batches) -> None:
        number, settings = self.progress.step, self._settings
        torch.manual_seed(seed_of(settings.seed, number, self._processes.rank))
        began = time.monotonic()
        cost, norm, tokens = self._update(batches)
        if self._average is not None:
            self._average.add(self._weights)
        self.progress = replace(self.progress, step=number + 1)
        seconds = time.monotonic() - began
        self._on_step(Step(number + 1, settings.steps, cost, settings.rate(number), norm, tokens, seconds))

    def judge(self, judge: Grader) -> None:
        score, known = self._processes.from_first(lambda: judge(self._model)), self.progress
        is_better = known.best_score is None or score > known.best_score
        self._report(f"step {known.step}: validation score {score:.4f}" + (" (best so far)" if is_better else ""))
        if is_better:
            self.progress = Progress(known.step, score, known.step, 0)
            if self._processes.is_first:
                self._checkpoints.save_best(self.progress, self._weights)
            return
        self.progress = replace(known, judgements_since_best=known.judgements_since_best + 1)
        if self.is_over and not self.is_last_step:
            self._report(f"step {known.step}: no better score in {self._settings.patience} validations; stopping")

    def save(self) -> None:
        if not self._processes.is_first:
            return
        tensors: dict[str, Weights] = {
            "weights": self._weights,
            "optimizer": _state_of(self._optimizer),
        }
        if self._average is not None:
            tensors["average"] = self._average.weights
        self._checkpoints.save(self.progress, tensors)

    def finish(self) -> None:
        """Leave the model with the weights of the run, unrounded."""
        if self._average is not None:
            self._put(self._average.weights)
        if self._masters is not None:
            self._masters.unround()
        if self._settings.checkpointing:
            keep_all_activations(self._model)

    @property
    def _weights(self) -> dict[str, torch.Tensor]:
        return trained_weights(self._model) if self._masters is None else self._masters.weights

    def _put(self, weights: Weights) -> None:
        if self._masters is None:
            put_weights(self._model, weights)
        else:
            self._masters.put(weights)

    def _update(self, batches: Batches) -> tuple[float, float, int]:
        """One update from `accumulation` batches, each weighted by the tokens it predicts.

        Returns the loss, the norm of its gradient before clipping, and how many tokens were fed.
        """
        model, settings, step = self._model, self._settings, self.progress.step
        model.train()
        parts = [batches(step * settings.accumulation + part).to(self._device) for part in range(settings.accumulation)]
        [predicted] = self._processes.sums(sum(part.predicted for part in parts))
        total, bad = 0.0, list[str]()
        for part in parts:
            with ready_kernels(self._device):  # also for what the backward pass computes again
                with autocast(self._device, settings):
                    loss = self._loss(model, part) * (part.predicted / max(1, predicted))
                total += loss.item()
                if not math.isfinite(total):
                    bad = list(part.origins)
                    break
                loss.backward()  # type: ignore[no-untyped-call]
        total, tokens = self._processes.sums(total, sum(part.tokens.numel() for part in parts))
        if not math.isfinite(total):
            raise self._stopped(f"the loss is {total}", bad)
        self._processes.add_gradients(trained(model))
        for group in self._optimizer.param_groups:
            group["lr"] = settings.rate(step)
        norm = self._apply()
        if not math.isfinite(norm):
            raise self._stopped(f"the gradient is {norm}", [origin for part in parts for origin in part.origins])
        return total, norm, int(tokens)

    def _stopped(self, problem: str, origins: Sequence[str]) -> TrainingStopped:
        rows = ", ".join(dict.fromkeys(self._processes.joined(origins)))
        return TrainingStopped(f"step {self.progress.step + 1}: {problem} on these rows: {rows}")

    def _apply(self) -> float:
        """Change the weights by their gradients. Returns the norm of these, and changes nothing if it is not finite."""
        highest = self._settings.clip_norm or math.inf
        if self._masters is not None:
            norm = float(self._masters.norm())
            if math.isfinite(norm):
                self._masters.step(self._optimizer, min(1.0, highest / (norm + 1e-6)))
            return norm
        norm = float(torch.nn.utils.clip_grad_norm_(self._model.parameters(), highest))
        if math.isfinite(norm):
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        return norm


def seed_of(seed: int, step: int, rank: int = 0) -> int:
    """The seed of a step's random numbers, those of dropout. Those of two processes differ."""
    return seed * 1_000_003 + step + (rank << 40)


class Average:
    """A moving average of a model's weights: the last 1 / (1 - keep) steps count most."""

    def __init__(self, weights: Weights, keep: float) -> None:
        self._keep = keep
        self.weights = {name: value.detach().clone() for name, value in weights.items()}

    @torch.no_grad()
    def add(self, weights: Weights) -> None:
        for name, value in weights.items():
            self.weights[name].lerp_(value, 1 - self._keep)

    def restore(self, weights: Weights) -> None:
        self.weights = {name: weights[name].to(value.device) for name, value in self.weights.items()}


def keep_few_activations(model: Any) -> None:
    """They are computed again in the backward pass. Earlier versions of transformers have the older name only."""
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def keep_all_activations(model: Any) -> None:
    disable = getattr(model, "activation_checkpointing_disable", None) or model.gradient_checkpointing_disable
    disable()


def trained(model: Any) -> list[torch.Tensor]:
    return [weight for weight in model.parameters() if weight.requires_grad]


def optimizer_of(weights: Sequence[torch.Tensor], settings: Settings) -> torch.optim.AdamW:
    """Weight decay applies to matrices only, not to norms and biases."""
    groups = [
        {"params": [w for w in weights if w.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]
    can_fuse = all(weight.device.type in ("cpu", "cuda") for weight in weights)  # it is quicker and needs no memory
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95), fused=can_fuse or None)


def usual_precision(device: str | None) -> Precision:
    """`MIXED`, or `FLOAT32` on a processor without kernels for bfloat16, which takes ten times as long with `MIXED`."""
    is_processor = torch.device(device or default_device()).type == "cpu"
    return Precision.FLOAT32 if is_processor and not can_pack(torch.bfloat16) else Precision.MIXED


def autocast(device: torch.device, settings: Settings) -> Any:
    """Adapters need it with every precision: they are float32 next to weights that may not be."""
    is_full = settings.precision is Precision.FLOAT32
    return nullcontext() if is_full else torch.autocast(device.type, dtype=torch.bfloat16)


def _state_of(optimizer: torch.optim.AdamW) -> dict[str, torch.Tensor]:
    """The moments of the optimiser by number and name: `12.exp_avg`. What else it has comes from the settings."""
    state: Mapping[int, Mapping[str, torch.Tensor]] = optimizer.state_dict()["state"]
    return {f"{number}.{name}": value for number, one in state.items() for name, value in one.items()}


def _put_state(optimizer: torch.optim.AdamW, tensors: Weights) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


# ── weights in bfloat16 ──────────────────────────────────────────────────────────────────────────────────────


class Masters:
    """The float32 copies of all weights that are trained. Making them rounds the weights of the model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._pairs = {
            name: (weight, weight.detach().float().clone())
            for name, weight in model.named_parameters()
            if weight.requires_grad
        }
        for weight in model.parameters():
            weight.data = weight.data.bfloat16()

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [master for _, master in self._pairs.values()]

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """`trained_weights` of the model, unrounded."""
        return {
            name: self._pairs[name][1] if name in self._pairs else value
            for name, value in trained_weights(self._model).items()
        }

    @torch.no_grad()
    def put(self, weights: Weights) -> None:
        """Raises `CheckpointError` if the weights are not those of this model."""
        put_weights(self._model, weights)
        for name, (_, master) in self._pairs.items():
            master.copy_(weights[name])

    @torch.no_grad()
    def norm(self) -> torch.Tensor:
        """Of the gradient of all weights."""
        grads = [weight.grad for weight, _ in self._pairs.values() if weight.grad is not None]
        norms = [torch.linalg.vector_norm(grad, dtype=torch.float32) for grad in grads]
        return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())

    def step(self, optimizer: torch.optim.Optimizer, scale: float) -> None:
        """One step with the gradients times `scale`, a weight at a time: only one float32 gradient exists."""
        for weight, master in self._pairs.values():
            if weight.grad is not None:
                master.grad = weight.grad.float().mul_(scale)
                weight.grad = None
                optimizer.step()
                master.grad = None
                weight.data.copy_(master)

    def unround(self) -> None:
        """Give the model the copies as its weights."""
        for weight, master in self._pairs.values():
            weight.data = master
        for weight in self._model.parameters():
            weight.data = weight.data.float()
