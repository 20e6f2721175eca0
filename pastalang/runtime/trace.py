"""The trace of a run, pass by pass, and its two file formats: JSON lines and Chrome traces."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from pastalang.diagnostics.suggest import first_of
from pastalang.values.paths import place_of

ROOT_LANE = 0
_SHOWN = 8  # lanes in its text


@dataclass(frozen=True, slots=True)
class Lane:
    """One branch. `forked_in` is the first pass that fed or sampled one of its tokens.

    `name` is that of the plan, "" for the first one, and `items` are the numbers of the loops around it. `where` says
    both, as people write it: `lines[2].total`, and `main`.
    """

    id: int
    name: str
    items: tuple[int, ...]
    parent: int | None
    forked_in: int | None
    sees: tuple[tuple[int, int], ...]  # (lane, how many of its tokens)

    @property
    def where(self) -> str:
        return place_of(self.name, self.items)


@dataclass(frozen=True, slots=True)
class ForcedTokens:
    """Forced tokens and the pass that fed them, or that first saw them if an earlier run left them in the cache."""

    lane: int
    forward_pass: int
    text: str
    tokens: int
    position: int
    was_kept: bool = False


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token sampled from the logits of a pass."""

    lane: int
    forward_pass: int
    text: str
    token: int
    log_probability: float
    position: int


@dataclass(frozen=True, slots=True)
class DraftedTokens:
    """Guesses that a pass fed for a lane, and how many of them were right."""

    lane: int
    forward_pass: int
    fed: int
    confirmed: int


@dataclass(frozen=True, slots=True)
class JoinedLanes:
    """From pass `forward_pass` on, `lane` sees the `joined` lanes; it waited for them since pass `since`."""

    lane: int
    joined: tuple[int, ...]
    since: int
    forward_pass: int


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """What each forward pass of a run fed and sampled, on which lane, and what the lanes saw of one another."""

    passes: int
    lanes: tuple[Lane, ...]
    fed: tuple[ForcedTokens, ...]
    drawn: tuple[SampledToken, ...]
    joins: tuple[JoinedLanes, ...]
    drafts: tuple[DraftedTokens, ...] = ()

    def __repr__(self) -> str:
        names = [lane.where for lane in self.lanes]
        lanes, given = first_of(names, _SHOWN), sum(one.tokens for one in self.fed)
        return f"<Trace of {self.passes} passes: {given:,} tokens given, {len(self.drawn):,} sampled\n {lanes}>"

    def json_lines(self) -> str:
        """JSON lines: one object per line, in the order of the passes. The first line holds the version."""
        lines: list[dict[str, Any]] = [{"kind": "run", "version": 1, "passes": self.passes}]
        lines += [{"kind": "lane", "where": lane.where, **asdict(lane)} for lane in self.lanes]
        happened = [
            *({"kind": "fed", **asdict(one)} for one in self.fed),
            *({"kind": "drawn", **asdict(one)} for one in self.drawn),
            *({"kind": "joined", **asdict(one)} for one in self.joins),
            *({"kind": "drafted", **asdict(one)} for one in self.drafts),
        ]
        lines += sorted(happened, key=lambda line: line["forward_pass"])
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def chrome(self) -> str:
        """JSON for trace viewers such as Perfetto. A pass is a millisecond, a lane a thread."""
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": lane.id, "args": {"name": lane.where}}
            for lane in self.lanes
        ]
        happened: list[ForcedTokens | SampledToken] = [*self.fed, *self.drawn]
        for one in happened:
            begin = one.forward_pass * 1000
            events.append({"ph": "X", "name": one.text or " ", "pid": 0, "tid": one.lane, "ts": begin, "dur": 1000})
        return json.dumps({"traceEvents": events}, ensure_ascii=False)
