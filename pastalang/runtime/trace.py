"""What happened in a run, pass by pass: the branches come in, plain events go out, and JSON lines or a Chrome trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pastalang.runtime.scheduler.branch import BranchState
    from pastalang.runtime.scheduler.request import RequestState

ROOT_LANE = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """One branch. `forked_in` is the first pass that fed or drew something of it."""

    id: int
    name: str
    items: tuple[int, ...]
    parent: int | None
    forked_in: int | None
    sees: tuple[tuple[int, int], ...]  # (lane, how many of its tokens)


@dataclass(frozen=True, slots=True)
class Fed:
    """Forced tokens that a pass fed; of those that an earlier run had left in memory, the first pass that saw them."""

    lane: int
    forward_pass: int
    text: str
    tokens: int
    position: int
    was_kept: bool = False


@dataclass(frozen=True, slots=True)
class Drew:
    """A token drawn from the logits of a pass."""

    lane: int
    forward_pass: int
    text: str
    token: int
    log_probability: float
    position: int


@dataclass(frozen=True, slots=True)
class JoinedLanes:
    lane: int
    joined: tuple[int, ...]
    since: int
    forward_pass: int


@dataclass(frozen=True, slots=True)
class Trace:
    passes: int
    lanes: tuple[Lane, ...]
    fed: tuple[Fed, ...]
    drawn: tuple[Drew, ...]
    joins: tuple[JoinedLanes, ...]

    def json_lines(self) -> str:
        """One object per line, in the order of the passes; the first line tells the version."""
        lines: list[dict[str, Any]] = [{"kind": "run", "version": 1, "passes": self.passes}]
        lines += [{"kind": "lane", **asdict(lane)} for lane in self.lanes]
        happened = [
            *({"kind": "fed", **asdict(one)} for one in self.fed),
            *({"kind": "drawn", **asdict(one)} for one in self.drawn),
            *({"kind": "joined", **asdict(one)} for one in self.joins),
        ]
        lines += sorted(happened, key=lambda line: line["forward_pass"])
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def chrome(self) -> str:
        """For trace viewers: a pass is a millisecond, a lane is a thread."""
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": lane.id, "args": {"name": lane.name or "root"}}
            for lane in self.lanes
        ]
        happened: list[Fed | Drew] = [*self.fed, *self.drawn]
        for one in happened:
            begin = one.forward_pass * 1000
            events.append({"ph": "X", "name": one.text or " ", "pid": 0, "tid": one.lane, "ts": begin, "dur": 1000})
        return json.dumps({"traceEvents": events}, ensure_ascii=False)


def read_json_lines(text: str) -> Trace:
    """The trace that `json_lines` wrote."""
    lines = [json.loads(line) for line in text.splitlines()]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        kinds.setdefault(line.pop("kind"), []).append(line)
    return Trace(
        passes=kinds["run"][0]["passes"],
        lanes=tuple(
            Lane(**{**line, "items": tuple(line["items"]), "sees": tuple((lane, many) for lane, many in line["sees"])})
            for line in kinds.get("lane", ())
        ),
        fed=tuple(Fed(**line) for line in kinds.get("fed", ())),
        drawn=tuple(Drew(**line) for line in kinds.get("drawn", ())),
        joins=tuple(JoinedLanes(**{**line, "joined": tuple(line["joined"])}) for line in kinds.get("joined", ())),
    )


def trace_of(request: RequestState) -> Trace:
    branches = request.branches
    return Trace(
        passes=request.last_draw,
        lanes=tuple(_lane(branch) for branch in branches),
        fed=tuple(sorted((*_prompt(request), *(fed for one in branches for fed in _fed(one))), key=_pass_of)),
        drawn=tuple(sorted((drew for branch in branches for drew in _drawn(branch)), key=_pass_of)),
        joins=tuple(sorted((join for branch in branches for join in _joins(branch)), key=_pass_of)),
    )


def _pass_of(one: Fed | Drew | JoinedLanes) -> int:
    return one.forward_pass


def _lane(branch: BranchState) -> Lane:
    passes = [*(run[2] for run in branch.runs[:1]), *(drawn.forward_pass for drawn in branch.drawn[:1])]
    sees: dict[int, int] = {}
    for seen in branch.view:
        lane = max(seen.branch.number, ROOT_LANE)  # what is kept of a prompt is the root's
        if lane != branch.number:
            sees[lane] = sees.get(lane, 0) + seen.length
    parent = None if branch.parent is None else branch.parent.number
    return Lane(branch.number, branch.name, branch.items, parent, min(passes, default=None), tuple(sees.items()))


def _prompt(request: RequestState) -> Iterator[Fed]:
    """The beginning of the root that the memory of prompts holds: what was there before, and what is new in it."""
    if not request.branches:
        return
    tokens = [token for seen in request.root.view for token in seen.branch.tokens[: seen.length]]
    decode = request.tokens.encoder.decode
    reused = min(request.reused_tokens, len(tokens))
    for part, start, was_kept in ((tokens[:reused], 0, True), (tokens[reused:], reused, False)):
        if part:
            yield Fed(ROOT_LANE, 1, decode(part), len(part), start, was_kept)


def _fed(branch: BranchState) -> Iterator[Fed]:
    """Runs of forced tokens, cut where a drawn one stands between them."""
    drawn = {one.index for one in branch.drawn}
    decode = branch.request.tokens.encoder.decode
    for first, count, forward_pass in branch.runs:
        start = first
        for index in range(first, first + count + 1):
            if index < first + count and index not in drawn:
                continue
            if index > start:
                tokens = branch.tokens[start:index]
                yield Fed(branch.number, forward_pass, decode(tokens), len(tokens), branch.positions[start])
            start = index + 1


def _drawn(branch: BranchState) -> Iterator[Drew]:
    for one in branch.drawn:
        position = branch.position if one.index is None else branch.positions[one.index]
        yield Drew(branch.number, one.forward_pass, one.text, one.token, one.log_probability, position)


def _joins(branch: BranchState) -> Iterator[JoinedLanes]:
    for since, index, joined in branch.join_marks:
        passes = [run[2] for run in branch.runs if run[0] + run[1] > index]
        if passes:
            yield JoinedLanes(branch.number, tuple(one.number for one in joined), since, passes[0])
