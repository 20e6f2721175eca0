"""What an engine writes to the logger `pastalang`: a line for each request, and at the level DEBUG what it read."""

from __future__ import annotations

import logging
from typing import Final

from pastalang.errors import PastaError
from pastalang.plan.plan import Plan
from pastalang.runtime.result import Result

LOG: Final = logging.getLogger("pastalang")


def log_outcome(number: int, plan: Plan, outcome: Result | PastaError) -> None:
    if not LOG.isEnabledFor(logging.INFO):
        return
    name = f"request {number} ({plan.template}, {plan.mode.value})"
    result = outcome if isinstance(outcome, Result) else getattr(outcome, "result", None)
    if isinstance(outcome, PastaError):
        LOG.warning("%s: %s", name, " ".join(str(outcome).split()))
    else:
        LOG.info("%s: %s", name, outcome.summary)
    if isinstance(result, Result):
        LOG.debug("%s read: %s", name, result.prompt)
        LOG.debug("%s wrote: %s", name, result.text)
