"""The engine for `--model` and `--device`; what cannot be loaded is refused in words.

Where the hub cannot be reached, the models fetched before are all there is. The library of the hub tries again and
again and reports each try; when it knows beforehand, it looks on the disk alone.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import Request, build_opener, getproxies, proxy_bypass

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, ends_at_once
from pastalang.errors import PastaError
from pastalang.runtime.models.source import NAMES, check_source

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


OFFLINE: Final = "HF_HUB_OFFLINE"
_ENDPOINT: Final = "https://huggingface.co"
_PATIENCE: Final = 5.0  # seconds
_PORTS: Final = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}


def look_for_hub(model: str) -> None:
    """Before the libraries of models are imported: they read once whether there is a network."""
    if model in NAMES or Path(model).exists() or OFFLINE in os.environ or can_be_reached():
        return
    os.environ[OFFLINE] = "1"
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:  # somebody has imported it already
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]


def can_be_reached() -> bool:
    """Whether somebody answers at its address, through the proxy if there is one."""
    endpoint = os.environ.get("HF_ENDPOINT") or _ENDPOINT
    place = urlsplit(endpoint)
    found = {} if proxy_bypass(place.hostname or "") else getproxies()
    proxy = found.get(place.scheme) or found.get("all")
    if not proxy:
        return _listens(place)
    middle = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    if not _listens(middle):
        return False
    return middle.scheme != "http" or _answers(endpoint)  # of other proxies only the library knows how to use them


def _listens(place: SplitResult) -> bool:
    try:
        port = place.port or _PORTS.get(place.scheme, 443)
        with socket.create_connection((place.hostname or "", port), timeout=_PATIENCE):
            return True
    except (OSError, ValueError):  # a port that is no number
        return False


def _answers(endpoint: str) -> bool:
    """Whether the proxy lets us through: many answer themselves where there is no network behind them."""
    try:
        with build_opener().open(Request(endpoint, method="HEAD"), timeout=_PATIENCE):
            return True
    except HTTPError as answer:
        return answer.code < 500 and answer.code != HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
    except URLError as problem:
        return isinstance(problem.reason, ssl.SSLError)  # the library may trust others than we do
    except (OSError, ValueError, HTTPException):
        return False
