"""Lists to go over and texts to copy from: a branch and a place in it come in, elements or texts by name go out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pastalang.plan.plan import Form
from pastalang.runtime.inputs import part_of
from pastalang.testing.slow.answer import Field, Place, agree
from pastalang.testing.slow.branch import Instance
from pastalang.testing.slow.holes import Refused
from pastalang.testing.slow.run import Run
from pastalang.values.read import read, to_plain


def elements_of(run: Run, branch: Instance, place: Place, over: str, over_hole: bool, maximum: int) -> tuple[Any, ...]:
    """Of an input, of an element of a loop around, or of a value that the branch has written or sees."""
    if over_hole:
        value = _from_hole(run, branch, place, over)
    else:
        name, *rest = over.split(".")
        value = part_of({**run.given.values, **branch.names}[name], tuple(rest))
    if not isinstance(value, list | tuple) or len(value) > maximum:
        raise Refused("bad_list", f"`{over}` is no list of at most {maximum}")
    return tuple(value)


def _from_hole(run: Run, branch: Instance, place: Place, over: str) -> Any:
    written = (one for one in _fields(run, branch, place) if f"{over}.".startswith(f"{one.hole.field}."))
    field = next(written, None)
    if field is None:  # it stands behind a fork or a list that went over nothing
        raise Refused("bad_list", f"nothing was written for `{over}`")
    types = dict(run.given.plan.types)
    reading = read(field.text, field.hole.type, types, quoted=field.hole.form is Form.JSON)
    if not reading.fits:
        raise Refused("bad_list", f"the list `{over}` could not be read")
    rest = over[len(field.hole.field) + 1 :]
    return part_of(to_plain(reading.value), tuple(rest.split(".")) if rest else ())


def sources_of(run: Run, branch: Instance, place: Place) -> dict[str, str]:
    """Inputs and elements, their parts by dotted names, and the values that the branch has written or sees."""
    sources: dict[str, str] = {}
    for name, value in {**run.given.values, **branch.names}.items():
        sources.update(_texts(name, value))
    for field in _fields(run, branch, place):
        sources.setdefault(field.hole.field, field.text)
    return sources


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(f"{name}.{key}", part)


def _fields(run: Run, branch: Instance, place: Place) -> Iterator[Field]:
    """Finished values of the same items, the latest first, its own before those of others."""
    for writer in (branch, *reversed(branch.sees)):
        for field in reversed(writer.fields):
            if agree(field.place, place):
                yield field
