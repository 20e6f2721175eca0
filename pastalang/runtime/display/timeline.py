"""Draws a trace as text: one line per lane, one column per pass.

= forced text   # a sampled token   + both   * guesses that were right among them   . waiting
"""

from __future__ import annotations

from pastalang.runtime.trace import Lane, Trace

WIDTH = 100


def draw_timeline(trace: Trace, *, width: int = WIDTH) -> str:
    """A trace with more passes than `width` columns shows several passes in one column."""
    scale = max(1, -(-trace.passes // width))
    names = {lane.id: _name(lane) for lane in trace.lanes}
    margin = min(max(map(len, names.values()), default=0), 32)
    lines = [f"{trace.passes} forward passes, {_scaled(scale)}: = forced text, # sampled tokens, + both"]
    if trace.drafts:
        right, fed = (sum(getattr(one, name) for one in trace.drafts) for name in ("confirmed", "fed"))
        lines[0] += f", * right guesses among them ({right} of {fed})"
    for lane in trace.lanes:
        lines.append(f"{names[lane.id][:margin]:<{margin}} {_bar(trace, lane, scale)}")
    return "\n".join(lines)


def _name(lane: Lane) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in lane.where)


def _bar(trace: Trace, lane: Lane, scale: int) -> str:
    columns = -(-trace.passes // scale)
    fed = {(one.forward_pass - 1) // scale for one in trace.fed if one.lane == lane.id}
    drawn = {(one.forward_pass - 1) // scale for one in trace.drawn if one.lane == lane.id}
    begin = min(fed | drawn, default=columns)
    end = max(fed | drawn, default=-1)
    guessed = {(one.forward_pass - 1) // scale for one in trace.drafts if one.lane == lane.id and one.confirmed}
    marks = []
    for column in range(columns):
        if column in guessed:
            marks.append("*")
        elif column in fed and column in drawn:
            marks.append("+")
        elif column in drawn:
            marks.append("#")
        elif column in fed:
            marks.append("=")
        else:
            marks.append("." if begin < column < end else " ")
    return "".join(marks).rstrip()


def _scaled(scale: int) -> str:
    return "one column per pass" if scale == 1 else f"one column per {scale} passes"
