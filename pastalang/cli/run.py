"""`pasta run FILE`: decodes a program with its inputs; shows fields while they are written, then the answer."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pastalang.cli.exit_codes import EXIT_UNREADABLE, EXIT_USAGE, Refused, refused_for
from pastalang.cli.inputs import files_of, read_inputs
from pastalang.cli.model_source import load_engine, refuse_folder
from pastalang.cli.output import refuse_place, say, say_document, tell
from pastalang.cli.plan_source import read_plan
from pastalang.cli.process import exits_with_code
from pastalang.plan.plan import Mode, Plan
from pastalang.runtime.events import Event, FieldAgain, FieldDone, FieldStarted, TextDelta
from pastalang.runtime.models.source import DEFAULT
from pastalang.values.json import write_json

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine
    from pastalang.runtime.result import Result


@exits_with_code
def command(
    file: Annotated[Path, typer.Argument(help="A program, or a plan saved as JSON; - is standard input.")],
    model: Annotated[str, typer.Option(help="A folder with a model, or its name on the hub.")] = DEFAULT,
    input: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="One input; NAME=@FILE reads it.")
    ] = None,
    inputs: Annotated[Path | None, typer.Option(help="A JSON file with an object of inputs.")] = None,
    template: Annotated[str | None, typer.Option(help="Which template, where the program has several.")] = None,
    mode: Annotated[Mode, typer.Option(help="How the values of a JSON answer relate to one another.")] = Mode.STRICT,
    any_mode: Annotated[
        bool, typer.Option("--any-mode", help="Decode also in a mode that the weights were not trained for.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Two runs with one seed draw the same tokens.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; left out: the best there is.")] = None,
    cells: Annotated[int, typer.Option(min=1, help="How many tokens fit into memory.")] = 8192,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="Print who decoded when.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write what happened: .jsonl, .json (Chrome) or .html.")] = None,
) -> None:
    _refuse_trace(trace, file, inputs, *files_of(input or []))
    refuse_folder(model)
    plan = read_plan(file, template=template, mode=mode)
    given = read_inputs(plan, input or [], inputs)
    engine = load_engine(model, device=device, cells=cells)
    result = _run(engine, plan, given, seed=seed, any_mode=any_mode, quiet=as_json)
    problem = None if trace is None else _write_trace(trace, plan, result)
    say_document(_as_json(result) if as_json else _shown(result.text))
    if timeline:
        from pastalang.runtime.display.timeline import draw_timeline

        (tell if as_json else say)(draw_timeline(result.trace))
    if problem is not None:  # the answer is there and stays the only object
        tell(problem)
        raise typer.Exit(EXIT_UNREADABLE)


def _refuse_trace(trace: Path | None, *sources: Path | None) -> None:
    if trace is not None and trace.suffix not in (".jsonl", ".json", ".html"):
        raise Refused(f"--trace writes .jsonl, .json or .html, not {trace.name}", EXIT_USAGE)
    refuse_place(trace, *sources)


def _run(engine: Engine, plan: Plan, inputs: dict[str, Any], *, seed: int, any_mode: bool, quiet: bool) -> Result:
    from pastalang.runtime.events import Done, Failed

    live = Live(sys.stderr, is_quiet=quiet)
    try:
        for event in engine.stream(plan, inputs, seed=seed, any_mode=any_mode):
            if isinstance(event, Done):
                return event.result
            if isinstance(event, Failed):
                raise refused_for(event.error)
            live.tell(event)
    finally:
        live.close()
    raise AssertionError("a run ends with `Done` or `Failed`")


def _as_json(result: Result) -> str:
    fields = [
        {
            "field": field.path, "items": field.items, "text": field.text, "truncated": field.truncated,
            "log_probability": field.log_probability, "span": field.span,
        }
        for field in result.fields
    ]  # fmt: skip
    found: dict[str, Any] = {
        "text": result.text,
        "fields": fields,
        "usage": dataclasses.asdict(result.usage),
    }
    if any(thought is not None for thought in result.thinking):
        found["thinking"] = result.thinking
    return f'{{"value": {write_json(result.exact)}, {json.dumps(found, ensure_ascii=False)[1:]}'


def _shown(text: str) -> str:
    """What a model wrote never moves the cursor of a terminal."""
    if not sys.stdout.isatty():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _write_trace(path: Path, plan: Plan, result: Result) -> str | None:
    """What is to be told where it could not be written."""
    try:
        path.write_text(_trace(plan, result, path.suffix), encoding="utf-8")
    except OSError as problem:
        return f"{path} could not be written: {problem.strerror}"
    return None


def _trace(plan: Plan, result: Result, suffix: str) -> str:
    from pastalang.runtime.display.page import page_of, render_page

    written: dict[str, Callable[[], str]] = {
        ".jsonl": result.trace.json_lines,
        ".json": result.trace.chrome,
        ".html": lambda: render_page(page_of(result, plan)),
    }
    return written[suffix]()


UP_AND_CLEAR = "\x1b[{lines}A\x1b[J"


class Live:
    def __init__(self, stream: TextIO, *, is_quiet: bool = False) -> None:
        self._stream = stream
        self._is_quiet = is_quiet
        self._is_terminal = stream.isatty()
        self._growing: dict[tuple[str, tuple[int, ...]], str] = {}
        self._shown = 0

    def tell(self, event: Event) -> None:
        if self._is_quiet:
            return
        match event:
            case FieldStarted(field=field, items=items):
                self._growing[field, items] = ""
            case TextDelta(field=field, items=items, text=text):
                self._growing[field, items] = self._growing.get((field, items), "") + text
            case FieldDone(field=field, items=items, text=text, truncated=truncated):
                self._growing.pop((field, items), None)
                self._erase()
                self._line(_field_line(field, items, text) + (" (cut)" if truncated else ""))
            case FieldAgain(field=field, items=items, reason=reason):
                self._growing.pop((field, items), None)
                self._erase()
                self._line(_field_line(field, items, f"again ({reason})"))
            case _:
                return
        if self._is_terminal:
            self._redraw()

    def close(self) -> None:
        self._erase()
        self._growing.clear()

    def _redraw(self) -> None:
        self._erase()
        size = shutil.get_terminal_size()
        growing = list(self._growing.items())[: max(size.lines - 2, 1)]
        for (field, items), text in growing:
            self._line(_field_line(field, items, text)[: size.columns - 1])
        self._shown = len(growing)

    def _erase(self) -> None:
        if self._shown:
            self._stream.write(UP_AND_CLEAR.format(lines=self._shown))
            self._shown = 0

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def _field_line(field: str, items: tuple[int, ...], text: str) -> str:
    """What a model wrote never moves the cursor: whatever is not printable is written as its code."""
    numbers = "".join(f"[{item}]" for item in items)
    return f"{field}{numbers}: " + "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
