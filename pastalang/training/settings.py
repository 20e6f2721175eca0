"""What a training run is asked for: how the model will decode, how long to train, and how fast.

The command line reads this module for its options, so importing it is cheap: there is no torch in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from pastalang.plan.branches import Mode


class TrainingMode(StrEnum):
    """How the trained model will decode: in one mode, or in all of them with one set of weights."""

    STRICT = "strict"
    LOCKSTEP = "lockstep"
    SEQUENTIAL = "sequential"
    MIXTURE = "mixture"

    @property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(Mode) if self is TrainingMode.MIXTURE else (Mode(self.value),)


class Decay(StrEnum):
    """How the learning rate falls after the warm-up."""

    COSINE = "cosine"
    LINEAR = "linear"
    CONSTANT = "constant"

    def left(self, done: float) -> float:
        """How much of the fall is left, between 1 and 0."""
        match self:
            case Decay.COSINE:
                return 0.5 * (1 + math.cos(math.pi * done))
            case Decay.LINEAR:
                return 1 - done
            case Decay.CONSTANT:
                return 1.0


class Precision(StrEnum):
    """The type of the weights while they are trained, and that of the arithmetic."""

    MIXED = "mixed"  # float32 weights, bfloat16 products
    BFLOAT16 = "bfloat16"  # bfloat16 weights, and steps on float32 copies of those that are trained
    FLOAT32 = "float32"


class Attention(StrEnum):
    """How a GPU attends to what the rows of a batch see."""

    DENSE = "dense"  # a mask of all pairs of tokens
    FLEX = "flex"  # FlexAttention of torch, which leaves out the blocks of pairs that nobody sees


class LogName(StrEnum):
    """Where the numbers of a run go besides its folder."""

    TENSORBOARD = "tensorboard"
    WANDB = "wandb"


@dataclass(frozen=True, slots=True)
class Settings:
    steps: int
    learning_rate: float  # the highest, after the warm-up
    final_share: float = 0.05  # of the learning rate, at the last step
    decay: Decay = Decay.COSINE
    warmup_steps: int = 100
    weight_decay: float = 0.1
    clip_norm: float = 1.0  # of the gradient; 0: never
    accumulation: int = 1  # batches per step
    precision: Precision = Precision.MIXED
    checkpointing: bool = False  # compute activations again in the backward pass, to keep fewer of them
    average: float = 0.0  # of the weights over the steps: how much of the average a step keeps; 0: the last weights
    save_every: int = 250
    judge_every: int = 0  # 0: never look at the validation part
    patience: int = 0  # judgements without a better score before it stops; 0: never
    seed: int = 0

    @property
    def identity(self) -> dict[str, str]:
        """The settings that change the weights, by their names as options. A resumed run must have the same."""
        names = (field.name for field in fields(self) if field.name not in ("save_every", "checkpointing"))
        return {name.replace("_", "-"): f"{getattr(self, name)}" for name in names}

    def lasting(self, steps: int, warmup: int | None, *, at_most: int = 100) -> Settings:
        """So many steps, with a warm-up of a tenth of them and `at_most` so many if none is asked for."""
        usual = min(at_most, max(1, steps // 10))
        return replace(self, steps=steps, warmup_steps=usual if warmup is None else warmup)

    def rate(self, step: int) -> float:
        """The learning rate of step `step`, counted from 0: a linear warm-up, then the decay."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        floor = self.learning_rate * self.final_share
        return floor + (self.learning_rate - floor) * self.decay.left(min(1.0, done))


# ── a preference round ───────────────────────────────────────────────────────────────────────────────────────


class Form(StrEnum):
    """What a margin costs: as BoNBoN's and PASTA's papers write it, or as the published code of BoNBoN computes it."""

    SQUARED = "squared"  # (margin - target)²
    LOGISTIC = "logistic"  # -log sigmoid(β margin), with β = 1 / (2 target)


@dataclass(frozen=True, slots=True)
class Preference:
    """`samples` answers to a prompt. `quality_weight` is λ; infinity: quality alone, and speed where it is equal.

    `target`: the margin that is aimed at; None: (n - 1) (1 + 1/2 + ... + 1/(n-1)), that of the best and worst of n.
    """

    samples: int = 10
    quality_weight: float = 2.0
    alpha: float = 0.005
    target: float | None = None
    form: Form = Form.SQUARED
    temperature: float = 1.0

    @property
    def margin(self) -> float:
        n = self.samples
        return self.target if self.target is not None else (n - 1) * sum(1 / k for k in range(1, n))

    @property
    def beta(self) -> float:
        """The slope of the logistic form: 0.0275 for 8 samples."""
        return 1 / (2 * self.margin)

    def score(self, speed: float, quality: float) -> tuple[float, float]:
        """The key to rank answers by: the worst first."""
        if math.isinf(self.quality_weight):
            return quality, speed
        return speed + self.quality_weight * quality, quality
