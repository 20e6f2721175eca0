"""From a path on the command line to a plan: a program is planned, a plan that was saved is read back."""

from __future__ import annotations

from pathlib import Path

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.program_files import STANDARD_INPUT, read_all, refused_findings
from pastalang.compiler import check_reading
from pastalang.plan.build import build_plan
from pastalang.plan.builder import PlanError
from pastalang.plan.plan import Mode, Plan
from pastalang.plan.serialise import UnreadablePlan, from_json
from pastalang.program.program import Program, Template
from pastalang.source import Source

SAVED = ".json"


def read_plan(path: Path, *, template: str | None, mode: Mode) -> Plan:
    """Raises `Refused`."""
    if path.is_dir():
        raise Refused(f"{path} is a folder; this command takes one program", EXIT_USAGE)
    given = next(read_all([path]))
    if not given.reading.was_opened:
        raise refused_findings(given.reading.diagnostics, EXIT_UNREADABLE)
    if path.suffix == SAVED:
        return _read_saved(given.reading.source)
    program, findings = check_reading(given.reading, path=None if str(path) == STANDARD_INPUT else path)
    if program is None:
        raise refused_findings(findings, EXIT_PROBLEMS)
    return _build(program, _choose(program, template), mode)


def _read_saved(source: Source) -> Plan:
    try:
        return from_json(source.text)
    except UnreadablePlan as error:
        raise Refused(f"{source.name}: {error}", EXIT_PROBLEMS) from error


def _choose(program: Program, name: str | None) -> Template:
    names = ", ".join(program.templates)
    if not program.templates:
        raise Refused(f"{program.source.name} declares no template", EXIT_PROBLEMS)
    if name is None and len(program.templates) > 1:
        advice = f"choose one with --template: {names}"
        raise Refused(f"{program.source.name} declares {len(program.templates)} templates; {advice}", EXIT_USAGE)
    if name is None:
        return program.only_template
    if name not in program.templates:
        raise Refused(f"{program.source.name} has no template {name!r}; it declares: {names}", EXIT_USAGE)
    return program.templates[name]


def _build(program: Program, template: Template, mode: Mode) -> Plan:
    try:
        return build_plan(template, program, mode=mode)
    except PlanError as error:
        line = program.source.place(error.span.start).line
        raise Refused(_explain(error, program.source), EXIT_PROBLEMS, word="plan", line=line) from error


def _explain(error: PlanError, source: Source) -> str:
    place = source.place(error.span.start)
    lines = [f"{source.name}:{place.line}:{place.column}: {error.headline}", f"    {source.line(place.line).strip()}"]
    return "\n".join([*lines, *([f"help: {error.help}"] if error.help else [])])
