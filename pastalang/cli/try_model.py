"""`pasta try SOURCE EXAMPLES`: how a model does on a few labelled rows, field by field, and what to change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_USAGE, Refused
from pastalang.cli.models import model_or_server, open_engine
from pastalang.cli.options import AdapterName, ApiKey, AsJson, ModelName, adapter_of
from pastalang.cli.output import echo, echo_document, show_notes
from pastalang.cli.process import command
from pastalang.cli.sources import SOURCE, rows_of, task_named
from pastalang.failures import InputError
from pastalang.plan.branches import Mode
from pastalang.program.program import InputKind
from pastalang.runtime.models.source import SMOLLM2
from pastalang.values.describe import counted

if TYPE_CHECKING:
    from pastalang.bulk.rows import Task
    from pastalang.bulk.trial import FieldScore, Labelled, Trial

_GOOD: Final = 0.9
_USABLE: Final = 0.7
_LONG: Final = 300  # characters of a reason
_SHOWN: Final = 5  # notes about labels
_LARGER: Final = "--model Qwen/Qwen3-1.7B"
_PAGE: Final = "https://github.com/pastalang/pastalang/blob/main/docs/train-your-own.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrySettings:
    """The arguments and options of `pasta try`."""

    source: Annotated[str, typer.Argument(help=SOURCE)]
    examples: Annotated[
        Path,
        typer.Argument(
            help="Rows, as JSON lines, CSV or Parquet: the inputs, and the right answer as value or by key."
        ),
    ]
    model: ModelName = None
    adapter: AdapterName = None
    api_key: ApiKey = None
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Where the text stands, if not under the name of the input.")
    ] = None
    instructions: Annotated[str | None, typer.Option(help="For a type: tell the model what to do.")] = None
    window: Annotated[
        int | None, typer.Option(min=1, help="Read each text in windows of this many tokens, and merge the values.")
    ] = None
    as_json: AsJson = False


@command(TrySettings)
def try_command(settings: TrySettings) -> None:
    from pastalang.bulk.trial import check_labels, try_rows

    task = task_named(settings.source, windows={"window": settings.window}, instructions=settings.instructions)
    columns = {} if settings.text is None else {settings.text: _text_of(task)}
    chosen = model_or_server(settings, {"--adapter": settings.adapter})
    try:
        rows, unused = _rows(settings.examples, columns, task)
        odd = check_labels(task, rows)
    except InputError as problem:
        raise Refused(str(problem), EXIT_PROBLEMS) from problem
    more = [f"{len(odd) - _SHOWN} more labels cannot be right"] if len(odd) > _SHOWN else []
    show_notes(unused, *(f"this label cannot be right: {one}" for one in odd[:_SHOWN]), *more)
    engine = open_engine(
        chosen.name, device=None, cells=None, adapter=adapter_of(settings.adapter), api_key=settings.api_key
    )
    found = try_rows(engine, task, rows)
    if settings.as_json:
        figures = {"model": chosen.name, "rows": len(rows), "right": found.right, "values": found.values}
        failed = [{"row": origin, "error": reason} for origin, reason in found.failed]
        fields = [one.as_data() for one in found.fields]
        echo_document(json.dumps({**figures, "failed": failed, "fields": fields}))
    else:
        echo("\n".join(_lines(found, chosen.name, len(rows), settings)))


def _text_of(task: Task) -> str:
    """The input that a row has as its text."""
    texts = [one.name for one in task.inputs if one.type is InputKind.TEXT and one.default is None]
    if len(texts) != 1:
        raise Refused(f"--text names the column of one text, and {len(texts)} are read here", EXIT_USAGE)
    return texts[0]


def _rows(path: Path, names: Mapping[str, str], task: Task) -> tuple[list[Labelled], str | None]:
    """Also which columns are not used. `names`: the inputs that stand in columns of other names."""
    from pastalang.bulk.documents import Columns
    from pastalang.bulk.trial import Labelled
    from pastalang.training.data import VALUE, Parts
    from pastalang.training.errors import BadRow
    from pastalang.training.row_files import scan_rows

    parts, found, unused = Parts(task.plan(Mode.STRICT), extra=()), list[Labelled](), dict[str, None]()
    scanned = scan_rows(rows_of(path))
    objects = [row for _, row in scanned if not isinstance(row, BadRow)]
    Columns(tuple(names)).check((name for row in objects for name in row), str(path))
    task.read.check((names.get(name, name) for row in objects for name in row if name != VALUE), str(path))
    for origin, row in scanned:
        if isinstance(row, BadRow):
            raise row
        named = type(row)({names.get(name, name): cell for name, cell in row.items() if name not in names.values()})
        inputs = parts.labelled(named)
        if VALUE not in named:
            unused |= dict.fromkeys(name for name in named if not parts.has(name) and name not in task.read.all)
        if VALUE not in inputs:
            raise Refused(
                f"{origin}: the right answer is missing: `value`, or keys of it beside the text", EXIT_PROBLEMS
            )
        value = inputs.pop(VALUE)
        found.append(Labelled(origin, inputs, value))
    return found, f"columns that are not used: {', '.join(unused)}" if unused else None


# ── what is printed ──────────────────────────────────────────────────────────────────────────────────────────


def _lines(found: Trial, model: str, rows: int, settings: TrySettings) -> Iterator[str]:
    from pastalang.bulk.trial import TRAIN

    yield f"{model} on {counted(rows, 'row')}: {found.right} of {found.values} values are right, {_verdict(found)}"
    yield from _table(found.fields)
    wrong = [one for one in found.fields if one.example is not None]
    if wrong:
        yield ""
        yield "wrong, for example"
        width = max(len(one.name) for one in wrong)
        for one in wrong:
            assert one.example is not None
            origin, right, given = one.example
            yield f"  {one.name:{width}}  {right} → {given}  ({origin})"
    for origin, reason in found.failed[:_SHOWN]:
        yield f"failed: {_in_line(reason if reason.startswith(origin) else f'{origin}: {reason}')}"
    if any(TRAIN in one.advice for one in found.fields):
        yield ""
        yield from _next(model, settings)


def _in_line(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= _LONG else f"{line[:_LONG]}…"


def _verdict(found: Trial) -> str:
    if found.share >= _GOOD:
        return "good"
    if found.share >= _USABLE:
        marks = "--min-confidence marks what is unsure"
        return f"usable if somebody checks: {marks if found.tells_right_from_wrong else 'its confidence does not help'}"
    return "too few to use"


def _next(model: str, settings: TrySettings) -> Iterator[str]:
    """How to train on rows like these, and which other model there is."""
    source = settings.source
    program = source if source.endswith(".pasta") else "program.pasta"
    named = "" if settings.text is None else f", with `{settings.text}` under the name of the input"
    is_trained = Path(model).is_dir()  # more of the same few rows would not help
    rows = "more rows than before, all in one file" if is_trained else "30 rows like these or more"
    yield f"to train on {rows}{named}: a minute or two with pasta-mini, longer with larger models ({_PAGE}):"
    if program != source:
        yield f"  pasta import {source} -o {program}"
    base, out = ("MODEL_BEFORE_TRAINING", "trained-again") if is_trained else (model, "trained")
    yield f"  pasta train hpd --model {base} --program {program} --data ROWS --steps 60 --out {out}"
    yield f"  pasta try {program} OTHER_ROWS --model {out}"
    larger = f"one of a billion parameters or more, such as {_LARGER}"
    yield f"another model: {larger}" if model == SMOLLM2 else f"another model: --model smollm2, or {larger}"


def _table(fields: tuple[FieldScore, ...]) -> Iterator[str]:
    from pastalang.bulk.trial import Way, mean

    ways = [way for way in Way if any(way in one.right for one in fields)]
    width = max([5, *(len(one.name) for one in fields)])
    heads = "  ".join(f"{way.value:{_wide(way.value)}}" for way in ways)
    yield f"{'field':{width}}  {heads}  sure if right, wrong"
    for one in fields:
        cells = "  ".join(
            f"{f'{one.right[way]}/{one.rows}' if way in one.right else '-':{_wide(way.value)}}" for way in ways
        )
        means = (mean(one.sure_of_right), mean(one.sure_of_wrong))
        sure = ", ".join("-" if number is None else f"{number:.2f}" for number in means)
        yield f"{one.name:{width}}  {cells}  {sure:20}  {one.advice}".rstrip()


def _wide(head: str) -> int:
    return max(8, len(head))
