"""`%load_ext pastalang`: the cell magic `%%pasta`, for IPython and notebooks. `pastalang` imports it when it is loaded.

A cell is a program. Its inputs are the variables of the notebook that have their names, or expressions on the first
line.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from html import escape
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final, NoReturn

from pastalang.bulk.many import display_of_notebook
from pastalang.cli.output import echo_error, with_colours
from pastalang.cli.run import LiveFields
from pastalang.compiler import analyse
from pastalang.diagnostics.render import render_text
from pastalang.extraction import engine_for, is_engine
from pastalang.failures import PastaError, TruncationWarning
from pastalang.program.program import Template
from pastalang.runtime.answer_html import hue, under
from pastalang.runtime.call import template_of
from pastalang.runtime.events import Done, Event, Failed, FieldAgain, FieldDone, FieldStarted, TextDelta
from pastalang.runtime.result import Result
from pastalang.values.paths import is_inside

_INPUT: Final = re.compile(r"([^\W\d]\w*)=(?!=)(.*)", re.DOTALL)
_QUOTED: Final = re.compile(r"""((?:--[\w-]+=)?)(["'])(.*)\2""", re.DOTALL)
_REFRESH: Final = 0.1  # seconds
_TAIL: Final = 200  # characters of a value that grows


class CellFailed(PastaError):
    """A cell that cannot be run. IPython shows its message alone, and runs no cell after it."""

    def __init__(self, message: str, *, has_colours: bool) -> None:
        super().__init__(message)
        self._has_colours = has_colours

    def _render_traceback_(self) -> list[str]:
        text = str(self).rstrip("\n")
        return (with_colours(text) if self._has_colours else text).split("\n")


def load(shell: Any) -> None:
    """Give the shell of IPython the magic."""
    magic = import_module("IPython.core.magic")

    def pasta(line: str, cell: str) -> None:
        run_cell(shell, line, cell)

    pasta.__doc__ = run_cell.__doc__
    shell.register_magic_function(magic.no_var_expand(pasta), magic_kind="cell", magic_name="pasta")


def run_cell(shell: Any, line: str, cell: str) -> None:
    """Run the program in the cell, show its values while they are written, and bind the result to a variable.

        %%pasta [TEMPLATE] [INPUT=EXPRESSION ...] [--model NAME] [--to VARIABLE] [--seed NUMBER] [--any-mode]

    TEMPLATE is needed if the program has several. An input that is not on the line is the variable of its name; without
    such a variable it has its default. An EXPRESSION is Python, as in `title=rows[0]["title"]`. `--model` is a name, a
    folder or an address, or a variable that holds an engine. The result is bound to `result`, or what `--to` names.
    A name with spaces is in quotes, as in `--model "my model"`.
    """
    has_colours = str(shell.colors).lower() != "nocolor" and not os.environ.get("NO_COLOR")
    try:
        _run(shell, line, cell, has_colours)
    except CellFailed:
        raise
    except PastaError as problem:
        raise CellFailed(f"error: {problem}", has_colours=has_colours) from None


def _run(shell: Any, line: str, cell: str, has_colours: bool) -> None:
    words, expressions = split_line(line)
    options = _arguments().parse_args(words)
    if not options.to.isidentifier() or iskeyword(options.to):
        raise PastaError(f"--to takes the name of a variable, not {options.to}")
    # The first line of a notebook's cell is that of the magic: an empty line keeps the numbers of the others.
    name = f"In[{len(shell.history_manager.input_hist_parsed) - 1}]"
    found = analyse("\n" + cell, path=Path.cwd() / name, name=name)
    shown = render_text(found.diagnostics)
    if found.program is None:
        raise CellFailed(shown, has_colours=has_colours)
    if shown:
        echo_error(with_colours(shown) if has_colours else shown, end="")
    if not found.program.templates:
        raise PastaError("the cell has no template")
    template = template_of(found.program, options.template)
    inputs = _inputs(template, expressions, shell.user_ns)
    named = shell.user_ns.get(options.model) if options.model is not None else None
    engine = engine_for(named if is_engine(named) else options.model)
    display = display_of_notebook()
    live = TerminalLive() if display is None else HtmlLive(display)
    events = engine.stream(found.program, inputs, template=template.name, seed=options.seed, any_mode=options.any_mode)
    shell.user_ns[options.to] = _show(events, live)


def _show(events: Any, live: TerminalLive | HtmlLive) -> Result:
    with closing(events), warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)  # the result says what was cut
        try:
            for event in events:
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Done):
                    live.finish(event.result)
                    return event.result
                live.show(event)
        finally:
            live.close()
    raise AssertionError("a run ends with `Done` or `Failed`")


# ── the first line ───────────────────────────────────────────────────────────────────────────────────────


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise PastaError(f"%%pasta: {message}; %%pasta? shows how it is called")


def _arguments() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%pasta", add_help=False, allow_abbrev=False)
    parser.add_argument("template", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--to", default="result")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--any-mode", action="store_true")
    return parser


def split_line(line: str) -> tuple[list[str], dict[str, str]]:
    """The words of a line, and the expressions of its inputs.

    An expression ends at the first space where it can, and a word in quotes at the first quote before a space.
    """
    parts = re.split(r"(\s+)", line.strip())
    words: list[str] = []
    expressions: dict[str, str] = {}
    at = 0
    while at < len(parts):
        match = _INPUT.fullmatch(parts[at])
        if match is None:
            behind = _end_of(parts, at, lambda text: _QUOTED.fullmatch(text) is not None) or at + 1
            word = "".join(parts[at:behind])
            quoted = _QUOTED.fullmatch(word)
            words += [quoted[1] + quoted[3] if quoted else word] if word else []
            at = behind + 1
            continue
        end = _end_of(parts, at, _is_whole)
        if end is None:
            raise PastaError(f"%%pasta: what follows `{match[1]}=` is not an expression of Python")
        if match[1] in expressions:
            raise PastaError(f"%%pasta: the input `{match[1]}` is given twice")
        expressions[match[1]] = "".join(parts[at:end]).partition("=")[2].strip()
        at = end + 1
    return words, expressions


def _end_of(parts: list[str], at: int, is_whole: Callable[[str], bool]) -> int | None:
    return next((end for end in range(at + 1, len(parts) + 1, 2) if is_whole("".join(parts[at:end]))), None)


def _is_whole(given: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            ast.parse(given.partition("=")[2].strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _inputs(template: Template, expressions: dict[str, str], variables: dict[str, Any]) -> dict[str, Any]:
    """Names that are no inputs are passed on, so that they are reported as in every other call."""
    found = {one.name: variables[one.name] for one in template.inputs if one.name in variables}
    for name, expression in expressions.items():
        try:
            found[name] = eval(expression, variables)
        except Exception as problem:
            raise PastaError(f"%%pasta: `{name}={expression}`: {type(problem).__name__}: {problem}") from problem
    return found


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────


class TerminalLive(LiveFields):
    """The lines of `pasta run`, and the result after them."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def finish(self, result: Result) -> None:
        self.close()
        import_module("IPython.display").display(result)


class HtmlLive:
    """One output of the cell: a bar and a line for each value while they are written, then the result."""

    def __init__(self, display: Any) -> None:
        self._lanes: dict[str, tuple[str, bool]] = {}
        self._shown_at, self._is_behind = 0.0, False
        self._display = display
        self._handle: Any = None  # until there is something to show

    def show(self, event: Event) -> None:
        match event:
            case FieldStarted(where=where):
                self._lanes[where] = "", False
            case TextDelta(where=where, text=text):
                self._lanes[where] = self._lanes.get(where, ("", False))[0] + text, False
            case FieldDone(where=where, text=text):
                self._lanes[where] = text, True
            case FieldAgain(where=where, reason=reason):
                self._lanes = {place: lane for place, lane in self._lanes.items() if not is_inside(place, where)}
                self._lanes[where] = f"decoded again ({reason})", False
        self._is_behind, now = True, time.monotonic()
        if now - self._shown_at >= _REFRESH:
            self._shown_at = now
            self._catch_up()

    def finish(self, result: Result) -> None:
        self._is_behind = False
        self._update(result)

    def close(self) -> None:
        """A run that fails leaves what it had written."""
        if self._is_behind:
            self._catch_up()

    def _catch_up(self) -> None:
        self._is_behind = False
        self._update(self._display.HTML(lanes_html(self._lanes)))

    def _update(self, shown: Any) -> None:
        if self._handle is None:
            self._handle = self._display.display(shown, display_id=True)
        else:
            self._handle.update(shown)


def lanes_html(lanes: dict[str, tuple[str, bool]]) -> str:
    """The values so far, by their places, each with whether it is done. All that a model wrote is escaped."""
    done = sum(is_done for _, is_done in lanes.values())
    rows = "".join(
        f'<div><span style="opacity:.6">{escape(where)}</span> '
        f'<span style="background:hsl({hue(number)} 62% 88%);color:#1d2330;border-radius:3px;'
        f'text-decoration:{under(number)}">'
        f"{escape(text[-_TAIL:])}</span>{'' if is_done else ' …'}</div>"
        for number, (where, (text, is_done)) in enumerate(lanes.items())
    )
    bar = f'<progress value="{done}" max="{max(len(lanes), 1)}"></progress> {done} of {len(lanes)} values'
    return f'<div style="font:13px/1.6 ui-monospace,Menlo,Consolas,monospace">{bar}{rows}</div>'
