"""Strategy for what is asked of a finished answer: a validator with moods, and how often what it dislikes is redone.

It dislikes a share of all values, at any depth, always the same ones: single values, items, whole objects, and objects
for the sake of one of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from pastalang.runtime.repair.validation import Policy, validator_of

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Wish:
    """`share`: of values that are disliked; None: nothing is validated."""

    share: float | None
    seed: int
    repair: int
    retry_below: float | None
    keep_invalid: bool

    @cached_property
    def policy(self) -> Policy:
        model = None if self.share is None else validator_of(model_of(self.share, self.seed))
        return Policy(model, self.repair, self.retry_below, self.keep_invalid, self.repair)

    @property
    def options(self) -> dict[str, Any]:
        policy = self.policy
        model = None if policy.model is None else policy.model.model
        return {
            "model": model, "repair": policy.repair, "retry_below": policy.retry_below,
            "keep_invalid": policy.keep_invalid,
        }  # fmt: skip


def wishes() -> st.SearchStrategy[Wish]:
    """Something is asked in every one of them."""
    seeds, repairs, flags = st.integers(0, 99), st.integers(0, 3), st.booleans()
    shares, below = st.sampled_from((0.1, 0.3, 0.6)), st.sampled_from((0.05, 0.5))
    return st.one_of(
        st.builds(Wish, shares, seeds, repairs, st.none(), flags),
        st.builds(Wish, shares, seeds, repairs, below, flags),
        st.builds(Wish, st.none(), st.just(0), repairs, below, st.just(False)),
    )


def model_of(share: float, seed: int) -> type[BaseModel]:
    class Moody(BaseModel):
        value: Any

        @classmethod
        def model_validate_json(cls, json_data: Any, **_: Any) -> Moody:
            value = json.loads(json_data)
            errors = [_error(path, part, seed) for path, part in _parts(value) if _chance(seed, path, part) < share]
            if errors:
                raise ValidationError.from_exception_data("Moody", errors)
            return cls(value=value)

    return Moody


def _error(path: Path, part: Any, seed: int) -> InitErrorDetails:
    """Of an object, or of a key that a validator of the object reads."""
    if isinstance(part, dict) and part and _chance(seed, path, "reads") < 0.5:
        key = sorted(part)[seed % len(part)]
        return InitErrorDetails(type="value_error", loc=path, input=part, ctx={"error": _raised(part, key)})
    return InitErrorDetails(type=PydanticCustomError("moody", "not this one"), loc=path, input=part)


def _raised(part: dict[str, Any], key: str) -> ValueError:
    """By code that has the key in it."""
    judges: dict[str, Any] = {}
    exec(f"def judge(values):\n    values[{key!r}]\n    raise ValueError('not with this')\n", judges)
    try:
        judges["judge"](part)
    except ValueError as problem:
        return problem
    raise AssertionError


def _parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _parts(part, (*path, key))
    if isinstance(value, list):
        for number, part in enumerate(value):
            yield from _parts(part, (*path, number))


def _chance(seed: int, path: Path, part: Any) -> float:
    """The same for all items of a list, and half as likely for what has parts."""
    keys = [step for step in path if isinstance(step, str)]
    digest = blake2b(json.dumps([seed, keys, part]).encode(), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32 * (2 if isinstance(part, dict | list) else 1)
