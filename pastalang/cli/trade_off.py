"""`pasta evaluate threads --plot FILE --add REPORT`: speed and quality of several reports, as a picture and as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from pastalang.cli.evaluate_threads import ALL, BASELINE
from pastalang.cli.exit_codes import EXIT_PROBLEMS, EXIT_UNREADABLE, EXIT_USAGE, Refused
from pastalang.cli.output import reason_of, refuse_unwritable, unwritable, write_file

Reports: TypeAlias = Mapping[str, Mapping[str, Any]]  # by the names of their points


def refuse_plot(picture: Path, *sources: Path | None) -> None:
    """Raises `Refused` for a picture that cannot be written, or that is not a PNG.

    `sources` are what the command reads, and what else it writes.
    """
    if picture.suffix.lower() != ".png":
        raise Refused(f"--plot writes a file that ends in .png, not {picture}", EXIT_USAGE)
    for place in (picture, data_of(picture)):
        refuse_unwritable(place, *sources)
        if any(other is not None and other.resolve() == place.resolve() for other in sources):
            raise Refused(f"--plot {picture} writes {place}, too: choose another name for one of them", EXIT_USAGE)


def draw_reports(place: Path, reports: Reports) -> None:
    """Draw reports by name, and write their points next to the picture. Raises `Refused`."""
    from pastalang.training.errors import BadData
    from pastalang.training.thread_eval import draw, point_of

    try:
        points = [point_of(name, _part(report, "reports")) for name, report in reports.items()]
        bases = {str(one.get("baseline")): one for one in reports.values() if BASELINE in one}
        points += [
            point_of(_name_apart(short_name(base), reports), _part(one, BASELINE))
            for base, one in bases.items() if reports.get(short_name(base), {}).get("model") != base
        ]  # fmt: skip
        picture = draw(points)
    except BadData as problem:
        raise Refused(f"--plot: {problem}", EXIT_PROBLEMS) from problem
    try:
        place.write_bytes(picture)
    except OSError as problem:
        raise unwritable(place, problem) from problem
    write_file(data_of(place), json.dumps([asdict(one) for one in points], indent=2, ensure_ascii=False) + "\n")


def _name_apart(name: str, others: Reports) -> str:
    """The name of a baseline that a model may share."""
    return f"{name}, baseline" if name in others else name


def data_of(picture: Path) -> Path:
    """The file of the points that a picture shows."""
    return picture.with_suffix(".json")


def _part(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = report.get(name)
    return found.get(ALL, {}) if isinstance(found, Mapping) else {}


def short_name(model: str) -> str:
    """The name of a model without its folder or its owner."""
    return Path(model).name or model


def place_of(added: str) -> tuple[str | None, Path]:
    """The name and the file of `NAME=FILE` or `FILE`. Raises `Refused`."""
    name, is_named, place = added.partition("=")
    if not is_named or Path(added).is_file():
        return None, Path(added)
    if not name or not place:
        raise Refused(f"--add takes FILE or NAME=FILE, not {added}", EXIT_USAGE)
    return name, Path(place)


def read_reports(added: Sequence[str], *, measured: str | None = None) -> Reports:
    """The reports of `NAME=FILE`, or of `FILE`, which has the name of its model. Raises `Refused`.

    `measured`: the name that the report of this command will have.
    """
    from pastalang.training.errors import BadData
    from pastalang.training.thread_eval import point_of

    found: dict[str, Mapping[str, Any]] = {}
    for one in added:
        name, file = place_of(one)
        try:
            report = json.loads(file.read_text(encoding="utf-8"))
        except OSError as problem:
            raise Refused(f"--add {file}: {reason_of(problem)}", EXIT_UNREADABLE) from problem
        except ValueError:
            report = None
        key = name or short_name(str(report.get("model") if isinstance(report, dict) else file))
        try:
            point_of(key, _part(report if isinstance(report, dict) else {}, "reports"))
        except BadData as problem:
            reason = "it is not a report of `pasta evaluate threads --out`"
            raise Refused(f"--add {file}: {reason}", EXIT_PROBLEMS) from problem
        if key in found or key == measured:
            raise Refused(f"--add: two reports have the name {key}; write NAME=FILE", EXIT_USAGE)
        found[key] = report
    return found
