"""From what `--model` and `--device` name to an engine; what cannot be loaded is refused in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, ends_at_once
from pastalang.cli.hub import look_for_hub
from pastalang.errors import PastaError
from pastalang.runtime.models.source import check_source

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine


def refuse_folder(model: str) -> None:
    """Where `--model` can only be a folder, it has to be one with a model; before anything heavy is imported."""
    try:
        check_source(model)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def load_engine(model: str, *, device: str | None, cells: int) -> Engine:
    """Raises `Refused`."""
    refuse_folder(model)
    look_for_hub(model)
    refuse_device(device)
    try:
        with ends_at_once():  # nothing of ours is under way yet
            from pastalang.runtime.engine import Engine

            return Engine.load(model, device=device, cells=cells)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def refuse_device(device: str | None) -> None:
    """Raises `Refused` for a device that is none, or is not there."""
    if device is None:
        return
    from pastalang.runtime.models.loading import check_device

    try:
        check_device(device)
    except PastaError as problem:
        raise Refused(f"--device: {problem}", EXIT_USAGE) from problem
