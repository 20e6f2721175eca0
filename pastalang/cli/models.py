"""`pasta models`, and the model that `--model` names, or the default. What can be refused is refused before anything
heavy is imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.options import AsJson
from pastalang.cli.output import echo, echo_document, echo_error
from pastalang.cli.process import command
from pastalang.errors import PastaError
from pastalang.runtime.models.choice import Choice, Found, default_model, models_here
from pastalang.runtime.models.hub import offline_without_hub
from pastalang.runtime.models.source import OWN, Adapter, DTypeName, adapter_folder, check_source

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsSettings:
    """The arguments and options of `pasta models`."""

    as_json: AsJson = False


@command(ModelsSettings)
def models_command(settings: ModelsSettings) -> None:
    try:
        chosen = default_model()
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem
    found = list(models_here())
    if chosen.name not in [one.name for one in found]:
        found.append(Found(chosen.name, "named as the default"))
    if settings.as_json:
        listed = [_as_data(one, chosen) for one in found]
        echo_document(json.dumps({"models": listed, "named_by": chosen.where}, ensure_ascii=False))
        return
    width = max(len(one.name) for one in found)
    for one in found:
        _show(one, chosen, width)
    echo(f"\n* answers when no model is named{_because(chosen)}")


def _as_data(found: Found, chosen: Choice) -> dict[str, Any]:
    return {
        "name": found.name, "about": found.about, "is_here": found.is_here, "is_default": found.name == chosen.name,
        "adapters": list(found.adapters), "own_adapter": found.own,
    }  # fmt: skip


def _show(found: Found, chosen: Choice, width: int) -> None:
    echo(f"{'*' if found.name == chosen.name else ' '} {found.name:{width}}  {found.about}")
    for adapter in found.adapters:
        use = "which is used unless --adapter names another" if adapter == found.own else f"--adapter {adapter}"
        echo(f"  {'':{width}}  + adapter {adapter}, {use}")


def _because(chosen: Choice) -> str:
    if chosen.where is not None:
        return f": {chosen.where} names it"
    return '; name another with --model, PASTALANG_MODEL, or a line `model = "..."` in pasta.toml'


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
