"""A plan as a page of text for a terminal: figures, lanes from left to right, waves, the largest gaps."""

from __future__ import annotations

from textwrap import wrap

from pastalang.plan.branches import PlanData
from pastalang.plan.draw.text_metrics import cells_of, fit_columns, printable
from pastalang.plan.draw.timeline import (
    MOST_ITEMS,
    Bar,
    Chosen,
    Joined,
    Lane,
    Looped,
    Timeline,
    build_timeline,
    busiest,
    describe_plan,
    measured_with,
)
from pastalang.plan.forecast import ANY, Forecast, Gap, forecast
from pastalang.plan.token_bounds import Lengths
from pastalang.values.describe import caption, counted

WIDEST_NAME = 26
MOST_LANES = 200
MOST_WAVES = 12
MOST_GAPS = 5
LETTERS = str.maketrans({"█": "#", "▓": "=", "░": "-", "·": ".", "×": "x", "→": ">", "…": "~", "◆": "?"})


def draw_text(plan: PlanData, *, lengths: Lengths = ANY, width: int = 96, ascii_only: bool = False) -> str:
    """At most `width` columns. `ascii_only` is for terminals that have no other characters."""
    timeline, cost = build_timeline(plan), forecast(plan, lengths, most_items=MOST_ITEMS)
    blocks = (
        _summary(timeline, cost, width),
        _lanes(timeline, width),
        _waves(timeline, width),
        _gaps(cost.gaps, width),
    )
    text = "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block) + "\n"
    return text.translate(LETTERS).encode("ascii", "replace").decode() if ascii_only else text


def _summary(timeline: Timeline, cost: Forecast, width: int) -> list[str]:
    path = " → ".join(timeline.critical) or "nothing is decoded"
    exactly = "" if cost.is_exact else ", text counted in bytes (see --tokenizer)"
    figures = (
        ("passes", f"{cost.passes.high:,}: {path}"),
        ("sequential", f"{cost.draws.high:,}: {cost.speed_up:,.1f}× fewer passes in parallel"),
        ("at once", f"{counted(busiest(cost.longest), 'token')} in the busiest pass"),
        ("cells", f"{cost.peak_cells.high:,} at the peak{exactly}"),
        ("positions", f"up to {cost.highest_position.high:,}"),
    )
    head = fit_columns(f"{printable(timeline.plan.template)}: {describe_plan(timeline)}", width)
    return [
        head,
        fit_columns(measured_with(timeline.plan), width),
        "",
        *(fit_columns(f"  {name:<11}{printable(words)}", width) for name, words in figures),
    ]


# ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────


def _lanes(timeline: Timeline, width: int) -> list[str]:
    shown = timeline.lanes[:MOST_LANES]
    names = [" " * 2 * lane.depth + printable(lane.title) for lane in shown]
    column = min(WIDEST_NAME, max(map(cells_of, names)))
    room = max(20, width - column - 4 - 2)
    scale = room / max(1, timeline.passes)
    left = " " * (column + 4)
    lines = [left + _ruler(timeline.passes, scale, room)]
    for lane, name in zip(shown, names, strict=True):
        shown_name = fit_columns(name, column)
        lines.append(f"  {shown_name}{' ' * (column - cells_of(shown_name))}  {_lane(lane, scale, room)}")
    if len(timeline.lanes) > len(shown):
        lines.append(f"  and {counted(len(timeline.lanes) - len(shown), 'more branch')}")
    return [*lines, "", *_signs(timeline, width)]


def _lane(lane: Lane, scale: float, room: int) -> str:
    cells = [" "] * room
    for event in lane.events:
        if isinstance(event, Looped):
            _fill(cells, event.start, event.end, scale, "░")
    if lane.loops and lane.bars:
        _fill(cells, lane.start, lane.last_end, scale, "░")
    for event in lane.events:
        if isinstance(event, Joined):
            _fill(cells, event.start, event.at, scale, "·")
        elif isinstance(event, Bar):
            _fill(cells, event.start, event.end, scale, "█" if event.critical else "▓")
    for event in lane.events:
        if isinstance(event, Chosen):
            cells[min(room - 1, int(event.start * scale))] = "◆"
    return _with_words("".join(cells), lane)


def _with_words(drawn: str, lane: Lane) -> str:
    """The lane, followed by what it holds where there is room."""
    kind = " ".join(dict.fromkeys(caption(bar.hole.type) for bar in lane.bars))
    own = [str(each.copies) for each in lane.events if isinstance(each, Looped)]
    words = " ".join(part for part in (kind, *own, lane.times) if part)
    used = len(drawn.rstrip())
    return f"{drawn[:used]} {fit_columns(printable(words), len(drawn) - used - 1)}" if len(drawn) - used > 6 else drawn


def _fill(cells: list[str], start: int, end: int, scale: float, letter: str) -> None:
    """At least one cell, however short."""
    first = min(len(cells) - 1, int(start * scale))
    last = max(first + 1, min(len(cells), round(end * scale)))
    cells[first:last] = letter * (last - first)


def _ruler(passes: int, scale: float, room: int) -> str:
    step = next(
        step
        for exponent in range(12)
        for step in (10**exponent, 2 * 10**exponent, 5 * 10**exponent)
        if step * scale >= 10
    )
    line, end = [" "] * room, counted(passes, "pass")
    for at in range(0, passes + 1, step):
        place, label = int(at * scale), str(at)
        if place + len(label) + 2 <= room - len(end):
            line[place : place + len(label)] = label
    return "".join(line[: max(0, room - len(end))]) + end


def _signs(timeline: Timeline, width: int) -> list[str]:
    events = [event for lane in timeline.lanes for event in lane.events]
    signs = (
        ("█ on the longest path", any(bar.critical for bar in timeline.bars)),
        ("▓ other values", any(not bar.critical for bar in timeline.bars)),
        ("░ later items", any(isinstance(e, Looped) for e in events) or any(lane.loops for lane in timeline.lanes)),
        ("· waits", any(isinstance(event, Joined) and event.start < event.at for event in events)),
        ("◆ a choice", any(isinstance(event, Chosen) for event in events)),
    )
    occurring = [sign.replace(" ", "\u00a0") for sign, occurs in signs if occurs]  # a sign stays on one line
    wrapped = wrap("   ".join(occurring), width - 2, break_on_hyphens=False)
    return [f"  {line}".replace("\u00a0", " ") for line in wrapped]


# ── waves and gaps ───────────────────────────────────────────────────────────────────────────────────────


def _waves(timeline: Timeline, width: int) -> list[str]:
    """Values by how many others must be known before them."""
    waves: dict[int, list[str]] = {}
    for bar in timeline.bars:
        waves.setdefault(bar.wave, []).append(printable(bar.hole.field))
    lines = [
        fit_columns(f"  {wave:>3}  {_listed(waves[wave], width - 7)}", width) for wave in sorted(waves)[:MOST_WAVES]
    ]
    rest = len(waves) - MOST_WAVES
    return [
        "Waves: the values of a line can be decoded together",
        *lines,
        *([f"       and {rest} more"] if rest > 0 else []),
    ]


def _listed(names: list[str], room: int) -> str:
    """As many names as fit, and how many more there are."""
    shown: list[str] = []
    used = 0
    for name in names:
        used += cells_of(name) + 2
        if used > room - 12 and len(names) > 1:
            break
        shown.append(name)
    shown = shown or [fit_columns(names[0], room - 12)]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _gaps(gaps: tuple[Gap, ...], width: int) -> list[str]:
    """The forks that cost most positions; what is shorter than its gap leaves the rest of it unused."""
    if not gaps:
        return []
    lines = [f"  {gap.positions:>7,}  {fit_columns(printable(gap.name), width - 12)}" for gap in gaps[:MOST_GAPS]]
    return [f"Positions kept free: {sum(gap.positions for gap in gaps):,}; the largest gaps", *lines]
