"""Errors of the server, in the shape that OpenAI's clients read."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """A request that is answered with an error: its status, a message for people, and the parameter at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after = retry_after  # seconds

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    @property
    def kind(self) -> str:
        match self.status:
            case 401 | 403:
                return "authentication_error"
            case 429:
                return "rate_limit_error"
            case status if status >= 500:
                return "server_error"
            case _:
                return "invalid_request_error"

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def bad_request(message: str, param: str | None = None, code: str | None = None) -> RequestError:
    return RequestError(400, message, param=param, code=code)
