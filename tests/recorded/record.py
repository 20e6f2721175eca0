"""What is kept of a run: everything a caller can see, as JSON. Long things are cut, with a digest of the whole."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pastalang
from tests.recorded.models import new_engine, shared_engine
from tests.recorded.runs import ROOT, Run, Way

TEXT = 400
VALUE = 80
FIELDS = 16
BRIEF = 160
SAID = ("FieldStarted", "TextDelta", "FieldDone", "FieldAgain", "Joined")
SHOWN = ("field", "branch", "items", "joined", "text", "truncated")  # never the words of a reason
COUNTS = (
    "input_tokens", "reused_tokens", "output_tokens", "forced_tokens", "forward_passes", "critical_path",
    "theoretical_speedup", "peak_cells", "attended_tokens", "repair_passes", "repair_tokens", "attempts",
)  # fmt: skip


def record(run: Run) -> dict[str, Any]:
    program = loaded(run.program)
    is_shared = run.way in (Way.STREAM, Way.BATCH) and not run.rig.kept
    engine = shared_engine(run.rig) if is_shared else new_engine(run.rig)
    found = [_brief(one) if run.is_brief else one for one in _outcomes(engine, program, run)]
    engine.check_integrity()
    return {"run": run.name, "how": run.how, "answers": found}


@cache
def loaded(program: Path) -> pastalang.Program:
    return pastalang.load(ROOT / program)


def _outcomes(engine: pastalang.Engine, program: pastalang.Program, run: Run) -> Iterator[dict[str, Any]]:
    inputs = run.inputs if isinstance(run.inputs, list) else [run.inputs]
    match run.way:
        case Way.STREAM:
            yield from (_streamed(list(_events(engine, program, one, run.options))) for one in inputs)
        case Way.BATCH:
            yield from (_outcome(one) for one in engine.batch(program, inputs, **run.options))
        case Way.TOGETHER:  # who joins whose pass is up to the threads, so what it cost is left out
            for one in asyncio.run(_together(engine, program, inputs, run.options)):
                yield {name: part for name, part in _outcome(one).items() if name not in ("usage", "trace")}
        case Way.IN_TURNS:
            yield from map(_streamed, _in_turns([_events(engine, program, one, run.options) for one in inputs]))
        case Way.LEFT:
            for one in inputs:
                events = engine.stream(program, one, **run.options)
                yield {"left after": [type(next(events)).__name__ for _ in range(3)]}
                events.close()  # type: ignore[attr-defined]
            yield _streamed(list(_events(engine, program, inputs[0], run.options)))


async def _together(
    engine: pastalang.Engine, program: pastalang.Program, inputs: list[Any], options: dict[str, Any]
) -> list[Any]:
    runs = (engine.arun(program, one, **options) for one in inputs)
    return await asyncio.gather(*runs, return_exceptions=True)


def _in_turns(streams: list[Iterator[Any]]) -> list[list[Any]]:
    """One event of each stream, then the next one of each, in one engine."""
    rounds = itertools.zip_longest(*streams)
    return [[event for event in events if event is not None] for events in zip(*rounds, strict=True)]


def _events(
    engine: pastalang.Engine, program: pastalang.Program, inputs: Any, options: dict[str, Any]
) -> Iterator[Any]:
    """The last one may be an error."""
    try:
        yield from engine.stream(program, inputs, **options)
    except pastalang.PastaError as problem:
        yield problem


def _streamed(events: list[Any]) -> dict[str, Any]:
    *events, last = events
    if isinstance(last, pastalang.PastaError):
        return _outcome(last)
    said = [[type(one).__name__, *(getattr(one, name) for name in SHOWN if hasattr(one, name))] for one in events]
    kinds = Counter(kind for kind, *_ in said)
    assert set(kinds) <= set(SAID), f"there is a new kind of event: {set(kinds) - set(SAID)}"
    outcome = _outcome(last.result if hasattr(last, "result") else last.error)
    return {**outcome, "events": [[kinds[kind] for kind in SAID], digest(said)]}


def _outcome(found: Any) -> dict[str, Any]:
    if isinstance(found, pastalang.Result):
        return _result(found)
    if not isinstance(found, pastalang.PastaError):
        raise found
    outcome = {"error": [type(found).__name__, getattr(found, "code", None), getattr(found, "field", None)]}
    if isinstance(result := getattr(found, "result", None), pastalang.Result):
        outcome |= {"problems": _problems(found)} | _result(result)
    return outcome


def _result(result: pastalang.Result) -> dict[str, Any]:
    logarithms = [one for field in result.fields for one in field.log_probabilities]
    thoughts = [thought for thought in result.thinking if thought is not None]
    return {
        "text": cut(result.text, TEXT),
        "value": cut(repr(result.value), VALUE),
        "exact": digest(json.dumps(result.exact, ensure_ascii=False, default=repr)),
        **_fields(result),
        # A sum in which every token has a weight of its own: tokens that change places change it.
        "likelihood": round(sum(one * (1 + at % 7) for at, one in enumerate(logarithms)), 6),
        **({"thinking": [cut(thought, VALUE) for thought in thoughts]} if thoughts else {}),
        **({"problems": _problems(result)} if result.problems else {}),
        "pieces": digest([values_of(answer.stretches) for answer in result.answers]),
        "usage": [round(getattr(result.usage, name), 6) for name in COUNTS],
        "trace": digest(values_of(result.trace)),
    }


def _brief(outcome: dict[str, Any]) -> dict[str, Any]:
    """The same, with its text cut and the values and fields as digests."""
    if "text" not in outcome:
        return outcome
    fields = [field[:3] for field in outcome["fields"]]
    return outcome | {
        "text": cut(outcome["text"], BRIEF), "value": digest(outcome["value"]),
        "fields": [len(fields), digest([fields, outcome.get("more fields")])],
    }  # fmt: skip


def _fields(result: pastalang.Result) -> dict[str, Any]:
    fields = [_field(one) for one in result.fields]
    more = [field[:3] for field in fields[FIELDS:]]
    return {"fields": fields[:FIELDS], **({"more fields": [len(more), digest(more)]} if more else {})}


def _field(field: pastalang.FieldResult) -> list[Any]:
    """Place and flags, number of tokens, digest of tokens and span, log-probability; then details, if there are any."""
    items = ".".join(map(str, field.items))
    flags = [
        *(["cut"] if field.truncated else []),
        *([f"attempt {field.attempts}"] if field.attempts != 1 else []),
        *(["problem"] if field.problem else []),
    ]
    found = [
        " ".join([field.path + (f"#{items}" if items else ""), *flags]),
        len(field.tokens),
        digest([field.tokens, field.span], 6),
        round(field.log_probability, 6),
    ]
    if field.masked_probability is None:
        return found
    options = [[text, round(share, 6)] for text, share in sorted(field.options or ())]
    return [*found, round(sum(field.masked_probability), 6), options]


def _problems(found: Any) -> list[str]:
    return [f"{one.document}:{one.where}:{one.attempts}:{cut(one.text, 40)}" for one in found.problems]


# ── how things are written ───────────────────────────────────────────────────────────────────────────────────


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… {len(text)} characters, {digest(text)}"


def digest(found: Any, letters: int = 10) -> str:
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:letters]


def values_of(found: Any) -> Any:
    """The values in a record, in their order, whatever the record and its parts are called. Reals are left out: they
    round, and are compared where they are kept as numbers."""
    match found:
        case enum.Enum():
            return values_of(found.value)
        case bool() | int() | str() | None:
            return found
        case float():
            return "real"
        case list() | tuple():
            return [values_of(one) for one in found]
        case set() | frozenset():
            return sorted((values_of(one) for one in found), key=json.dumps)
        case dict():
            return [[values_of(name), values_of(part)] for name, part in found.items()]
        case _ if dataclasses.is_dataclass(found):
            named = (one.name for one in dataclasses.fields(found) if not one.metadata.get("bound"))
            return [values_of(getattr(found, name)) for name in named]
        case _:
            return str(found)
