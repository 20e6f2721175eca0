"""The policy of a repair: the options of a call that concern finished answers, validated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pastalang.plan.plan import Plan
from pastalang.program.types import SamplingBounds
from pastalang.runtime.call import Options
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.repair.validation import Validator, validator_of

CHECK_REPAIRS: Final = 3  # unless the call says how many


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens to a finished answer.

    model          the type that it is validated against; None if it is not validated
    repair         how often a field that the model objects to is decoded again
    checks         how often a field is decoded again whose value does not pass the check of its schema
    retry_below    fields with a lower probability are decoded again, once or as often as `repair` says
    keep_invalid   what is still wrong then is marked in the result; otherwise `Invalid` is raised
    """

    model: Validator | None
    repair: int
    retry_below: float | None
    keep_invalid: bool
    checks: int

    @property
    def retries(self) -> int:
        return 0 if self.retry_below is None else max(self.repair, 1)


def policy_for(plan: Plan, options: Options, *, has_checks: bool) -> Policy | None:
    """None if there is nothing to validate. Raises `BadInputs` if the options do not go together.

    `has_checks`: whether the answer holds values of schemas that are checked after decoding.
    """
    model: Any = options.model
    repair, retry_below, keep_invalid = options.repair, options.retry_below, options.keep_invalid
    if model is None and not repair and retry_below is None and not keep_invalid and not has_checks:
        return None
    validator = None if model is None else validator_of(model)
    if repair is not None and (isinstance(repair, bool) or not isinstance(repair, int) or repair < 0):
        raise BadInputs(f"`repair` is a number of attempts, 0 or more, not {repair!r}")
    if retry_below is not None and not SamplingBounds(1, is_above=True).accepts(retry_below):
        raise BadInputs(f"`retry_below` is a probability above 0 and up to 1, not {retry_below!r}")
    if model is None and retry_below is None and not has_checks:
        raise BadInputs("without `model` nothing is checked, so there is nothing to repair or to keep")
    if plan.output is None:
        raise BadInputs(f"`{plan.template}` writes running text; only a JSON answer is validated and repaired")
    return Policy(validator, repair or 0, retry_below, keep_invalid, CHECK_REPAIRS if repair is None else repair)
