"""Answers with threads, measured: how much faster they are, whether their tags act, and whether they are right.

theoretical   tokens of the answer written without threads, for each pass on the longest path through the threads
realised      seconds without threads, for each second with them; needs a model that answers without threads
trade-off     reports as points, and their picture; a line joins the points that no other one beats

A judge gets the inputs and two answers and returns which is better: `first`, `second` or `tie`, alone or with its
confidence between 0 and 1. Judges prefer what stands in one place, and what is longer. So a pair is won only if it is
won in both places, and the win rate at equal lengths is what a logistic curve over the difference of lengths says of
answers that are equally long.
"""

from __future__ import annotations

import io
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from pastalang.failures import PastaError
from pastalang.plan.branches import THREAD
from pastalang.plan.plan import Plan
from pastalang.program.types import AutoPolicy, Drafts, Sampling
from pastalang.runtime.answer_parts import FieldResult
from pastalang.runtime.constraints.tagged_text import Begin, Reading, Tag, reader_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.runtime.result import Result
from pastalang.runtime.trace import ROOT_LANE
from pastalang.training.data import Row
from pastalang.training.errors import BadData, raised
from pastalang.training.metrics import Interval, interval_of_mean, report_on_texts

Parts: TypeAlias = Mapping[str, tuple[float, float]]  # of an answer: how many parts of each kind are right, of how many
Score: TypeAlias = Callable[[Mapping[str, Any], str], Parts]  # of the inputs and the text of the answer

_MARKS = {
    AutoPolicy.PASTA: re.compile(r"</?async|<promise|<sync"),
    AutoPolicy.APAR: re.compile(r"\[Fork\]|\[Child\]"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One answer and what it cost.

    `written` are the tokens of the text without its tags, with its end if the model wrote it, and with the thought
    before it. `drawn` are all that were drawn, `path` those on the longest path through the threads. The model has
    `begun` that many tags, of which some `act`. `announced` are pairs: the room of a promise, and what its thread took
    of it. `cells` are those that were taken in all; `plain_cells` and `plain_attended` are those of the same text
    written from left to right.
    """

    origin: str
    category: str
    text: str
    truncated: bool
    written: int
    drawn: int
    path: int
    passes: int
    seconds: float
    processor_seconds: float
    drafts: int
    confirmed: int
    threads: int
    begun: int
    act: int
    announced: tuple[tuple[int, int], ...]
    peak_cells: int
    cells: int
    attended: float
    plain_cells: int
    plain_attended: float
    parts: Parts = field(default_factory=dict)


def answer_rows(
    engine: Engine, plan: Plan, rows: Sequence[Row], *, batch: int = 1, rounds: int = 1,
    sampling: Sampling | None = None, drafts: Drafts | None = None, score: Score | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[Answered | str]:  # fmt: skip
    """An answer for each row, or why there is none. Of several `rounds`, the fastest counts; all have the same answers.

    Each row has a seed of its own, whatever the `batch`. Requests of a batch share their seconds equally.
    """
    found: list[Answered | str] = []
    for first in range(0, len(rows), batch):
        chunk = rows[first : first + batch]
        results, seconds, processor = _fastest(
            engine, plan, chunk, rounds, range(first, first + len(chunk)), sampling, drafts
        )
        for row, result in zip(chunk, results, strict=True):
            if isinstance(result, PastaError):
                found.append(f"{row.origin}: {result}")
                continue
            found.append(_answered(engine, plan, row, result, seconds / len(chunk), processor / len(chunk), score))
        if on_progress is not None:
            on_progress(len(found))
    return found


def _fastest(
    engine: Engine, plan: Plan, rows: Sequence[Row], rounds: int, seeds: Sequence[int], sampling: Sampling | None,
    drafts: Drafts | None,
) -> tuple[list[Result | PastaError], float, float]:  # fmt: skip
    best: tuple[list[Result | PastaError], float, float] | None = None
    for _ in range(rounds):
        began, used = time.perf_counter(), time.process_time()
        results = engine.batch(
            plan, [row.inputs for row in rows], seeds=seeds, any_mode=True, sampling=sampling, drafts=drafts,
            on_truncated="keep",
        )  # fmt: skip
        seconds, processor = time.perf_counter() - began, time.process_time() - used
        if best is None or processor < best[2]:
            best = list(results), seconds, processor
    assert best is not None, "at least one round"
    return best


def _answered(
    engine: Engine, plan: Plan, row: Row, result: Result, seconds: float, processor: float, score: Score | None
) -> Answered:
    assert plan.auto is not None
    encoder, usage = engine.encoder, result.usage
    main = next(field for field in result.fields if field.path != THREAD)
    threads = [field for field in result.fields if field.path == THREAD]
    begun, tags, act = _tags(plan.auto, encoder, main, threads)
    thought = sum(one.lane == ROOT_LANE for one in result.trace.drawn) - len(main.tokens)
    written = max(1, len(encoder.text(result.text)) + (not main.truncated)) + thought  # without tags, at least its end
    return Answered(
        origin=row.origin,
        category=row.category,
        text=result.text,
        truncated=any(field.truncated for field in result.fields),
        written=written,
        drawn=usage.output_tokens,
        path=usage.critical_path,
        passes=usage.forward_passes,
        seconds=seconds,
        processor_seconds=processor,
        drafts=usage.drafted_tokens,
        confirmed=usage.confirmed_tokens,
        threads=len(threads),
        begun=tags,
        act=act,
        announced=_announced(plan.auto, encoder, begun, threads),
        peak_cells=usage.peak_cells,
        cells=usage.input_tokens + usage.forced_tokens + usage.output_tokens - _never_fed(encoder, result),
        attended=usage.attended_tokens,
        plain_cells=usage.input_tokens + written - 1,
        plain_attended=usage.input_tokens + (written - 1) / 2,
        parts={} if score is None else parts_of(score, row, result.text),
    )


def _never_fed(encoder: Encoder, result: Result) -> int:
    """How many drawn tokens take no cell: the end of the turn, and the last one of what nothing goes on from."""
    seen = {lane for join in result.trace.joins for lane in join.joined}
    last = {one.lane: one.token for one in result.trace.drawn}
    return sum(lane not in seen or token in encoder.ends for lane, token in last.items())


def parts_of(score: Score, row: Row, text: str) -> Parts:
    """What a function of the user counts. Raises `BadData`, with the row, if it fails or if these are no counts."""
    try:
        found = score(dict(row.inputs), text)
    except Exception as problem:
        raise BadData(f"{row.origin}: the score raises {raised(problem)}") from problem
    try:
        parts = {str(name): (right, every) for name, (right, every) in found.items()}
        if all(0 <= right <= every < math.inf for right, every in parts.values()):
            return parts
    except (AttributeError, TypeError, ValueError):
        pass
    raise BadData(
        f"{row.origin}: the score returns how many parts of each kind are right, of how many, such as "
        f'{{"items": (7, 8)}}; not {found!r:.60}'
    )


def _tags(
    policy: AutoPolicy, encoder: Encoder, main: FieldResult, threads: Sequence[FieldResult]
) -> tuple[tuple[Begin, ...], int, int]:
    """The threads that were begun, how many tags the model began to write, and how many of them act."""
    raw = encoder.decode(main.tokens)
    reader = reader_of(policy, in_thread=False)
    acting: list[Tag] = [tag for _, tag in reader.finish(reader.read(Reading(), raw)).found]
    tags, act = len(_MARKS[policy].findall(raw)), len(acting)
    for thread in threads:
        ends = not thread.truncated
        inside = len(_MARKS[policy].findall(encoder.decode(thread.tokens)))
        tags += max(inside, 1) if policy is AutoPolicy.PASTA else inside + 1
        act += ends
    return tuple(tag for tag in acting if isinstance(tag, Begin)), tags, act


def _announced(
    policy: AutoPolicy, encoder: Encoder, begun: Sequence[Begin], threads: Sequence[FieldResult]
) -> tuple[tuple[int, int], ...]:
    if policy is not AutoPolicy.PASTA:
        return ()
    opening = len(encoder.control("<async>"))
    return tuple((tag.tokens, opening + len(thread.tokens)) for tag, thread in zip(begun, threads, strict=False))


# ── together ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadReport:
    """Scores of many answers; shares are between 0 and 1. Intervals hold 95 % of the resampled means.

    Speeds are geometric means. `realised` is in processor seconds, `realised_wall` by the clock; None without a
    baseline. `control` is the share of drawn tokens that are tags, and `room` is what was announced against what was
    taken. `quality_of` names what `quality` is the share of: the parts that are right, else the pairs that are won at
    equal lengths, else the F1 of words. Of each of the `parts`: the share that is right, with its interval, and of how
    many.
    """

    answers: int
    failed: int
    theoretical: float
    theoretical_interval: Interval
    realised: float | None
    realised_wall: float | None
    tokens_per_pass: float
    control: float
    threads: float
    tags_that_act: float | None
    room: Mapping[str, float]
    truncated: float
    word_f1: float
    parts: Mapping[str, tuple[float, Interval, float]]
    judged: WinRate | None
    quality_of: str
    quality: float
    quality_interval: Interval
    peak_cells: float
    peak_without_release: float
    peak_plain: float
    attended: float
    attended_plain: float


def report_on(
    answers: Sequence[Answered | str], rows: Sequence[Row], *, baseline: Sequence[Answered | str] | None = None,
    verdicts: Sequence[Verdict | None] | None = None,
) -> ThreadReport:  # fmt: skip
    """`baseline` are answers to the same rows without threads. Only rows that both have answered count for speed.

    `verdicts` are those of `judged` on the same rows.
    """
    given = [one for one in answers if isinstance(one, Answered)]
    if not given:
        raise ValueError("no row was answered")
    others: Sequence[Answered | str] = answers if baseline is None else baseline
    pairs = [(one, other) for one, other in zip(answers, others, strict=True)
             if isinstance(one, Answered) and isinstance(other, Answered)]  # fmt: skip
    speed = [math.log(other.written / max(1, one.path)) for one, other in pairs]
    announced = [pair for one in given for pair in one.announced]
    texts = [(row.answer.plain_texts[0], one.text if isinstance(one, Answered) else None)
             for row, one in zip(rows, answers, strict=True)]  # fmt: skip
    rate = win_rate([one for one in verdicts or () if one is not None])
    f1 = [report_on_texts([pair], truncated=0).reported.f1 / 100 for pair in texts]
    quality_of, quality, interval = _quality(given, rate, f1)
    drawn = max(1, sum(one.drawn for one in given))
    return ThreadReport(
        answers=len(given),
        failed=len(answers) - len(given),
        theoretical=math.exp(_mean(speed)),
        theoretical_interval=_exp(interval_of_mean(speed)),
        realised=_ratio(pairs, lambda one: one.processor_seconds) if baseline is not None else None,
        realised_wall=_ratio(pairs, lambda one: one.seconds) if baseline is not None else None,
        tokens_per_pass=sum(one.drawn for one in given) / max(1, sum(one.path for one in given)),
        control=1 - sum(min(one.written, one.drawn) for one in given) / drawn,
        threads=_mean(one.threads for one in given),
        tags_that_act=_share(sum(one.act for one in given), sum(one.begun for one in given)),
        room=_room(announced),
        truncated=_mean(one.truncated for one in given),
        word_f1=report_on_texts(texts, truncated=0).reported.f1,
        parts=_parts(given),
        judged=rate,
        quality_of=quality_of,
        quality=quality,
        quality_interval=interval,
        peak_cells=_mean(one.peak_cells for one in given),
        peak_without_release=_mean(one.cells for one in given),
        peak_plain=_mean(one.plain_cells for one in given),
        attended=_mean(one.attended for one in given),
        attended_plain=_mean(one.plain_attended for one in given),
    )


def by_category(
    answers: Sequence[Answered | str], rows: Sequence[Row], *, baseline: Sequence[Answered | str] | None = None,
    verdicts: Sequence[Verdict | None] | None = None,
) -> Iterator[tuple[str, ThreadReport]]:  # fmt: skip
    """A report for each category of the rows, in their order."""
    for name in dict.fromkeys(row.category for row in rows):
        chosen = [number for number, row in enumerate(rows) if row.category == name]
        some = None if baseline is None else [baseline[number] for number in chosen]
        given = [answers[number] for number in chosen]
        if any(isinstance(one, Answered) for one in given):
            judged = None if verdicts is None else [verdicts[number] for number in chosen]
            yield name, report_on(given, [rows[number] for number in chosen], baseline=some, verdicts=judged)


def judged(
    judge: Judge, answers: Sequence[Answered | str], rows: Sequence[Row], *,
    baseline: Sequence[Answered | str] | None = None,
) -> list[Verdict | None]:  # fmt: skip
    """Each answer against that of the baseline, or against the right one. None where there are not both.

    Raises `BadData`, with the row, if the function fails or if this is no verdict.
    """
    others = [row.answer.plain_texts[0] for row in rows] if baseline is None else baseline
    return [
        None if isinstance(one, str) or (baseline is not None and isinstance(other, str))
        else verdict_for(judge, row, one.text, other if isinstance(other, str) else other.text)
        for row, one, other in zip(rows, answers, others, strict=True)
    ]  # fmt: skip


def verdict_for(judge: Judge, row: Row, answer: str, other: str) -> Verdict:
    """Raises `BadData`, with the row, if the judge fails."""
    try:
        return verdict_on(judge, row.inputs, answer, other)
    except BadData as problem:
        raise BadData(f"{row.origin}: {problem}") from problem


@dataclass(frozen=True, slots=True)
class DraftReport:
    """The same answers, with drafts: passes of an answer, and for each second with drafts the seconds without."""

    passes: float
    passes_without: float
    confirmed: float  # the share of drafts that were right
    processor: float
    clock: float
    same: int
    answers: int


def with_drafts(answers: Sequence[Answered | str], drafted: Sequence[Answered | str]) -> DraftReport:
    pairs = [(one, other) for one, other in zip(drafted, answers, strict=True)
             if isinstance(one, Answered) and isinstance(other, Answered)]  # fmt: skip
    return DraftReport(
        passes=_mean(one.passes for one, _ in pairs),
        passes_without=_mean(other.passes for _, other in pairs),
        confirmed=sum(one.confirmed for one, _ in pairs) / max(1, sum(one.drafts for one, _ in pairs)),
        processor=_ratio(pairs, lambda one: one.processor_seconds),
        clock=_ratio(pairs, lambda one: one.seconds),
        same=sum(one.text == other.text for one, other in pairs),
        answers=len(pairs),
    )


def _quality(answers: Sequence[Answered], rate: WinRate | None, f1: Sequence[float]) -> tuple[str, float, Interval]:
    counts = [
        (sum(right for right, _ in one.parts.values()), sum(of for _, of in one.parts.values())) for one in answers
    ]
    shares = [right / of for right, of in counts if of]
    if shares:
        return "parts that are right", _mean(shares), interval_of_mean(shares)
    if rate is not None:
        return "win rate at equal lengths", rate.at_equal_lengths, rate.at_equal_lengths_interval
    return "F1 of words", _mean(f1), interval_of_mean(f1)


def _parts(answers: Sequence[Answered]) -> Mapping[str, tuple[float, Interval, float]]:
    names = dict.fromkeys(name for one in answers for name in one.parts)
    found = {}
    for name in names:
        counts = [one.parts[name] for one in answers if one.parts.get(name, (0, 0))[1]]
        right, every = (sum(values) for values in zip(*counts, strict=True)) if counts else (0, 0)
        found[name] = (_share(right, every) or 0.0, interval_of_mean([one / all for one, all in counts]), every)
    return found


def _room(announced: Sequence[tuple[int, int]]) -> Mapping[str, float]:
    if not announced:
        return {}
    return {
        "announced": _mean(room for room, _ in announced),
        "taken": _mean(taken for _, taken in announced),
        "enough": _mean(taken <= room for room, taken in announced),
        "exact to ten": _mean(room == -(-taken // 10) * 10 for room, taken in announced),
    }


def _ratio(pairs: Sequence[tuple[Answered, Answered]], seconds: Callable[[Answered], float]) -> float:
    """The geometric mean of how much longer a token of the baseline's answer takes."""
    return math.exp(_mean(math.log(seconds(other) / max(1e-9, seconds(one))) for one, other in pairs))


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _mean(values: Any) -> float:
    listed = [float(value) for value in values]
    return sum(listed) / len(listed) if listed else 0.0


def _exp(interval: Interval) -> Interval:
    return math.exp(interval[0]), math.exp(interval[1])


# ── pairs of answers ─────────────────────────────────────────────────────────────────────────────────────────


Judge: TypeAlias = Callable[[Mapping[str, Any], str, str], str | tuple[str, float]]

FIRST, SECOND, TIE = "first", "second", "tie"
_WON: Final = {FIRST: 1.0, TIE: 0.5, SECOND: 0.0}  # by the answer that stands first
_LEAST_LOSS: Final = 0.1
_RESAMPLES: Final = 200
_STEPS: Final = 25  # of Newton's method, which needs about five
_CLOSE: Final = 1e-9  # a step that changes nothing any more
_HELD: Final = 1e-3  # what keeps the slope finite where all longer answers win


@dataclass(frozen=True, slots=True)
class Verdict:
    """`share` of the win: 1, 0.5 for a tie, or 0. `longer`: by how many characters the answer is longer.

    `won` and `lost` are the confidence of the judge in the orders in which the answer was better, and was worse. A tie
    counts half for either.
    """

    share: float
    is_consistent: bool
    longer: int
    won: float = 0.0
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class WinRate:
    """`inconsistent` pairs, which are ties, were judged differently in the two orders."""

    pairs: int
    wins: int
    ties: int
    inconsistent: int
    rate: float
    interval: Interval
    at_equal_lengths: float
    at_equal_lengths_interval: Interval


def verdict_on(judge: Judge, inputs: Mapping[str, Any], answer: str, other: str) -> Verdict:
    """Raises `BadData` if the judge fails, and for what is no verdict."""
    once, sure_once = _asked(judge, inputs, answer, other)
    again, sure_again = _asked(judge, inputs, other, answer)
    is_won, is_lost = (once, again) == (FIRST, SECOND), (once, again) == (SECOND, FIRST)
    return Verdict(
        share=1.0 if is_won else 0.0 if is_lost else 0.5,
        is_consistent=is_won or is_lost or once == again == TIE,
        longer=len(answer) - len(other),
        won=sure_once * _WON[once] + sure_again * (1 - _WON[again]),
        lost=sure_once * (1 - _WON[once]) + sure_again * _WON[again],
    )


def _asked(judge: Judge, inputs: Mapping[str, Any], first: str, second: str) -> tuple[str, float]:
    """The verdict, and how sure the judge is of it: wholly, if it does not say."""
    try:
        found = judge(dict(inputs), first, second)
    except Exception as problem:
        raise BadData(f"the judge raises {raised(problem)}") from problem
    match found:
        case str(verdict) if verdict in _WON:
            return verdict, 1.0
        case (str(verdict), int() | float() as confidence) if verdict in _WON and 0 <= confidence <= 1:
            return verdict, float(confidence)
    raise BadData(
        f"the judge returns first, second or tie, or one of them with a confidence between 0 and 1, not {found!r:.60}"
    )


def win_loss_ratio(verdicts: Sequence[Verdict]) -> float:
    """The confidence in wins for each of that in losses. Few losses count as a tenth of a sure one, so that the ratio
    stays finite."""
    return sum(one.won for one in verdicts) / max(_LEAST_LOSS, sum(one.lost for one in verdicts))


def win_rate(verdicts: Sequence[Verdict]) -> WinRate | None:
    """None without verdicts."""
    if not verdicts:
        return None
    shares = np.array([one.share for one in verdicts])
    longer = np.array([one.longer for one in verdicts], dtype=np.float64)
    random = np.random.default_rng(0)
    draws = random.integers(0, len(shares), (_RESAMPLES, len(shares)))
    controlled = sorted(_at_equal_lengths(shares[draw], longer[draw]) for draw in draws)
    return WinRate(
        pairs=len(verdicts),
        wins=sum(one.share == 1 for one in verdicts),
        ties=sum(one.share == 0.5 for one in verdicts),
        inconsistent=sum(not one.is_consistent for one in verdicts),
        rate=float(shares.mean()),
        interval=interval_of_mean(shares.tolist()),
        at_equal_lengths=_at_equal_lengths(shares, longer),
        at_equal_lengths_interval=(controlled[int(0.025 * _RESAMPLES)], controlled[int(0.975 * _RESAMPLES) - 1]),
    )


def _at_equal_lengths(shares: NDArray[np.float64], longer: NDArray[np.float64]) -> float:
    """The rate where a logistic curve over the difference of lengths crosses zero.

    Half a win and half a loss at equal lengths are added, so that it stays finite where one side wins everything.
    """
    spread = float(longer.std()) or 1.0
    x = np.column_stack([np.ones(len(longer) + 1), np.append(np.tanh(longer / spread), 0.0)])
    y, held = np.append(shares, 0.5), np.diag([0.0, _HELD])
    weights = np.zeros(2)
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (y - p) - held @ weights
        curve = x.T @ (x * (p * (1 - p))[:, None]) + held + 1e-9 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        weights += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < _CLOSE:
            break
    return 1 / (1 + math.exp(-float(weights[0])))


# ── the trade-off ────────────────────────────────────────────────────────────────────────────────────────────


_WIDTH, _HEIGHT = 1280, 800
_LEFT, _RIGHT, _TOP, _BOTTOM = 130, 60, 90, 110
_INK, _GREY, _BEST, _OTHER = "#222222", "#dddddd", "#0b6e4f", "#8a8a8a"
_LINES: Final = 5  # of the grid in each direction, about
_Axis: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """`speed` is the theoretical speed-up; `quality_of` says what `quality` is, between 0 and 1."""

    name: str
    speed: float
    speed_interval: Interval
    quality_of: str
    quality: float
    quality_interval: Interval


def point_of(name: str, report: Mapping[str, Any]) -> Point:
    """Of a report as data. Raises `BadData` for what is not one."""
    try:
        point = Point(
            name, float(report["theoretical"]), _interval(report["theoretical_interval"]), str(report["quality_of"]),
            float(report["quality"]), _interval(report["quality_interval"]),
        )  # fmt: skip
        if not all(map(math.isfinite, (point.speed, *point.speed_interval, point.quality, *point.quality_interval))):
            raise ValueError("a figure is not finite")
        return point
    except (KeyError, TypeError, ValueError) as problem:
        raise BadData(f"{name} is not a report of `pasta evaluate threads --out`") from problem


def best_of(points: Sequence[Point]) -> list[Point]:
    """The points that no other one beats in one of the two and equals in the other, from slow to fast."""
    best = [one for one in points if not any(_beats(other, one) for other in points)]
    return sorted(best, key=lambda one: (one.speed, one.quality))


def _beats(one: Point, other: Point) -> bool:
    at_least = one.speed >= other.speed and one.quality >= other.quality
    return at_least and (one.speed, one.quality) != (other.speed, other.quality)


def _interval(found: Any) -> Interval:
    low, high = found
    return float(low), float(high)


def draw(points: Sequence[Point]) -> bytes:
    """A PNG. Raises `BadData` if the points do not measure the same quality."""
    kinds: dict[str, list[str]] = {}
    for one in points:
        kinds.setdefault(one.quality_of, []).append(one.name)
    if len(kinds) > 1:
        shown = "; ".join(f"{kind} of {', '.join(names)}" for kind, names in kinds.items())
        raise BadData(f"the reports measure different things: {shown}. Measure all with the same --score or --judge")
    picture = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    across = _axis_of([x for one in points for x in (one.speed, *one.speed_interval)])
    up = _axis_of([y for one in points for y in (one.quality, *one.quality_interval)])
    _Drawing(ImageDraw.Draw(picture), across, up).draw(points, next(iter(kinds)))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def _axis_of(values: Sequence[float]) -> _Axis:
    """With some room on both sides, also if all values are the same."""
    low, high = min(values), max(values)
    room = (high - low) * 0.12 or max(abs(high), 1.0) * 0.05
    return low - room, high + room


def _ticks(axis: _Axis) -> list[float]:
    """Round numbers within an axis."""
    low, high = axis
    rough = (high - low) / _LINES
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    return [round(number * step, 9) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


@dataclass(frozen=True)
class _Drawing:
    pen: ImageDraw.ImageDraw
    across: _Axis
    up: _Axis

    def draw(self, points: Sequence[Point], quality: str) -> None:
        self._text(_LEFT, 18, "Speed and quality of answers with threads", size=30)
        self._text(_LEFT, _HEIGHT - 48, "across: theoretical speed-up, with 95% intervals")
        self._text(_LEFT, 58, f"up: {quality}")
        self._grid()
        best = best_of(points)
        self.pen.line([self._place(one.speed, one.quality) for one in best], fill=_BEST, width=3)
        for one in points:
            self._point(one, _BEST if one in best else _OTHER)

    def _grid(self) -> None:
        left, bottom = _LEFT, _HEIGHT - _BOTTOM
        for speed in _ticks(self.across):
            x, _ = self._place(speed, self.up[0])
            self.pen.line([(x, _TOP), (x, bottom)], fill=_GREY)
            self._text(x - 20, bottom + 10, f"{speed:g}x")
        for quality in _ticks(self.up):
            _, y = self._place(self.across[0], quality)
            self.pen.line([(left, y), (_WIDTH - _RIGHT, y)], fill=_GREY)
            self._text(30, y - 12, f"{100 * quality:g}%")

    def _point(self, one: Point, colour: str) -> None:
        x, y = self._place(one.speed, one.quality)
        self.pen.line([self._place(speed, one.quality) for speed in one.speed_interval], fill=colour, width=2)
        self.pen.line([self._place(one.speed, quality) for quality in one.quality_interval], fill=colour, width=2)
        self.pen.ellipse([x - 8, y - 8, x + 8, y + 8], fill=colour)
        self._text(x + 14, y - 34, one.name, colour=colour)

    def _place(self, speed: float, quality: float) -> tuple[float, float]:
        across, up = ((value - low) / (high - low) for value, (low, high) in ((speed, self.across), (quality, self.up)))
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    def _text(self, x: float, y: float, text: str, *, size: int = 20, colour: str = _INK) -> None:
        self.pen.text((x, y), text, fill=colour, font=ImageFont.load_default(size))
