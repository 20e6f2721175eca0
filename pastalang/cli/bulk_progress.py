"""What `pasta extract` shows: a live line on a terminal, a plain line now and then elsewhere, and the figures at the
end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from pastalang.values.describe import counted

if TYPE_CHECKING:
    from pastalang.bulk.compare import Advice, Comparison
    from pastalang.bulk.estimate import Estimate
    from pastalang.bulk.run import Totals

_EVERY: Final = 30.0  # seconds between two plain lines


class BulkProgress:
    """A context manager. `total` is None if nobody knows how many documents there are."""

    def __init__(self, stream: TextIO, *, total: int | None, every: float = _EVERY) -> None:
        self._stream = stream
        self._total = total
        self._every = every
        self._shown = time.monotonic()
        self._live: Progress | None = None
        if stream.isatty():
            console = Console(file=stream)
            columns = (BarColumn(bar_width=24), TextColumn("{task.description}"))
            self._live = Progress(*columns, console=console, refresh_per_second=4, transient=True)
            self._task = self._live.add_task("", total=total)

    def show(self, totals: Totals) -> None:
        if self._live is not None:
            self._live.update(self._task, completed=totals.rows, description=self._line(totals))
        elif time.monotonic() - self._shown >= self._every:
            self._shown = time.monotonic()
            self.note(self._line(totals))

    def note(self, text: str) -> None:
        """A line that stays."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def _line(self, totals: Totals) -> str:
        new, seconds = totals.rows - totals.resumed, max(totals.seconds, 1e-9)
        rate = new / seconds
        of = "" if self._total is None else f" of {self._total:,}"
        parts = [f"{totals.rows:,}{of} documents", f"{rate:.1f}/s"]
        if totals.rows:
            parts += [
                f"{totals.output_tokens / totals.rows * rate:,.0f} tokens/s",
                f"{totals.passes / totals.rows:.1f} passes each",
            ]
        if totals.failed:
            parts.append(f"{totals.failed:,} failed")
        if self._total is not None and rate:
            parts.append(f"{duration(max(self._total - totals.rows, 0) / rate)} left")
        return ", ".join(parts)

    def __enter__(self) -> BulkProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, found: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h"


def summary_text(summary: Mapping[str, Any]) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in summary["statuses"].items())
    lines = [
        ("rows", f"{summary['rows']:,} in {summary['output']}" + (f": {statuses}" if statuses else "")),
        ("tokens", f"{summary['input_tokens']:,} read, {summary['output_tokens']:,} written"),
        ("forward passes", f"{summary['passes_per_document']:.1f} per document"),
        (
            "speed",
            f"{summary['documents_per_second']:.2f} documents per second, {summary['in_flight']} in flight"
            + (f", {summary['dtype']}" if summary["dtype"] else ""),
        ),
        ("time", duration(summary["seconds"])),
    ]
    if summary["resumed"]:
        lines.append(("resumed", f"after {summary['resumed']:,} rows of an earlier run"))
    if "note" in summary:
        lines.append(("note", summary["note"]))
    return _aligned(lines)


def estimate_text(found: Estimate, in_flight: int, price: float | None, *, note: str | None = None) -> str:
    speed_up = found.sequential_passes / found.passes if found.passes else 0.0
    statuses = ", ".join(f"{count} {status}" for status, count in found.statuses.items())
    lines = [
        ("documents", f"{found.documents:,}"),
        ("tokens", f"{found.tokens_p50:,} in half of the documents or more, {found.tokens_p95:,} in one of twenty"),
        ("measured", f"{found.calibrated} documents: {statuses}"),
        (
            "forward passes",
            f"{found.passes:.1f} per document, {found.sequential_passes:.1f} from left to right"
            + (f" ({speed_up:.1f}x)" if speed_up else ""),
        ),
        ("memory", f"{found.cells:,} of {found.pool:,} cells for {in_flight} documents in flight"),
        ("KV cache", f"{found.cache_bytes / 2**20:,.0f} MiB"),
        ("speed", f"{found.documents_per_second:.2f} documents per second"),
        ("time", duration(found.hours * 3600)),
    ]
    if price is not None:
        lines.append(("price", f"{found.price(price):,.2f} at {price:,.2f} per hour"))
    if note is not None:
        lines.append(("note", note))
    return _aligned(lines)


def comparison_text(found: Comparison) -> str:
    """How the fields agree, with an example of each that differs and what was seen to change it."""
    all_of = f"{found.same:,} of {counted(found.documents, 'document')} are the same in all fields"
    failed = f"; {found.failed:,} more had no value in one of the modes" if found.failed else ""
    lines = [("compared", f"{found.mode} with left to right: {all_of}{failed}")]
    width = max((len(one.field) for one in found.fields), default=0)
    for one in found.fields:
        lines.append(("", f"{one.field:<{width}}  {one.same:,} of {one.of:,}"))
        lines += [("", f"    {each.document}: {each.parallel} → {each.sequential}") for each in one.examples]
        if one.advice is not None:
            lines.append(("", f"    {_advised(one.advice)}"))
    return _aligned(lines + [("note", note) for note in found.notes])


def _advised(advice: Advice) -> str:
    if advice.after is not None:
        return f"`{advice.after}` makes {advice.mends} of {advice.tried} the same"
    return "no `after` that was tried makes them the same; --mode sequential does, in more passes"


def _aligned(lines: list[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<16} {value}".rstrip() for name, value in lines)
