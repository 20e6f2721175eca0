"""`pasta check` and `pasta explain`: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

import pastalang
from pastalang.cli.app import ENTRIES
from tests.command import pasta

RIGHT = "template t()\nassistant json {a: date}\n"
WARNED = "template t(x: text)\nassistant json {a: date}\n"
WRONG = "template t()\nassistant json {a: dat}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "right.pasta").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "wrong.pasta").write_text(WRONG, encoding="utf-8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "wrong.pasta").write_text(WRONG, encoding="utf-8")
    (tmp_path / "warned.pasta").write_text(WARNED, encoding="utf-8")
    return tmp_path


def test_a_missing_file_ends_with_3_after_the_others_were_checked(folder: Path) -> None:
    result = pasta("check", folder / "missing.pasta", folder / "inner")
    assert result.exit_code == 3 and "error[file-not-found]" in result.output
    assert "error[unknown-name]" in result.output


def test_a_folder_stands_for_the_programs_in_it_but_not_for_hidden_ones(folder: Path) -> None:
    assert "checked 3 files: 1 error, 1 warning" in pasta("check", folder).output


def test_a_folder_without_programs_is_wrong_usage(tmp_path: Path) -> None:
    assert pasta("check", tmp_path).exit_code == pasta("fmt", tmp_path).exit_code == 2


def test_the_standard_input_is_a_program() -> None:
    result = pasta("check", "-", input=WRONG)
    assert result.exit_code == 1 and "--> <stdin>:2:20" in result.output


def test_json_says_where_and_what(folder: Path) -> None:
    path = folder / "inner" / "wrong.pasta"
    assert json.loads(pasta("check", "--format", "json", path).output) == {
        "version": 1,
        "diagnostics": [
            {
                "code": "unknown-name",
                "severity": "error",
                "headline": "unknown type `dat`",
                "file": str(path),
                "line": 2,
                "column": 20,
                "end_line": 2,
                "end_column": 23,
                "message": "",
                "related": [],
                "help": ["did you mean `date`?"],
            }
        ],
    }


def test_github_gets_annotations(folder: Path) -> None:
    path = folder / "inner" / "wrong.pasta"
    assert pasta("check", "--format", "github", path).output == (
        f"::error file={path},line=2,col=20,endLine=2,title=unknown-name%3A unknown type `dat`::did you mean `date`?\n"
    )


def test_a_problem_in_an_imported_file_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "types.pasta").write_text("type A = dat\n", encoding="utf-8")
    for name in ("one", "two"):
        text = 'import A from "./types.pasta"\n\ntemplate t()\nassistant json A\n'
        (tmp_path / f"{name}.pasta").write_text(text, encoding="utf-8")
    assert "checked 3 files: 1 error\n" in pasta("check", tmp_path).output


@pytest.mark.parametrize("written", ["[dependency-cycle]", "error[dependency-cycle]", "warning[dependency-cycle]"])
def test_explain_takes_a_code_as_it_is_shown(written: str) -> None:
    assert pasta("explain", written).stdout == pasta("explain", "dependency-cycle").stdout


def test_explain_knows_what_was_meant() -> None:
    assert "did you mean `dependency-cycle`?" in pasta("explain", "dependancy-cycle").output


def test_messages_do_not_depend_on_the_order_of_sets() -> None:
    code = (
        "from pathlib import Path\nfrom pastalang.compiler import check_path\n"
        "from pastalang.diagnostics.render import render_text\n"
        "for path in sorted(Path('tests/corpus/invalid').glob('*.pasta')):\n"
        "    print(render_text(check_path(path)[1]))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


# ── the command as a process ─────────────────────────────────────────────────────────────────────────────

HEAVY = ("torch", "numpy", "transformers", "networkx", "pydantic", "llguidance", "outlines", "outlines_core")


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()}


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert modules_after("import pastalang").isdisjoint({*HEAVY, "lark", "typer"})
    assert modules_after("import pastalang\npastalang.errors.LoadError").isdisjoint(HEAVY)


def test_checking_a_file_imports_nothing_heavy() -> None:
    assert modules_after("import pastalang\npastalang.load('examples/02-invoice.pasta')").isdisjoint(HEAVY)


def test_listing_the_commands_imports_none_of_them() -> None:
    assert modules_after("from pastalang.cli.app import build_app\nbuild_app(set())").isdisjoint({*HEAVY, "lark"})


def test_the_version_is_printed_without_anything_else() -> None:
    command = [sys.executable, "-m", "pastalang", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"pasta {pastalang.__version__}\n" and not done.stderr


def test_every_command_has_its_summary_in_the_help() -> None:
    result = pasta("--help")
    assert result.exit_code == 0
    for entry in ENTRIES:
        assert entry.summary in result.output


def test_a_value_that_a_tokenizer_cannot_write_is_found_with_its_line(tmp_path: Path) -> None:
    """The tokens of this model are small letters, without digits and capitals."""
    alphabet = {character: at for at, character in enumerate('abcdefghijklmnopqrstuvwxyz {}":,[].')}
    backend = Tokenizer(WordLevel({**alphabet, "<unk>": 40, "<end>": 41}, unk_token="<unk>"))
    backend.pre_tokenizer, backend.decoder = Split("", "isolated"), Fuse()
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    fields = [
        "a: string(max=4)",
        "n: integer(0..9)",
        'u: "Q" | "no"',
        'c: "Q" | "R"',
        "l: [integer](min=1)",
        "q: verbatim(x)",
    ]
    program = tmp_path / "program.pasta"
    lines = [
        "template t(x: text)",
        'user """',
        "{x}",
        '"""',
        "assistant json {",
        *(f"  {one}," for one in fields),
        "}",
        "",
    ]
    program.write_text("\n".join(lines), encoding="utf-8")
    assert pasta("check", program).exit_code == 0
    result = pasta("check", "--format", "json", "--model", tmp_path, program)
    found = [(one["line"], one["code"], one["headline"][:3]) for one in json.loads(result.output)["diagnostics"]]
    assert found == [(at, "not-enforceable", f"`{name}`") for at, name in ((7, "n"), (9, "c"), (10, "l"))]
    assert pasta("check", "--model", tmp_path / "missing", program).exit_code == 3


def test_a_type_that_no_model_could_be_kept_to_is_found_without_a_model(tmp_path: Path) -> None:
    """Each of twelve levels holds two of the next, so no value is short enough to be closed with."""
    levels = [f"type L{n} = {{ a: L{n + 1}, b: L{n + 1} }}" for n in range(12)]
    levels += ["type L12 = { up: L0 | null }", "template t()", "assistant json { a: L0, n: [integer] }"]
    (tmp_path / "deep.pasta").write_text("\n".join(levels), encoding="utf-8")
    result = pasta("check", tmp_path / "deep.pasta")
    assert result.exit_code == 1
    assert "error[not-enforceable]: `a`: no short value of an object was found" in result.output
    assert "checked 1 file: 1 error" in result.output
