"""Arguments of built-in types: what is wrong with one is reported once, whatever the type and the argument."""

from __future__ import annotations

import pytest

from pastalang import Diagnostic, check_source
from pastalang.check.arguments import SAMPLING
from pastalang.check.built_in_types import BUILT_IN_TYPES

NEEDED = {"verbatim": "x, ", "auto": "pasta, ", "schema": '"true", '}  # the value without a name
PARAMETERS = [
    (type, name) for type, built_in in BUILT_IN_TYPES.items() for name in built_in.signature.parameters
]  # fmt: skip


def problems(type: str) -> tuple[Diagnostic, ...]:
    return check_source(f'template t(x: text)\nuser """{{x}}"""\nassistant json {{ a: {type}, b: string }}')[1]


@pytest.mark.parametrize(("type", "name"), PARAMETERS)
def test_a_value_of_the_wrong_kind_is_reported_with_what_it_is(type: str, name: str) -> None:
    (problem,) = problems(f"{type}({NEEDED.get(type, '')}{name}=null)")
    assert problem.code == "wrong-argument"
    assert problem.headline.startswith(f"`{name}` of `{type}` must be ")
    assert problem.message == "this is null"
    assert problem.source.slice(problem.span) == "null"


@pytest.mark.parametrize(("type", "name"), PARAMETERS)
def test_an_argument_that_is_given_twice_is_reported_where_it_comes_again(type: str, name: str) -> None:
    found = problems(f"{type}({NEEDED.get(type, '')}{name}=null, {name}=1)")
    again = [problem for problem in found if problem.headline == f"`{name}` is given to `{type}` twice"]
    assert [problem.source.slice(problem.span) for problem in again] == [f"{name}=1"]


@pytest.mark.parametrize("type", [type for type in BUILT_IN_TYPES if type != "null"])  # `null` is a literal
def test_an_unknown_argument_is_reported_with_those_that_exist(type: str) -> None:
    (problem,) = problems(f"{type}({NEEDED.get(type, '')}zzzzzz=1)")
    assert problem.headline == f"unknown argument `zzzzzz` of `{type}`"
    parameters = BUILT_IN_TYPES[type].signature.parameters
    assert all(f"`{name}`" in problem.help[0] for name in parameters)
    assert bool(problem.help) == bool(parameters)


@pytest.mark.parametrize("option", SAMPLING.parameters)
def test_a_sampling_option_of_the_wrong_kind_is_reported(option: str) -> None:
    (problem,) = problems(f"string with ({option}=null)")
    assert problem.headline.startswith(f"`{option}` must be ")


@pytest.mark.parametrize(
    ("type", "headline"),
    [
        ('string(format="{}")', 'unknown format "{}"'),
        ("string(pattern=/(?={})/)", "the regular expression /(?={})/ cannot be enforced: look-around"),
        ("[string](2..3, min=1)", "an array is given both a range and `min`"),
        ("[string](1.5..3)", "the number of items of an array must be a whole number"),
        ("integer(1.5..3)", "a bound of the range of `integer` must be a whole number"),
        ("boolean(1)", "`boolean` takes no arguments"),
        ("string(40)", "an argument of `string` needs a name"),
    ],
)
def test_a_headline_says_what_is_wrong(type: str, headline: str) -> None:
    assert [problem.headline for problem in problems(type)] == [headline]
