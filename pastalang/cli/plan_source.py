"""Read the program or the saved plan that a command works on."""

from __future__ import annotations

from pathlib import Path

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_USAGE, Refused
from pastalang.cli.program_files import ProgramFile, read_one, refused_findings
from pastalang.compiler import check_reading
from pastalang.plan.build import build_plan
from pastalang.plan.builder import PlanError
from pastalang.plan.plan import Mode, Overrun, Plan
from pastalang.plan.serialise import UnreadablePlan, from_json
from pastalang.program.program import Program, Template
from pastalang.source import Source

SAVED = ".json"


def read_plan(
    path: Path, *, template: str | None, mode: Mode, max_tokens: int | None = None, overrun: Overrun = Overrun.CONTINUE
) -> Plan:
    """The plan of a program, or a saved plan, which has its own template, mode and limits. Raises `Refused`."""
    file = read_one(path)
    if _is_saved(file):
        if max_tokens is not None:
            raise Refused("--max-tokens is for programs: a saved plan has its limits", EXIT_USAGE)
        return _read_saved(file.reading.source)
    program = _checked(file)
    return build(program, choose_template(program, template), mode, max_tokens, overrun)


def _is_saved(file: ProgramFile) -> bool:
    """By its name; the standard input by its first character, with which no program begins."""
    return file.reading.source.text.lstrip()[:1] == "{" if file.path is None else file.path.suffix == SAVED


def read_program(path: Path) -> Program:
    """Raises `Refused`."""
    return _checked(read_one(path))


def choose_template(program: Program, name: str | None) -> Template:
    """The template with this name; without a name, the only one. Raises `Refused`."""
    file, names = program.source.name, ", ".join(program.templates)
    if not program.templates:
        raise Refused(f"{file} declares no template", EXIT_PROBLEMS)
    if name is None and len(program.templates) > 1:
        raise Refused(
            f"{file} declares {len(program.templates)} templates; choose one with --template: {names}", EXIT_USAGE
        )
    if name is None:
        return program.only_template
    if name not in program.templates:
        raise Refused(f"{file} has no template {name!r}; it declares: {names}", EXIT_USAGE)
    return program.templates[name]


def _read_saved(source: Source) -> Plan:
    try:
        return from_json(source.text)
    except UnreadablePlan as error:
        raise Refused(f"{source.name}: {error}", EXIT_PROBLEMS) from error


def _checked(file: ProgramFile) -> Program:
    program, findings = check_reading(file.reading, path=file.path)
    if program is None:
        raise refused_findings(findings, EXIT_PROBLEMS)
    return program


def build(
    program: Program, template: Template, mode: Mode, max_tokens: int | None = None, overrun: Overrun = Overrun.CONTINUE
) -> Plan:
    """Raises `Refused`."""
    try:
        return build_plan(template, program, mode=mode, max_tokens=max_tokens, overrun=overrun)
    except PlanError as error:
        line = program.source.place(error.span.start).line
        raise Refused(_explain(error, program.source), EXIT_PROBLEMS, word="plan", line=line) from error


def _explain(error: PlanError, source: Source) -> str:
    place = source.place(error.span.start)
    lines = [f"{source.name}:{place.line}:{place.column}: {error.headline}", f"    {source.line(place.line).strip()}"]
    return "\n".join([*lines, *([f"help: {error.help}"] if error.help else [])])
