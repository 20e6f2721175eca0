"""What commands read: the standard input, programs and plans, inputs, objects of modules of the user, and tasks."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import typer

from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.options import is_typed
from pastalang.cli.output import reason_of
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.diagnostics.render import render_text
from pastalang.diagnostics.suggest import did_you_mean
from pastalang.failures import InputError
from pastalang.limits import MAX_FILE_BYTES, MAX_SCHEMA_BYTES
from pastalang.plan.branches import Mode, Overrun, Placement
from pastalang.plan.plan import Plan
from pastalang.program.program import Input, Program, Template
from pastalang.reading import Reading, read_bytes, read_file
from pastalang.runtime.windows import windowing_of
from pastalang.source import Source
from pastalang.values.json import JsonValue, NotJson, parse_json, with_scalars

if TYPE_CHECKING:
    from pastalang.bulk.rows import Task
    from pastalang.plan.builder import PlanError
    from pastalang.program.program import Program
    from pastalang.training.row_files import RowFile


NAME = "<stdin>"


def is_standard_input(path: Path | str | None) -> bool:
    return str(path) == "-"


def refuse_second(*paths: Path | str | None) -> None:
    """Raises `Refused` if `-` stands for several of the files of a command: it can be read only once."""
    if sum(map(is_standard_input, paths)) > 1:
        raise Refused("the standard input can be read once, and `-` stands for several files", EXIT_USAGE)


def read_standard_input(most: int = -1) -> bytes:
    """At most so many bytes. Raises `Refused`."""
    try:
        return sys.stdin.buffer.read(most)
    except OSError as problem:
        raise Refused(f"the standard input could not be read: {reason_of(problem)}", EXIT_UNREADABLE) from problem


def text_of_standard_input() -> str:
    """Without a byte order mark. Raises `Refused`."""
    try:
        return read_standard_input().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise Refused("the standard input could not be read: it is not UTF-8 text", EXIT_UNREADABLE) from problem


def rows_of(path: Path, columns: Mapping[str, str] | None = None) -> RowFile:
    """The file with rows, or the text of standard input or a pipe; `columns` has the column of each part of a row."""
    from pastalang.training.row_files import Mapped, read_text

    file: Path | Source = path
    if is_standard_input(path):
        file = Source(NAME, text_of_standard_input())
    elif path.exists() and not (path.is_file() or path.is_dir()):  # a pipe, which can be read only once
        file = Source(str(path), read_text(path))
    return Mapped(file, columns) if columns else file


SUFFIX = ".pasta"


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """The text of one program. `path` is None for the standard input."""

    reading: Reading
    path: Path | None


def read_all(paths: Iterable[Path]) -> Iterator[ProgramFile]:
    """Every program once. A folder stands for all programs in it, sorted by name, except in hidden folders."""
    paths = list(paths)
    refuse_second(*paths)
    seen: set[Path] = set()
    for path in paths:
        if is_standard_input(path):
            yield ProgramFile(read_bytes(NAME, read_standard_input(MAX_FILE_BYTES + 1)), None)
            continue
        for file in _programs_in(path) if path.is_dir() else (path,):
            if file not in seen:
                seen.add(file)
                yield ProgramFile(read_file(file), file)


def read_one(path: Path) -> ProgramFile:
    """Raises `Refused` for a folder, and for a file that cannot be opened."""
    if path.is_dir():
        raise Refused(f"{path} is a folder; this command takes one program", EXIT_USAGE)
    [file] = read_all([path])
    if not file.reading.was_opened:
        raise refused_findings(file.reading.diagnostics, EXIT_UNREADABLE)
    return file


def refused_findings(findings: Iterable[Diagnostic], code: int) -> Refused:
    """A refusal that shows the errors among the findings, of which there is at least one. Warnings are left out."""
    errors = [finding for finding in findings if finding.is_error]
    first = errors[0]
    line = first.source.place(first.span.start).line if first.source.text else None
    return Refused(render_text(errors), code, word=first.code, line=line)


def _programs_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in parts):
            yield path


SAVED = ".json"


def read_plan(
    path: Path, *, template: str | None, mode: Mode, max_tokens: int | None = None, overrun: Overrun = Overrun.CONTINUE,
    placement: Placement = Placement.GAPS,
) -> Plan:  # fmt: skip
    """The plan of a program, or a saved plan, which has its own template, mode and limits. Raises `Refused`."""
    file = read_one(path)
    if _is_saved(file):
        if max_tokens is not None:
            raise Refused("--max-tokens is for programs: a saved plan has its limits", EXIT_USAGE)
        saved = _read_saved(file.reading.source)
        if template not in (None, saved.template):
            raise Refused(f"{path} is a saved plan, of the template {saved.template!r}", EXIT_USAGE)
        return saved
    program = _checked(file)
    return build(program, choose_template(program, template), mode, max_tokens, overrun, placement)


class PlanningSettings(Protocol):
    """The settings of a command that plans a program."""

    @property
    def context(self) -> typer.Context: ...
    @property
    def template(self) -> str | None: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def max_tokens(self) -> int | None: ...
    @property
    def overrun(self) -> Overrun: ...
    @property
    def placement(self) -> Placement | None: ...


def plan_of(path: Path, settings: PlanningSettings) -> Plan:
    """`read_plan` with the settings of a command. Raises `Refused` if they ask for another plan than the saved one."""
    plan = read_plan(
        path, template=settings.template, mode=settings.mode, max_tokens=settings.max_tokens, overrun=settings.overrun,
        placement=settings.placement or Placement.GAPS,
    )  # fmt: skip
    found = {"mode": plan.mode, "overrun": plan.branches[0].overrun, "placement": plan.placement}
    for option, has in found.items():
        if is_typed(settings.context, option) and getattr(settings, option) is not has:
            raise Refused(f"--{option} is for programs: this saved plan has the {option} {has.value}", EXIT_USAGE)
    return plan


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
    from pastalang.plan.serialise import UnreadablePlan, from_json

    try:
        return from_json(source.text)
    except UnreadablePlan as error:
        raise Refused(f"{source.name}: {error}", EXIT_PROBLEMS) from error


def _checked(file: ProgramFile) -> Program:
    from pastalang.compiler import check_reading  # here and below, so that `pasta fmt` need not wait for it

    program, findings = check_reading(file.reading, path=file.path)
    if program is None:
        raise refused_findings(findings, EXIT_PROBLEMS)
    return program


def build(
    program: Program, template: Template, mode: Mode, max_tokens: int | None = None,
    overrun: Overrun = Overrun.CONTINUE, placement: Placement = Placement.GAPS,
) -> Plan:  # fmt: skip
    """Raises `Refused`."""
    from pastalang.plan.build import build_plan
    from pastalang.plan.builder import PlanError

    try:
        return build_plan(template, program, mode=mode, max_tokens=max_tokens, overrun=overrun, placement=placement)
    except PlanError as error:
        line = program.source.place(error.span.start).line
        raise Refused(_explain(error, program.source), EXIT_PROBLEMS, word="plan", line=line) from error


def _explain(error: PlanError, source: Source) -> str:
    place = source.place(error.span.start)
    lines = [f"{source.name}:{place.line}:{place.column}: {error.headline}", f"    {source.line(place.line).strip()}"]
    return "\n".join([*lines, *([f"help: {error.help}"] if error.help else [])])


LONGEST = 60  # characters of a value that are shown


def read_inputs(plan: Plan, pairs: list[str], file: Path | None) -> dict[str, Any]:
    """The inputs of the plan by name, checked. Raises `Refused` with every problem.

    A pair overrides the file. The value of a text input is the text itself; other values are JSON.
    """
    return _inputs_of(plan, pairs, file, "" if file is None else str(_shown(file)))


def _inputs_of(plan: Plan, pairs: list[str], given: Path | str | None, place: str) -> dict[str, Any]:
    """`given` is a file with an object, or the object as text, and `place` where it stands."""
    from pastalang.runtime.inputs import bind_inputs

    reading = _Reading({input.name: input for input in plan.inputs})
    is_complete = given is None or reading.take_object(given, place)
    for pair in pairs:
        reading.take_pair(pair)
    readable = tuple(input for input in plan.inputs if input.name not in reading.failed)
    try:
        if is_complete:
            return reading.checked(bind_inputs(replace(plan, inputs=readable), reading.values, spell=_spelled))
    except InputError as problem:
        reading.report(str(problem), EXIT_PROBLEMS)
    return reading.checked({})


LINES = ".jsonl"


def read_all_inputs(plan: Plan, pairs: list[str], file: Path) -> list[dict[str, Any]]:
    """The inputs of each line of a file, checked. Raises `Refused` with every problem of the first bad line."""
    found: list[dict[str, Any]] = []
    for number, line in enumerate(_read_text(file).split("\n"), start=1):
        if line.strip():
            with _in_line(f"{_shown(file)}:{number}"):
                found.append(_inputs_of(plan, pairs, line, f"{_shown(file)}:{number}"))
    return found


@contextmanager
def _in_line(place: str) -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        message = refused.message if refused.message.startswith(place) else f"{place}: {refused.message}"
        raise Refused(message, refused.code, word=refused.word) from refused


def files_of(pairs: list[str]) -> list[Path]:
    """The files that pairs of the form NAME=@FILE name."""
    texts = (pair.partition("=")[2] for pair in pairs)
    return [Path(text[1:]) for text in texts if text.startswith("@")]


@dataclass
class _Reading:
    """The values read so far, the names whose values could not be read (`failed`), and every problem."""

    declared: Mapping[str, Input]
    values: dict[str, Any] = field(default_factory=dict)
    paired: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    problems: list[tuple[str, int]] = field(default_factory=list)

    def report(self, problem: str, code: int) -> None:
        self.problems.append((problem, code))

    def checked(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the values. Raises `Refused` if there was a problem; the highest exit code wins."""
        if not self.problems:
            return values
        code = max(code for _, code in self.problems)
        word = "bad_inputs" if code == EXIT_PROBLEMS else None
        raise Refused("\n".join(dict.fromkeys(problem for problem, _ in self.problems)), code, word=word)

    def take_object(self, given: Path | str, place: str) -> bool:
        """Returns False if the file or the text holds no inputs."""
        try:
            found = parse_json(given if isinstance(given, str) else _read_text(given))
        except Refused as refused:
            self.report(refused.message, refused.code)
            return False
        except NotJson as problem:
            self.report(f"{place}: {problem}", EXIT_PROBLEMS)
            return False
        if not isinstance(found, dict):
            self.report(f"{place} has to hold one JSON object with the inputs by name", EXIT_PROBLEMS)
            return False
        for name, value in found.items():
            self.take(name, value)
        return True

    def take_pair(self, pair: str) -> None:
        name, found, text = pair.partition("=")
        if not found:
            self.failed.add(name)
            return self.report(f"--input takes NAME=VALUE, not `{_shortened(pair)}`", EXIT_USAGE)
        if name in self.paired:
            return self.report(f"the input `{name}` is given twice", EXIT_PROBLEMS)
        self.paired.add(name)
        self.values.pop(name, None)
        try:
            written = _read_text(Path(text[1:])) if text.startswith("@") else text
        except Refused as refused:
            self.failed.add(name)
            return self.report(refused.message, refused.code)
        known = self.declared.get(name)
        if known is None or known.is_text:
            self.failed.discard(name)
            self.values[name] = written
            return None
        return self.take_json(name, written)

    def take_json(self, name: str, text: str) -> None:
        try:
            return self.take(name, parse_json(text))
        except NotJson as problem:
            self.failed.add(name)
            is_text = problem.reason.startswith("not JSON")
            shown = f" has to be JSON, and `{_shortened(text)}` is not" if is_text else f": {problem}"
            return self.report(f"the input `{name}`{shown}", EXIT_PROBLEMS)

    def take(self, name: str, value: JsonValue) -> None:
        try:
            self.values[name] = with_scalars(value, _plain)
            self.failed.discard(name)
        except _TooLarge as problem:
            self.failed.add(name)
            self.report(f"the number {problem} in `{name}` is too large: numbers end near 1.8e308", EXIT_PROBLEMS)


class _TooLarge(Exception):
    """A number beyond the range of floats, as the user wrote it."""


def _plain(scalar: Any) -> Any:
    """As a caller of the library passes it: decimals become floats."""
    if isinstance(scalar, Decimal) and math.isinf(float(scalar)):
        raise _TooLarge(str(scalar).lower().replace("e+", "e"))
    return float(scalar) if isinstance(scalar, Decimal) else scalar


def _spelled(value: Any) -> str:
    """The value in JSON, for messages."""
    return _shortened(json.dumps(value, ensure_ascii=False))


def _shown(path: Path) -> Path | str:
    return NAME if is_standard_input(path) else path


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _read_text(path: Path) -> str:
    if is_standard_input(path):
        return text_of_standard_input()
    try:
        return path.read_text(encoding="utf-8-sig")  # drops a byte order mark
    except FileNotFoundError as problem:
        raise Refused(f"there is no file {path}", EXIT_UNREADABLE) from problem
    except OSError as problem:
        raise Refused(f"{path} could not be read: {reason_of(problem)}", EXIT_UNREADABLE) from problem
    except UnicodeDecodeError as problem:
        raise Refused(f"{path} could not be read: it is not UTF-8 text", EXIT_UNREADABLE) from problem


# ── objects of modules ──


def find_model(module: str, name: str) -> Any:
    """The named object of the module. Modules in the current folder can be imported, as with `python -m`."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if module.endswith(".py"):
        dotted = module.removesuffix(".py").replace("\\", "/").strip("./").replace("/", ".")
        raise Refused(f"{module} is a file: write {dotted}:{name}, as in an import", EXIT_USAGE)
    found: Any = _imported(module)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        close = did_you_mean(part, dir(found))
        is_folder = getattr(found, "__file__", "") is None  # without Python code: Python imports those, too
        hint = "; it is a folder without Python code" if is_folder else f"; did you mean {close!r}?" if close else ""
        raise Refused(f"the module {module!r} has no {name!r}{hint}", EXIT_USAGE) from None
    return found


def _imported(module: str) -> Any:
    """Import a module of the user, which may do anything while it is imported. Raises `Refused` if that fails."""
    try:
        with redirect_stdout(sys.stderr):  # the standard output is for the written program
            return importlib.import_module(module)
    except (ImportError, ValueError) as error:
        from pastalang.values.pydantic.from_core import in_one_line

        reason = in_one_line(error)
    except SystemExit as left:
        reason = f"it calls sys.exit({left.code!r})"
    except Exception as error:
        reason = f"it raises {type(error).__name__}: {error}"
    raise Refused(f"the module {module!r} cannot be imported: {reason}", EXIT_UNREADABLE)


def schema_text(path: Path) -> str:
    """The text of a JSON Schema file. Raises `Refused`."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        if path.suffix == "":
            raise Refused(f"{path} is neither module:Model nor a JSON Schema file", EXIT_USAGE) from None
        raise Refused(f"{path} could not be read: {reason_of(error)}", EXIT_UNREADABLE) from None
    return decoded_schema(data, str(path))


def decoded_schema(data: bytes, name: str) -> str:
    if len(data) > MAX_SCHEMA_BYTES:
        raise Refused(f"{name} is larger than {MAX_SCHEMA_BYTES:,} bytes", EXIT_PROBLEMS)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(f"{name} could not be read: it is not UTF-8 text", EXIT_UNREADABLE) from None


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


# ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────


SOURCE: Final = "What to extract: a type, written module:Model, a .pasta program, or a JSON Schema in a .json file."
_SCHEMA: Final = ".json"


def task_named(
    source: str, *, text: Sequence[str] = (), id: str | None = None, template: str | None = None,
    options: Mapping[str, Any] | None = None, windows: Mapping[str, Any] | None = None,
    instructions: str | None = None, max_tokens: int | None = None,
) -> Task:  # fmt: skip
    """The task of a source as the command line names it. Raises `Refused`."""
    from pastalang.bulk.rows import task_of_program, task_of_type

    if not source.endswith((SUFFIX, _SCHEMA)):
        found = _type_named(source, template)
        given = {**(options or {}), **(windows or {}), "instructions": instructions}
        return task_of_type(found, text=tuple(text) or ("text",), id=id, options=given, max_tokens=max_tokens)
    if instructions is not None:
        what = "a JSON Schema becomes one" if source.endswith(_SCHEMA) else "a program has its own messages"
        raise Refused(f"--instructions is for a type; {what}", EXIT_USAGE)
    if source.endswith(_SCHEMA):
        if template is not None:
            raise Refused("--template is for a program; a JSON Schema has only one", EXIT_USAGE)
        program, chosen = _program_of_schema(Path(source)), None
    else:
        program = read_program(Path(source))
        chosen = choose_template(program, template).name
    task = task_of_program(program, text=text, id=id, template=chosen, options=options, max_tokens=max_tokens)
    return replace(task, windowing=windowing_of(windows or {}))


def _program_of_schema(path: Path) -> Program:
    """What `pasta import` writes for it, without its notes."""
    from pastalang.interop import from_schema

    document = schema_text(path)
    return from_schema(document, name=path.name.partition(".")[0] or "record")


def _type_named(source: str, template: str | None) -> Any:
    """The type of `module:Model`. Raises `Refused`."""
    from pastalang.values.pydantic.from_core import is_type

    module, colon, name = source.rpartition(":")
    if not colon:
        raise Refused(
            f"{source} is neither a program, which ends in {SUFFIX}, nor a JSON Schema, which ends in {_SCHEMA}, nor a "
            f"type, written module:Model",
            EXIT_USAGE,
        )
    if template is not None:
        raise Refused("--template is for a program; a type has only one", EXIT_USAGE)
    found = find_model(module, name)
    if not is_type(found):
        raise Refused(f"{source} is not a Pydantic model, a dataclass, a TypedDict or another type", EXIT_USAGE)
    return found
