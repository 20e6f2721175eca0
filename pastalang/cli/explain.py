"""`pasta explain CODE`: print the page of a diagnostic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pastalang.cli.exit_codes import EXIT_USAGE, Refused
from pastalang.cli.output import echo
from pastalang.cli.process import command
from pastalang.diagnostics.registry import CODES
from pastalang.diagnostics.suggest import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainSettings:
    """The arguments and options of `pasta explain`."""

    code: Annotated[
        str | None, typer.Argument(help="The code in brackets, as in error[CODE]. Without it, list all codes.")
    ] = None


@command(ExplainSettings)
def explain_command(settings: ExplainSettings) -> None:
    if settings.code is None:
        echo(_list_of_codes(), end="")
        return
    known = CODES.get(settings.code.removeprefix("error").removeprefix("warning").strip("[]") or settings.code)
    if known is None:
        meant = did_you_mean(settings.code, CODES)
        advice = f"did you mean `{meant}`?" if meant is not None else "`pasta explain` lists all codes"
        raise Refused(f"there is no diagnostic `{settings.code}`; {advice}", EXIT_USAGE)
    echo(known.page.read_text(encoding="utf-8"), end="")


def _list_of_codes() -> str:
    width = max(map(len, CODES))
    return "".join(f"{code.word:<{width}}  {code.severity.value:<7}  {code.summary}\n" for code in CODES.values())
