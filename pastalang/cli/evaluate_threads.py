"""`pasta evaluate threads`: how fast answers with threads are, whether their tags act, whether they are right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pastalang.cli.exit_codes import EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.import_model import find_model
from pastalang.cli.model_source import load_engine, refuse_hub, refuse_model
from pastalang.cli.output import echo_error, write_file
from pastalang.plan.plan import Plan
from pastalang.program.types import Drafts, Sampling

if TYPE_CHECKING:
    from pastalang.runtime.engine import Engine
    from pastalang.training.data import Row
    from pastalang.training.row_files import RowFile
    from pastalang.training.thread_eval import Answered, Score

ALL, BASELINE = "all", "baseline reports"


@dataclass(frozen=True, slots=True)
class Wish:
    """`baseline`: a model that answers without threads. `score` and `judge` are functions, as `module:function`: one
    counts what is right, one says which of two answers is better. `drafts`: decode once more, with these.
    """

    model: str
    plan: Plan
    data: RowFile
    any_mode: bool
    batch: int
    rounds: int
    sampling: Sampling | None
    baseline: str | None
    score: str | None
    judge: str | None
    drafts: Drafts | None
    predictions: Path | None
    device: str | None
    cells: int
    on_progress: Callable[[int], Callable[[int], None] | None]


def evaluate_threads(wish: Wish) -> dict[str, Any]:
    """The report as data: one for all rows, and one for each category. Raises `Refused`."""
    if wish.plan.auto is None:
        raise Refused("`evaluate threads` is for programs with `assistant auto(...)`", EXIT_USAGE)
    score = None if wish.score is None else function_named("--score", wish.score)
    judge = None if wish.judge is None else function_named("--judge", wish.judge)
    for model in (wish.model, wish.baseline):
        if model is not None:
            refuse_model(model)
            refuse_hub(model)
    with ctrl_c_exits_at_once():
        from pastalang.runtime.models.training_note import check_mode, check_overrun, check_threads
        from pastalang.training.data import read_checked
        from pastalang.training.thread_eval import by_category, judged, report_on, with_drafts

    rows = read_checked(wish.data, wish.plan, note=echo_error)
    engine = load_engine(wish.model, device=wish.device, cells=wish.cells)
    if not wish.any_mode:
        check_mode(engine.trained_for, wish.plan.mode)
        check_threads(engine.trained_for, wish.plan)
        check_overrun(engine.trained_for, wish.plan)
    answers = _answers(wish, engine, wish.model, rows, score)
    if not any(not isinstance(one, str) for one in answers):
        raise Refused(f"no row was answered: {answers[0]}", 1)
    drafted = None if wish.drafts is None else _answers(wish, engine, wish.model, rows, score, wish.drafts)
    del engine
    baseline = None
    if wish.baseline is not None:
        plain = load_engine(wish.baseline, device=wish.device, cells=wish.cells)
        baseline = _answers(wish, plain, wish.baseline, rows, score)
    if wish.predictions is not None:
        lines = (
            json.dumps({"value": None if isinstance(one, str) else one.text}, ensure_ascii=False) for one in answers
        )
        write_file(wish.predictions, "".join(line + "\n" for line in lines))
    verdicts = None if judge is None else judged(judge, answers, rows, baseline=baseline)
    found = {ALL: report_on(answers, rows, baseline=baseline, verdicts=verdicts)}
    if len({row.category for row in rows}) > 1:
        found |= dict(by_category(answers, rows, baseline=baseline, verdicts=verdicts))
    report: dict[str, Any] = {
        "model": wish.model, "baseline": wish.baseline, "policy": wish.plan.auto.value, "batch": wish.batch,
        "rounds": wish.rounds, "rows": len(rows), "reports": {name: one.as_data() for name, one in found.items()},
    }  # fmt: skip
    if drafted is not None:
        report["drafts"] = {"given": wish.drafts, **asdict(with_drafts(answers, drafted))}
    if baseline is not None:
        report[BASELINE] = {ALL: report_on(baseline, rows).as_data()}
    return report


def _answers(
    wish: Wish, engine: Engine, model: str, rows: list[Row], score: Score | None, drafts: Drafts | None = None
) -> list[Answered | str]:
    from pastalang.training.thread_eval import answer_rows

    found = answer_rows(
        engine, wish.plan, rows, batch=wish.batch, rounds=wish.rounds, sampling=wish.sampling, score=score,
        drafts=drafts or "off", on_progress=wish.on_progress(len(rows)),
    )  # fmt: skip
    for one in found:
        if isinstance(one, str):
            echo_error(f"{model}: not decoded: {one}")
    return found


def function_named(option: str, name: str) -> Callable[..., Any]:
    """`package.module:function`, from the current folder or installed. Raises `Refused`, which names the option."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise Refused(f"{option} is written MODULE:FUNCTION, not {name}", EXIT_USAGE)
    try:
        found = find_model(module, function)
    except Refused as problem:
        raise Refused(f"{option} {name}: {problem.message}", problem.code) from problem
    if not callable(found):
        raise Refused(f"{option} {name}: {function} cannot be called", EXIT_USAGE)
    called: Callable[..., Any] = found
    return called


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
            ("without threads: cut by a limit", [f"{100 * base['truncated']:.1f} %"]),
            ("  F1 of words", [f"{base['word_f1']:.2f}"]),
            *((f"  right: {name}", [_right(part)]) for name, part in base["parts"].items()),
        ]
    if (drafts := report.get("drafts")) is not None:
        lines += [
            ("with drafts: passes", [f"{drafts['passes']:.1f}, without {drafts['passes_without']:.1f}"]),
            ("  speed-up, processor time", [f"{drafts['processor']:.2f}x"]),
            ("  drafts that were right", [f"{100 * drafts['confirmed']:.1f} %"]),
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
    return f"{100 * share:.1f} % ({100 * low:.0f}-{100 * high:.0f})"


def _times(one: Any, name: str) -> str:
    return "" if one[name] is None else f"{one[name]:.2f}x"


def _theoretical(one: Any) -> str:
    low, high = one["theoretical_interval"]
    return f"{one['theoretical']:.2f}x ({low:.2f}-{high:.2f})"


def _room(one: Any, name: str, percent: bool) -> str:
    if not one["room"]:
        return ""
    return f"{100 * one['room'][name]:.1f} %" if percent else f"{one['room'][name]:.1f}"


def _compared(one: Any, other: str, mine: str) -> str:
    """Another figure, and by how much this one is above or below it."""
    return f"{one[other]:.1f} ({100 * (one[mine] / one[other] - 1):+.1f} %)" if one[other] else ""


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
    ("tokens drawn for tags", lambda one: f"{100 * one['control']:.1f} %"),
    ("tags that act", lambda one: "" if one["tags_that_act"] is None else f"{100 * one['tags_that_act']:.1f} %"),
    ("announced length", lambda one: _room(one, "announced", percent=False)),
    ("real length", lambda one: _room(one, "taken", percent=False)),
    ("announced rightly to ten", lambda one: _room(one, "exact to ten", percent=True)),
    ("peak cells", lambda one: f"{one['peak_cells']:.1f}"),
    ("  nothing released early", lambda one: _compared(one, "peak_without_release", "peak_cells")),
    ("  from left to right", lambda one: _compared(one, "peak_plain", "peak_cells")),
    ("attended tokens", lambda one: f"{one['attended']:.1f}"),
    ("  from left to right", lambda one: _compared(one, "attended_plain", "attended")),
    ("cut by a limit", lambda one: f"{100 * one['truncated']:.1f} %"),
    ("pairs won", lambda one: _won(one, "rate", "interval")),
    ("  at equal lengths", lambda one: _won(one, "at_equal_lengths", "at_equal_lengths_interval")),
    ("  ties, judged inconsistently", _ties),
    ("F1 of words", lambda one: f"{one['word_f1']:.2f}"),
)
