"""The folder of a run: the trained model, and in `training` what an interrupted run needs to go on.

The note that is written last, `pastalang.json`, says that a run is finished. Until then the same command goes on with
it, whatever the folder holds already.

A checkpoint is a folder `step-0000300`. It is written under another name, forced to the disk, and renamed, so that a
crash at any moment leaves the checkpoints before it whole. `checkpoint.json` in it lists its files with their sizes and
checksums: a file that was cut off later is noticed, and the checkpoint before that one is taken.

All numbers of the run are in `metrics.jsonl`, and a line per step is shown. TensorBoard and Weights & Biases get the
same numbers if they are asked for and installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import Enum, auto
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pastalang.locks import lock_file
from pastalang.runtime.models.probe_tokens import Kind
from pastalang.runtime.models.training_note import FILE
from pastalang.training.errors import BadData, CheckpointError, UnreadableData, UnwritableCheckpoint
from pastalang.training.settings import LogName
from pastalang.version import __version__

WORK: Final = "training"
ROWS: Final = "rows"  # in WORK: recorded rows, whose names say what they depend on
SCORES: Final = "scores.json"
ADAPTER: Final = "adapter"  # the folder of a kept adapter
_MARK: Final = "run.json"  # in WORK: the folder was made by a run


class Stand(Enum):
    """What is in a folder."""

    NOTHING = auto()
    UNFINISHED_RUN = auto()
    FINISHED_RUN = auto()
    SOMETHING_ELSE = auto()


def stand_of(folder: Path) -> Stand:
    """Raises `BadData` if it is not a folder."""
    if not folder.exists():
        return Stand.NOTHING
    if not folder.is_dir():
        raise BadData(f"{folder} is not a folder")
    if (folder / WORK / _MARK).is_file():
        return Stand.FINISHED_RUN if (folder / FILE).is_file() else Stand.UNFINISHED_RUN
    has_rows_only = all(place == folder / WORK / ROWS for place in _two_deep(folder))  # it ended while it recorded
    return Stand.NOTHING if has_rows_only else Stand.SOMETHING_ELSE


def _two_deep(folder: Path) -> Iterator[Path]:
    for place in folder.iterdir():
        inside = list(place.iterdir()) if place.is_dir() else []
        yield from inside or [place]


def check_folder(folder: Path, *, overwrite: bool) -> Stand:
    """Refuse a folder that holds anything but a run to go on with, unless it may be overwritten. Changes nothing."""
    stand = stand_of(folder)
    if overwrite:
        return stand
    if stand is Stand.FINISHED_RUN:
        raise BadData(f"{folder} holds a finished run; choose another folder, or begin anew with --overwrite")
    if stand is Stand.SOMETHING_ELSE:
        raise BadData(f"{folder} is not empty; choose another folder, or pass --overwrite")
    return stand


@contextmanager
def own_folder(folder: Path, *, overwrite: bool) -> Iterator[None]:
    """Make the folder of a new run, or go on with the one that is there. `overwrite` begins anew.

    Until the end, no other process can do so: it raises `BadData`.
    """
    check_folder(folder, overwrite=overwrite)
    with ExitStack() as held:
        try:
            (folder / WORK).mkdir(parents=True, exist_ok=True)
            mark = held.enter_context((folder / WORK / _MARK).open("a", encoding="utf-8"))
            if not lock_file(mark):
                raise BadData(f"another process trains in {folder}")
            check_folder(folder, overwrite=overwrite)  # the other one may have finished
            if overwrite:
                _clear(folder)
            mark.truncate(0)
            mark.write(json.dumps({"pastalang": __version__}) + "\n")
            mark.flush()
        except OSError as problem:
            reason = (problem.strerror or str(problem)).lower()
            raise UnreadableData(f"{folder} cannot be made: {reason}") from problem
        yield


def write_options(folder: Path, options: Mapping[str, Any], identity: Mapping[str, str]) -> None:
    """`run.toml`: the options of the command, to repeat the run with `--config`, and what it was started with."""
    lines = ["# pasta train --config run.toml --out FOLDER repeats this run.", f"pastalang = {_toml(__version__)}", ""]
    lines += [f"{name} = {_toml(value)}" for name, value in options.items() if value is not None]
    lines += ["", "[identity]", *(f"{_toml(name)} = {_toml(value)}" for name, value in identity.items())]
    (folder / "run.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)  # JSON has no infinity
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _clear(folder: Path) -> None:
    """Forget all of a run but the rows that it has recorded, and its mark, which is locked."""
    for name in (FILE, SCORES, *(kind.file for kind in Kind)):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / ADAPTER, ignore_errors=True)
    for place in (folder / WORK).iterdir():
        if place.is_dir() and place.name != ROWS:
            shutil.rmtree(place, ignore_errors=True)
        elif not place.is_dir() and place.name != _MARK:
            place.unlink(missing_ok=True)


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────────


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


# ── answers of a model ────────────────────────────────────────────────────────────────────────────────────


def kept_lines(
    kept: Path, count: int, more: Callable[[int], Sequence[Any]], on_done: Callable[[int], None]
) -> list[Any]:
    """The first lines of a file of JSON. `more` makes those after the given number that are missing."""
    found = _whole_lines(kept)[:count]
    with kept.open("a", encoding="utf-8") as file:
        while len(found) < count:
            new = more(len(found))
            file.write("".join(json.dumps(line) + "\n" for line in new))
            file.flush()
            found += new
            on_done(len(found))
    return found


def _whole_lines(kept: Path) -> list[Any]:
    """The lines of a file, which loses its last one if a run was killed while it wrote it."""
    if not kept.exists():
        return []
    text = kept.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        kept.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]


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


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


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

    def begin_after(self, step: int | None) -> None:
        """Drop what an interrupted run wrote after the step that it goes on from; None: it begins anew."""
        self._logs = [_log_of(name, self._folder, step or 0, self._about) for name in self._names]
        kept = []
        with suppress(OSError):
            for line in self._path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError, KeyError, TypeError):  # a line that was cut off
                    if step is not None and json.loads(line)["step"] <= step:
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
        """`scores` by the name of the evaluation; each has an `f1`."""
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
