"""`pasta run FILE`: run a program with a model, show its fields as they are written, and print the answer."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_USAGE, Refused, refused_for
from pastalang.cli.models import CHATS_ONLY, model_or_server, open_engine, refuse_for_server
from pastalang.cli.options import (
    AdapterName,
    AnyMode,
    ApiKey,
    AsJson,
    ComputedIn,
    DecodingMode,
    Device,
    GuessAhead,
    MaxTokens,
    ModelName,
    OverrunPolicy,
    PlacementName,
    SomeCells,
    Temperature,
    TemplateName,
    TopK,
    TopP,
    adapter_of,
    drafts_of,
    sampling_of,
)
from pastalang.cli.output import echo, echo_document, echo_error, refuse_unwritable, show_notes, write_file
from pastalang.cli.process import command
from pastalang.cli.sources import LINES, files_of, plan_of, read_all_inputs, read_inputs, refuse_second
from pastalang.failures import TruncationWarning
from pastalang.plan.branches import Mode, Overrun, Placement
from pastalang.plan.draw.text_metrics import cut_columns
from pastalang.plan.plan import Plan
from pastalang.program.types import OnTruncated
from pastalang.runtime.call import RunOptions
from pastalang.runtime.events import Event, FieldAgain, FieldDone, FieldStarted, TextDelta
from pastalang.runtime.models.choice import note_of, why_no_help
from pastalang.runtime.models.source import LLAMA, host_of
from pastalang.runtime.result import advice_on
from pastalang.values.json import write_json
from pastalang.values.paths import place_of

if TYPE_CHECKING:
    from pastalang.hosts.opening import AnyEngine
    from pastalang.runtime.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The arguments and options of `pasta run`."""

    context: typer.Context
    file: Annotated[Path, typer.Argument(help="A program, or a plan saved as JSON. - is the standard input.")]
    model: ModelName = None
    api_key: ApiKey = None
    adapter: AdapterName = None
    input: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="NAME=VALUE", help="One input. NAME=@FILE reads its value from a file."),
    ] = None
    inputs: Annotated[
        Path | None,
        typer.Option(help="A JSON file with an object of inputs; each line of a .jsonl file is a run."),
    ] = None
    template: TemplateName = None
    mode: DecodingMode = Mode.STRICT
    overrun: OverrunPolicy = Overrun.CONTINUE
    placement: PlacementName | None = None
    any_mode: AnyMode = False
    temperature: Temperature = None
    top_p: TopP = None
    top_k: TopK = None
    max_tokens: MaxTokens = None
    seed: Annotated[int, typer.Option(help="The same seed samples the same tokens.")] = 0
    drafts: GuessAhead = None
    device: Device = None
    dtype: ComputedIn = None
    cells: SomeCells = None
    as_json: AsJson = False
    on_truncated: Annotated[
        OnTruncated | None,
        typer.Option(help="What to do with a value that was cut at its limit. Default: keep it and report it."),
    ] = None
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Print which branch was decoded in which forward pass.")
    ] = False
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace of the run: .jsonl, .json (for trace viewers) or .html.")
    ] = None

    @property
    def options(self) -> RunOptions:
        return {
            "seed": self.seed,
            "any_mode": self.any_mode,
            "sampling": sampling_of(self),
            "drafts": drafts_of(self.drafts),
            "on_truncated": self.on_truncated,
        }


@command(RunSettings)
def run_command(settings: RunSettings) -> None:
    named = files_of(settings.input or [])
    refuse_second(settings.file, settings.inputs, *named)
    _refuse_trace(settings.trace, settings.file, settings.inputs, *named)
    options, is_overrun = settings.options, settings.overrun is not Overrun.CONTINUE
    not_on_servers = {"--timeline": settings.timeline, "--trace": settings.trace, "--drafts": settings.drafts}
    chosen = model_or_server(settings, {**not_on_servers, "--overrun": is_overrun})
    if settings.placement is None and host_of(chosen.name) == LLAMA:
        settings = dataclasses.replace(settings, placement=Placement.DENSE)
    plan = plan_of(settings.file, settings)
    is_many = settings.inputs is not None and settings.inputs.suffix == LINES
    if is_many and (settings.timeline or settings.trace is not None):
        raise Refused("--timeline and --trace are about one run: pass one line of the inputs", EXIT_USAGE)
    every = read_all_inputs(plan, settings.input or [], settings.inputs) if is_many and settings.inputs else []
    given = {} if is_many else read_inputs(plan, settings.input or [], settings.inputs)
    adapter = adapter_of(settings.adapter)
    if not settings.as_json:
        show_notes(note_of(chosen), why_no_help(chosen.name, plan, adapter))
    engine = open_engine(
        chosen.name, device=settings.device, dtype=settings.dtype, cells=settings.cells, adapter=adapter,
        api_key=settings.api_key,
    )  # fmt: skip
    if settings.max_tokens is not None and getattr(engine, "takes_chats_only", False):
        refuse_for_server({"--max-tokens": settings.max_tokens}, CHATS_ONLY)
    if is_many:
        _run_all(engine, plan, every, options, as_json=settings.as_json)
    else:
        _show(_run(engine, plan, given, options, quiet=settings.as_json), plan, settings)


def _run_all(engine: AnyEngine, plan: Plan, every: list[dict[str, Any]], options: RunOptions, *, as_json: bool) -> None:
    """A line for each line of inputs, in their order: the value, or the error."""
    failed = False
    for outcome in engine.map(plan, every, return_errors=True, **{"on_truncated": "keep", **_given(options)}):
        if isinstance(outcome, Exception):
            failed, refused = True, refused_for(outcome)
            echo_document(json.dumps(refused.as_data(), ensure_ascii=False))
        else:
            echo_document(_as_json(outcome) if as_json else write_json(outcome.exact))
    if failed:
        raise typer.Exit(EXIT_PROBLEMS)


def _given(options: RunOptions) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _show(result: Result, plan: Plan, settings: RunSettings) -> None:
    refused = None if settings.trace is None else _write_trace(settings.trace, plan, result)
    echo_document(_as_json(result) if settings.as_json else _printable(result.text))
    if settings.timeline:
        from pastalang.runtime.display.timeline import draw_timeline

        (echo_error if settings.as_json else echo)(draw_timeline(result.trace))
    if refused is not None:  # not raised: with `--json` it would print a second object after the answer
        echo_error(refused.message)
        raise typer.Exit(refused.code)


def _refuse_trace(trace: Path | None, *sources: Path | None) -> None:
    if trace is not None and trace.suffix not in (".jsonl", ".json", ".html"):
        raise Refused(f"--trace takes a file that ends in .jsonl, .json or .html, not {trace.name}", EXIT_USAGE)
    refuse_unwritable(trace, *sources)


def _run(engine: AnyEngine, plan: Plan, inputs: dict[str, Any], options: RunOptions, *, quiet: bool) -> Result:
    from pastalang.runtime.events import Done, Failed

    live = LiveFields(sys.stderr, is_quiet=quiet)
    try:
        for event in _without_warning(engine.stream(plan, inputs, **options)):
            if isinstance(event, Done):
                live.close()
                if not quiet and event.result.empty:
                    echo_error(f"note: nothing was written for {', '.join(one.where for one in event.result.empty)}")
                if not quiet and (advice := advice_on(event.result.truncations)):
                    echo_error(f"note: {advice}".replace("`on_truncated` to", "`--on-truncated` to"))
                return event.result
            if isinstance(event, Failed):
                raise refused_for(event.error)
            live.show(event)
    finally:
        live.close()
    raise AssertionError("a run ends with `Done` or `Failed`")


def _without_warning(events: Iterator[Event]) -> Iterator[Event]:
    """The events, without the warning of values that were cut: the command prints a note."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        yield from events


def _as_json(result: Result) -> str:
    fields = [
        {
            "field": field.path, "items": field.items, "where": field.where, "text": field.text,
            "truncated": field.truncated, "log_probability": field.log_probability, "span": field.span,
            **({"sources": [dataclasses.asdict(span) for span in field.sources]} if field.sources else {}),
        }
        for field in result.fields
    ]  # fmt: skip
    found: dict[str, Any] = {
        "text": result.text,
        "fields": fields,
        "usage": dataclasses.asdict(result.usage),
    }
    if result.truncations:
        found["truncations"] = [
            {"field": one.where, "limit": one.limit, "unit": one.unit, "became": one.became or "keep"}
            for one in result.truncations
        ]
    if any(thought is not None for thought in result.thinking):
        found["thinking"] = result.thinking
    return f'{{"value": {write_json(result.exact)}, {json.dumps(found, ensure_ascii=False)[1:]}'


def _printable(text: str) -> str:
    """On a terminal, control characters are escaped, so that the model cannot move the cursor."""
    return _escaped(text, keep="\n\t") if sys.stdout.isatty() else text


def _escaped(text: str, *, keep: str = "") -> str:
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _write_trace(path: Path, plan: Plan, result: Result) -> Refused | None:
    try:
        write_file(path, _trace(plan, result, path.suffix))
    except Refused as refused:
        return refused
    return None


def _trace(plan: Plan, result: Result, suffix: str) -> str:
    match suffix:
        case ".jsonl":
            return result.trace.json_lines()
        case ".json":
            return result.trace.chrome()
        case _:
            from pastalang.runtime.display.page import page_of, render_page

            return render_page(page_of(result, plan))


UP_AND_CLEAR = "\x1b[{lines}A\x1b[J"


class LiveFields:
    """Shows a line for each finished field of a run; on a terminal also the growing fields, updated in place."""

    def __init__(self, stream: TextIO, *, is_quiet: bool = False) -> None:
        self._stream = stream
        self._is_quiet = is_quiet
        self._is_terminal = stream.isatty()
        self._growing: dict[tuple[str, tuple[int, ...]], str] = {}
        self._shown = 0

    def show(self, event: Event) -> None:
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
                self._line(_field_line(field, items, text) + (" (truncated)" if truncated else ""))
            case FieldAgain(field=field, items=items, reason=reason):
                self._growing.pop((field, items), None)
                self._erase()
                self._line(_field_line(field, items, f"decoded again ({reason})"))
            case _:
                return
        if self._is_terminal:
            self._redraw()

    def close(self) -> None:
        self._erase()
        self._growing.clear()

    def _redraw(self) -> None:
        self._erase()
        size = _size_of(self._stream)
        growing = list(self._growing.items())[: max(size.lines - 2, 1)]
        for (field, items), text in growing:
            self._line(cut_columns(_field_line(field, items, text), size.columns - 1))
        self._shown = len(growing)

    def _erase(self) -> None:
        if self._shown:
            self._stream.write(UP_AND_CLEAR.format(lines=self._shown))
            self._shown = 0

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def _size_of(stream: TextIO) -> os.terminal_size:
    """That of the terminal of the stream, and of a terminal in general if it does not say."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    return size if all(size) else shutil.get_terminal_size()


def _field_line(field: str, items: tuple[int, ...], text: str) -> str:
    return f"{place_of(field, items)}: {_escaped(text)}"
