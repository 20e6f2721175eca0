"""Formats are exact: they take what exists and nothing else."""

from __future__ import annotations

import datetime
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastalang.program.types import Moment
from pastalang.values.patterns import FORMATS, MOMENTS, find_problem, matches


def fits(format: str, text: str) -> bool:
    return matches(FORMATS[format].pattern, text)


def test_every_format_can_be_enforced_by_every_engine() -> None:
    assert {name: find_problem(format.pattern) for name, format in FORMATS.items()} == dict.fromkeys(FORMATS)


@given(st.from_regex(r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]\Z"))
def test_a_date_is_taken_exactly_when_its_day_exists(text: str) -> None:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        assert not fits("date", text)
    else:
        assert fits("date", text)


@given(st.datetimes(), st.sampled_from(["", "Z", "+02:00", "-11:30"]))
def test_a_date_and_time_that_exist_are_taken(moment: datetime.datetime, offset: str) -> None:
    assert matches(MOMENTS[Moment.DATETIME], moment.isoformat() + offset)
    assert matches(MOMENTS[Moment.TIME], moment.time().isoformat() + offset)
    assert fits("date-time", moment.isoformat() + offset) == bool(offset)


@given(st.ip_addresses(v=6))
def test_every_ipv6_address_is_taken(address: ipaddress.IPv6Address) -> None:
    assert fits("ipv6", str(address))
    assert fits("ipv6", address.exploded)


@given(st.from_regex(r"\A[0-9a-f:.]{2,24}\Z"))
def test_what_is_taken_as_an_ip_address_is_one(text: str) -> None:
    for name, read in (("ipv4", ipaddress.IPv4Address), ("ipv6", ipaddress.IPv6Address)):
        if fits(name, text):
            read(text)


WRONG = ["http://a b", "http://h:port", "a://x@y@z", "a://h:1:2/"]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("date", ["2000-02-29", "2024-02-29", "0001-01-01"], ["1900-02-29", "2023-02-29", "0000-01-01", "2024-2-9"]),
        ("time", ["23:59:59Z", "00:00:00.5+01:00"], ["24:00:00Z", "12:00:00", "12:60:00Z", "12:00Z"]),
        ("duration", ["P1D", "PT1H30M", "P1Y2M3DT4H", "P2W"], ["P", "PT", "1D", "P1H", "P1DT", "P1Y2D", "PT1H2S"]),
        ("email", ["a@b", "first.last+tag@example.org"], ["a", "@b", "a@", "a..b@c", ".a@b", "a@-b.org", "a@b."]),
        ("hostname", ["example.org", "a", "x" * 63], ["-a", "a-", "a..b", "x" * 64, "", "a_b"]),
        ("ipv4", ["0.0.0.0", "255.255.255.255"], ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"]),
        ("ipv6", ["::", "::1", "1::", "::ffff:192.0.2.1"], [":::", "1::2::3", "1:2:3:4:5:6:7", "12345::"]),
        (
            "uri",
            ["https://u:p@example.org:80/a@b?b=c#d", "urn:isbn:0", "x:///"],
            ["example.org", "http//x", "a:", *WRONG],
        ),
        ("iri", ["http://ü@é:1/a:b"], WRONG),
        ("uri-reference", ["//a:1/b", "a/b:c", "", "?a/b@c", "/a//b"], ["a b", "//a:b", "//a@b@c/", *WRONG]),
        ("uuid", ["01234567-89ab-cdef-0123-456789abcdef"], ["0123456789abcdef0123456789abcdef", "x"]),
    ],
)
def test_a_format_takes_the_right_and_refuses_the_wrong(name: str, right: list[str], wrong: list[str]) -> None:
    assert [text for text in right if not fits(name, text)] == []
    assert [text for text in wrong if fits(name, text)] == []
