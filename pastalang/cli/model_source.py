"""Load the engine for `--model` and `--device`.

Without a network, only models that were downloaded before can be used. The hub's library would retry and report each
attempt, so we check first whether it can reach the hub, and tell it to work offline if it cannot.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import Request, build_opener, getproxies, proxy_bypass

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.output import echo_error
from pastalang.errors import PastaError
from pastalang.runtime.models.choice import Choice, default_model
from pastalang.runtime.models.source import NAMES, check_source

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine


def chosen_model(model: str | None) -> Choice:
    """What `--model` names, or the default. Raises `Refused`."""
    try:
        return default_model() if model is None else Choice(model, "--model")
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def refuse_model(model: str) -> None:
    """Raises `Refused` if `--model` names a folder without a model. Imports nothing heavy."""
    try:
        check_source(model)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def load_engine(model: str, *, device: str | None, cells: int) -> Engine:
    """Raises `Refused`."""
    refuse_model(model)
    offline_without_hub(model)
    refuse_device(device)
    try:
        with ctrl_c_exits_at_once(), _progress(f"loading {model} …"):
            from pastalang.runtime.engine import Engine

            return Engine.load(model, device=device, cells=cells)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a model, without its weights. Raises `Refused`."""
    refuse_model(model)
    offline_without_hub(model)
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


OFFLINE: Final = "HF_HUB_OFFLINE"
_ENDPOINT: Final = "https://huggingface.co"
_PATIENCE: Final = 5.0  # seconds
_PORTS: Final = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}


def offline_without_hub(model: str) -> None:
    """If the model is on the hub and the hub cannot be reached, make its library work offline.

    Call it before the libraries are imported: they read the setting once.
    """
    if model in NAMES or Path(model).exists() or OFFLINE in os.environ or is_hub_reachable():
        return
    os.environ[OFFLINE] = "1"
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:  # it has been imported already
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]


def is_hub_reachable() -> bool:
    """Whether the hub accepts connections, through the proxy if there is one."""
    endpoint = os.environ.get("HF_ENDPOINT") or _ENDPOINT
    address = urlsplit(endpoint)
    proxies = {} if proxy_bypass(address.hostname or "") else getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy:
        return _accepts_connections(address)
    proxy_address = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    if not _accepts_connections(proxy_address):
        return False
    return proxy_address.scheme != "http" or _answers(endpoint)  # only the library can use proxies of other kinds


def _accepts_connections(address: SplitResult) -> bool:
    try:
        port = address.port or _PORTS.get(address.scheme, 443)
        with socket.create_connection((address.hostname or "", port), timeout=_PATIENCE):
            return True
    except (OSError, ValueError):  # the port is not a number
        return False


def _answers(endpoint: str) -> bool:
    """Whether the proxy reaches the hub. Many proxies answer with an error of their own if they have no network."""
    try:
        with build_opener().open(Request(endpoint, method="HEAD"), timeout=_PATIENCE):
            return True
    except HTTPError as answer:
        return answer.code < 500 and answer.code != HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
    except URLError as problem:
        return isinstance(problem.reason, ssl.SSLError)  # the library may trust other certificates
    except (OSError, ValueError, HTTPException):
        return False
