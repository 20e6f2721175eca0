"""`pasta train ppd`: prompt tokens that foretell what a model says, for fewer passes and the same answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pastalang.cli.exit_codes import EXIT_STOPPED, Refused
from pastalang.cli.long_runs import ctrl_c_asked, screen
from pastalang.plan.plan import Mode
from pastalang.program.program import Program
from pastalang.training.settings import LogName, Settings, TrainingMode

if TYPE_CHECKING:
    from pastalang.training.row_files import RowFile


def train_ppd(
    settings: Settings, program: Program, template: str | None, mode: TrainingMode, model: str, data: RowFile,
    out: Path, device: str | None, *, distances: int, ensemble: int, temperature: float | None, samples: int,
    rows: int, length: int | None, overwrite: bool, options: Mapping[str, Any], logs: tuple[LogName, ...],
) -> None:  # fmt: skip
    """Raises `Refused`. An interrupted run goes on."""
    from pastalang.training.errors import Interrupted
    from pastalang.training.probe_methods import PromptJob, PromptTraining, train_prompt_tokens

    training = PromptTraining(distances, ensemble, temperature=temperature, samples=samples)
    job = PromptJob(
        program, model, data, out, training, settings, template=template, mode=Mode(mode.value), rows=rows,
        length=length or 512, device=device, overwrite=overwrite, options=options, logs=logs,
    )  # fmt: skip
    show, live = screen()
    try:
        with ctrl_c_asked() as is_stopped:
            train_prompt_tokens(job, report=show, live=live, is_stopped=is_stopped)
    except Interrupted as stopped:
        raise Refused(f"{stopped} in {out}: give the same command again to go on", EXIT_STOPPED) from stopped
