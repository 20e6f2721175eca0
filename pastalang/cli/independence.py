"""`pasta independence PROGRAM --data ROWS`: what fields lose by not seeing one another, and which `after` mends it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_USAGE, Refused, ctrl_c_exits_at_once
from pastalang.cli.long_runs import screen
from pastalang.cli.model_source import chosen_model, load_tokenizer, refuse_device, refuse_hub, refuse_model
from pastalang.cli.options import AsJson, Cells, ColumnMap, Device, TemplateName, columns_of
from pastalang.cli.output import echo, echo_document, echo_error
from pastalang.cli.plan_source import build, choose_template, read_program
from pastalang.cli.process import exits_with_code
from pastalang.cli.standard_input import refuse_second, rows_of
from pastalang.plan.plan import Hole, Mode, Plan
from pastalang.plan.structure import walk_plan
from pastalang.program.program import AutoBody, JsonBody, Template
from pastalang.values.describe import counted

if TYPE_CHECKING:
    from pastalang.training.data import Asked, Row
    from pastalang.training.independence import FieldLosses, Lost

_FEW = 20  # rows: intervals of fewer say little


@exits_with_code
def command(
    program: Annotated[Path, typer.Argument(help="The program whose fields are decoded at the same time.")],
    data: Annotated[
        Path, typer.Option(help="Rows: the inputs by name, and the answer as `value`; without it, the model answers.")
    ],
    model: Annotated[
        str | None,
        typer.Option(help="The model that will decode: a folder, or a name on the Hugging Face hub. See pasta models."),
    ] = None,
    least: Annotated[
        float, typer.Option(min=0.0, help="What a loss has to exceed to be worth an after, in nats a value.")
    ] = 0.1,
    limit: Annotated[int | None, typer.Option(min=1, help="Read only so many rows.")] = None,
    map: ColumnMap = None,
    template: TemplateName = None,
    device: Device = None,
    cells: Cells = 8192,
    as_json: AsJson = False,
) -> None:
    refuse_second(program, data)
    columns = columns_of(map)
    checked = read_program(program)
    chosen = choose_template(checked, template)
    _refuse_other_answers(chosen)
    plan = build(checked, chosen, Mode.SEQUENTIAL)
    _refuse_threads(plan)
    build(checked, chosen, Mode.STRICT)
    name = chosen_model(model).name
    refuse_model(name)
    refuse_hub(name)
    with ctrl_c_exits_at_once():
        refuse_device(device)
        from pastalang.training.data import read_answered
        from pastalang.training.errors import BadRow, BadRows
        from pastalang.training.independence import field_losses
        from pastalang.training.model_files import read_base

    read, left_out = read_answered(rows_of(data, columns), plan)
    found = read[:limit]
    if problems := [row for row in found if isinstance(row, BadRow)]:
        raise BadRows(problems, rows=len(found))
    if left_out:
        echo_error(f"columns that are not used: {', '.join(left_out)}")
    good = [row for row in found if not isinstance(row, BadRow)]
    tokenizer, loaded = load_tokenizer(name), read_base(name).load(device=device, seed=0, lora=None)
    rows, own = _answered(good, loaded, tokenizer, plan, cells)
    _, live = screen()

    def show(done: int, of: int) -> None:
        if live is not None:
            live(f"{done} of {counted(of, 'field')}" if done < of else "")

    fields = field_losses(loaded, tokenizer, checked, rows, template=chosen.name, least=least, on_done=show)
    report = {
        "program": str(program), "model": name, "rows": len(rows), "own_answers": own, "least": least,
        "fields": [asdict(one) for one in fields],
    }  # fmt: skip
    if as_json:
        echo_document(json.dumps(report, ensure_ascii=False))
    else:
        echo(_as_text(fields, len(rows), own, least))


def _refuse_other_answers(template: Template) -> None:
    """Raises `Refused` for an answer that has no fields which could wait for one another."""
    body = template.messages[-1].body
    if isinstance(body, JsonBody):
        return
    instead = "it is running text, in which a hole sees all text before it, apart from `async` blocks"
    if isinstance(body, AutoBody):
        instead = "the model opens its threads itself; `pasta data threads --independence` measures them"
    raise Refused(f"`pasta independence` is for answers in JSON. In `{template.name}`, {instead}", EXIT_USAGE)


def _refuse_threads(plan: Plan) -> None:
    """Raises `Refused` for a field in which the model opens threads: rows have no place for their tags."""
    for _, _, part in walk_plan(plan):
        if isinstance(part, Hole) and part.threads is not None and part.auto is not None:
            raise Refused(
                f"`{part.field}` is a text of auto({part.auto.value}), which cannot be measured among others: write "
                f"`string(max={part.max_tokens})` in its place to measure the fields",
                EXIT_USAGE,
            )


def _answered(rows: Sequence[Row | Asked], model: Any, tokenizer: Any, plan: Plan, cells: int) -> tuple[list[Row], int]:
    """The rows with answers, and how many of these are the model's own. Raises `Refused` if none is left."""
    from pastalang.training.data import Row
    from pastalang.training.errors import BadRow
    from pastalang.training.independence import with_own_answers

    if all(isinstance(row, Row) for row in rows):
        return [row for row in rows if isinstance(row, Row)], 0
    found = with_own_answers(rows, model, tokenizer, plan, cells=cells)
    for one in found:
        if isinstance(one, BadRow):
            echo_error(f"{one.origin}: left out, for the model's answer cannot be used: {one.reason}")
    answered = [one for one in found if isinstance(one, Row)]
    if not answered:
        raise Refused("no row has an answer that can be used", EXIT_PROBLEMS)
    given = sum(isinstance(row, Row) for row in rows)
    return answered, len(answered) - given


# ── as text ──────────────────────────────────────────────────────────────────────────────────────────────


def _as_text(fields: Sequence[FieldLosses], rows: int, own: int, least: float) -> str:
    whose = f", {own:,} with the model's own answers" if own else ""
    lines = [f"{counted(rows, 'row')}{whose}; losses in nats a value, with 95 % intervals", ""]
    losing = [one for one in fields if one.together is not None and _shown(one, least)]
    table = [("field", "does not see", "loses", "")]
    for one in losing:
        for number, lost in enumerate(_shown(one, least)):
            low, high = lost.interval
            table.append((one.field if not number else "", lost.unseen, f"{lost.nats:.2f}", f"{low:.2f} to {high:.2f}"))
    if losing:
        lines += [*_columns(table), ""]
    independent = [one.field for one in fields if one.together is not None and one not in losing]
    if independent:
        lines.append(f"nothing above {least:g}: {', '.join(independent)}")
    if free := [one.field for one in fields if one.together is None]:
        lines.append(f"nothing to wait for: {', '.join(free)}")
    advised = [one.advice for one in fields if one.advice is not None]
    if advised:
        lines += ["", "what would mend it, as decoded"]
        lines += _columns([(f"  {one.after}", f"{one.now:.2f} nats a value, then {one.then:.2f}") for one in advised])
    elif losing:
        lines += ["", "no `after` makes a field likelier as it is decoded"]
    if rows < _FEW:
        lines += ["", f"{counted(rows, 'row')} are few: the intervals are rough"]
    return "\n".join(lines)


def _shown(one: FieldLosses, least: float) -> list[Lost]:
    """What is worth a line, the largest first; all together if several fields say only together what is missing."""
    alone = sorted((lost for lost in one.lost if lost.interval[0] > least), key=lambda lost: -lost.nats)
    if alone or one.together is None or one.together.interval[0] <= least:
        return alone
    return [one.together]


def _columns(table: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    ]  # fmt: skip
