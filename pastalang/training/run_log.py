"""What a run shows while it trains, and keeps: a line per step on a terminal, and all numbers in `metrics.jsonl`.

TensorBoard and Weights & Biases get the same numbers if they are asked for and installed.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import torch

from pastalang.training.errors import BadData
from pastalang.training.settings import LogName

ReportLine: TypeAlias = Callable[[str], None]  # shows one line of progress

_EVERY: Final = 20  # steps between two lines, where lines stay
_SMOOTHING: Final = 0.9
METRICS: Final = "metrics.jsonl"


@dataclass(frozen=True, slots=True)
class Step:
    """One update of the weights. `seconds` is what it took, `tokens` what it fed."""

    number: int
    steps: int
    loss: float
    rate: float
    gradient_norm: float
    tokens: int
    seconds: float

    @property
    def is_last(self) -> bool:
        return self.number == self.steps


class StepLines:
    """Shows steps: each in a `live` line that the next one replaces, or one in twenty in a line that stays."""

    def __init__(self, report: ReportLine, live: ReportLine | None = None) -> None:
        self._report, self._live = report, live
        self._loss: float | None = None
        self._tokens = 0
        self._seconds = 0.0
        self._done = 0

    def __call__(self, step: Step) -> None:
        known = step.loss if self._loss is None else self._loss
        self._loss = _SMOOTHING * known + (1 - _SMOOTHING) * step.loss
        self._tokens += step.tokens
        self._seconds += step.seconds
        self._done += 1
        if self._live is not None and not step.is_last:
            self._live(self._line(step))
        elif step.number % _EVERY == 0 or step.is_last:
            self._report(self._line(step))

    def _line(self, step: Step) -> str:
        left = self._seconds / self._done * (step.steps - step.number)
        parts = (
            f"step {step.number}/{step.steps}", f"loss {self._loss:.4f}", f"rate {step.rate:.1e}",
            f"gradient {step.gradient_norm:.2f}", f"{self._tokens / max(1e-9, self._seconds):,.0f} tokens/s",
            f"{memory() / 1e9:.1f} GB", f"{_time(left)} left",
        )  # fmt: skip
        return "  ".join(parts)


class Log(Protocol):
    """Where else numbers go."""

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class Metrics:
    """`metrics.jsonl`: a JSON object per step and per validation. A run that goes on continues it."""

    def __init__(self, folder: Path, logs: Sequence[LogName] = (), *, about: Mapping[str, Any] | None = None) -> None:
        self._folder, self._path = folder, folder / METRICS
        self._names, self._about = logs, about or {}
        self._logs: list[Log] = []

    def begin_after(self, step: int) -> None:
        """Drop what an interrupted run wrote after the step that it goes on from."""
        self._logs = [_log_of(name, self._folder, step, self._about) for name in self._names]
        kept = []
        with suppress(OSError):
            for line in self._path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError, KeyError, TypeError):  # a line that was cut off
                    if json.loads(line)["step"] <= step:
                        kept.append(line + "\n")
        self._path.write_text("".join(kept), encoding="utf-8")

    def step(self, step: Step) -> None:
        self._write(
            {
                "step": step.number,
                "loss": step.loss,
                "learning_rate": step.rate,
                "gradient_norm": step.gradient_norm,
                "tokens": step.tokens,
                "seconds": round(step.seconds, 4),
            }
        )
        numbers = {"loss": step.loss, "learning rate": step.rate, "gradient norm": step.gradient_norm}
        for log in self._logs:
            log.numbers(step.number, numbers)

    def validation(self, step: int, scores: Mapping[str, Any]) -> None:
        """`scores` by the name of the exam; each has an `f1`."""
        self._write({"step": step, "validation": dict(scores)})
        for log in self._logs:
            log.numbers(step, {f"F1/{name}": one["f1"] for name, one in scores.items()})

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


# ── logs of others ───────────────────────────────────────────────────────────────────────────────────────


def check_logs(names: Sequence[LogName]) -> None:
    """Raises `BadData` if one of them is not installed."""
    for name in names:
        if find_spec(name.value) is None:
            raise BadData(f"--log {name.value} needs the package {name.value}: pip install {name.value}")


def _log_of(name: LogName, folder: Path, step: int, about: Mapping[str, Any]) -> Log:
    match name:
        case LogName.TENSORBOARD:
            return _TensorBoard(folder / name.value, step)
        case LogName.WANDB:
            return _Wandb(folder, about)


class _TensorBoard:
    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder), purge_step=step + 1)

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """One run of Weights & Biases for a run folder, which goes on with it."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        import wandb

        place = folder.absolute()
        id = hashlib.sha256(str(place).encode()).hexdigest()[:16]
        self._run: Any = wandb.init(
            project="pastalang", name=place.parent.name, id=id, resume="allow", dir=str(folder), config=dict(about)
        )

    def numbers(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


# ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def memory() -> int:
    """The most bytes so far: of the GPU if there is one, else of the process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _time(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
