"""`pasta data threads`: write training rows with threads from rows without."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pastalang.cli.evaluate_threads import function_named
from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.model_source import chosen_model, load_tokenizer, refuse_device, refuse_model
from pastalang.cli.options import Device, TemplateName
from pastalang.cli.output import echo, echo_error, refuse_unwritable, write_file
from pastalang.cli.plan_source import read_plan
from pastalang.cli.process import exits_with_code
from pastalang.cli.standard_input import refuse_second, rows_of
from pastalang.plan.plan import Mode

if TYPE_CHECKING:
    from pastalang.training.thread_data import Rejected, Statistics


class Kind(StrEnum):
    THREADS = "threads"


@exits_with_code
def command(
    kind: Annotated[Kind, typer.Argument(help="threads: mark what could be written at the same time.")],
    program: Annotated[Path, typer.Option(help="The program with assistant auto(...) that the rows are for.")],
    data: Annotated[Path, typer.Option(help="JSON lines: the inputs by name, and the answer without tags as `value`.")],
    out: Annotated[Path, typer.Option(help="Write the rows with threads to this file.")],
    model: Annotated[
        str | None, typer.Option(help="The model whose tokens count; its weights are loaded for --independence.")
    ] = None,
    rejected: Annotated[
        Path | None, typer.Option(help="Write the rows that get no threads to this file, with reasons.")
    ] = None,
    least: Annotated[
        int | None, typer.Option(min=1, help="The fewest tokens of a thread. Default: 20 for pasta, 10 for apar.")
    ] = None,
    plain: Annotated[
        float, typer.Option(min=0.0, help="Add rows without threads: this many for each row with threads.")
    ] = 0.0,
    annotator: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Who writes the tags: gets a prompt, returns the tagged text."),
    ] = None,
    independence: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Reject threads that --model finds less likely without the others, by more nats a token."
        ),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used.")] = False,
    template: TemplateName = None,
    device: Device = None,
) -> None:
    refuse_second(program, data)
    for place in (out, rejected):
        refuse_unwritable(place, program, data)
    if rejected is not None and out.resolve() == rejected.resolve():
        raise Refused(f"--out and --rejected are both {out}: one would overwrite the other", EXIT_USAGE)
    if not math.isfinite(plain):
        raise Refused(f"--plain takes a number, not {plain:g}", EXIT_USAGE)
    if annotator is not None and least is not None:
        raise Refused("--least is for tags by rule: an annotator decides for itself", EXIT_USAGE)
    plan = read_plan(program, template=template, mode=Mode.STRICT)
    if plan.auto is None:
        raise Refused("`data threads` is for programs with `assistant auto(...)`", EXIT_USAGE)
    annotate = None if annotator is None else function_named("--annotator", annotator)
    name = chosen_model(model).name
    tokenizer = load_tokenizer(name)
    with ctrl_c_exits_at_once():
        refuse_device(device)
        from pastalang.training.data import read_checked
        from pastalang.training.independence import Grader
        from pastalang.training.model_files import read_base
        from pastalang.training.thread_data import Bar, Rejected, Tagged, plain_among, statistics_of, tag_rows

    rows = read_checked(rows_of(data), plan, skip_bad=skip_bad, note=echo_error)
    bar = None
    if independence is not None:
        refuse_model(name)
        bar = Bar(Grader(read_base(name).load(device=device, seed=0, lora=None), tokenizer, plan), independence)
    found = list(tag_rows(rows, plan, tokenizer, least=least, annotate=annotate, bar=bar))
    tagged = [one for one in found if isinstance(one, Tagged)]
    refused = [one for one in found if isinstance(one, Rejected)]
    added = plain_among(refused, round(plain * len(tagged)))
    if rejected is not None:
        write_file(rejected, "".join(map(_with_reason, refused)))
    echo(_as_text(statistics_of(tagged, refused, len(added))))
    if not tagged:
        first = f"{refused[0].origin}: {refused[0].reason}"
        raise Refused(f"no row gets threads, so {out} is not written; {first}", EXIT_PROBLEMS)
    write_file(out, "".join(map(_line, [*(one.row for one in tagged), *added])))


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _with_reason(one: Rejected) -> str:
    return _line({**one.row, "origin": one.origin, "reason": one.reason})


def _as_text(found: Statistics) -> str:
    of_threads = [
        ("threads of a row", f"{found.threads:.1f}"),
        ("tokens in threads", f"{100 * found.in_threads:.1f} %"),
        ("theoretical speed-up", f"{found.theoretical:.2f}x"),
    ]
    lines = [
        ("rows with threads", f"{found.kept:,}"),
        *(of_threads if found.kept else []),
        *([("nats a token without the others", f"{found.loss:.3f}")] if found.loss is not None else []),
        ("rows without threads", f"{found.plain:,}"),
        ("rejected", f"{sum(found.rejected.values()):,}"),
        *((f"  {reason}", f"{count:,}") for reason, count in found.rejected.items()),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)
