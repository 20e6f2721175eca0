"""`pasta models`, and the model that `--model` names, or the default. What can be refused is refused before anything
heavy is imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.options import AsJson, adapter_of
from pastalang.cli.output import echo, echo_document, echo_error
from pastalang.cli.process import command
from pastalang.failures import PastaError
from pastalang.plan.branches import Placement
from pastalang.runtime.models.choice import Choice, Found, default_model, models_here
from pastalang.runtime.models.hub import offline_without_hub
from pastalang.runtime.models.source import OWN, Adapter, DTypeName, adapter_folder, check_source, is_address

if TYPE_CHECKING:
    from pastalang.hosts.engine import RemoteEngine
    from pastalang.hosts.opening import AnyEngine
    from pastalang.runtime.engine import Engine


CELLS: Final = 8192
CHATS_ONLY: Final = "this server takes chats only"
_FASTER: Final = "this processor computes bfloat16 fast: --dtype bfloat16 takes less time and rounds more"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsSettings:
    """The arguments and options of `pasta models`."""

    as_json: AsJson = False


@command(ModelsSettings)
def models_command(settings: ModelsSettings) -> None:
    chosen = chosen_model(None)
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
    with _refusing():
        return default_model() if model is None else Choice(model, "--model")


@contextmanager
def _refusing(option: str = "", code: int = EXIT_UNREADABLE) -> Iterator[None]:
    """What the library raises becomes a refusal that names the option."""
    try:
        yield
    except PastaError as problem:
        raise Refused(f"{option}: {problem}" if option else str(problem), code) from problem


class ModelSettings(Protocol):
    """The settings of a command whose model may be on a server."""

    @property
    def model(self) -> str | None: ...
    @property
    def adapter(self) -> str | None: ...


def model_or_server(settings: ModelSettings, not_on_servers: Mapping[str, object]) -> Choice:
    """The model that answers. Raises `Refused` if it is not there, or for options that a server cannot be asked for.
    Imports nothing heavy."""
    chosen = chosen_model(settings.model)
    if is_address(chosen.name):
        from pastalang.hosts.opening import address_of

        with _refusing("--model", EXIT_USAGE):
            address_of(chosen.name)
        refuse_for_server(not_on_servers)
    else:
        refuse_missing(chosen.name, adapter_of(settings.adapter))
    return chosen


def refuse_missing(model: str, adapter: Adapter = OWN, *, with_weights: bool = True) -> None:
    """Raises `Refused` if there is no such model or adapter, here or on the hub. Call it before heavy imports."""
    with _refusing():
        check_source(model, with_weights=with_weights)
    with _refusing("--adapter"):
        adapter_folder(model, adapter)
    with _refusing():
        offline_without_hub(model)


def load_engine(
    model: str, *, device: str | None, cells: int, dtype: DTypeName | None = None, adapter: Adapter = OWN,
    placement: Placement | None = None,
) -> Engine:  # fmt: skip
    """Raises `Refused`."""
    refuse_missing(model, adapter)
    refuse_device(device)
    with _refusing(), ctrl_c_exits_at_once(), _progress(f"loading {model} …"):
        from pastalang.runtime.engine import Engine

        return Engine.load(model, device=device, dtype=dtype, cells=cells, adapter=adapter, placement=placement)


def open_engine(
    model: str, *, device: str | None, cells: int | None, dtype: DTypeName | None = None, adapter: Adapter = OWN,
    api_key: str | None = None,
) -> AnyEngine:  # fmt: skip
    """`load_engine`, or that of a server. Raises `Refused`."""
    if not is_address(model):
        return load_engine(model, device=device, cells=cells or CELLS, dtype=dtype, adapter=adapter)
    refuse_for_server({"--device": device, "--cells": cells, "--dtype": dtype, "--adapter": adapter != OWN})
    return ask_server(model, api_key=api_key)


def ask_server(address: str, *, api_key: str | None, documents: int | None = None) -> RemoteEngine:
    """`documents` are those that a long run has in flight. Raises `Refused`."""
    with _refusing(), ctrl_c_exits_at_once(), _progress(f"asking {address} …"):
        from pastalang.hosts.opening import open_server

        return open_server(address, api_key=api_key, documents=documents)


def refuse_for_server(options: Mapping[str, object], which: str = "--model names a server") -> None:
    """Raises `Refused` with the options that are given and that a server cannot be asked for."""
    given = [name for name, value in options.items() if value not in (None, False)]
    if given:
        verb = "belong" if len(given) > 1 else "belongs"
        raise Refused(f"{' and '.join(given)} {verb} to a model in this process, and {which}", EXIT_USAGE)


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a model, without its weights. Raises `Refused`."""
    refuse_missing(model, with_weights=False)
    with _refusing():
        from pastalang.runtime.models.loading import load_tokenizer as load

        return load(model)


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

    with _refusing("--device", EXIT_USAGE):
        check_device(device)


# ── engines of long runs ─────────────────────────────────────────────────────────────────────────────────


class Load(Protocol):
    """What gives the engine of a long run. `advice` is what to choose on this machine."""

    device: str | None

    def __call__(self, cells: int | None) -> AnyEngine: ...

    @property
    def dtype(self) -> str | None: ...

    @property
    def advice(self) -> str | None: ...


class AskOnce:
    """Connects to a server when it is first asked. `of_values` are options that a server which takes chats only does
    not have."""

    device: str | None = None
    dtype: str | None = None
    advice: str | None = None

    def __init__(
        self, address: str, *, api_key: str | None, documents: int, of_values: Mapping[str, object]
    ) -> None:  # fmt: skip
        self._address = address
        self._api_key = api_key
        self._documents = documents
        self._of_values = of_values
        self._engine: RemoteEngine | None = None

    def __call__(self, cells: int | None = None) -> RemoteEngine:
        if self._engine is None:
            self._engine = ask_server(self._address, api_key=self._api_key, documents=self._documents)
            if self._engine.takes_chats_only:
                refuse_for_server(self._of_values, CHATS_ONLY)
        return self._engine

    def resolved(self, *, by_workers: bool) -> str:
        """The address with the name of the model, which a resumed run has to have as well. Workers of a cluster ask
        their own servers, so that this machine asks none if the model is named. Raises `Refused`."""
        return self._address if by_workers and self._address.partition("#")[2] else self().address


class LoadOnce:
    """Loads the engine when it is first needed, and again only for more cells."""

    def __init__(self, model: str, device: str | None, dtype: DTypeName | None, adapter: Adapter) -> None:
        self.device = device
        self._model = model
        self._dtype: DTypeName | None = dtype
        self._adapter: Adapter = adapter
        self._loaded: Engine | None = None

    def __call__(self, cells: int | None) -> Engine:
        if self._loaded is None or (cells is not None and cells > self._loaded.model.cells):
            self._loaded = None  # the memory is free before it is taken again
            self._loaded = load_engine(
                self._model, device=self.device, dtype=self._dtype, cells=cells or CELLS, adapter=self._adapter
            )
        return self._loaded

    @property
    def dtype(self) -> str | None:
        """What the engine computes in, or was asked to on other machines."""
        if self._loaded is None or self._dtype is not None:
            return self._dtype
        return str(self._loaded.model.dtype).removeprefix("torch.")

    @property
    def advice(self) -> str | None:
        """A faster type for this processor, which the user has to choose because it rounds more."""
        if self._loaded is None or self._dtype is not None:
            return None
        from pastalang.runtime.models.loading import is_faster_in_bfloat16

        model = self._loaded.model
        return _FASTER if is_faster_in_bfloat16(model.device, model.dtype) else None
