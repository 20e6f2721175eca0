"""The cell magic `%%pasta` in a shell of IPython, and the example notebook, whose cells print what is saved in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.terminal.interactiveshell import TerminalInteractiveShell
from IPython.utils.capture import CapturedIO, capture_output

import pastalang

NOTEBOOK = Path("examples/notebook.ipynb")
PROGRAM = """
template product(title: text)
user \"\"\"Title: {title}\"\"\"
assistant json {Brand: verbatim(title, max=12) | null}
"""
TITLE = "Norvika Coffee, Dark Roast, 12 oz"


def shell_of(kind: type[InteractiveShell], **variables: Any) -> Iterator[InteractiveShell]:
    shell = kind.instance(user_ns=variables)
    yield shell
    shell.history_manager.end_session()
    kind.clear_instance()


@pytest.fixture
def empty() -> Iterator[InteractiveShell]:
    yield from shell_of(InteractiveShell)


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    for shell in shell_of(InteractiveShell, title=TITLE):
        shell.run_line_magic("load_ext", "pastalang")
        yield shell


@pytest.fixture
def terminal() -> Iterator[InteractiveShell]:
    yield from shell_of(TerminalInteractiveShell, title=TITLE)


def run(shell: InteractiveShell, text: str) -> tuple[Any, CapturedIO]:
    with capture_output() as captured:
        outcome = shell.run_cell(text, store_history=True)
    return outcome, captured


def failure(shell: InteractiveShell, text: str) -> str:
    outcome, captured = run(shell, text)
    assert not outcome.success and isinstance(outcome.error_in_exec, pastalang.PastaError)
    assert "Traceback" not in captured.stdout
    return re.sub(r"\x1b\[[\d;]*m", "", captured.stdout)


def test_the_cells_of_the_example_print_what_it_shows(empty: InteractiveShell) -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    saved = ["".join(text for output in cell["outputs"] for text in output["text"]) for cell in cells]
    assert sum(map(bool, saved)) >= 3
    for cell, expected in zip(cells, saved, strict=True):
        outcome, captured = run(empty, "".join(cell["source"]))
        assert outcome.success and captured.stdout == expected, captured.stderr


def test_a_cell_shows_its_values_and_then_its_result_and_binds_it(shell: InteractiveShell) -> None:
    outcome, captured = run(shell, f"%%pasta{PROGRAM}")
    result = shell.user_ns["result"]
    assert outcome.success and isinstance(result, pastalang.Result) and result.value == {"Brand": "Norvika"}
    first, *_, last = [output.data["text/html"] for output in captured.outputs]
    assert "<progress" in first and "<progress" not in last and "Norvika" in last and result.summary in last


def test_inputs_are_expressions_and_the_variable_is_named(shell: InteractiveShell) -> None:
    shell.user_ns |= {"titles": ["Molinari Coffee, Light Roast,"], "engine": pastalang.Engine.load("pasta-mini")}
    line = 'product title=" ".join([titles[0], "250 g"]) --model engine --to found --seed 3'
    outcome, _ = run(shell, f"%%pasta {line}{PROGRAM}")
    assert outcome.success and "result" not in shell.user_ns
    assert shell.user_ns["found"].sources == {"title": "Molinari Coffee, Light Roast, 250 g"}


def test_a_run_that_fails_leaves_what_it_had_written(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    def events(*_: Any, **__: Any) -> Iterator[pastalang.Event]:
        yield pastalang.FieldStarted("a", ())
        yield pastalang.FieldDone("a", (), "Sharp", truncated=False)
        yield pastalang.Failed(pastalang.RunError("no more"))

    monkeypatch.setattr(pastalang.Engine, "stream", events)
    outcome, captured = run(shell, f"%%pasta title= 'x y'{PROGRAM}")
    assert not outcome.success and "Sharp" in captured.outputs[-1].data["text/html"]


def test_what_a_model_writes_is_data_and_never_markup(shell: InteractiveShell) -> None:
    program = '\ntemplate t()\nuser """Go."""\nassistant json {a: "<b>x</b>" | "<b>y</b>"}\n'
    _, captured = run(shell, f"%%pasta --any-mode{program}")
    assert captured.outputs and not any("<b>" in output.data["text/html"] for output in captured.outputs)


def test_a_problem_has_its_place_in_the_cell_and_is_coloured(shell: InteractiveShell) -> None:
    run(shell, "1")
    wrong = PROGRAM.replace("{title}", "{titel}")
    shown = failure(shell, f"%%pasta{wrong}")
    assert shown.startswith("error[") and " --> In[2]:3:17\n" in shown and '3 | user """Title: {titel}"""' in shown
    assert "did you mean `title`" in shown
    assert "\x1b[1;31merror[" in run(shell, f"%%pasta{wrong}")[1].stdout


def test_warnings_are_shown_and_the_cell_is_run(shell: InteractiveShell) -> None:
    program = '\ntemplate t(title: text)\nuser """Go."""\nassistant json {a: "x" | "y"}\n'
    outcome, captured = run(shell, f"%%pasta{program}")
    assert outcome.success and "input-never-used" in captured.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("title=nothing", "`title=nothing`: NameError: name 'nothing' is not defined"),
        ("title=(1", "what follows `title=` is not an expression of Python"),
        ("title=1 title=2", "the input `title` is given twice"),
        ("titel='a'", "did you mean `title`"),
        ("prodct", "has no template `prodct`; did you mean `product`?"),
        ("product more", "unrecognized arguments: more"),
        ("--seed x", "argument --seed: invalid int value: 'x'"),
        ("--to 3", "--to takes the name of a variable, not 3"),
        ("--to class", "--to takes the name of a variable, not class"),
        ("--model ./nowhere", "nowhere"),
        ('--model="./no where" --seed 1', "./no where"),
    ],
)
def test_a_mistake_in_the_first_line_is_a_message(shell: InteractiveShell, line: str, said: str) -> None:
    shown = failure(shell, f"%%pasta {line}{PROGRAM}")
    assert shown.startswith("error: ") and said in shown


def test_an_input_without_a_variable_is_asked_for(shell: InteractiveShell) -> None:
    del shell.user_ns["title"]
    assert "`title`" in failure(shell, f"%%pasta{PROGRAM}")


def test_a_cell_with_several_templates_asks_for_one(shell: InteractiveShell) -> None:
    second = PROGRAM.replace("product", "other")
    assert "`template` must be `product` or `other`" in failure(shell, f"%%pasta{PROGRAM}{second}")


def test_a_terminal_shows_a_line_for_each_value(terminal: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.run_line_magic("load_ext", "pastalang")
    terminal.run_cell(f"%%pasta{PROGRAM}")
    shown = capsys.readouterr()
    assert 'Brand: "Norvika"\n' in shown.err and '<Result {"Brand": "Norvika"}' in shown.out


def test_many_documents_have_a_bar(shell: InteractiveShell) -> None:
    call = 'import pastalang\nfound = list(pastalang.extract_many(bool, ["1", "", "3"], progress=True))'
    outcome, captured = run(shell, call)
    assert outcome.success and [one.status for one in shell.user_ns["found"]] == ["ok", "error", "ok"]
    shown = captured.outputs[-1].data["text/html"]
    assert 'value="3" max="3"' in shown and "3 of 3 documents" in shown and "1 failed" in shown


def test_importing_the_package_does_not_import_ipython() -> None:
    check = "import sys, pastalang; pastalang.Engine; print('IPython' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout == "False\n"
