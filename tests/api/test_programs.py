"""Programs as text and as files: what compiles, what is refused, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pastalang
from tests.api.engines import json_program, uniform

RIGHT = 'template t(title: text)\nuser """{title}"""\nassistant json {\n  brand: string(max=8)\n}\n'


def test_a_program_is_compiled_from_its_text() -> None:
    program = pastalang.compile(RIGHT)
    assert list(program.templates) == ["t"] and program.only_template.name == "t"
    assert [one.name for one in program.only_template.inputs] == ["title"]


def test_a_program_is_loaded_from_a_file_by_its_path_or_name(tmp_path: Path) -> None:
    path = tmp_path / "t.pasta"
    path.write_text(RIGHT, encoding="utf-8")
    assert list(pastalang.load(path).templates) == list(pastalang.load(str(path)).templates) == ["t"]


def test_a_file_that_is_not_there_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(pastalang.FileError, match=r"nowhere\.pasta"):
        pastalang.load(tmp_path / "nowhere.pasta")
    with pytest.raises(pastalang.FileError, match=r"a model is loaded with `pastalang\.Engine\.load`"):
        pastalang.load("Qwen/Qwen3-0.6B")


def test_a_type_may_be_imported_from_another_file(tmp_path: Path) -> None:
    (tmp_path / "types.pasta").write_text(
        'type Money = { amount: integer(0..9), unit: "eur" | "usd" }\n', encoding="utf-8"
    )
    main = tmp_path / "main.pasta"
    main.write_text(
        'import Money from "./types.pasta"\ntemplate t()\nassistant json { price: Money }\n', encoding="utf-8"
    )
    assert uniform().run(main).value["price"].keys() == {"amount", "unit"}


def test_a_text_without_a_folder_cannot_import() -> None:
    with pytest.raises(pastalang.ProgramError, match="import"):
        pastalang.compile('import Money from "./types.pasta"\ntemplate t()\nassistant json { a: Money }\n')


def test_an_error_says_where_with_the_line_and_a_caret() -> None:
    with pytest.raises(pastalang.ProgramError) as raised:
        pastalang.compile("template t()\nassistant json {a: dat}", name="wrong.pasta")
    told = str(raised.value)
    assert "error[unknown-name]: unknown type `dat`" in told and "wrong.pasta:2:20" in told
    assert "assistant json {a: dat}" in told and "^^^" in told and "help: did you mean `date`?" in told
    [diagnostic] = raised.value.diagnostics
    assert isinstance(diagnostic, pastalang.Diagnostic) and diagnostic.code == "unknown-name"


def test_a_file_is_checked_as_its_text_is(tmp_path: Path) -> None:
    path = tmp_path / "wrong.pasta"
    path.write_text("template t()\nassistant json {a: dat}", encoding="utf-8")
    program, [found] = pastalang.check_path(path)
    assert program is None and found.code == "unknown-name"


def test_the_errors_of_a_program_are_errors_of_the_package() -> None:
    for error in (pastalang.ProgramError, pastalang.FileError, pastalang.InputError, pastalang.RunError):
        assert issubclass(error, pastalang.PastaError)
    assert issubclass(pastalang.BadInputs, pastalang.InputError)


def test_what_is_no_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a program is compiled from its text"):
        pastalang.compile(b"template t()")  # type: ignore[arg-type]


def test_of_several_templates_one_is_named() -> None:
    two = pastalang.compile("template one()\nassistant json {a: boolean}\ntemplate two()\nassistant json {b: boolean}")
    assert uniform().run(two, template="two").value.keys() == {"b"}
    with pytest.raises(pastalang.InputError, match="choose one"):
        uniform().run(two)
    with pytest.raises(pastalang.InputError, match="did you mean `two`"):
        uniform().run(two, template="tow")


def test_a_limit_that_leaves_no_value_is_refused_before_the_model_runs() -> None:
    with pytest.raises(pastalang.PastaError, match="a"):
        uniform().run(json_program("  a: /[a-z]{40}/ with (temperature=0)\n  b: string(max=4, min_chars=30)"))


def test_the_schema_of_an_answer_can_be_shown_to_the_model() -> None:
    program = json_program('  brand: string | null "the maker"\n  kind: "tv" | "phone"', says="{schema}")
    fed = "".join(one.text for one in uniform().run(program, on_truncated="keep").trace.fed if one.lane == 0)
    assert "brand: string | null  // the maker" in fed and 'kind: "tv" | "phone"' in fed


def test_braces_and_indentation_of_a_text() -> None:
    program = pastalang.compile(
        'template t()\nuser """\n    {{braces}}\n      in\n    """\nassistant json {a: boolean}\n'
    )
    assert "{braces}\n  in" in "".join(one.text for one in uniform().run(program).trace.fed)
