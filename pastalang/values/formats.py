"""The formats of strings, each as one regular expression.

The expressions use only what `program.regex` understands. The same text constrains the decoding, checks a value,
and is exported to JSON Schema. Every day exists in its month, leap years included.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pastalang.program.types import Moment


@dataclass(frozen=True, slots=True)
class Format:
    pattern: str
    meaning: str  # for people


# ── dates and times ──────────────────────────────────────────────────────────────────────────────────────

_LEAP_CENTURY: Final = "(?:0[48]|[2468][048]|[13579][26])00"
_LEAP_IN_CENTURY: Final = "[0-9]{2}(?:0[48]|[2468][048]|[13579][26])"
_YEAR: Final = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # 0001 to 9999
_DATE: Final = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|(?:{_LEAP_IN_CENTURY}|{_LEAP_CENTURY})-02-29)"
)
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET: Final = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

MOMENTS: Final[Mapping[Moment, str]] = MappingProxyType(
    {
        Moment.DATE: _DATE,
        Moment.TIME: f"{_CLOCK}{_OFFSET}?",
        Moment.DATETIME: f"{_DATE}T{_CLOCK}{_OFFSET}?",
    }
)

UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────

_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM: Final = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_HEX: Final = "[0-9A-Fa-f]{1,4}"
_LAST_32_BITS: Final = f"(?:{_HEX}:{_HEX}|{_IPV4})"
_IPV6_BEFORE: Final = "|".join(
    [f"(?:{_HEX}:){{6}}", f"::(?:{_HEX}:){{5}}"]
    + [f"(?:{_HEX}(?::{_HEX}){{0,{before}}})?::(?:{_HEX}:){{{4 - before}}}" for before in range(5)]
)
_IPV6: Final = (
    f"(?:{_IPV6_BEFORE}){_LAST_32_BITS}|(?:{_HEX}(?::{_HEX}){{0,5}})?::{_HEX}|(?:{_HEX}(?::{_HEX}){{0,6}})?::"
)
_URI_CHARACTER: Final = r"(?:[A-Za-z0-9\-._~:/?@!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
_URI: Final = rf"[A-Za-z][A-Za-z0-9+.\-]*:{_URI_CHARACTER}+(?:#{_URI_CHARACTER}*)?"
_IN_SEGMENT: Final = r"(?:[A-Za-z0-9\-._~@!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
_URI_REFERENCE: Final = (
    rf"(?:[A-Za-z][A-Za-z0-9+.\-]*:{_URI_CHARACTER}+|{_IN_SEGMENT}*(?:[/?]{_URI_CHARACTER}*)?)(?:#{_URI_CHARACTER}*)?"
)
_BEYOND_ASCII: Final = "[\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0001fffd]"
_IRI: Final = _URI.replace(_URI_CHARACTER, f"(?:{_URI_CHARACTER}|{_BEYOND_ASCII})")
_IRI_REFERENCE: Final = _URI_REFERENCE.replace(_URI_CHARACTER, f"(?:{_URI_CHARACTER}|{_BEYOND_ASCII})").replace(
    _IN_SEGMENT, f"(?:{_IN_SEGMENT}|{_BEYOND_ASCII})"
)
_VARIABLE: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*(?::[1-9][0-9]{0,3}|\*)?"
_URI_TEMPLATE: Final = rf"(?:{_URI_CHARACTER}|#|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
_JSON_POINTER: Final = "(?:/(?:[^~/]|~[01])*)*"
_PORT: Final = "(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_WEB_LABEL: Final = "[a-z](?:[a-z0-9]|-[a-z0-9]){0,20}"  # stricter than the standard, so that every parser agrees
_SITE: Final = rf"{_WEB_LABEL}(?:\.{_WEB_LABEL})*(?::{_PORT})?"
_PATH: Final = f"/{_URI_CHARACTER}*(?:#{_URI_CHARACTER}*)?"
_URL: Final = f"https?://{_SITE}(?:{_PATH})?"
_TIME_PART: Final = "T(?:[0-9]+H(?:[0-9]+M)?(?:[0-9]+S)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION: Final = (
    f"P(?:[0-9]+W|{_TIME_PART}|(?:[0-9]+Y(?:[0-9]+M)?(?:[0-9]+D)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:{_TIME_PART})?)"
)

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "date": Format(_DATE, "a date that exists, `2024-02-29`"),
        "date-time": Format(f"{_DATE}T{_CLOCK}{_OFFSET}", "an RFC 3339 date and time with its offset"),
        "local-date-time": Format(f"{_DATE}T{_CLOCK}", "a date and time without an offset, `2024-02-29T12:00:00`"),
        "time": Format(f"{_CLOCK}{_OFFSET}", "an RFC 3339 time of day with its offset"),
        "duration": Format(_DURATION, "an ISO 8601 duration, `P1DT12H`"),
        "email": Format(rf"{_ATOM}(?:\.{_ATOM})*@{_HOST}", "an e-mail address, `name@example.org`"),
        "hostname": Format(_HOST, "a host name, `www.example.org`"),
        "ipv4": Format(_IPV4, "an IPv4 address, `192.0.2.1`"),
        "ipv6": Format(_IPV6, "an IPv6 address, `2001:db8::1`"),
        "uri": Format(_URI, "an address with its scheme, `https://example.org/`"),
        "uri-reference": Format(_URI_REFERENCE, "an address, or a path relative to one, `../images/a.png#b`"),
        "iri": Format(_IRI, "a `uri` with characters of all scripts"),
        "iri-reference": Format(_IRI_REFERENCE, "a `uri-reference` with characters of all scripts"),
        "uri-template": Format(_URI_TEMPLATE, "an address with variables, `https://example.org/{name}`"),
        "json-pointer": Format(_JSON_POINTER, "a JSON pointer, `/items/0`"),
        "relative-json-pointer": Format(rf"(?:0|[1-9][0-9]*)(?:#|{_JSON_POINTER})", "a JSON pointer from here, `1/a`"),
        "url": Format(_URL, "a web address, `https://example.org/`"),
        "uuid": Format(UUID, "a UUID in lower case, `01234567-89ab-cdef-0123-456789abcdef`"),
    }
)


def url_pattern(schemes: Collection[str]) -> str:
    """The addresses with one of these schemes. Those of files name no host."""
    hosted = [scheme for scheme in schemes if scheme != "file"]
    either = [f"(?:{'|'.join(map(re.escape, hosted))})://{_SITE}(?:{_PATH})?"] if hosted else []
    return "|".join([*either, *([f"file://{_PATH}"] if "file" in schemes else [])])
