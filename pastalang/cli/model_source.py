"""Load the engine for `--model` and `--device`. What can be refused is refused before anything heavy is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.output import echo_error
from pastalang.errors import PastaError
from pastalang.runtime.models.choice import Choice, default_model
from pastalang.runtime.models.hub import offline_without_hub
from pastalang.runtime.models.source import OWN, Adapter, DTypeName, adapter_folder, check_source

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine


def chosen_model(model: str | None) -> Choice:
    """What `--model` names, or the default. Raises `Refused`."""
    try:
        return default_model() if model is None else Choice(model, "--model")
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def refuse_model(model: str, *, with_weights: bool = True) -> None:
    """Raises `Refused` if `--model` names a folder without a model. Imports nothing heavy."""
    try:
        check_source(model, with_weights=with_weights)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def refuse_adapter(model: str, adapter: Adapter) -> None:
    """Raises `Refused` if there is no such adapter."""
    try:
        adapter_folder(model, adapter)
    except PastaError as problem:
        raise Refused(f"--adapter: {problem}", EXIT_UNREADABLE) from problem


def refuse_hub(model: str) -> None:
    """Raises `Refused` if `--model` names a model of the hub that cannot be had. Call it before heavy imports."""
    try:
        offline_without_hub(model)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def load_engine(
    model: str, *, device: str | None, cells: int, dtype: DTypeName | None = None, adapter: Adapter = OWN
) -> Engine:
    """Raises `Refused`."""
    refuse_model(model)
    refuse_adapter(model, adapter)
    refuse_hub(model)
    refuse_device(device)
    try:
        with ctrl_c_exits_at_once(), _progress(f"loading {model} …"):
            from pastalang.runtime.engine import Engine

            return Engine.load(model, device=device, dtype=dtype, cells=cells, adapter=adapter)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a model, without its weights. Raises `Refused`."""
    refuse_model(model, with_weights=False)
    refuse_hub(model)
    try:
        from pastalang.runtime.models.loading import load_tokenizer as load

        return load(model)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


@contextmanager
def _progress(text: str) -> Iterator[None]:
    """A line on a terminal that is erased in the end."""
    if not sys.stderr.isatty():
        yield
        return
    echo_error(text, end="")
    try:
        yield
    finally:
        echo_error("\r\x1b[K", end="")


def refuse_device(device: str | None) -> None:
    """Raises `Refused` for a device that does not exist or is not available."""
    if device is None:
        return
    from pastalang.runtime.models.loading import check_device

    try:
        check_device(device)
    except PastaError as problem:
        raise Refused(f"--device: {problem}", EXIT_USAGE) from problem
