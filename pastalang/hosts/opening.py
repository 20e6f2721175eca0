"""A model by its name, wherever it runs: in this process, or on the server whose address is its name.

    http://host:8000/v1#name    a server, and which of its models; without `#name`, the first

Commands look at names before anything heavy is imported, so this module imports neither torch nor httpx.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from pastalang.diagnostics.suggest import did_you_mean
from pastalang.hosts.errors import HostError
from pastalang.runtime.errors import BadInputs, LoadError
from pastalang.runtime.models.source import OWN, Adapter, DTypeName, is_address

if TYPE_CHECKING:
    import httpx

    from pastalang.hosts.engine import RemoteEngine
    from pastalang.hosts.transport import Patience
    from pastalang.runtime.engine import Engine
    from pastalang.runtime.log import OnRequest

AnyEngine: TypeAlias = "Engine | RemoteEngine"
KEY_VARIABLE: Final = "PASTALANG_API_KEY"
TOKENIZER_VARIABLE: Final = "PASTALANG_TOKENIZER"
IN_FLIGHT: Final = 32  # requests
_OF_A_DOCUMENT: Final = 4  # requests at the same time, where many documents are in flight
_MANY_RETRIES: Final = 12  # outlast a server that starts again and reads its weights: some four minutes
_SOON: Final = 20.0  # seconds after which somebody who has just named an address should know what is wrong with it
_SHOWN: Final = 8  # names of models


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, without `/v1`, and the name of the model, which may be empty."""

    url: str
    model: str


def address_of(text: str) -> Address:
    """Raises `BadInputs` for an address at which no server can be asked, and `LoadError` without httpx."""
    if find_spec("httpx") is None:
        raise LoadError("a model on a server needs the package httpx: pip install 'pastalang[hosts]'")
    import httpx

    url, _, model = text.partition("#")
    try:
        parts = urlsplit(url)
        is_whole = is_address(url) and bool(parts.hostname) and (parts.port or 1) > 0 and bool(httpx.URL(url))
    except (ValueError, httpx.InvalidURL):
        is_whole = False
    if not is_whole or any(map(str.isspace, url)):
        raise BadInputs(f"the address of a server is written http://host:8000/v1#model, or https://…, not {url!r:.80}")
    if parts.username is not None or "?" in url:
        raise BadInputs(f"an address is written to rows and logs: leave keys out of it, and set {KEY_VARIABLE}")
    before, is_longer, _ = parts.path.rstrip("/").partition("/v1/")
    if is_longer:
        raise BadInputs(f"an address ends with /v1: write {parts.scheme}://{parts.netloc}{before}/v1")
    return Address(url.rstrip("/").removesuffix("/v1"), model)


def open_engine(
    model: str | Path, *, device: str | None = None, dtype: DTypeName | None = None, cells: int | None = None,
    adapter: Adapter = OWN, api_key: str | None = None, documents: int | None = None, waits: bool = False,
) -> AnyEngine:  # fmt: skip
    """The engine of a model. Raises `LoadError`, what `open_server` raises, and `BadInputs` for options that belong to
    a model in this process."""
    if not is_address(model):
        from pastalang.runtime.engine import CELLS, Engine

        return Engine.load(model, device=device, dtype=dtype, adapter=adapter, cells=CELLS if cells is None else cells)
    given = {"device": device, "dtype": dtype, "cells": cells, "adapter": None if adapter == OWN else adapter or "none"}
    names = [f"`{name}`" for name, value in given.items() if value is not None]
    if names:
        raise BadInputs(f"{' and '.join(names)}: leave it out with a server, which was started with its own")
    return open_server(str(model), api_key=api_key, documents=documents, waits=waits)


def open_server(
    address: str, *, api_key: str | None = None, documents: int | None = None, waits: bool = False
) -> RemoteEngine:
    """The engine of a model on a server. Raises `HostError`, `BadInputs`, and `LoadError` without httpx.

    `documents` are those that a long run has in flight: a server that does not answer is then asked for minutes, with
    `waits` from the beginning.
    """
    from pastalang.hosts.transport import Patience

    patience = Patience() if documents is None else Patience(retries=_MANY_RETRIES, longest_pause=math.inf)
    return _engine_at(
        address_of(address), kind="auto", api_key=api_key, tokenizer=None, patience=patience,
        first=patience if waits else _soon(patience), in_flight=max(IN_FLIGHT, _OF_A_DOCUMENT * (documents or 0)),
        transport=None,
    )  # fmt: skip


def _soon(patience: Patience) -> Patience:
    timeout, retries = min(patience.timeout, _SOON), min(patience.retries, 1)
    return replace(patience, timeout=timeout, retries=retries, longest_pause=_SOON)


def connect(
    url: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    kind: str = "auto",
    tokenizer: Any = None,
    timeout: float = 120.0,
    deadline: float | None = None,
    retries: int = 5,
    in_flight: int = IN_FLIGHT,
    on_request: OnRequest | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> RemoteEngine:
    """An engine whose model runs on a server: `connect("http://host:8000/v1#name")`.

    `kind` is "vllm", "sglang", "llama.cpp" or "openai"; "auto" asks the server. `model` may follow the address after a
    `#`; without one, the first model of the server is taken. `api_key` is what the server asks for, by default that of
    the environment variable `PASTALANG_API_KEY`. `tokenizer` is that of the server's model: one of `transformers`, or
    its name, folder or GGUF file, by default what `PASTALANG_TOKENIZER` names. With it, every token is checked here,
    and values are those of a model in this process; SGLang needs it, as it shows no chat template. `timeout` is for one
    request, `deadline` for a run with all its retries (seconds), `in_flight` how many requests are open at the same
    time. `on_request` is called with each run that has ended, as by `Engine.load`. Raises `HostError`,
    and `LoadError` without httpx.
    """
    from pastalang.hosts.servers import Kind
    from pastalang.hosts.transport import Patience
    from pastalang.runtime.call import check_in_flight, check_size
    from pastalang.runtime.log import check_hook

    for name, given in (("url", url), ("model", model or ""), ("api_key", api_key or "")):
        if not isinstance(given, str):
            raise BadInputs(f"`{name}` must be a text, not {type(given).__name__}")
    if not (tokenizer is None or isinstance(tokenizer, str | Path) or hasattr(tokenizer, "encode")):
        raise BadInputs(
            f"`tokenizer` must be a tokenizer of transformers, or the name or folder of one, not {tokenizer!r:.40}"
        )
    address = address_of(url)
    kinds = [one.value for one in Kind]
    if kind != "auto" and kind not in kinds:
        raise BadInputs(f"`kind` must be auto, {', '.join(kinds)}, not {kind!r:.40}")
    check_in_flight(in_flight)
    check_size("retries", retries, minimum=0)
    _check_seconds("timeout", timeout)
    if deadline is not None:
        _check_seconds("deadline", deadline)
    patience = Patience(timeout=timeout, deadline=deadline, retries=retries)
    check_hook("on_request", on_request)
    engine = _engine_at(
        replace(address, model=model or address.model), kind=kind, api_key=api_key, tokenizer=tokenizer,
        patience=patience, first=_soon(patience), in_flight=in_flight, transport=transport,
    )  # fmt: skip
    engine.on_request = on_request
    return engine


def _check_seconds(name: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise BadInputs(f"`{name}` must be a number of seconds above 0, not {given!r:.40}")


def _engine_at(
    address: Address, *, kind: str, api_key: str | None, tokenizer: Any, patience: Patience, first: Patience,
    in_flight: int, transport: httpx.AsyncBaseTransport | None,
) -> RemoteEngine:  # fmt: skip
    from pastalang.hosts.engine import RemoteEngine, wait_for
    from pastalang.hosts.servers import Kind, models_at
    from pastalang.hosts.transport import Transport

    asked = Transport(address.url, api_key=_key(api_key), patience=patience, in_flight=in_flight, transport=transport)
    chosen, name, names = Kind.OPENAI if kind == "auto" else Kind(kind), address.model, dict[str, bool]()
    if kind == "auto" or not name:
        try:
            found, names = wait_for(models_at(asked, first))
            name = _known(name, [*names], address.url) if name else next(iter(names))
        except BaseException:
            wait_for(asked.close())
            raise
        chosen = found if kind == "auto" else chosen
    elif chosen is Kind.OPENAI:  # which of its models read keys as words; some servers list none
        with suppress(HostError):
            _, names = wait_for(models_at(asked, first))
    tokenizer = (os.environ.get(TOKENIZER_VARIABLE) or None) if tokenizer is None else tokenizer
    if isinstance(tokenizer, str | Path):
        from pastalang.runtime.models.loading import load_tokenizer

        tokenizer = load_tokenizer(tokenizer)
    in_words = names.get(name, False)
    return RemoteEngine(asked, chosen, name, tokenizer=tokenizer, in_flight=in_flight, keys_in_words=in_words)


def _key(given: str | None) -> str | None:
    """Raises `BadInputs` for a key that no header can hold, without showing it."""
    key = (os.environ.get(KEY_VARIABLE) if given is None else given) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise BadInputs(f"the key of the server has characters that no key has: look at {KEY_VARIABLE}")
    return key


def _known(name: str, names: Sequence[str], url: str) -> str:
    """The name, if the server has a model of that name. Ollama says `:latest` behind it. Raises `HostError`."""
    if name in names or f"{name}:latest" in names:
        return name
    hint = did_you_mean(name, names)
    others = ", ".join(f"`{one}`" for one in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    advice = f"; did you mean `{hint}`?" if hint is not None else ""
    raise HostError(f"{url} has no model `{name}`; it has {others}{advice}")
