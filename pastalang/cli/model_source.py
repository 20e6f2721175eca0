"""From what `--model` and `--device` name to an engine; what cannot be loaded is refused in words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pastalang.cli.files import EXIT_UNREADABLE, EXIT_USAGE
from pastalang.cli.refused import Refused
from pastalang.errors import PastaError
from pastalang.runtime.model.shipped import shipped_folder

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine


def refuse_folder(model: str) -> None:
    """Where `--model` can only be a folder, it has to be one with a model; before anything heavy is imported."""
    try:
        if shipped_folder(model) is not None:
            return
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise Refused(f"the folder {model} holds no model: there is no config.json in it", EXIT_UNREADABLE)
    elif folder.exists():
        raise Refused(f"{model} is a file; --model takes the folder of a model", EXIT_UNREADABLE)
    elif folder.is_absolute() or model.startswith(".") or len(folder.parts) > 2:
        raise Refused(f"there is no folder {model}", EXIT_UNREADABLE)


def load_engine(model: str, *, device: str | None, cells: int) -> Engine:
    """Raises `Refused`."""
    refuse_folder(model)
    if device is not None:
        _refuse_device(device)
    if not sys.stderr.isatty():
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
    from pastalang.runtime.engine import Engine

    try:
        return Engine.load(model, device=device, cells=cells)
    except (PastaError, OSError, ValueError) as problem:
        raise Refused(f"the model {model} could not be loaded: {problem}", EXIT_UNREADABLE) from problem


def _refuse_device(device: str) -> None:
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError as problem:
        raise Refused(f"--device takes cpu, cuda or mps, not {device!r}", EXIT_USAGE) from problem
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(kind, False):
        raise Refused(f"this machine has no device {device!r}; left out, --device is the best there is", EXIT_USAGE)
