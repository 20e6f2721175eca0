"""`pasta try SOURCE EXAMPLES`: how a model does on a few labelled rows, field by field, and what to change."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.models import chosen_model, open_engine, refuse_model
from pastalang.cli.options import ApiKey, AsJson, ModelName
from pastalang.cli.output import echo, echo_document
from pastalang.cli.process import command
from pastalang.cli.sources import SUFFIX, choose_template, find_model, read_program
from pastalang.plan.branches import Mode
from pastalang.program.visit import flat_arms
from pastalang.runtime.call import IN_FLIGHT
from pastalang.values.describe import counted

if TYPE_CHECKING:
    from pastalang.bulk.rows import Task

_ENOUGH = 0.8  # the share of right values of a field that needs no advice
_PARALLEL, _SEQUENTIAL, _QUOTED = "parallel", "sequential", "quoted"
_WAYS = (_PARALLEL, _SEQUENTIAL)  # of writing every field
_APART = 0.1  # how much surer a model should be of right values than of wrong ones


@dataclass(frozen=True, slots=True, kw_only=True)
class TrySettings:
    """The arguments and options of `pasta try`."""

    source: Annotated[str, typer.Argument(help="What to extract: a type, written module:Model, or a .pasta program.")]
    examples: Annotated[Path, typer.Argument(help="JSON lines: the inputs by name, and the right answer as value.")]
    model: ModelName = None
    api_key: ApiKey = None
    as_json: AsJson = False


@dataclass
class FieldScore:
    """Right answers of a field, by the way they were written. `quoted` is None where nothing could be quoted."""

    name: str
    rows: int = 0
    parallel: int = 0
    sequential: int = 0
    quoted: int | None = None
    source: str = ""  # the input that it was quoted from
    sure_of_right: list[float] = field(default_factory=list)
    sure_of_wrong: list[float] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        return {
            "field": self.name, "rows": self.rows, "parallel": self.parallel, "sequential": self.sequential,
            "quoted": self.quoted, "confidence_of_right": _mean(self.sure_of_right),
            "confidence_of_wrong": _mean(self.sure_of_wrong), "advice": self.advice,
        }  # fmt: skip

    @property
    def advice(self) -> str:
        quoted, more = self.quoted or 0, max(1, self.rows / 5)
        if quoted - max(self.parallel, self.sequential) >= more:
            return f'quote it: Verbatim("{self.source}"), in a program verbatim({self.source})'
        if self.sequential - self.parallel >= more:
            return "write it after the others: --mode sequential, or `after`"
        if max(self.parallel, self.sequential) / max(self.rows, 1) >= _ENOUGH:
            right, wrong = _mean(self.sure_of_right), _mean(self.sure_of_wrong)
            is_apart = right is None or wrong is None or right - wrong >= _APART
            return "" if is_apart else "right, but its confidence separates nothing"
        return "train on 30 rows, about a minute for pasta-mini, or choose another model"


@command(TrySettings)
def try_command(settings: TrySettings) -> None:
    from pastalang.bulk.documents import records_of
    from pastalang.bulk.rows import extractions_of

    rows = _rows(settings.examples)
    task = _task(settings.source)
    chosen = chosen_model(settings.model)
    refuse_model(chosen.name, may_be_server=True)
    engine = open_engine(chosen.name, device=None, cells=None, api_key=settings.api_key)
    quoting, sources = _with_quotations(task, rows)
    scores = {name: FieldScore(name) for row in rows for name in _parts(row["value"])}
    for way in (*_WAYS, *([_QUOTED] if sources else [])):
        mode = Mode.SEQUENTIAL if way == _SEQUENTIAL else Mode.STRICT
        options = {**task.options, "mode": mode.value, "any_mode": True, "on_truncated": "keep"}
        asked = replace(quoting if way == _QUOTED else task, options=options)
        found = extractions_of(engine, asked, records_of(rows, asked.read), in_flight=IN_FLIGHT)
        for row, (_, one) in zip(rows, found, strict=True):
            answer = None if one.run is None else one.run.exact
            sure = {each.where.partition(".")[0].partition("[")[0]: each.confidence for each in one.fields}
            for name, right in _parts(row["value"]).items():
                if way != _QUOTED or name in sources:
                    _count(scores[name], way, right, _parts(answer).get(name), sure.get(name))
                    scores[name].source = sources.get(name, "")
    if settings.as_json:
        echo_document(json.dumps({"model": chosen.name, "fields": [one.as_data() for one in scores.values()]}))
    else:
        echo(_table(list(scores.values()), chosen.name, len(rows)))


def _with_quotations(task: Task, rows: list[dict[str, Any]]) -> tuple[Task, dict[str, str]]:
    """The task with each text quoted whose right values stand in an input; and the input that most of them stand in."""
    from pastalang.bulk.rows import object_of
    from pastalang.program import types as t
    from pastalang.program.program import InputKind, JsonBody
    from pastalang.runtime.call import template_of

    body, template = object_of(task), template_of(task.program, task.template)
    texts = [one.name for one in task.inputs if one.type is InputKind.TEXT and not one.each]
    sources: dict[str, str] = {}
    for place in () if body is None else body.fields:
        if not any(isinstance(arm, t.String) for arm in flat_arms(place.type)):
            continue
        right = [(row, value) for row in rows if isinstance(value := _parts(row["value"]).get(place.key), str)]
        counts = {name: sum(value in str(row.get(name, "")) for row, value in right if value) for name in texts}
        best = max(counts, key=lambda name: counts[name], default=None)
        if best is not None and counts[best]:
            sources[place.key] = best
    if body is None or not sources:
        return task, {}

    def quoted(type: t.Type, source: str) -> t.Type:
        arms = [t.Verbatim(source, arm.max_tokens) if isinstance(arm, t.String) else arm for arm in flat_arms(type)]
        return arms[0] if len(arms) == 1 else t.Union(tuple(dict.fromkeys(arms)))

    fields = [
        replace(one, type=quoted(one.type, sources[one.key])) if one.key in sources else one for one in body.fields
    ]
    last = template.messages[-1]
    assert isinstance(last.body, JsonBody)
    answer = replace(last, body=replace(last.body, type=replace(body, fields=tuple(fields))))
    changed = replace(template, messages=(*template.messages[:-1], answer))
    program = replace(task.program, templates={**task.program.templates, template.name: changed})
    return replace(task, program=program, type=None), sources


def _count(score: FieldScore, way: str, right: object, given: object, sure: float | None) -> None:
    is_right = json.dumps(given, default=str) == json.dumps(right, default=str)
    if way == _SEQUENTIAL:
        score.sequential += is_right
        return
    if way == _QUOTED:
        score.quoted = (score.quoted or 0) + is_right
        return
    score.rows += 1
    score.parallel += is_right
    if sure is not None:
        (score.sure_of_right if is_right else score.sure_of_wrong).append(sure)


def _parts(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"the value": value}


def _mean(numbers: list[float]) -> float | None:
    return round(sum(numbers) / len(numbers), 2) if numbers else None


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise Refused(f"{path} could not be read: {problem}", EXIT_UNREADABLE) from problem
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line) if line.strip() else None
        except ValueError as problem:
            raise Refused(f"{path}:{number}: it is not JSON: {problem}", EXIT_PROBLEMS) from problem
        if row is not None and not (isinstance(row, dict) and "value" in row):
            raise Refused(f"{path}:{number}: a row is an object with the inputs and the right `value`", EXIT_PROBLEMS)
        found += [row] if row is not None else []
    if not found:
        raise Refused(f"{path} has no rows: five labelled ones are enough", EXIT_PROBLEMS)
    return found


def _task(source: str) -> Task:
    from pastalang.bulk.rows import task_of_program, task_of_type

    if source.endswith(SUFFIX):
        program = read_program(Path(source))
        return task_of_program(program, template=choose_template(program, None).name)
    module, colon, name = source.rpartition(":")
    if not colon:
        raise Refused(f"{source} is neither a program, which ends in {SUFFIX}, nor a type, module:Model", EXIT_USAGE)
    return task_of_type(find_model(module, name))


def _table(scores: list[FieldScore], model: str, rows: int) -> str:
    width = max(5, *(len(one.name) for one in scores))
    lines = [
        f"{model} on {counted(rows, 'row')}",
        f"{'field':{width}}  parallel  sequential  quoted  sure if right, wrong",
    ]
    for one in scores:
        sure = ", ".join(
            "-" if mean is None else f"{mean:.2f}" for mean in map(_mean, (one.sure_of_right, one.sure_of_wrong))
        )
        right = [
            "-" if count is None else f"{count}/{one.rows}" for count in (one.parallel, one.sequential, one.quoted)
        ]
        shown = f"{right[0]:8}  {right[1]:10}  {right[2]:6}  {sure:20}"
        lines.append(f"{one.name:{width}}  {shown}  {one.advice}".rstrip())
    return "\n".join(lines)
