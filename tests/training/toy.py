"""A run that takes milliseconds: a linear layer with dropout that learns one matrix, its judge, and its disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pastalang.training import run_folder
from pastalang.training.batches import Batch
from pastalang.training.run_folder import Checkpoints, Progress
from pastalang.training.settings import Precision, Settings
from pastalang.training.trainer import train
from tests.training.lessons import PulledPlug

SETTINGS = Settings(
    steps=7,
    learning_rate=0.3,
    warmup_steps=2,
    save_every=3,
    judge_every=2,
    average=0.5,
    precision=Precision.FLOAT32,
    seed=3,
)
IDENTITY = {"data": "toy"}


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.inner = nn.Linear(4, 4)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.dropout = nn.Dropout(0.5)
        with torch.no_grad():
            for weight in self.inner.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator))


def batch(number: int) -> Batch:
    tokens = torch.full((1, 1), number)
    return Batch(tokens, tokens, tokens, None, (f"row {number}",))


def loss_of(model: Toy, given: Batch) -> torch.Tensor:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(int(given.tokens)))
    wrong: torch.Tensor = model.inner(model.dropout(x)) - x
    return wrong.square().mean()


def judge(model: Toy) -> float:
    """Rises and falls, so the best step is not the last one. Uses random numbers, as a judge may."""
    torch.rand(3)
    return float(torch.sin(40 * model.inner.weight.detach().sum()))


def run(folder: Path, settings: Settings = SETTINGS, **rest: Any) -> dict[str, torch.Tensor]:
    """All tensors that come out of a run: the last weights and the best ones."""
    model = Toy()
    rest = {"identity": IDENTITY, "judge": judge, "loss": loss_of, "report": lambda _: None} | rest
    progress: Progress = train(model, batch, settings, folder, **rest)
    best = Checkpoints(folder, {}).best(progress) or {}
    found = {name: value.clone() for name, value in model.state_dict().items()}
    return found | {f"best {name}": value for name, value in best.items()} | {"at": torch.tensor(progress.step)}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@contextmanager
def plug_pulled_at(operation: int) -> Iterator[Callable[[], int]]:
    """The disk takes `operation` operations. Of the next one it does a half, and then nothing. Gives their count."""
    count = 0

    def guarded(act: Callable[..., Any], half: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def instead(*given: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count > operation:
                if count == operation + 1 and half is not None:
                    half(*given)
                raise PulledPlug
            return act(*given, **named)

        return instead

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_folder, "save_file", guarded(run_folder.save_file, lambda _, file: file.write_bytes(b"1")))
        patch.setattr(Path, "mkdir", guarded(Path.mkdir))
        patch.setattr(Path, "rename", guarded(Path.rename))
        patch.setattr(Path, "write_text", guarded(Path.write_text, lambda file, _: file.touch()))
        patch.setattr(shutil, "rmtree", guarded(shutil.rmtree, _half_removed))
        yield lambda: count


def _half_removed(place: Path) -> None:
    files = [file for file in place.rglob("*") if file.is_file()]
    for file in files[: len(files) // 2]:
        file.unlink()
