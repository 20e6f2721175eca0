"""What to tell a request that cannot go on, though it is alone and goes through its branches one at a time."""

from __future__ import annotations

from pastalang.runtime.errors import OutOfMemory
from pastalang.runtime.memory.cells import Cells
from pastalang.runtime.scheduler.request import RequestState


def too_small(request: RequestState, cells: Cells) -> OutOfMemory:
    branch = min(request.hungry, key=lambda branch: branch.number)
    wanted = branch.demand - branch.fed
    return OutOfMemory(
        f"`{branch.name or 'the prompt'}` wants {wanted} cells, {cells.free} of {cells.capacity} are free, even "
        "with one branch at a time; give it more: `cells` where the model is loaded, or `--cells`",
        plan=request.plan,
    )
