"""The training loop and its checkpoints.

A batch depends only on its number, so a run that was interrupted and resumed equals, bit for bit, an unbroken one, and
no state of the data has to be saved. A checkpoint replaces the last one at once, so a crash leaves a whole checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import load_file, save_file

from pastalang.training.batches import Batch
from pastalang.training.errors import CheckpointError, TrainingStopped
from pastalang.training.forward import loss_of
from pastalang.training.settings import Settings

Batches: TypeAlias = Callable[[int], Batch]  # the batch with this number, the same at every call
Loss: TypeAlias = Callable[[Any, Batch], torch.Tensor]  # of a model on a batch
Judge: TypeAlias = Callable[[Any], float]  # a validation score of the model: higher is better
ReportLine: TypeAlias = Callable[[str], None]  # shows one line of progress


@dataclass(frozen=True, slots=True)
class Progress:
    """`fingerprint` says what is trained (program, tokenizer, mode); a run of another one does not resume."""

    step: int
    best_score: float | None
    judgements_since_best: int
    fingerprint: str


def train(
    model: Any,
    batches: Batches,
    settings: Settings,
    folder: Path,
    *,
    fingerprint: str,
    judge: Judge | None = None,
    loss: Loss = loss_of,
    report: ReportLine = print,
) -> Progress:
    """Train until the steps are done or the score stops rising. Resumes from the checkpoint in `folder`.

    With `settings.average`, the model has the averaged weights when this returns.
    """
    device = next(model.parameters()).device
    optimizer = _optimizer(model, settings)
    average = Average(model, settings.average) if settings.average else None
    progress = load_checkpoint(folder / "resume", model, optimizer, fingerprint=fingerprint, average=average)
    progress = progress or Progress(0, None, 0, fingerprint)
    began, first = time.monotonic(), progress.step
    tokens = 0
    while progress.step < settings.steps:
        cost, fed = _step(model, optimizer, batches, settings, progress.step, device, loss)
        tokens += fed
        if average is not None:
            average.add(model)
        progress = Progress(progress.step + 1, progress.best_score, progress.judgements_since_best, fingerprint)
        judging = judge is not None and settings.judge_every and progress.step % settings.judge_every == 0
        if judging and judge is not None:
            progress = _judged(progress, judge(model), folder, model, optimizer, settings, report)
            if settings.patience and progress.judgements_since_best >= settings.patience:
                report(f"step {progress.step}: no better score in {settings.patience} validations; stopping")
                break
        if progress.step % settings.save_every == 0 or progress.step == settings.steps:
            save_checkpoint(folder / "resume", model, optimizer, progress, settings, average=average)
        if progress.step % 20 == 0 or progress.step == settings.steps:
            report(_line(progress.step, settings.steps, cost, tokens, time.monotonic() - began, progress.step - first))
    if average is not None:
        average.put(model)
    return progress


class Average:
    """A moving average of a model's weights: the last 1 / (1 - keep) steps count most."""

    def __init__(self, model: Any, keep: float) -> None:
        self._keep = keep
        self.weights = {name: value.detach().clone() for name, value in _own_weights(model).items()}

    @torch.no_grad()
    def add(self, model: Any) -> None:
        for name, value in _own_weights(model).items():
            self.weights[name].lerp_(value, 1 - self._keep)

    def put(self, model: Any) -> None:
        model.load_state_dict(self.weights, strict=False)


def _step(
    model: Any, optimizer: Any, batches: Batches, settings: Settings, step: int, device: torch.device, cost_of: Loss
) -> tuple[float, int]:
    """One update from `accumulation` batches, each weighted by the tokens it predicts."""
    model.train()
    parts = [batches(step * settings.accumulation + part).to(device) for part in range(settings.accumulation)]
    predicted = sum(part.predicted for part in parts)
    total = 0.0
    for part in parts:
        with _autocast(device, settings):
            loss = cost_of(model, part) * (part.predicted / max(1, predicted))
        if not torch.isfinite(loss):
            rows = ", ".join(dict.fromkeys(part.origins))
            raise TrainingStopped(f"step {step + 1}: the loss is {loss.item()} on these rows: {rows}")
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
    for group in optimizer.param_groups:
        group["lr"] = settings.rate(step)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total, sum(part.tokens.numel() for part in parts)


def _judged(
    progress: Progress, score: float, folder: Path, model: Any, optimizer: Any, settings: Settings, report: ReportLine
) -> Progress:
    better = progress.best_score is None or score > progress.best_score
    report(f"step {progress.step}: validation score {score:.4f}" + (" (best so far)" if better else ""))
    if not better:
        since = progress.judgements_since_best + 1
        return Progress(progress.step, progress.best_score, since, progress.fingerprint)
    progress = Progress(progress.step, score, 0, progress.fingerprint)
    save_checkpoint(folder / "best", model, optimizer, progress, settings)
    return progress


def _optimizer(model: Any, settings: Settings) -> torch.optim.AdamW:
    """Weight decay applies to matrices only, not to norms and biases."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [w for w in trained if w.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [w for w in trained if w.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95))


def _autocast(device: torch.device, settings: Settings) -> Any:
    return torch.autocast(device.type, dtype=torch.bfloat16) if settings.bfloat16 else nullcontext()


def _line(step: int, steps: int, loss: float, tokens: int, seconds: float, done: int) -> str:
    left = seconds / max(1, done) * (steps - step)
    return f"step {step}/{steps}  loss {loss:.4f}  {tokens / seconds:,.0f} tokens/s  {left / 60:.1f} min left"


def save_checkpoint(
    folder: Path, model: Any, optimizer: Any, progress: Progress, settings: Settings, *, average: Average | None = None
) -> None:
    """Write next to the old one, then swap: a crash in between leaves a whole checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"step-{progress.step:07d}"
    fresh = folder / f"{name}.partial"
    fresh.mkdir(exist_ok=True)
    weights = {key: value.contiguous() for key, value in _own_weights(model).items()}
    save_file(weights, fresh / "weights.safetensors")
    if average is not None:
        save_file({key: value.contiguous() for key, value in average.weights.items()}, fresh / "average.safetensors")
    torch.save(optimizer.state_dict(), fresh / "optimizer.pt")
    document = {"progress": asdict(progress), "settings": asdict(settings)}
    (fresh / "progress.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    fresh.rename(folder / name)
    pointer = folder / "latest.partial"
    pointer.write_text(name + "\n", encoding="utf-8")
    pointer.replace(folder / "latest")
    for old in folder.glob("step-*"):
        if old.name != name:
            _remove(old)


def load_checkpoint(
    folder: Path, model: Any, optimizer: Any, *, fingerprint: str, average: Average | None = None
) -> Progress | None:
    """Restore model, optimiser and average. None if the folder holds no checkpoint."""
    if not (folder / "latest").exists():
        return None
    place = folder / (folder / "latest").read_text(encoding="utf-8").strip()
    try:
        document = json.loads((place / "progress.json").read_text(encoding="utf-8"))
        progress = Progress(**document["progress"])
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise CheckpointError(f"{place}: not a readable checkpoint ({problem})") from problem
    if progress.fingerprint != fingerprint:
        raise CheckpointError(
            f"{place}: this checkpoint is of another program, tokenizer or mode "
            f"({progress.fingerprint}, this run is {fingerprint}); choose another output folder"
        )
    _put(place, model)
    if average is not None:
        saved = load_file(place / "average.safetensors")
        average.weights = {name: saved[name].to(value.device) for name, value in average.weights.items()}
    optimizer.load_state_dict(torch.load(place / "optimizer.pt", weights_only=True))
    return progress


def load_weights(folder: Path, model: Any) -> None:
    """Load the weights that were saved last, whichever run saved them."""
    _put(folder / (folder / "latest").read_text(encoding="utf-8").strip(), model)


def _put(place: Path, model: Any) -> None:
    try:
        missing, unexpected = model.load_state_dict(load_file(place / "weights.safetensors"), strict=False)
    except RuntimeError as problem:
        raise CheckpointError(f"{place}: these weights are of a model of another shape") from problem
    if unexpected or set(missing) - _tied(model):
        raise CheckpointError(f"{place}: these weights are of a model of another shape")


def _own_weights(model: Any) -> dict[str, torch.Tensor]:
    """Every weight once: safetensors refuses two names of one tensor."""
    tied = _tied(model)
    return {name: value for name, value in model.state_dict().items() if name not in tied}


def _tied(model: Any) -> set[str]:
    seen: dict[int, str] = {}
    return {name for name, value in model.state_dict().items() if seen.setdefault(value.data_ptr(), name) != name}


def _remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
