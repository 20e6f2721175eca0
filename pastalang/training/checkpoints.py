"""The checkpoints of a run: what a training that was interrupted needs to go on, and the best weights so far.

A checkpoint is a folder `step-0000300`. It is written under another name, forced to the disk, and renamed, so that a
crash at any moment leaves the checkpoints before it whole. `checkpoint.json` in it lists its files with their sizes and
checksums: a file that was cut off later is noticed, and the checkpoint before that one is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pastalang.training.errors import CheckpointError, UnwritableCheckpoint

Weights: TypeAlias = Mapping[str, torch.Tensor]
Identity: TypeAlias = Mapping[str, str]  # everything that changes the result of a run, by a name that its user knows

RESUME, BEST = "resume", "best"  # the folders of a run's checkpoints
_NOTE: Final = "checkpoint.json"
_KEPT: Final = 2  # checkpoints to go on from: the second one is for when the first is damaged
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `best_step` is the step whose weights have the best score; None without a judge."""

    step: int = 0
    best_score: float | None = None
    best_step: int | None = None
    judgements_since_best: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint. `damaged` names later ones that are not, with the reason."""

    folder: Path
    progress: Progress
    identity: Identity
    damaged: tuple[str, ...] = ()

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        return load_file(self.folder / f"{name}.safetensors")


class Checkpoints:
    """The checkpoints of one run, in two folders: `resume` to go on from, and `best`, which has weights only."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self._folder = folder
        self._identity = dict(identity)

    def save(self, progress: Progress, tensors: Mapping[str, Weights]) -> None:
        """Raises `UnwritableCheckpoint`; the checkpoints before this one are kept then."""
        self._write(RESUME, progress, tensors)
        kept = [self._progress(place) for place in _newest_first(self._folder / RESUME)[:_KEPT]]
        _keep_newest(self._folder / RESUME, _KEPT)
        best = {one.best_step for one in (*kept, progress) if one is not None}
        for place in _newest_first(self._folder / BEST):
            if step_of(place) not in best:
                _remove(place)

    def save_best(self, progress: Progress, weights: Weights) -> None:
        self._write(BEST, progress, {"weights": weights})

    def latest(self) -> Checkpoint | None:
        """The newest whole checkpoint, None if there are none.

        What is later than it is removed. Raises `CheckpointError` if it is of another run, or if none is whole.
        """
        places = _newest_first(self._folder / RESUME)
        damaged: list[str] = []
        for place in places:
            found = read_checkpoint(place)
            if isinstance(found, Checkpoint):
                self._check_identity(found)
                self._forget_after(found.progress.step)
                return Checkpoint(found.folder, found.progress, found.identity, tuple(damaged))
            damaged.append(found)
        if damaged:
            reasons = "\n".join(f"  {reason}" for reason in damaged)
            raise CheckpointError(
                f"no checkpoint in {self._folder / RESUME} can be read; start anew in another folder, or with "
                f"--overwrite\n{reasons}"
            )
        self._forget_after(-1)
        return None

    def best(self, progress: Progress) -> dict[str, torch.Tensor] | None:
        """The weights of the best step, None if no step was judged."""
        if progress.best_step is None:
            return None
        found = read_checkpoint(self._folder / BEST / _name(progress.best_step))
        if isinstance(found, str):
            raise CheckpointError(f"the best weights cannot be read: {found}")
        return found.tensors("weights")

    def _write(self, kind: str, progress: Progress, tensors: Mapping[str, Weights]) -> None:
        folder = self._folder / kind
        place = folder / _name(progress.step)
        fresh = place.with_suffix(".partial")
        with writing(place, "the checkpoints before it are kept: make room and give the same command again"):
            _remove(fresh)
            fresh.mkdir(parents=True)
            try:
                for name, weights in tensors.items():
                    contiguous = {key: value.detach().contiguous() for key, value in weights.items()}
                    save_file(contiguous, fresh / f"{name}.safetensors")
                files = {file.name: [file.stat().st_size, _checksum(file)] for file in sorted(fresh.iterdir())}
                note = {"version": 1, "progress": asdict(progress), "identity": self._identity, "files": files}
                (fresh / _NOTE).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
                for file in fresh.iterdir():
                    _to_disk(file)
            except BaseException:
                _remove(fresh)  # a disk that is full gets its room back
                raise
            _remove(place)
            fresh.rename(place)
            _to_disk(folder)

    def _check_identity(self, found: Checkpoint) -> None:
        if found.identity == self._identity:
            return
        known, now = found.identity, self._identity
        changed = [
            name for name in (*known, *(name for name in now if name not in known)) if known.get(name) != now.get(name)
        ]
        listed = ", ".join(f"{name} was {known.get(name, 'unset')}, now {now.get(name, 'unset')}" for name in changed)
        raise CheckpointError(
            f"{self._folder} holds the checkpoints of a run that was started with something else: {listed}; "
            "go on with what it was started with, choose another folder, or begin anew with --overwrite"
        )

    def _forget_after(self, step: int) -> None:
        """A run that goes on from `step` makes everything later once more."""
        for kind in (RESUME, BEST):
            for place in _newest_first(self._folder / kind):
                if step_of(place) > step:
                    _remove(place)

    def _progress(self, place: Path) -> Progress | None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return Progress(**json.loads((place / _NOTE).read_text(encoding="utf-8"))["progress"])
        return None


def read_checkpoint(place: Path) -> Checkpoint | str:
    """The checkpoint, or why it cannot be read."""
    try:
        note = json.loads((place / _NOTE).read_text(encoding="utf-8"))
        for name, (size, checksum) in note["files"].items():
            file = place / name
            if not file.is_file():
                return f"{place}: {name} is missing"
            if file.stat().st_size != size:
                return f"{place}: {name} is cut off, it has {file.stat().st_size:,} of {size:,} bytes"
            if _checksum(file) != checksum:
                return f"{place}: {name} is damaged"
        return Checkpoint(place, Progress(**note["progress"]), note["identity"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        return f"{place}: {_NOTE} cannot be read ({problem})"


def step_of(place: Path) -> int:
    return int(place.name.removeprefix("step-"))


def _name(step: int) -> str:
    return f"step-{step:07d}"


def _newest_first(folder: Path) -> list[Path]:
    return sorted((place for place in folder.glob("step-*") if place.name[5:].isdigit()), key=step_of, reverse=True)


def _keep_newest(folder: Path, count: int) -> None:
    for old in _newest_first(folder)[count:]:
        _remove(old)


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _checksum(file: Path) -> int:
    found = 0
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            found = zlib.crc32(block, found)
    return found


def _to_disk(place: Path) -> None:
    with suppress(PermissionError):  # folders cannot be opened everywhere
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def writing(place: Path, advice: str) -> Iterator[None]:
    """Turns what a full disk causes into `UnwritableCheckpoint`, with the advice."""
    try:
        yield
    except (OSError, SafetensorError) as problem:
        reason = getattr(problem, "strerror", None) or next(iter(str(problem).splitlines()), "")
        raise UnwritableCheckpoint(f"{place} could not be written: {reason.lower()}; {advice}") from problem


# ── the weights of a model ───────────────────────────────────────────────────────────────────────────────


def trained_weights(model: Any) -> dict[str, torch.Tensor]:
    """What a checkpoint holds: no frozen weight, and every other one once, as safetensors takes no tensor twice."""
    trained = {name for name, one in model.named_parameters(remove_duplicate=False) if one.requires_grad}
    kept = trained | {name for name, _ in model.named_buffers(remove_duplicate=False)}
    tied = _tied(model)
    return {name: value for name, value in model.state_dict().items() if name in kept and name not in tied}


def put_weights(model: Any, weights: Weights) -> None:
    """Raises `CheckpointError` if the weights are not those of `trained_weights(model)`."""
    expected = trained_weights(model)
    fits = expected.keys() == weights.keys() and all(weights[name].shape == one.shape for name, one in expected.items())
    if not fits:
        raise CheckpointError("these weights are of a model of another shape")
    model.load_state_dict(weights, strict=False)


def fingerprint_of_weights(model: Any) -> str:
    """A short name of all weights of a model."""
    found = hashlib.blake2b(digest_size=8)
    for name, value in model.state_dict().items():
        plain = value.detach().cpu().contiguous().view(-1).view(torch.uint8) if value.numel() else value.cpu()
        found.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        found.update(plain.numpy().data)
    return found.hexdigest()


def _tied(model: Any) -> set[str]:
    seen: dict[int, str] = {}
    return {name for name, value in model.state_dict().items() if seen.setdefault(value.data_ptr(), name) != name}
