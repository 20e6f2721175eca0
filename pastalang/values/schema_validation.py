"""Validates an exact JSON value against a JSON Schema document, with the `jsonschema` library.

Numbers are exact decimals, patterns match in linear time, and formats are those of PastaLang. The library never
uses the network: references lead only into the document itself.
"""

from __future__ import annotations

import re
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pastalang import limits
from pastalang.program.regex import RegexError
from pastalang.values.formats import FORMATS
from pastalang.values.json import JsonValue, parse_json
from pastalang.values.mismatch import Mismatch
from pastalang.values.patterns import matches, whole_pattern
from pastalang.values.to_schema import STANDARD_FORMATS

if TYPE_CHECKING:  # importing the library takes a tenth of a second, and few programs need it
    from jsonschema.protocols import Validator


_ONLY_IN_PYTHON: Final = re.compile(r"\(\?[P#aiLmsux]|\\[AZ]|[+*?}]\+")


def document_mismatches(document: str, value: JsonValue) -> tuple[Mismatch, ...]:
    errors = _validator(document).iter_errors(value)
    found = [Mismatch(tuple(error.absolute_path), _reason(error)) for error in errors]
    return tuple(found[: limits.MAX_MISMATCHES])


@lru_cache(maxsize=128)
def _validator(document: str) -> Validator:
    from jsonschema import Draft202012Validator, FormatChecker, validators
    from referencing import Registry

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer).redefine("number", _is_number)
    exact = validators.extend(
        Draft202012Validator,
        {"multipleOf": _multiple_of, "pattern": _pattern},
        type_checker=checker,
    )
    formats = FormatChecker(formats=())
    for name in STANDARD_FORMATS:
        formats.checks(name)(_format_check(FORMATS[name].pattern))
    formats.checks("regex")(_is_regex)
    return exact(parse_json(document), registry=Registry(), format_checker=formats)


def _is_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_checker: object, value: object) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _multiple_of(_validator: object, step: Any, value: Any, _schema: object) -> Any:
    from jsonschema import ValidationError

    if _is_number(None, value) and Fraction(value) % Fraction(step) != 0:
        yield ValidationError(f"{value} is not a multiple of {step}")


def _pattern(_validator: object, pattern: str, value: Any, _schema: object) -> Any:
    from jsonschema import ValidationError

    if not isinstance(value, str):
        return
    try:
        fits = matches(whole_pattern(pattern), value)
    except RegexError as problem:
        yield ValidationError(f"/{pattern}/ cannot be checked: {problem.message}")
    else:
        if not fits:
            yield ValidationError(f"{value!r} does not match /{pattern}/")


def _format_check(pattern: str) -> Any:
    def check(value: object) -> bool:
        return not isinstance(value, str) or matches(pattern, value)

    return check


def _is_regex(value: object) -> bool:
    """Whether a text is an expression of ECMA 262, as far as Python knows. What only Python knows is none."""
    if not isinstance(value, str):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", value))
    except (re.error, RecursionError, OverflowError, Warning):
        return False
    return _ONLY_IN_PYTHON.search(value) is None


def _reason(error: Any) -> str:
    message = str(error.message)
    return message if len(message) <= limits.MAX_NAME_CHARS else message[: limits.MAX_NAME_CHARS] + "…"
