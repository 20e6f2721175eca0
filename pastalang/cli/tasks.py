"""What `pasta extract` and `pasta try` ask of documents: a type, a program, or a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pastalang.cli.exit_codes import EXIT_USAGE, Refused
from pastalang.cli.sources import SUFFIX, choose_template, find_model, read_program, schema_text
from pastalang.runtime.windows import windowing_of

if TYPE_CHECKING:
    from pastalang.bulk.rows import Task
    from pastalang.program.program import Program

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
