"""Bounds of dates and times are enforced: what the type accepts is what Pydantic accepts."""

from __future__ import annotations

import datetime
import json
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, PastDate, TypeAdapter, ValidationError

from pastalang import NotExpressible
from pastalang.values.fit import read
from pastalang.values.patterns import matches
from pastalang.values.pydantic.from_core import type_of_model
from pastalang.values.pydantic.scalars import between

SECONDS = st.datetimes(datetime.datetime(1999, 12, 30), datetime.datetime(2000, 3, 2)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond % 3 * 250_000)
)
BOUNDS = ("ge", "gt", "le", "lt")


@settings(max_examples=60)
@given(st.dates(), st.dates(), st.dates())
def test_a_range_has_all_dates_from_the_first_to_the_last(
    one: datetime.date, other: datetime.date, tried: datetime.date
) -> None:
    low, high = sorted([one, other])
    pattern = between(low.isoformat(), high.isoformat())
    for date in (tried, low, high):
        assert matches(pattern, date.isoformat()) == (low <= date <= high)


@settings(max_examples=80)
@given(st.sampled_from(BOUNDS), SECONDS, SECONDS, st.sampled_from([None, datetime.UTC]))
def test_what_is_written_is_within_the_bounds(name: str, bound: Any, tried: Any, zone: Any) -> None:
    """To the second, where it does not matter whether the bound itself belongs to the range."""
    bound = bound.replace(tzinfo=zone)
    annotation = Annotated[datetime.datetime, Field(**{name: bound})]
    found = type_of_model(annotation)
    assert found.notes == ()
    for moment in (tried, bound.replace(tzinfo=None)):
        text = moment.isoformat() + ("Z" if zone else "")
        fits = read(json.dumps(text), found.type, {}).fits
        assert not fits or TypeAdapter(annotation).validate_python(text)
        distance = abs(moment - bound.replace(tzinfo=None))
        assert fits == _is_valid(annotation, text) or distance <= datetime.timedelta(seconds=1)


@settings(max_examples=40)
@given(st.sampled_from(BOUNDS), st.dates(), st.dates())
def test_dates_are_exactly_those_of_pydantic(name: str, bound: datetime.date, tried: datetime.date) -> None:
    annotation = Annotated[datetime.date, Field(**{name: bound})]
    try:
        found = type_of_model(annotation)
    except NotExpressible:
        assert bound in (datetime.date.min, datetime.date.max)
        return
    for date in (tried, bound):
        text = date.isoformat()
        assert read(json.dumps(text), found.type, {}).fits == _is_valid(annotation, text)


@settings(max_examples=60)
@given(st.sampled_from(BOUNDS), SECONDS, SECONDS, st.from_regex("[0-9]{2}(:[0-9]{2}){2}", fullmatch=True))
def test_times_are_those_of_pydantic_to_the_second(name: str, one: Any, other: Any, digits: str) -> None:
    bound, tried = one.time(), other.time()
    annotation = Annotated[datetime.time, Field(**{name: bound})]
    try:
        found = type_of_model(annotation)
    except NotExpressible:
        assert not datetime.time(0, 0, 1) <= bound <= datetime.time(23, 59, 59)
        return
    assert found.notes == ()
    assert _is_valid(annotation, digits) or not read(json.dumps(digits), found.type, {}).fits
    for moment in (tried, bound, datetime.time(12), datetime.time(23, 59, 59), datetime.time(23, 59, 59, 250_000)):
        fits = read(json.dumps(moment.isoformat()), found.type, {}).fits
        distance = abs(datetime.datetime.combine(one, moment) - datetime.datetime.combine(one, bound))
        assert not fits or _is_valid(annotation, moment.isoformat())
        assert fits == _is_valid(annotation, moment.isoformat()) or distance <= datetime.timedelta(seconds=1)


def _is_valid(annotation: Any, text: str) -> bool:
    try:
        TypeAdapter(annotation).validate_python(text)
    except ValidationError:
        return False
    return True


def test_bounds_that_leave_no_date_are_refused() -> None:
    day = datetime.date(2024, 5, 1)
    with pytest.raises(NotExpressible, match="no date lies between the bounds"):
        type_of_model(Annotated[datetime.date, Field(gt=day, lt=day)])
    noon = datetime.datetime(2024, 5, 1, 12)
    with pytest.raises(NotExpressible, match="no time lies between the bounds"):
        type_of_model(Annotated[datetime.datetime, Field(gt=noon, lt=noon)])


def test_bounds_with_and_without_an_offset_are_left_to_the_model() -> None:
    bounds = {"ge": datetime.datetime(2024, 5, 1), "le": datetime.datetime(2024, 6, 1, tzinfo=datetime.UTC)}
    found = type_of_model(Annotated[datetime.datetime, Field(**bounds)])  # type: ignore[arg-type]
    assert [str(note) for note in found.notes] == ["`ge` of a datetime", "`le` of a datetime"]
    assert list(map(str, type_of_model(PastDate).notes)) == ["the date lies in the past"]
