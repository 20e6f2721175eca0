"""What a run cost, in numbers that do not depend on the machine, and the seconds it took here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """`output_tokens` are the drawn ones; `forced_tokens` were fed without being drawn, in the model's own turn.

    `critical_path` is the number of passes that the plan's dependencies ask for, given what was drawn;
    `theoretical_speedup` is how many passes left-to-right decoding of the same answer takes for each of those.
    Both are about the first complete answer. What was decoded again for the sake of `model=` or `retry_below=` is
    in `repair_passes` and `repair_tokens` (drawn), which are part of `forward_passes` and `output_tokens`;
    `attempts` counts the fields that were decoded again for a reason of their own.
    `peak_cells` is the most cells that held something of this request at one time, its prompt included whether it is
    fed or kept from an earlier request. It is never more than the peak of the plan's forecast for the same lengths.
    Requests that share a kept prompt count it each.
    With `details`, weighing the options of a choice may take one pass more than the path asks for, and a few cells.
    `attended_tokens` is the mean over drawn tokens of how many tokens each saw.
    """

    input_tokens: int
    reused_tokens: int
    output_tokens: int
    forced_tokens: int
    forward_passes: int
    critical_path: int
    theoretical_speedup: float
    peak_cells: int
    attended_tokens: float
    seconds: float
    repair_passes: int = 0
    repair_tokens: int = 0
    attempts: int = 0
