"""Requests to a server: one pool of connections, bounded concurrency, retries, and one deadline for a whole run.

A request is sent again only if it was not answered: the connection failed, the body was cut off, or the server said
that it is busy (429) or broken (5xx). An answer that was read to its end is never asked for a second time.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pastalang.hosts.errors import HostError, ServerLost
from pastalang.runtime.errors import LoadError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
_BUSY: Final = frozenset({408, 409, 425, 429})
_OVERLOADED: Final = frozenset({429, 502, 503, 504})  # says the server, or what stands before it, of every request
_CLOSED: Final = frozenset({401, 403})
_SHOWN: Final = 300  # characters of an error's body
_TO_SHOW: Final = 20.0  # seconds in which a server shows that it is there
_SECRET: Final = 8  # characters of a key: a shorter one, such as "EMPTY", is a word that protects nothing
_GIVEN_UP: Final = frozenset({"abort", "error"})  # reasons for which a server ends a text before it is whole
_ENVIRONMENT: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
_TOO_LITTLE: Final = 0.01  # seconds before its run's deadline in which no request is begun: none is answered so soon


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often a server is asked. Times are in seconds.

    `deadline` is for a whole run, all retries included; `timeout` for one request. A server that asks for more than
    `longest_pause` is given up.
    """

    timeout: float = 120.0
    deadline: float | None = None
    retries: int = 5
    wait: float = 0.5  # before the first retry; doubled for each one after it, with jitter
    longest_wait: float = 30.0
    longest_pause: float = 600.0


class Transport:
    """Asks one server. `in_flight` bounds how many requests are open at the same time."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        patience: Patience,
        in_flight: int,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.patience = patience
        self.sent = 0  # requests, retries included
        self._in_flight = in_flight
        self._api_key = api_key
        self._transport = transport
        self._clients: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, asyncio.Semaphore]] = {}

    async def first(self, path: str, patience: Patience) -> Any:
        """What an address answers that nobody has asked before. Raises `HostError`, with what may be wrong with it."""
        try:
            return await self._ask("GET", path, None, None, patience)
        except HostError as problem:
            raise HostError(f"{problem.reason}; {self._advice(problem)}") from None

    def _advice(self, problem: HostError) -> str:
        if not isinstance(problem, ServerLost) or problem.status == 404:
            return f"is {self.url}/v1 the address of a server of models?"
        if problem.status in _CLOSED:
            wrong = "is the key right? " if self._api_key is not None else ""
            return f"{wrong}a key is given by PASTALANG_API_KEY, `--api-key` or `connect(..., api_key=...)`"
        return "has the server been started, and is this its address?"

    async def post(self, path: str, body: Mapping[str, Any], *, end: float | None = None) -> Any:
        """The JSON that the server answers. `end` is a moment of `time.monotonic`. Raises `HostError`."""
        return await self._ask("POST", path, body, end, self.patience)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        found = self._clients.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found[0].aclose()

    def _here(self) -> tuple[httpx.AsyncClient, asyncio.Semaphore]:
        """The client of this event loop: connections cannot be shared between loops."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients = {one: client for one, client in self._clients.items() if not one.is_closed()}
            self._clients[loop] = self._new_client(), asyncio.Semaphore(self._in_flight)
        return self._clients[loop]

    def _new_client(self) -> httpx.AsyncClient:
        """Raises `LoadError` if the environment names a proxy or certificates that cannot be used."""
        import httpx

        limits = httpx.Limits(max_connections=self._in_flight, max_keepalive_connections=self._in_flight)
        headers = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key}"}
        try:
            return httpx.AsyncClient(
                headers=headers, timeout=self.patience.timeout, limits=limits, transport=self._transport
            )
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as problem:
            named = [name for name in _ENVIRONMENT if os.environ.get(name) or os.environ.get(name.lower())]
            reason = f"{problem}".rstrip(".")
            raise LoadError(
                f"no server can be asked: {reason}; look at {', '.join(named or _ENVIRONMENT)}"
            ) from problem

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None, end: float | None, patience: Patience
    ) -> Any:  # fmt: skip
        client, places = self._here()
        left = None if end is None else end - time.monotonic()
        outcome = _Again("there was no time to ask")
        try:
            async with asyncio.timeout(left):
                for attempt in range(patience.retries + 1 if left is None or left > 0 else 0):
                    async with places:
                        if end is not None and time.monotonic() >= end - _TOO_LITTLE:
                            break  # those who had the places have just given up
                        self.sent += 1
                        outcome = _Again("no answer") if attempt == 0 else outcome
                        if not client.is_closed:
                            answered = await self._once(client, method, path, body, patience.timeout)
                            if isinstance(answered, _Answer):
                                return answered.value
                            outcome = answered
                    if client.is_closed:
                        raise HostError(f"{self.url}{path} was not answered: the engine was closed meanwhile")
                    is_long = (pause := outcome.retry_after or 0) > patience.longest_pause
                    if attempt == patience.retries or is_long:
                        times = "once" if attempt == 0 else f"{attempt + 1} times"
                        more = f"; the server asks for a pause of {pause:.0f} s" if is_long else ""
                        reason = f"{self.url}{path} failed {times}: {outcome.reason}{more}"
                        is_lost = not await self._is_there(client) if outcome.is_lost is None else outcome.is_lost
                        raise ServerLost(reason) if is_lost else HostError(reason)
                    await asyncio.sleep(_pause(patience, attempt, outcome.retry_after))
        except TimeoutError:
            pass
        raise HostError(f"{self.url}{path} was not answered within the deadline: {outcome.reason}")

    async def _is_there(self, client: httpx.AsyncClient) -> bool:
        """Whether the server answers something else."""
        try:
            found = await self._once(client, "GET", "/v1/models", None, _TO_SHOW)
        except HostError:  # a refusal is an answer
            return True
        return isinstance(found, _Answer)

    async def _once(
        self, client: httpx.AsyncClient, method: str, path: str, body: Mapping[str, Any] | None, timeout: float
    ) -> _Answer | _Again:
        import httpx

        try:
            async with asyncio.timeout(timeout):  # httpx counts anew with each part that arrives
                answer = await client.request(method, self.url + path, json=body, timeout=timeout)
        except (httpx.TimeoutException, TimeoutError):
            return _Again(f"no answer within {timeout:.3g} s")
        except httpx.ConnectError as problem:
            return _Again(f"no connection ({problem})", is_lost=True)
        except httpx.RequestError as problem:
            is_cut = isinstance(problem, httpx.TransportError)
            return _Again(f"{type(problem).__name__}: {problem}".rstrip(": "), is_lost=None if is_cut else False)
        reason = f"status {answer.status_code}: {self._shown(_message(answer))}"
        if answer.status_code in _BUSY or answer.status_code >= 500:
            return _Again(reason, _seconds(answer), is_lost=answer.status_code in _OVERLOADED)
        if answer.status_code in (*_CLOSED, 404):
            raise ServerLost(f"{self.url}{path} answered with {reason}", status=answer.status_code)
        if not answer.is_success:
            moved = f", moved to {answer.headers['location']}" if "location" in answer.headers else ""
            raise HostError(f"{self.url}{path} answered with {reason}{moved}")
        try:
            value = answer.json()
        except (ValueError, RecursionError):
            return _Again(f"the answer is not JSON: {self._shown(answer.text)[:60]!r}")
        given_up = next(_reasons(value), None)
        return _Answer(value) if given_up is None else _Again(self._shown(given_up))

    def _shown(self, said: str) -> str:
        """What a server says, in one line. Some repeat the key that they were asked with, which is left out."""
        key = self._api_key or ""
        return " ".join((said.replace(key, "…") if len(key) >= _SECRET else said).split())[:_SHOWN]


def understood(address: str, answer: Any, read: Callable[[Any], T]) -> T:
    """What is read of an answer. Raises `HostError` if it is not of the documented shape."""
    try:
        return read(answer)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        shown = json.dumps(answer, ensure_ascii=False)[:200]
        raise HostError(f"{address} answered in an unknown shape: {shown}") from problem


def text_in(value: Any) -> str:
    """Raises `TypeError` for anything but a text."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} in place of a text")
    return value


def _pause(patience: Patience, attempt: int, retry_after: float | None) -> float:
    longest: float = min(patience.longest_wait, patience.wait * 2**attempt)
    return max(longest * random.uniform(0.5, 1.0), retry_after or 0.0)


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any


@dataclass(frozen=True, slots=True)
class _Again:
    """Why a request was not answered, and when the server wants to be asked again. `is_lost`: no other request would
    have been answered either; None if only another one can show it, as where a server or a tunnel to it hangs up."""

    reason: str
    retry_after: float | None = None
    is_lost: bool | None = False


def _message(answer: httpx.Response) -> str:
    """What the server says is wrong, whichever way it spells its errors."""
    try:
        return _problem_in(answer.json())
    except (ValueError, RecursionError):
        return answer.text.strip() or answer.reason_phrase


def _problem_in(body: Any) -> str:
    return str(_said(_said(body, "error", "message", "detail"), "message", "detail"))


def _reasons(answer: Any) -> Iterator[str]:
    """Why an answer of status 200 is none. Where something goes wrong after it has begun, a server says so in it: in
    place of its texts, or by the reason for which one of them ends."""
    found = answer if isinstance(answer, dict) else {}
    choices = found.get("choices")
    for part in (found, found.get("meta_info"), *(choices if isinstance(choices, list) else ())):
        if isinstance(part, dict):
            if part.get("error"):
                yield f"the server says: {_problem_in(part)}"
            reason = part.get("finish_reason")
            kind = reason.get("type") if isinstance(reason, dict) else reason
            if isinstance(kind, str) and kind in _GIVEN_UP:
                yield f"the server gave it up: {_said(reason, 'message')}"


def _said(body: Any, *names: str) -> Any:
    """What stands under the first of the names that has something; all of it if none has."""
    return next((body[name] for name in names if body.get(name)), body) if isinstance(body, dict) else body


def _seconds(answer: httpx.Response) -> float | None:
    """The seconds of `Retry-After`, which is a number or a date."""
    given = answer.headers.get("retry-after", "")
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(given).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
