"""`pasta train bonbon`: a preference round for a model that opens threads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pastalang.cli.evaluate_threads import function_named
from pastalang.cli.exit_codes import EXIT_STOPPED, Refused
from pastalang.cli.long_runs import ctrl_c_asked, screen
from pastalang.program.program import Program
from pastalang.training.preference import Preference
from pastalang.training.settings import Settings

if TYPE_CHECKING:
    from pastalang.training.model_files import Lora
    from pastalang.training.row_files import RowFile


def train_bonbon(
    preference: Preference, settings: Settings, program: Program, template: str | None, model: str, data: RowFile,
    out: Path, score: str | None, pairs: int, warmup: int | None, device: str | None, *,
    sampled: Path | None, lora: Lora | None, keep_adapter: bool, overwrite: bool, options: Mapping[str, Any],
) -> None:  # fmt: skip
    """Raises `Refused`. An interrupted round goes on."""
    count = None if score is None else function_named("--score", score)
    from pastalang.training.bonbon import Round, train_round
    from pastalang.training.errors import Interrupted
    from pastalang.training.method import OwnThreads

    round = Round(
        OwnThreads(program, template), model, data, out, preference, settings, pairs=pairs, warmup=warmup, score=count,
        score_name=score or "F1 of words", sampled=sampled, lora=lora, keep_adapter=keep_adapter, device=device,
        overwrite=overwrite, options=options,
    )  # fmt: skip
    show, live = screen()
    try:
        with ctrl_c_asked() as is_stopped:
            train_round(
                round, report=show, is_stopped=is_stopped,
                on_done=lambda done: live(f"sampling: {done:,} rows") if live else None,
            )  # fmt: skip
    except Interrupted as stopped:
        raise Refused(f"{stopped} in {out}: give the same command again to go on", EXIT_STOPPED) from stopped
