"""The words that a model's chat template writes around messages, as the server or a tokenizer knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pastalang.hosts.errors import HostError
from pastalang.hosts.servers import Server
from pastalang.plan.branches import TurnStart
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program.program import Role
from pastalang.runtime.binding.chat import Turn, turns_of

_MARK: Final = "zq{}qz"


def roles_of(plan: Plan) -> tuple[Role, ...]:
    """The roles of all turns, in order. Stacked documents have the same turns each."""
    found = {segment.index: segment.role for _, _, segment in walk_plan(plan) if isinstance(segment, TurnStart)}
    return tuple(found[index] for index in sorted(found))


class Turns:
    """The turns of each list of roles, asked for once. `tokenizer` is one of transformers, if it is at hand."""

    def __init__(self, server: Server, tokenizer: Any) -> None:
        self._server = server
        self._tokenizer = tokenizer
        self._known: dict[tuple[Role, ...], tuple[Turn, ...]] = {}

    async def of(self, roles: tuple[Role, ...]) -> tuple[Turn, ...]:
        if roles not in self._known:
            if self._tokenizer is not None:
                self._known[roles] = turns_of(self._tokenizer, roles)
            else:
                self._known[roles] = await self._asked(roles)
        return self._known[roles]

    async def _asked(self, roles: Sequence[Role]) -> tuple[Turn, ...]:
        """The server renders messages of marks, and the words between the marks are the template's."""
        marks = [_MARK.format(index) for index in range(len(roles) - 1)]
        rest = await self._server.rendered(
            [{"role": role.value, "content": mark} for role, mark in zip(roles, marks, strict=False)]
        )
        openings = []
        for mark in marks:
            before, found, rest = rest.partition(mark)
            if not found:
                raise HostError("the server's chat template drops or changes a message")
            openings.append(before)
        return tuple(Turn(opening, "") for opening in (*openings, rest))
