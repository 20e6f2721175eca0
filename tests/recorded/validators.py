"""Models that object to some values, always for the same reasons, so that parts of an answer are decoded again."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


class EvenPrice(Anything):
    price: float

    @field_validator("price")
    @classmethod
    def is_even(cls, price: float) -> float:
        if int(price) % 2:
            raise ValueError("the price is an odd number")
        return price


class NoName(Anything):
    name: str

    @field_validator("name")
    @classmethod
    def refuse(cls, name: str) -> str:
        raise ValueError(f"nobody is called so, with {len(name)} letters")


class Pair(Anything):
    first: int
    second: int

    @model_validator(mode="after")
    def rises(self) -> Pair:
        if self.first >= self.second:
            raise ValueError("the second number has to be the larger one")
        return self


class Line(Anything):
    price: int

    @field_validator("price")
    @classmethod
    def is_small(cls, price: int) -> int:
        if price > 40:
            raise ValueError("no line costs more than 40")
        return price


class Lines(Anything):
    lines: list[Line]
    total: int

    @model_validator(mode="after")
    def adds_up(self) -> Lines:
        if self.total % 3:
            raise ValueError("the total is a multiple of three")
        return self


class Sized(Anything):
    size: dict[str, int]


class Broken(Anything):
    name: str

    @field_validator("name")
    @classmethod
    def fall_over(cls, name: str) -> Any:
        raise RuntimeError("this validator is broken")


WANTED: tuple[tuple[str, type[BaseModel]], ...] = (
    ("plain", Anything), ("plain", EvenPrice), ("plain", NoName), ("waiting", EvenPrice), ("waiting", NoName),
    ("waiting", Pair), ("lines", Lines), ("lines", Sized), ("stacked", EvenPrice), ("stacked", NoName),
    ("plain", Broken), ("lines", Anything),
)  # fmt: skip
