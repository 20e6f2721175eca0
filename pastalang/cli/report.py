"""`pasta report OUT [DOCUMENTS]`: the rows of a run as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pastalang.cli.output import echo, refuse_unwritable, unwritable
from pastalang.cli.process import exits_with_code

if TYPE_CHECKING:
    from pastalang.bulk.documents import Document
    from pastalang.bulk.rows import Row


@exits_with_code
def command(
    out: Annotated[Path, typer.Argument(help="The rows: an output of pasta extract.")],
    documents: Annotated[
        Path | None, typer.Argument(help="The documents they were made of, to show each row next to its text.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page. Default: OUT.html.")] = None,
) -> None:
    from pastalang.bulk.report import documents_of, read_rows, read_run, with_documents, write_report

    page = output or out.with_name(f"{out.name}.html")
    rows, run = read_rows(out), read_run(out)
    refuse_unwritable(page, out, documents)
    if documents is None:
        pairs: Iterator[tuple[Row, Document | None]] = ((row, None) for row in rows)
        notes = [f"Without source texts: pasta report {out} DOCUMENTS shows each row next to its text."]
    else:
        pairs, notes = with_documents(rows, documents_of(run, documents).documents), []
    draft = page.with_name(f"{page.name}.draft")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as stream:
            figures = write_report(stream, pairs, run, title=out.name, notes=notes)
        draft.replace(page)
    except OSError as problem:
        raise unwritable(page, problem) from problem
    finally:
        draft.unlink(missing_ok=True)
    size = page.stat().st_size
    echo(f"{page}: {figures.rows:,} rows, " + (f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size >> 10} KiB"))
