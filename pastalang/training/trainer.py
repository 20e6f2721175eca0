"""The training loop: from a model and batches numbered by step to a trained model on disk.

Batches are a function of their number, so a run that is broken off and resumed is, bit for bit, the run that
was not: nothing about the data has to be saved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import torch

from pastalang.errors import PastaError
from pastalang.training.batch import Batch
from pastalang.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from pastalang.training.forward import loss_of
from pastalang.training.settings import Settings

Batches: TypeAlias = Callable[[int], Batch]  # the batch with this number, the same at every call
Judge: TypeAlias = Callable[[Any], float]  # a validation score of the model: higher is better
Report: TypeAlias = Callable[[str], None]


class TrainingStopped(PastaError):
    """The loss is no number any more. The last good checkpoint is kept."""


def train(
    model: Any,
    batches: Batches,
    settings: Settings,
    folder: Path,
    *,
    fingerprint: str,
    judge: Judge | None = None,
    report: Report = print,
) -> Progress:
    """Train until the steps are done or the score stops rising; go on where `folder` left off."""
    device = next(model.parameters()).device
    optimizer = _optimizer(model, settings)
    progress = load_checkpoint(folder / "resume", model, optimizer, fingerprint=fingerprint)
    progress = progress or Progress(0, None, 0, fingerprint)
    began, first = time.monotonic(), progress.step
    tokens = 0
    while progress.step < settings.steps:
        loss, fed = _step(model, optimizer, batches, settings, progress.step, device)
        tokens += fed
        progress = Progress(progress.step + 1, progress.best_score, progress.judgements_since_best, fingerprint)
        judging = judge is not None and settings.judge_every and progress.step % settings.judge_every == 0
        if judging and judge is not None:
            progress = _judged(progress, judge(model), folder, model, optimizer, settings, report)
            if settings.patience and progress.judgements_since_best >= settings.patience:
                report(f"step {progress.step}: no better score in {settings.patience} judgements; stopping here")
                break
        if progress.step % settings.save_every == 0 or progress.step == settings.steps:
            save_checkpoint(folder / "resume", model, optimizer, progress, settings)
        if progress.step % 20 == 0 or progress.step == settings.steps:
            report(_line(progress.step, settings.steps, loss, tokens, time.monotonic() - began, progress.step - first))
    return progress


def _step(
    model: Any, optimizer: Any, batches: Batches, settings: Settings, step: int, device: torch.device
) -> tuple[float, int]:
    """One update from `accumulation` batches, each weighted by the tokens it predicts."""
    model.train()
    parts = [batches(step * settings.accumulation + part).to(device) for part in range(settings.accumulation)]
    predicted = sum(part.predicted for part in parts)
    total = 0.0
    for part in parts:
        with _autocast(device, settings):
            loss = loss_of(model, part) * (part.predicted / max(1, predicted))
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
    progress: Progress, score: float, folder: Path, model: Any, optimizer: Any, settings: Settings, report: Report
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
    """Weight decay on matrices only: norms and biases are left alone."""
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
