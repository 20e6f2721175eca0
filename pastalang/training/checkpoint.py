"""A training run on disk: weights, optimiser, and how far it came. A save replaces the last one at once."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from pastalang.errors import PastaError
from pastalang.training.settings import Settings


class CheckpointError(PastaError):
    """A checkpoint that does not belong to this run, or cannot be read."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`fingerprint` says what is trained (program, tokenizer, mode); a run of another one does not resume."""

    step: int
    best_score: float | None
    judgements_since_best: int
    fingerprint: str


def save_checkpoint(folder: Path, model: Any, optimizer: Any, progress: Progress, settings: Settings) -> None:
    """Write beside the old one, then swap: a crash in between leaves a whole checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"step-{progress.step:07d}"
    fresh = folder / f"{name}.partial"
    fresh.mkdir(exist_ok=True)
    weights = {key: value.contiguous() for key, value in _own_weights(model).items()}
    save_file(weights, fresh / "weights.safetensors")
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


def load_checkpoint(folder: Path, model: Any, optimizer: Any, *, fingerprint: str) -> Progress | None:
    """Put model and optimiser where they were; None where there is nothing to go on from."""
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
    optimizer.load_state_dict(torch.load(place / "optimizer.pt", weights_only=True))
    return progress


def load_weights(folder: Path, model: Any) -> None:
    """Put the weights that were saved last into the model, whatever run they are of."""
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
