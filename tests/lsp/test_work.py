"""How much work an answer about a long program takes, counted and not timed."""

from __future__ import annotations

from pathlib import Path
from threading import Event

from pastalang.compiler import compile
from pastalang.lsp.language import Document, Forecasts
from pastalang.plan.build import build_plan
from tests.work import calls_of, counted


def fields(count: int) -> str:
    return "".join(f"  field_{number}: string(max={4 + number % 9})\n" for number in range(count))


def template(name: str, inside: str) -> str:
    return f'template {name}(title: text)\n\nuser """\nTitle: {{title}}\n"""\n\nassistant json {{\n{inside}}}\n'


LONG = template("long", fields(490))


def test_the_limits_of_a_long_plan_are_found_without_planning_it_for_each_of_them() -> None:
    """A row of limits is tried by writing the plan. Short answers fit with the first row, these with none."""
    short, long = (compile(template("some", fields(count))) for count in (49, 490))
    few = calls_of(lambda: build_plan(short.templates["some"], short))
    assert calls_of(lambda: build_plan(long.templates["some"], long)) < 15 * few


def test_laying_a_long_program_out_takes_less_than_reading_it() -> None:
    untidy = LONG.replace("  field_", "field_")
    document, reading = counted(lambda: _checked(untidy))
    text, work = counted(document.formatted)
    assert text == LONG and work < reading
    assert calls_of(_checked(LONG).formatted) < reading / 2  # it is canonical, and that is seen


def test_a_change_of_the_layout_has_only_the_lines_that_differ() -> None:
    untidy = LONG.replace("  field_100:", "field_100:").replace("  field_102:", "      field_102:")
    found = _checked(untidy).edit()
    assert found is not None
    span, text = found
    assert text == "".join(f"  field_{number}: string(max={4 + number % 9})\n" for number in (100, 101, 102))
    assert untidy[: span.start] + text + untidy[span.end :] == LONG
    assert _checked(LONG).edit() is None and _checked("template").edit() is None
    for program in (LONG + "\n\n", "\n\n" + LONG, LONG.rstrip("\n"), LONG.replace("\n\n", "\n")):
        document = _checked(program)
        found = document.edit()
        assert found is not None
        assert program[: found[0].start] + found[1] + program[found[0].end :] == document.formatted()


def test_a_forecast_is_made_again_only_if_what_it_rests_on_has_changed() -> None:
    forecasts = Forecasts()
    types = 'type Money = {\n  amount: number(min=0)\n  currency: "EUR" | "USD"\n}\n\n'
    first, second = template("first", "  price: Money\n"), template("second", "  name: string(max=5)\n")
    lenses = _lenses(types + first + second, forecasts)
    assert [text for _, text in lenses] == ["2 values, 12 passes, 1.4x", "1 value, 5 passes, 1.0x"]
    assert forecasts.made == 2
    moved = types + "# moved\n" + first + second.replace("max=5", "max=6")
    assert [text for _, text in _lenses(moved, forecasts)] == [lenses[0][1], "1 value, 6 passes, 1.0x"]
    assert forecasts.made == 3
    _lenses(types.replace("EUR", "GBP") + first + second, forecasts)
    assert forecasts.made == 5
    assert calls_of(lambda: _lenses(types + first + second, forecasts)) < 20_000 and forecasts.made == 5


def test_what_an_editor_waits_for_makes_no_forecast() -> None:
    document = _checked(LONG)
    assert list(document.lenses(earlier={})) == [] and document.forecasts.made == 0
    [(_, shown)] = document.lenses(earlier={"long": "as before"})
    assert shown == "as before" and document.forecasts.made == 0
    made = Event()
    document.forecasts.want("here", document.unknown(), made.set)
    assert made.wait(60) and document.unknown() == []
    [(_, shown)] = document.lenses(earlier={"long": "as before"})
    assert shown == "490 values, 12 passes, 325.8x" and document.forecasts.made == 1


def test_files_that_import_each_other_are_followed_once(tmp_path: Path) -> None:
    for name, other in (("one", "two"), ("two", "one"), ("same", "same")):
        path, text = tmp_path / f"{name}.pasta", f'import T from "./{other}.pasta"\n\ntype U = {{ x: T }}\n'
        path.write_text(text, "utf-8")
        found = Document(text, path=path).hover(text.index("T }"))
        assert found is not None and found[1] == f"imported from ./{other}.pasta"


def _checked(text: str) -> Document:
    document = Document(text, path=None)
    assert document.diagnostics is not None
    return document


def _lenses(text: str, forecasts: Forecasts) -> list[tuple[object, str]]:
    return list(Document(text, path=None, forecasts=forecasts).lenses())
