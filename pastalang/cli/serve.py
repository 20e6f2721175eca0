"""`pasta serve MODEL`: an HTTP server that OpenAI's clients can talk to, and programs as endpoints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from pastalang.cli.exit_codes import EXIT_USAGE, Refused
from pastalang.cli.models import chosen_model, load_engine, refuse_missing
from pastalang.cli.options import AdapterName, Cells, ComputedIn, Device, adapter_of
from pastalang.cli.output import echo_error, show_notes
from pastalang.cli.process import command
from pastalang.hosts.opening import KEY_VARIABLE
from pastalang.plan.branches import Placement
from pastalang.runtime.models.source import KNOWN
from pastalang.values.describe import counted

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The arguments and options of `pasta serve`."""

    model: Annotated[
        str | None,
        typer.Argument(help="A folder with a model, or its name on the Hugging Face hub. Default: see pasta models."),
    ] = None
    programs: Annotated[Path | None, typer.Option(help="A folder of programs; each template becomes an endpoint.")] = (
        None
    )
    reload: Annotated[bool, typer.Option("--reload", help="Read programs again when their files change.")] = False
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="The port to listen on.", min=0, max=65535)] = 8000
    name: Annotated[str | None, typer.Option(help="The name that clients see. Default: that of the model.")] = None
    api_key: Annotated[
        list[str] | None,
        typer.Option(help=f"An API key that clients must send. May be repeated. Default: that of {KEY_VARIABLE}."),
    ] = None
    max_in_flight: Annotated[int, typer.Option(help="Maximum requests decoded at the same time.", min=1)] = 16
    max_queue: Annotated[int, typer.Option(help="Maximum waiting requests; more are answered with 429.", min=0)] = 64
    max_body: Annotated[int, typer.Option(help="Maximum size of a request body, in bytes.", min=1024)] = 4 * 2**20
    deadline: Annotated[float, typer.Option(help="Time limit per request, in seconds.", min=0.1)] = 600.0
    drain: Annotated[float, typer.Option(help="On shutdown, wait this many seconds for accepted requests.", min=0)] = (
        30.0
    )
    patience: Annotated[float, typer.Option(help="Time limit for a request to arrive, in seconds.", min=0.1)] = 30.0
    isolate_keys: Annotated[
        bool, typer.Option("--isolate-keys", help="Do not share cached prompts between API keys.")
    ] = False
    adapter: AdapterName = None
    device: Device = None
    dtype: ComputedIn = None
    cells: Cells = 8192
    placement: Annotated[
        Placement | None,
        typer.Option(help="Where values stand that do not see one another: gaps, or dense as on other hosts."),
    ] = None
    log_prompts: Annotated[bool, typer.Option("--log-prompts", help="Log the messages of requests.")] = False


@command(ServeSettings)
def serve_command(settings: ServeSettings) -> None:
    keys = _keys(settings.api_key)
    if settings.host not in _LOOPBACK and not keys:
        raise Refused(f"--host {settings.host} can be reached from other machines: set --api-key", EXIT_USAGE)
    if settings.isolate_keys and not keys:
        raise Refused("--isolate-keys keeps callers apart by their keys: set --api-key", EXIT_USAGE)
    serve = _serving()
    chosen = chosen_model(settings.model)
    refuse_missing(chosen.name)
    served = serve.Settings(
        name=settings.name or chosen.name, programs=_folder(settings.programs), reload=settings.reload,
        api_keys=keys, max_in_flight=settings.max_in_flight, max_queue=settings.max_queue,
        max_body_bytes=settings.max_body, deadline=settings.deadline, drain=settings.drain,
        logs_prompts=settings.log_prompts, patience=settings.patience, isolate_keys=settings.isolate_keys,
    )  # fmt: skip
    if served.programs is not None:
        programs = serve.Programs(served.programs, reload=False)  # what is wrong is said before a model is loaded
        if not programs.endpoints:
            show_notes(f"there are no programs in {served.programs}")
    try:
        listener = serve.listener(settings.host, settings.port)
    except OSError as problem:
        at = f"--host {settings.host} --port {settings.port}"
        raise Refused(f"{at} cannot be listened on: {(problem.strerror or str(problem)).lower()}", EXIT_USAGE) from None
    with listener:
        engine = load_engine(
            chosen.name, device=settings.device, cells=settings.cells, dtype=settings.dtype,
            adapter=adapter_of(settings.adapter), placement=settings.placement,
        )  # fmt: skip
        known = KNOWN.get(chosen.name)
        own = known.own if known is not None and settings.adapter is None else None
        serve.run(
            engine, served, listener, announce=lambda address: _announce(served.name, address, own),
            finishing=lambda running: _finishing(running, settings.drain),
        )  # fmt: skip


def _announce(name: str, address: str, own: str | None) -> None:
    echo_error(f"serving {name} at {address} (playground at /, OpenAI's clients at /v1)")
    if own is not None:
        echo_error(f"with its adapter {own}, which finds values in documents; for chats, serve it with --adapter none")


def _finishing(running: int, drain: float) -> None:
    echo_error(f"finishing {counted(running, 'request')}, at most {drain:g} s; Ctrl-C once more stops at once")


def _serving() -> ModuleType:
    """The server, which only this command needs. Raises `Refused` without the extra."""
    try:
        return import_module("pastalang.serve.app")
    except ImportError as problem:
        raise Refused(f"pasta serve needs {problem.name}: pip install 'pastalang[serve]'", EXIT_USAGE) from None


def _keys(given: Sequence[str] | None) -> tuple[str, ...]:
    """Those given, or that of the environment. Raises `Refused` for one that no client can send, without showing it."""
    keys = tuple(given or filter(None, [os.environ.get(KEY_VARIABLE)]))
    if not all(key and key.isascii() and key.isprintable() and " " not in key for key in keys):
        wrong = f"an API key is ASCII text without spaces, and not empty: look at --api-key and {KEY_VARIABLE}"
        raise Refused(wrong, EXIT_USAGE)
    return keys


def _folder(programs: Path | None) -> Path | None:
    if programs is not None and not programs.is_dir():
        raise Refused(f"--programs names a folder, and {programs} is none", EXIT_USAGE)
    return programs
