"""`pasta evaluate`: score answers against the right ones, measure answers with threads, and draw several reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.models import chosen_model, load_engine, refuse_missing
from pastalang.cli.options import (
    AdapterName,
    AnyMode,
    AsJson,
    Cells,
    ColumnMap,
    DecodingMode,
    Device,
    GuessAhead,
    MaxTokens,
    OverrunPolicy,
    PlacementName,
    Temperature,
    TemplateName,
    TopK,
    TopP,
    adapter_of,
    columns_of,
    drafts_of,
    sampling_of,
)
from pastalang.cli.output import (
    echo,
    echo_document,
    echo_error,
    named_lines,
    reason_of,
    refuse_unwritable,
    unwritable,
    write_file,
)
from pastalang.cli.process import command, screen
from pastalang.cli.sources import function_named, plan_of, refuse_second, rows_of
from pastalang.plan.branches import Mode, Overrun, Placement
from pastalang.plan.plan import Plan
from pastalang.program.types import Drafts
from pastalang.runtime.models.source import OWN, Adapter

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine
    from pastalang.training.data import Row
    from pastalang.training.evaluation import Scored
    from pastalang.training.metrics import Counts, Report
    from pastalang.training.row_files import RowFile
    from pastalang.training.thread_eval import Answered, Score


THREADS = "threads"  # in place of RIGHT: how answers with threads do
_THREADS_ONLY = ("baseline", "score", "judge", "drafts", "plot", "add", "rounds")
_MEASURING = ("out", "predictions", "model", "baseline", "score", "judge")
_USAGE = "pass either the two files RIGHT and GIVEN, or --program and --data (and optionally --model)"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSettings:
    """The arguments and options of `pasta evaluate`."""

    context: typer.Context
    right: Annotated[
        Path | None,
        typer.Argument(
            help="Rows with the right answer as `value` or `target_scores`. JSON, CSV, Parquet, a data set. "
            "Or the word `threads`: measure auto(...)."
        ),
    ] = None
    given: Annotated[Path | None, typer.Argument(help="Answers in the same order, as `value`; null if unreadable.")] = (
        None
    )
    model: Annotated[
        str | None, typer.Option(help="The model that answers: a folder, or a name on the Hugging Face hub.")
    ] = None
    adapter: AdapterName = None
    program: Annotated[Path | None, typer.Option(help="The program to run.")] = None
    data: Annotated[Path | None, typer.Option(help="Rows: the inputs by name, and the right answer as `value`.")] = None
    map: ColumnMap = None
    template: TemplateName = None
    mode: DecodingMode = Mode.STRICT
    overrun: OverrunPolicy = Overrun.CONTINUE
    placement: PlacementName = Placement.GAPS
    any_mode: AnyMode = False
    temperature: Temperature = None
    top_p: TopP = None
    top_k: TopK = None
    max_tokens: MaxTokens = None
    batch: Annotated[int | None, typer.Option(min=1, help="Rows per batch. Default: 8; 1 for threads.")] = None
    baseline: Annotated[
        str | None, typer.Option(help="For threads: a model that answers without them, to compare with.")
    ] = None
    score: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="For threads: scores an answer."),
    ] = None
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="For threads: says which of two answers is better."),
    ] = None
    drafts: GuessAhead = None
    plot: Annotated[
        Path | None, typer.Option(help="For threads: draw speed and quality of this and other reports, as PNG.")
    ] = None
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="For --plot: a report that --out wrote. May be repeated."),
    ] = None
    rounds: Annotated[int, typer.Option(min=1, help="For threads: repeat the decoding; the fastest run counts.")] = 1
    out: Annotated[Path | None, typer.Option(help="Write the report to this file, as JSON.")] = None
    predictions: Annotated[
        Path | None, typer.Option(help="Write the answers of the model to this file, as JSON lines.")
    ] = None
    device: Device = None
    cells: Cells = 8192
    as_json: AsJson = False

    @property
    def measures_threads(self) -> bool:
        return self.right is not None and str(self.right) == THREADS and self.given is None

    @property
    def only_draws(self) -> bool:
        """Whether nothing is measured, and the reports of --add are drawn."""
        is_measured = self.program is not None or self.data is not None
        return self.measures_threads and not is_measured and self.plot is not None and bool(self.add)

    @property
    def files(self) -> tuple[Path | None, ...]:
        """The files that are read."""
        return self.right, self.given, self.program, self.data

    @property
    def rows(self) -> RowFile:
        assert self.data is not None
        return rows_of(self.data, columns_of(self.map))


@command(EvaluateSettings)
def evaluate_command(settings: EvaluateSettings) -> None:
    _check_files(settings)
    _check_options(settings)
    name = None if settings.only_draws else short_name(chosen_model(settings.model).name)
    reports = read_reports(settings.add, measured=name) if settings.add else {}
    if settings.only_draws:
        _draw_only(settings, reports)
        return
    report = _measured(settings)
    if settings.out is not None:
        write_file(settings.out, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    if not settings.as_json:
        echo(as_text(report) if settings.measures_threads else _as_text(report))
    if settings.plot is not None:  # after the figures, which a picture that cannot be drawn must not cost
        draw_reports(settings.plot, {short_name(str(report["model"])): report, **reports})
    if settings.as_json:
        echo_document(json.dumps(report, ensure_ascii=False))


def _check_files(settings: EvaluateSettings) -> None:
    refuse_second(*settings.files)
    out, predictions = settings.out, settings.predictions
    for place in (out, predictions):
        refuse_unwritable(place, *settings.files)
    if out is not None and predictions is not None and out.resolve() == predictions.resolve():
        raise Refused(f"--out and --predictions are both {out}: one would overwrite the other", EXIT_USAGE)


def _check_options(settings: EvaluateSettings) -> None:
    sampling_of(settings)
    columns_of(settings.map)
    if settings.adapter is not None and settings.given is not None:
        raise Refused("--adapter is for a model that answers, and two files are compared without one", EXIT_USAGE)
    if not settings.measures_threads and (
        given := [f"--{name}" for name in _THREADS_ONLY if _is_given(settings, name)]
    ):
        raise Refused(f"only `pasta evaluate threads` takes {', '.join(given)}", EXIT_USAGE)
    if settings.add and settings.plot is None:
        raise Refused("--add is for --plot: it names a report to draw", EXIT_USAGE)
    if settings.plot is not None:
        added = (place_of(one)[1] for one in settings.add or ())
        refuse_plot(settings.plot, *settings.files, settings.out, settings.predictions, *added)


def _is_given(settings: EvaluateSettings, name: str) -> bool:
    return getattr(settings, name) is not None and not (name == "rounds" and settings.rounds == 1)


def _draw_only(settings: EvaluateSettings, reports: Reports) -> None:
    if idle := [f"--{name}" for name in _MEASURING if getattr(settings, name) is not None]:
        raise Refused(f"nothing is measured without --program and --data: leave out {', '.join(idle)}", EXIT_USAGE)
    assert settings.plot is not None
    draw_reports(settings.plot, reports)


def _measured(settings: EvaluateSettings) -> dict[str, Any]:
    program, data, right, given = settings.program, settings.data, settings.right, settings.given
    if settings.measures_threads:
        if program is None or data is None:
            raise Refused("`pasta evaluate threads` needs --program and --data, or --plot and --add", EXIT_USAGE)
        return evaluate_threads(settings, plan_of(program, settings))
    if right is not None and given is not None and not any((settings.model, program, data, settings.predictions)):
        return _compare(right, given, columns_of(settings.map))
    if right is None and program is not None and data is not None:
        return _run(settings, plan_of(program, settings))
    raise Refused(_USAGE, EXIT_USAGE)


def _compare(right: Path, given: Path, columns: Mapping[str, str]) -> dict[str, Any]:
    from pastalang.training.metrics import count_fields, evaluate, read_examples

    examples = read_examples(rows_of(right, columns), rows_of(given))
    return _as_data(evaluate(examples), count_fields(examples))


def _run(settings: EvaluateSettings, plan: Plan) -> dict[str, Any]:
    """Checks everything that it can before it loads the model."""
    model, adapter = chosen_model(settings.model).name, adapter_of(settings.adapter)
    refuse_missing(model, adapter)
    with ctrl_c_exits_at_once():
        from pastalang.training.data import read_checked
        from pastalang.training.evaluation import prediction_lines, score_rows_by_decoding

    rows, batch = read_checked(settings.rows, plan, note=echo_error), settings.batch or 8
    engine = load_engine(model, device=settings.device, cells=settings.cells, adapter=adapter)
    scored = score_rows_by_decoding(
        engine, plan, rows, batch=batch, any_mode=settings.any_mode, sampling=sampling_of(settings),
        on_progress=_counter(len(rows)),
    )  # fmt: skip
    for origin, problem in scored.problems:
        echo_error(f"{origin}: not decoded: {problem}")
    if settings.predictions is not None:
        write_file(settings.predictions, prediction_lines(scored, rows))
    return _as_data(scored.report, scored.fields) | _cost(scored, model, plan.mode, batch)


def _counter(rows: int) -> Callable[[int], None] | None:
    """On a terminal, shows how many rows are done; the count disappears at the end."""
    _, live = screen()
    return None if live is None else lambda done: live(f"{done} of {rows}" if done < rows else "")


def _cost(scored: Scored, model: str, mode: Mode, batch: int) -> dict[str, Any]:
    return {
        "model": model,
        "mode": mode.value,
        "batch": batch,
        "passes_per_document": round(scored.decoding.passes_per_document, 2),
        "documents_per_second": round(scored.decoding.documents_per_second, 3),
        "seconds": round(scored.decoding.seconds, 3),
    }


def _as_text(report: dict[str, Any]) -> str:
    counts, strict = report["reported"], report["strict"]
    lines = [
        ("documents", f"{report['documents']}"),
        ("F1", f"{counts['f1']:.2f}"),
        ("precision", f"{counts['precision']:.2f}"),
        ("recall", f"{counts['recall']:.2f}"),
        ("macro F1", f"{report['macro_f1']:.2f}"),
        ("F1, case folded", f"{report['normalised']['f1']:.2f}"),
        ("F1, strict", f"{strict['f1']:.2f}"),
        ("hallucinated", f"{strict['hallucination_rate']:.2f}% of the absent values"),
        ("unreadable", f"{report['unparseable_rate']:.2f}% of the documents"),
        ("truncated", f"{report['truncated_rate']:.2f}% of the documents"),
    ]
    if "model" in report:
        lines += [
            ("forward passes", f"{report['passes_per_document']:.1f} per document"),
            ("speed", f"{report['documents_per_second']:.2f} documents per second, {report['batch']} at a time"),
            ("model", f"{report['model']}, mode {report['mode']}"),
        ]
    lines += [(f"  {name}", _score_of_field(counts)) for name, counts in report["fields"].items()]
    return named_lines(lines)


def _score_of_field(counts: dict[str, Any]) -> str:
    values = (counts["present_correct"], counts["present_wrong"], counts["present_left_empty"])
    if not any(values) and not counts["absent_but_filled"]:
        return "absent everywhere, and never filled"
    return f"F1 {counts['f1']:.2f}"


def _as_data(report: Report, fields: Mapping[str, Counts]) -> dict[str, Any]:
    data = asdict(report)
    for name in ("reported", "strict", "normalised"):
        data[name] = _counted(getattr(report, name))
    return data | {"fields": {name: _counted(counts) for name, counts in fields.items()}}


def _counted(counts: Counts) -> dict[str, Any]:
    return asdict(counts) | {
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "hallucination_rate": counts.hallucination_rate,
    }


ALL, BASELINE = "all", "baseline reports"


@dataclass(frozen=True, slots=True)
class _ThreadRun:
    """Rows that are answered with threads. `score` counts what is right in an answer."""

    settings: EvaluateSettings
    plan: Plan
    rows: list[Row]
    score: Score | None

    def answers(self, engine: Engine, model: str, drafts: Drafts = "off") -> list[Answered | str]:
        from pastalang.training.thread_eval import answer_rows

        found = answer_rows(
            engine, self.plan, self.rows, batch=self.settings.batch or 1, rounds=self.settings.rounds,
            sampling=sampling_of(self.settings), score=self.score, drafts=drafts,
            on_progress=_counter(len(self.rows)),
        )  # fmt: skip
        for one in found:
            if isinstance(one, str):
                echo_error(f"{model}: not decoded: {one}")
        return found


def evaluate_threads(settings: EvaluateSettings, plan: Plan) -> dict[str, Any]:
    """The report as data: one for all rows, and one for each category. Raises `Refused`.

    With `baseline`, a model answers without threads, too. With `drafts`, the rows are decoded once more with these.
    """
    if plan.auto is None:
        raise Refused("`evaluate threads` is for programs with `assistant auto(...)`", EXIT_USAGE)
    if any(input.each for input in plan.inputs):
        raise Refused("`evaluate threads` is for programs that answer one document", EXIT_USAGE)
    score = None if settings.score is None else function_named("--score", settings.score)
    judge = None if settings.judge is None else function_named("--judge", settings.judge)
    tried = None if settings.drafts == "off" else drafts_of(settings.drafts)
    name = chosen_model(settings.model).name
    refuse_missing(name, adapter_of(settings.adapter))
    if settings.baseline is not None:
        refuse_missing(settings.baseline)
    with ctrl_c_exits_at_once():
        from pastalang.training.data import read_checked
        from pastalang.training.thread_eval import judged

    run = _ThreadRun(settings, plan, read_checked(settings.rows, plan, note=echo_error), score)
    answers, drafted = _answered(run, name, tried)
    base = settings.baseline
    baseline = None if base is None else run.answers(_loaded(settings, base, OWN), base)
    _write_predictions(settings.predictions, answers)
    verdicts = None if judge is None else judged(judge, answers, run.rows, baseline=baseline)
    report: dict[str, Any] = {
        "model": name, "baseline": base, "policy": plan.auto.value, "batch": settings.batch or 1,
        "rounds": settings.rounds, "rows": len(run.rows), "reports": _reports(run, answers, baseline, verdicts),
    }  # fmt: skip
    return report | _compared_with(run, answers, drafted, tried, baseline)


def _loaded(settings: EvaluateSettings, model: str, adapter: Adapter) -> Engine:
    return load_engine(model, device=settings.device, cells=settings.cells, adapter=adapter)


def _answered(
    run: _ThreadRun, name: str, drafts: Drafts | None
) -> tuple[list[Answered | str], list[Answered | str] | None]:
    """The answers, and those with drafts if they are to be tried. The model is given up afterwards."""
    from pastalang.runtime.models.training_note import check_mode, check_overrun, check_threads

    engine = _loaded(run.settings, name, adapter_of(run.settings.adapter))
    if not run.settings.any_mode:
        check_mode(engine.trained_for, run.plan.mode)
        check_threads(engine.trained_for, run.plan)
        check_overrun(engine.trained_for, run.plan)
    answers = run.answers(engine, name)
    if all(isinstance(one, str) for one in answers):
        raise Refused(f"no row was answered: {answers[0]}", EXIT_PROBLEMS)
    return answers, None if drafts is None else run.answers(engine, name, drafts)


def _write_predictions(place: Path | None, answers: list[Answered | str]) -> None:
    if place is not None:
        values = (None if isinstance(one, str) else one.text for one in answers)
        write_file(place, "".join(json.dumps({"value": one}, ensure_ascii=False) + "\n" for one in values))


def _reports(
    run: _ThreadRun, answers: list[Answered | str], baseline: list[Answered | str] | None, verdicts: Any
) -> dict[str, Any]:
    from pastalang.training.thread_eval import by_category, report_on

    found = {ALL: report_on(answers, run.rows, baseline=baseline, verdicts=verdicts)}
    if len({row.category for row in run.rows}) > 1:
        found |= dict(by_category(answers, run.rows, baseline=baseline, verdicts=verdicts))
    return {name: asdict(one) for name, one in found.items()}


def _compared_with(
    run: _ThreadRun, answers: list[Answered | str], drafted: list[Answered | str] | None, drafts: Drafts | None,
    baseline: list[Answered | str] | None,
) -> dict[str, Any]:  # fmt: skip
    from pastalang.training.thread_eval import report_on, with_drafts

    found: dict[str, Any] = {}
    if drafted is not None:
        found["drafts"] = {"given": drafts, **asdict(with_drafts(answers, drafted))}
    if baseline is not None:
        found[BASELINE] = {ALL: asdict(report_on(baseline, run.rows))}
    return found


# ── as text ──────────────────────────────────────────────────────────────────────────────────────────────


def as_text(report: dict[str, Any]) -> str:
    """A column for all rows and for each category."""
    reports: dict[str, Any] = report["reports"]
    lines = [("", list(reports))]
    for title, show in _LINES:
        cells = [show(one) for one in reports.values()]
        if any(cells):
            lines.append((title, cells))
    names = dict.fromkeys(name for one in reports.values() for name in one["parts"])
    for name in names:
        lines.append((f"right: {name}", [_right(one["parts"].get(name)) for one in reports.values()]))
    base = report.get(BASELINE, {}).get(ALL)
    if base is not None:
        lines += [
            ("without threads: cut by a limit", [f"{100 * base['truncated']:.1f}%"]),
            ("  F1 of words", [f"{base['word_f1']:.2f}"]),
            *((f"  right: {name}", [_right(part)]) for name, part in base["parts"].items()),
        ]
    if (drafts := report.get("drafts")) is not None:
        lines += [
            ("with drafts: passes", [f"{drafts['passes']:.1f}, without {drafts['passes_without']:.1f}"]),
            ("  speed-up, processor time", [f"{drafts['processor']:.2f}x"]),
            ("  drafts that were right", [f"{100 * drafts['confirmed']:.1f}%"]),
            ("  answers that are the same", [f"{drafts['same']} of {drafts['answers']}"]),
        ]
    room = max(len(name) for name, _ in lines)
    widths = [max(len(cells[column]) for _, cells in lines if column < len(cells)) for column in range(len(reports))]
    return "\n".join(
        "  ".join([name.ljust(room), *(cell.rjust(width) for cell, width in zip(cells, widths, strict=False))]).rstrip()
        for name, cells in lines
    )


def _right(part: Any) -> str:
    if part is None or not part[2]:
        return ""
    share, (low, high), _ = part
    return f"{100 * share:.1f}% ({100 * low:.0f}-{100 * high:.0f})"


def _times(one: Any, name: str) -> str:
    return "" if one[name] is None else f"{one[name]:.2f}x"


def _theoretical(one: Any) -> str:
    low, high = one["theoretical_interval"]
    return f"{one['theoretical']:.2f}x ({low:.2f}-{high:.2f})"


def _room(one: Any, name: str, percent: bool) -> str:
    if not one["room"]:
        return ""
    return f"{100 * one['room'][name]:.1f}%" if percent else f"{one['room'][name]:.1f}"


def _compared(one: Any, other: str, mine: str) -> str:
    """Another figure, and by how much this one is above or below it."""
    return f"{one[other]:.1f} ({100 * (one[mine] / one[other] - 1):+.1f}%)" if one[other] else ""


def _won(one: Any, name: str, interval: str) -> str:
    judged = one["judged"]
    return "" if judged is None else _right((judged[name], judged[interval], judged["pairs"]))


def _ties(one: Any) -> str:
    judged = one["judged"]
    return "" if judged is None else f"{judged['ties']}, {judged['inconsistent']}"


_LINES: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("answers", lambda one: str(one["answers"])),
    ("threads of an answer", lambda one: f"{one['threads']:.1f}"),
    ("theoretical speed-up", _theoretical),
    ("realised, processor time", lambda one: _times(one, "realised")),
    ("realised, by the clock", lambda one: _times(one, "realised_wall")),
    ("tokens drawn for tags", lambda one: f"{100 * one['control']:.1f}%"),
    ("tags that act", lambda one: "" if one["tags_that_act"] is None else f"{100 * one['tags_that_act']:.1f}%"),
    ("announced length", lambda one: _room(one, "announced", percent=False)),
    ("real length", lambda one: _room(one, "taken", percent=False)),
    ("announced rightly to ten", lambda one: _room(one, "exact to ten", percent=True)),
    ("peak cells", lambda one: f"{one['peak_cells']:.1f}"),
    ("  nothing released early", lambda one: _compared(one, "peak_without_release", "peak_cells")),
    ("  from left to right", lambda one: _compared(one, "peak_plain", "peak_cells")),
    ("attended tokens", lambda one: f"{one['attended']:.1f}"),
    ("  from left to right", lambda one: _compared(one, "attended_plain", "attended")),
    ("cut by a limit", lambda one: f"{100 * one['truncated']:.1f}%"),
    ("pairs won", lambda one: _won(one, "rate", "interval")),
    ("  at equal lengths", lambda one: _won(one, "at_equal_lengths", "at_equal_lengths_interval")),
    ("  ties, judged inconsistently", _ties),
    ("F1 of words", lambda one: f"{one['word_f1']:.2f}"),
)


Reports: TypeAlias = Mapping[str, Mapping[str, Any]]  # by the names of their points


def refuse_plot(picture: Path, *sources: Path | None) -> None:
    """Raises `Refused` for a picture that cannot be written, or that is not a PNG.

    `sources` are what the command reads, and what else it writes.
    """
    if picture.suffix.lower() != ".png":
        raise Refused(f"--plot writes a file that ends in .png, not {picture}", EXIT_USAGE)
    for place in (picture, data_of(picture)):
        refuse_unwritable(place, *sources)
        if any(other is not None and other.resolve() == place.resolve() for other in sources):
            raise Refused(f"--plot {picture} writes {place}, too: choose another name for one of them", EXIT_USAGE)


def draw_reports(place: Path, reports: Reports) -> None:
    """Draw reports by name, and write their points next to the picture. Raises `Refused`."""
    from pastalang.training.errors import BadData
    from pastalang.training.thread_eval import draw, point_of

    try:
        points = [point_of(name, _part(report, "reports")) for name, report in reports.items()]
        bases = {str(one.get("baseline")): one for one in reports.values() if BASELINE in one}
        points += [
            point_of(_name_apart(short_name(base), reports), _part(one, BASELINE))
            for base, one in bases.items() if reports.get(short_name(base), {}).get("model") != base
        ]  # fmt: skip
        picture = draw(points)
    except BadData as problem:
        raise Refused(f"--plot: {problem}", EXIT_PROBLEMS) from problem
    try:
        place.write_bytes(picture)
    except OSError as problem:
        raise unwritable(place, problem) from problem
    write_file(data_of(place), json.dumps([asdict(one) for one in points], indent=2, ensure_ascii=False) + "\n")


def _name_apart(name: str, others: Reports) -> str:
    """The name of a baseline that a model may share."""
    return f"{name}, baseline" if name in others else name


def data_of(picture: Path) -> Path:
    """The file of the points that a picture shows."""
    return picture.with_suffix(".json")


def _part(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = report.get(name)
    return found.get(ALL, {}) if isinstance(found, Mapping) else {}


def short_name(model: str) -> str:
    """The name of a model without its folder or its owner."""
    return Path(model).name or model


def place_of(added: str) -> tuple[str | None, Path]:
    """The name and the file of `NAME=FILE` or `FILE`. Raises `Refused`."""
    name, is_named, place = added.partition("=")
    if not is_named or Path(added).is_file():
        return None, Path(added)
    if not name or not place:
        raise Refused(f"--add takes FILE or NAME=FILE, not {added}", EXIT_USAGE)
    return name, Path(place)


def read_reports(added: Sequence[str], *, measured: str | None = None) -> Reports:
    """The reports of `NAME=FILE`, or of `FILE`, which has the name of its model. Raises `Refused`.

    `measured`: the name that the report of this command will have.
    """
    from pastalang.training.errors import BadData
    from pastalang.training.thread_eval import point_of

    found: dict[str, Mapping[str, Any]] = {}
    for one in added:
        name, file = place_of(one)
        try:
            report = json.loads(file.read_text(encoding="utf-8"))
        except OSError as problem:
            raise Refused(f"--add {file}: {reason_of(problem)}", EXIT_UNREADABLE) from problem
        except ValueError:
            report = None
        key = name or short_name(str(report.get("model") if isinstance(report, dict) else file))
        try:
            point_of(key, _part(report if isinstance(report, dict) else {}, "reports"))
        except BadData as problem:
            reason = "it is not a report of `pasta evaluate threads --out`"
            raise Refused(f"--add {file}: {reason}", EXIT_PROBLEMS) from problem
        if key in found or key == measured:
            raise Refused(f"--add: two reports have the name {key}; write NAME=FILE", EXIT_USAGE)
        found[key] = report
    return found
