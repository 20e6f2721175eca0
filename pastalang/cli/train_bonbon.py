"""`pasta train bonbon`: preference rounds for a model that opens threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pastalang.cli.evaluate_threads import function_named
from pastalang.cli.exit_codes import EXIT_STOPPED, EXIT_USAGE, Refused
from pastalang.cli.long_runs import ctrl_c_asked, screen
from pastalang.cli.model_source import refuse_hub, refuse_model
from pastalang.plan.plan import Overrun
from pastalang.program.program import Program
from pastalang.training.settings import Preference, Settings

if TYPE_CHECKING:
    from pastalang.training.model_files import Lora
    from pastalang.training.row_files import RowFile


@dataclass(frozen=True, slots=True)
class PreferenceOptions:
    """The options that only `bonbon` has. `score` and `judge` are functions, as `module:function`."""

    preference: Preference
    rounds: int
    score: str | None
    judge: str | None
    baseline: str | None
    reference: str | None
    sampled: Path | None


def train_bonbon(
    options: PreferenceOptions, settings: Settings, program: Program, template: str | None, model: str, data: RowFile,
    out: Path, pairs: int, warmup: int | None, device: str | None, *,
    overrun: Overrun, lora: Lora | None, keep_adapter: bool, overwrite: bool, given: Mapping[str, Any],
) -> None:  # fmt: skip
    """Raises `Refused`. An interrupted round goes on. `given` are the options of the command, by name."""
    if options.score is not None and options.judge is not None:
        raise Refused("--score and --judge both say how good an answer is: pass one of them", EXIT_USAGE)
    score = None if options.score is None else function_named("--score", options.score)
    judge = None if options.judge is None else function_named("--judge", options.judge)
    for other in (options.baseline, options.reference):
        if other is not None:
            refuse_model(other)
            refuse_hub(other)
    from pastalang.training.bonbon import Quality, Round, train_round, train_rounds
    from pastalang.training.errors import Interrupted
    from pastalang.training.method import OwnThreads

    round = Round(
        OwnThreads(program, template, overrun), model, data, out, options.preference, settings,
        quality=Quality(score, judge, options.score or options.judge or "F1 of words"),
        baseline=options.baseline, reference=options.reference, sampled=options.sampled, pairs=pairs, warmup=warmup,
        lora=lora, keep_adapter=keep_adapter, device=device, overwrite=overwrite, options=given,
    )  # fmt: skip
    show, live = screen()

    def on_done(done: int) -> None:
        if live is not None:
            live(f"sampling: {done:,} rows")

    try:
        with ctrl_c_asked() as is_stopped:
            if options.rounds == 1:
                train_round(round, report=show, is_stopped=is_stopped, on_done=on_done)
            else:
                train_rounds(round, options.rounds, report=show, is_stopped=is_stopped, on_done=on_done)
    except Interrupted as stopped:
        raise Refused(f"{stopped} in {out}: give the same command again to go on", EXIT_STOPPED) from stopped
