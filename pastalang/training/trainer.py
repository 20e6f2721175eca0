"""The training loop.

A step depends only on its number: its batches, its learning rate and its random numbers. So a run that was interrupted
and resumed equals an unbroken one bit for bit, and a checkpoint holds tensors only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch

from pastalang.runtime.models.loading import default_device
from pastalang.runtime.models.packed import can_pack
from pastalang.training.checkpoints import Checkpoints, Identity, Progress, Weights, put_weights, trained_weights
from pastalang.training.errors import Interrupted, TrainingStopped
from pastalang.training.forward import loss_of
from pastalang.training.masters import Masters
from pastalang.training.processes import ALONE, Processes
from pastalang.training.run_log import ReportLine, Step, StepLines
from pastalang.training.settings import Precision, Settings


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
Judge: TypeAlias = Callable[[Any], float]  # a validation score of the model: higher is better
OnStep: TypeAlias = Callable[[Step], None]


def train(
    model: Any,
    batches: Batches,
    settings: Settings,
    folder: Path,
    *,
    identity: Identity,
    judge: Judge | None = None,
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

    def judge(self, judge: Judge) -> None:
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
