"""`pasta run FILE`: a program, its inputs and a model come in; fields are shown as they grow, then the answer."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pastalang.cli.files import EXIT_FINE, EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE
from pastalang.cli.live import Live
from pastalang.cli.plan_source import read_plan
from pastalang.cli.refused import Refused
from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import Input, InputKind


def command(
    file: Annotated[Path, typer.Argument(help="A program, or a plan saved as JSON; - is standard input.")],
    model: Annotated[str, typer.Option(help="A folder with a model, or its name on the hub.")],
    input: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="NAME=VALUE", help="One input; NAME=@FILE reads it.")
    ] = None,
    inputs: Annotated[Path | None, typer.Option(help="A JSON file with an object of inputs.")] = None,
    template: Annotated[str | None, typer.Option(help="Which template, where the program has several.")] = None,
    mode: Annotated[Mode, typer.Option(help="How the values of a JSON answer relate to one another.")] = Mode.STRICT,
    seed: Annotated[int, typer.Option(help="Two runs with one seed draw the same tokens.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; left out: the best there is.")] = None,
    cells: Annotated[int, typer.Option(min=1, help="How many tokens fit into memory.")] = 8192,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="Print who decoded when.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write what happened: .jsonl, .json (Chrome) or .html.")] = None,
) -> None:
    try:
        _refuse_trace(trace)
        plan = read_plan(file, template=template, mode=mode)
        given = read_inputs(plan.inputs, input or [], inputs)
        result = _run(plan, given, model=model, seed=seed, device=device, cells=cells, quiet=as_json)
    except Refused as refused:
        typer.echo(refused.message, err=True)
        raise typer.Exit(refused.code) from refused
    typer.echo(_as_json(result) if as_json else result.text)
    if timeline:
        from pastalang.runtime.timeline import draw_timeline

        typer.echo(draw_timeline(result.trace), err=as_json)
    if trace is not None:
        trace.write_text(_trace(plan, result, trace.suffix), encoding="utf-8")
    raise typer.Exit(EXIT_FINE)


def read_inputs(declared: tuple[Input, ...], pairs: list[str], file: Path | None) -> dict[str, Any]:
    """What the command line gives. A text input is taken as it is written, everything else is JSON."""
    values: dict[str, Any] = {} if file is None else _read_object(file)
    types = {input.name: input for input in declared}
    for pair in pairs:
        name, found, text = pair.partition("=")
        if not found:
            raise Refused(f"--input takes NAME=VALUE, not {pair!r}", EXIT_USAGE)
        if text.startswith("@"):
            text = _read_text(Path(text[1:]))
        known = types.get(name)
        is_text = known is None or (known.type is InputKind.TEXT and not known.each)
        values[name] = text if is_text else _parse(name, text)
    return values


def _parse(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise Refused(f"the input `{name}` has to be JSON, and {text[:60]!r} is not", EXIT_USAGE) from problem


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read_text(path))
    except ValueError as problem:
        raise Refused(f"{path} is not JSON: {problem}", EXIT_PROBLEMS) from problem
    if not isinstance(value, dict):
        raise Refused(f"{path} has to hold one JSON object, with the inputs by name", EXIT_PROBLEMS)
    return value


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Refused(f"{path} could not be read: {problem}", EXIT_UNREADABLE) from problem


def _refuse_trace(trace: Path | None) -> None:
    if trace is not None and trace.suffix not in (".jsonl", ".json", ".html"):
        raise Refused(f"--trace writes .jsonl, .json or .html, not {trace.name}", EXIT_USAGE)


def _run(
    plan: Plan, inputs: dict[str, Any], *, model: str, seed: int, device: str | None, cells: int, quiet: bool
) -> Any:
    from pastalang.errors import PastaError
    from pastalang.runtime.engine import Engine
    from pastalang.runtime.events import Done, Failed

    try:
        engine = Engine.load(model, device=device, cells=cells)
    except (PastaError, OSError, ValueError) as problem:
        raise Refused(f"the model {model} could not be loaded: {problem}", EXIT_UNREADABLE) from problem
    live = Live(sys.stderr, is_quiet=quiet)
    try:
        for event in engine.stream(plan, inputs, seed=seed):
            if isinstance(event, Done):
                return event.result
            if isinstance(event, Failed):
                raise Refused(str(event.error), EXIT_PROBLEMS)
            live.tell(event)
    except PastaError as problem:
        raise Refused(str(problem), EXIT_PROBLEMS) from problem
    finally:
        live.close()
    raise AssertionError("a run ends with `Done` or `Failed`")


def _as_json(result: Any) -> str:
    fields = [
        {
            "field": field.path, "items": field.items, "text": field.text, "truncated": field.truncated,
            "log_probability": field.log_probability, "span": field.span,
        }
        for field in result.fields
    ]  # fmt: skip
    found = {
        "value": result.value,
        "text": result.text,
        "fields": fields,
        "usage": dataclasses.asdict(result.usage),
    }
    return json.dumps(found, ensure_ascii=False, default=str)


def _trace(plan: Plan, result: Any, suffix: str) -> str:
    from pastalang.runtime.page.of_result import page_of
    from pastalang.runtime.page.render import render_page

    written: dict[str, Callable[[], str]] = {
        ".jsonl": result.trace.json_lines,
        ".json": result.trace.chrome,
        ".html": lambda: render_page(page_of(result, plan)),
    }
    return written[suffix]()
