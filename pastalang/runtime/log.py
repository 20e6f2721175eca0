"""What an engine reports of each request: to the logger `pastalang`, to the hook of its owner, and to OpenTelemetry.

A span is recorded only in a process that has imported OpenTelemetry, as whoever collects spans does: PastaLang itself
never imports it. Its name and its attributes are those of the conventions for generative AI where there is one.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from pastalang.failures import PastaError
from pastalang.plan.plan import Plan
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.result import Result

T = TypeVar("T")
LOG: Final = logging.getLogger("pastalang")


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """A request that is over.

    number     counts the requests of an engine
    template   the name of the template, and `mode` how it was decoded
    outcome    its result, or the error that ended it
    seconds    since it began, including what others in the same passes took
    """

    number: int
    template: str
    mode: str
    outcome: Result[Any] | PastaError
    seconds: float

    @property
    def result(self) -> Result[Any] | None:
        """The run, also of an answer that was refused; None if there is no answer."""
        found = self.outcome if isinstance(self.outcome, Result) else getattr(self.outcome, "result", None)
        return found if isinstance(found, Result) else None


OnRequest: TypeAlias = Callable[[FinishedRequest], object]


def check_hook(name: str, hook: object) -> None:
    """Raises `BadInputs`."""
    if hook is not None and not callable(hook):
        raise BadInputs(f"`{name}` is a function that is called with what has ended, not {hook!r:.60}")


def call_hook(hook: Callable[[T], object] | None, found: T) -> None:
    """What a hook raises is logged: it changes no answer and ends no run."""
    if hook is None:
        return
    try:
        hook(found)
    except Exception:
        LOG.exception("%s raised", getattr(hook, "__qualname__", hook))


def report_outcome(
    number: int, plan: Plan, outcome: Result[Any] | PastaError, seconds: float, hook: OnRequest | None
) -> None:
    found = FinishedRequest(number, plan.template, plan.mode.value, outcome, seconds)
    _log(found)
    _record_span(found)
    call_hook(hook, found)


def _log(found: FinishedRequest) -> None:
    if not LOG.isEnabledFor(logging.INFO):
        return
    name = f"request {found.number} ({found.template}, {found.mode})"
    if isinstance(found.outcome, PastaError):
        LOG.warning("%s: %s", name, " ".join(str(found.outcome).split()))
    else:
        LOG.info("%s: %s", name, found.outcome.summary)
    if found.result is not None:
        LOG.debug("%s read: %s", name, found.result.prompt)
        LOG.debug("%s wrote: %s", name, found.result.text)


def _record_span(found: FinishedRequest) -> None:
    """A span as long as the request, below the span of the caller. It holds figures and no texts."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return
    ended = time.time_ns()
    span = trace.get_tracer("pastalang").start_span(
        f"pastalang {found.template}", start_time=ended - round(found.seconds * 1e9), attributes=_attributes(found)
    )
    if isinstance(found.outcome, PastaError):
        reason = getattr(found.outcome, "reason", str(found.outcome))
        span.set_status(trace.Status(trace.StatusCode.ERROR, " ".join(str(reason).split())))
    span.end(ended)


def _attributes(found: FinishedRequest) -> dict[str, str | int | float]:
    given: dict[str, str | int | float] = {
        "gen_ai.operation.name": "generate_content", "gen_ai.provider.name": "pastalang", "pastalang.mode": found.mode,
        "pastalang.template": found.template, "pastalang.request": found.number,
    }  # fmt: skip
    if isinstance(found.outcome, PastaError):
        given["error.type"] = str(getattr(found.outcome, "code", type(found.outcome).__name__))
    if found.result is not None:
        usage = found.result.usage
        given |= {
            "gen_ai.usage.input_tokens": usage.input_tokens, "gen_ai.usage.output_tokens": usage.output_tokens,
            "pastalang.forward_passes": usage.forward_passes, "pastalang.reused_tokens": usage.reused_tokens,
            "pastalang.truncated": len(found.result.truncations),
            "pastalang.confidence": min((one.confidence for one in found.result.fields), default=1.0),
        }  # fmt: skip
    return given
