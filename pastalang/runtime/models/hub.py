"""The Hugging Face hub before its library is imported: whether it can be reached, and whether it has a model.

Without a network, only models that were downloaded before can be used. The hub's library would retry for half a minute
and report each attempt.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, urlsplit
from urllib.request import Request, build_opener, getproxies, proxy_bypass

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.runtime.errors import LoadError
from pastalang.runtime.models.source import KNOWN, LLAMA, NAMES, gguf_file, host_of, name_on_hub

OFFLINE: Final = "HF_HUB_OFFLINE"
_ENDPOINT: Final = "https://huggingface.co"
_PATIENCE: Final = 5.0  # seconds
_ABSENT: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_PORTS: Final = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}


def check_hub(model: str) -> None:
    """Raises `LoadError` at once for a name on the hub, if the model cannot be had now or does not exist."""
    if _is_here(model) or is_downloaded(model):
        return
    if OFFLINE in os.environ or not is_hub_reachable():
        raise _out_of_reach(model)
    _check_name(model)


def offline_without_hub(model: str) -> None:
    """Like `check_hub`. If the hub cannot be reached and the model was downloaded, the hub's library works offline.

    Call it before the libraries are imported: they read the setting once.
    """
    if _is_here(model) or OFFLINE in os.environ:
        return check_hub(model)
    if is_hub_reachable():
        return None if is_downloaded(model) else _check_name(model)
    if not is_downloaded(model):
        raise _out_of_reach(model)
    os.environ[OFFLINE] = "1"
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:  # it has been imported already
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    return None


def _is_here(model: str) -> bool:
    if host_of(model) == LLAMA:
        return True
    if name_on_hub(model) != model:
        return gguf_file(model) is not None
    return model in NAMES or Path(model).exists()


def _out_of_reach(model: str) -> LoadError:
    if model in KNOWN:
        return LoadError(
            f"{model} is not on this machine, and the hub cannot be reached: `{KNOWN[model].get}` brings it"
        )
    return LoadError(
        f"the model {model} is not on this machine, and the hub cannot be reached: "
        + (_meant(model) or "name a folder, or a model that `pasta models` lists")
    )


def _check_name(model: str) -> None:
    """Whoever has logged in may see more models than this request does, so only others are refused."""
    if not _has_token() and _status(f"{_endpoint()}/api/models/{quote(name_on_hub(model))}") in _ABSENT:
        raise LoadError(
            f"the hub has no model {model}, or it is private: "
            + (_meant(model) or "check the name, or log in with `hf auth login`")
        )


def _meant(model: str) -> str | None:
    meant = did_you_mean(model, NAMES)
    return None if meant is None else f"did you mean {meant}?"


def hub_cache() -> Path:
    """Where the hub's library keeps what it has downloaded. Importing the library would take longer than looking."""
    return Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or _home() / "hub")


def is_downloaded(model: str) -> bool:
    name = name_on_hub(model).replace("/", "--")
    return any((hub_cache() / f"models--{name}").glob("snapshots/*/config.json"))


def is_hub_reachable() -> bool:
    """Whether the hub accepts connections, through the proxy if there is one."""
    endpoint = _endpoint()
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
        status = _status(endpoint)
        return status is not None and status < 500 and status != HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
    except ssl.SSLError:
        return True  # the library may trust other certificates


def _status(address: str) -> int | None:
    """The status of the answer; None if there is none. Raises `ssl.SSLError`."""
    try:
        with build_opener().open(Request(address, method="HEAD"), timeout=_PATIENCE) as answer:
            return int(answer.status)
    except HTTPError as answer:
        return answer.code
    except URLError as problem:
        if isinstance(problem.reason, ssl.SSLError):
            raise problem.reason from problem
        return None
    except (OSError, ValueError, HTTPException):
        return None


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT") or _ENDPOINT


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or cache / "huggingface")


def _has_token() -> bool:
    """Whether the user has logged in, so that private models may be found."""
    return bool(os.environ.get("HF_TOKEN")) or Path(os.environ.get("HF_TOKEN_PATH") or _home() / "token").is_file()
