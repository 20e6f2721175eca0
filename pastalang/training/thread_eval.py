"""Answers with threads, measured: how much faster they are, whether their tags act, and whether they are right.

theoretical   tokens of the answer written without threads, for each pass on the longest path through the threads
realised      seconds without threads, for each second with them; needs a model that answers without threads
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pastalang.errors import PastaError
from pastalang.plan.plan import THREAD, Plan
from pastalang.program.types import AutoPolicy, Drafts, Sampling
from pastalang.runtime.constraints.tagged_text import Begin, Reading, Tag, reader_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.runtime.result import FieldResult, Result
from pastalang.runtime.trace import ROOT_LANE
from pastalang.training.data import Row
from pastalang.training.errors import BadData, raised
from pastalang.training.likelihood import Interval, interval_of_mean
from pastalang.training.metrics import report_on_texts
from pastalang.training.pairwise import Judge, Verdict, WinRate, verdict_on, win_rate

Parts: TypeAlias = Mapping[str, tuple[float, float]]  # of an answer: how many parts of each kind are right, of how many
Score: TypeAlias = Callable[[Mapping[str, Any], str], Parts]  # of the inputs and the text of the answer

_MARKS = {
    AutoPolicy.PASTA: re.compile(r"</?async|<promise|<sync"),
    AutoPolicy.APAR: re.compile(r"\[Fork\]|\[Child\]"),
}


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer and what it cost. `announced` are pairs: the room of a promise, and what its thread took of it.

    `tags` that the model began, and how many of them `act`. `written` are the tokens of the text without its tags, with
    its end if the model wrote it, and with the thought before it. `cells` are those that were taken in all;
    `plain_cells` and `plain_attended` are those of the same text written from left to right.
    """

    origin: str
    category: str
    text: str
    written: int
    drawn: int
    path: int
    passes: int
    seconds: float
    processor_seconds: float
    threads: int
    tags: int
    act: int
    announced: tuple[tuple[int, int], ...]
    truncated: bool
    peak_cells: int
    cells: int
    attended: float
    plain_cells: int
    plain_attended: float
    drafts: int
    confirmed: int
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
    written = len(encoder.text(result.text)) + (not main.truncated) + thought
    return Answered(
        origin=row.origin,
        category=row.category,
        text=result.text,
        written=written,
        drawn=usage.output_tokens,
        path=usage.critical_path,
        passes=usage.forward_passes,
        seconds=seconds,
        processor_seconds=processor,
        threads=len(threads),
        tags=tags,
        act=act,
        announced=_announced(plan.auto, encoder, begun, threads),
        truncated=any(field.truncated for field in result.fields),
        peak_cells=usage.peak_cells,
        cells=usage.input_tokens + usage.forced_tokens + usage.output_tokens - _never_fed(encoder, result),
        attended=usage.attended_tokens,
        plain_cells=usage.input_tokens + written - 1,
        plain_attended=usage.input_tokens + (written - 1) / 2,
        drafts=usage.drafted_tokens,
        confirmed=usage.confirmed_tokens,
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


@dataclass(frozen=True, slots=True)
class ThreadReport:
    """Scores of many answers; shares are between 0 and 1, speed-ups geometric means.

    `quality` is between 0 and 1, and `quality_of` says of what: the parts that are right, else the pairs that are won
    at equal lengths, else the F1 of words. `realised` is in processor seconds, `realised_wall` by the clock; None
    without a baseline. Intervals hold 95 % of the resampled means.
    """

    answers: int
    failed: int
    threads: float
    theoretical: float
    theoretical_interval: Interval
    realised: float | None
    realised_wall: float | None
    tokens_per_pass: float
    control: float  # the share of drawn tokens that are tags
    tags_that_act: float | None
    room: Mapping[str, float]  # announced against taken
    truncated: float
    word_f1: float
    parts: Mapping[str, tuple[float, Interval, float]]  # the share that is right, and of how many
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
    return ThreadReport(
        answers=len(given),
        failed=len(answers) - len(given),
        threads=_mean(one.threads for one in given),
        theoretical=math.exp(_mean(speed)),
        theoretical_interval=_exp(interval_of_mean(speed)),
        realised=_ratio(pairs, lambda one: one.processor_seconds) if baseline is not None else None,
        realised_wall=_ratio(pairs, lambda one: one.seconds) if baseline is not None else None,
        tokens_per_pass=sum(one.drawn for one in given) / max(1, sum(one.path for one in given)),
        control=1 - sum(min(one.written, one.drawn) for one in given) / max(1, sum(one.drawn for one in given)),
        tags_that_act=_share(sum(one.act for one in given), sum(one.tags for one in given)),
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
