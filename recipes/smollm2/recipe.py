"""Make an adapter of `smollm2`: train pairs of small matrices on listings and documents, in three modes.

weights ── frozen ── pairs beside them ── extraction in three modes ── the folder of an adapter
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import torch

from pastalang.plan.branches import Mode
from pastalang.runtime.models.adapters import read_adapter, write_adapter
from pastalang.runtime.models.loading import default_device, load_tokenizer, load_weights, place_of
from pastalang.runtime.models.source import ADAPTER_WEIGHTS, fingerprint_of_file, name_on_hub
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.training.errors import BadData
from pastalang.training.run_folder import ReportLine, Step, own_folder
from pastalang.training.settings import Decay, Precision, Settings
from pastalang.training.trainer import train, usual_precision
from recipes.pasta_mini.lessons import LIMITS
from recipes.pasta_mini.listings import Listing
from recipes.pasta_mini.run_log import RunLog
from recipes.smollm2.groups import Group, group_loss, group_of
from recipes.smollm2.lessons import TITLES, WRITTEN, DrawGroup
from recipes.smollm2.lora import adapt, adapter_of, fresh_adapter, widened
from recipes.smollm2.stream import Stream, lines_loss
from recipes.smollm2.written import read_written

RUNS: Final = "runs.json"  # beside an adapter: what made it, the runs that it goes on from among them


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything. `rank` and `first_layer` are those of a fresh adapter."""

    steps: int = 600
    groups: int = 1  # of a step
    longest: int = 760  # tokens of a group
    learning_rate: float = 2e-3
    final_share: float = 0.05  # of the learning rate, at the last step
    warmup: int = 10  # steps
    average: float = 0.97
    save_every: int = 25  # steps
    rank: int = 16
    first_layer: int = 8
    wider: int = 0  # 1: an adapter that it goes on from gets fresh pairs in the layers from `first_layer` on, too
    seed: int = 0
    titles: float = TITLES  # of the groups
    written: float = WRITTEN  # of the groups are about written documents
    written_files: str = ""  # of written documents, their names between commas; empty: all
    recorders: int = 0  # processes that record groups; those of a step are then one batch, as suits a GPU
    repeats: int = 1  # of each batch that they record
    precision: str = ""  # float32, or mixed: products in bfloat16; empty: mixed where the processor has kernels for it


class Groups:
    """Batches by number, drawn when they are asked for. Counts what was fed."""

    def __init__(self, draw: DrawGroup, vocabulary: int, seed: int) -> None:
        self._draw, self._vocabulary, self._seed = draw, vocabulary, seed
        self.documents = 0

    def __call__(self, number: int) -> Group:
        group = group_of(self._draw(Random(f"smollm2/{self._seed}/{number}")), self._vocabulary)
        self.documents += group.documents
        return group


def make_adapter(
    model: str, titles: Sequence[Listing], out: Path, sizes: Sizes, *, command: str, report: ReportLine,
    overwrite: bool = False, start: Path | None = None,
) -> None:  # fmt: skip
    """Write the folder of an adapter to `out`. An interrupted run resumes from its last checkpoint.

    With `start`, it goes on from the adapter in that folder, with a fresh optimiser, instead of a fresh one.
    """
    read_written(sizes.written_files)  # refuses names of files that are not there
    if not (sizes.titles >= 0 and sizes.written >= 0 and sizes.titles + sizes.written <= 1):
        raise BadData(
            f"titles and written documents are shares of one whole, not {sizes.titles:g} and {sizes.written:g}"
        )
    begun = None if start is None else read_adapter(start)
    with own_folder(out, overwrite=overwrite):
        log = RunLog(out / "training", report)
        place = place_of(model)
        weights = load_weights(place, device=default_device(), dtype=torch.float32)
        adapter = fresh_adapter(weights, rank=sizes.rank, first_layer=sizes.first_layer, seed=sizes.seed)
        if begun is not None:
            adapter = widened(begun, adapter) if sizes.wider else begun
        sizes = replace(sizes, precision=sizes.precision or usual_precision(None).value)
        adapt(weights, adapter, torch.float32 if sizes.precision == Precision.FLOAT32 else torch.bfloat16)
        trained = sum(one.numel() for one in weights.parameters() if one.requires_grad)
        log(f"{trained / 1e6:.2f} million weights are trained")
        vocabulary = int(weights.config.vocab_size)
        drawing = partial(
            DrawGroup, titles=tuple(titles), longest=sizes.longest, title_share=sizes.titles, written=sizes.written,
            files=sizes.written_files,
        )  # fmt: skip
        batches: Groups | Stream
        if sizes.recorders:
            batches = Stream(
                model, drawing, groups=sizes.groups, seed=sizes.seed, processes=sizes.recorders, repeats=sizes.repeats
            )
        else:
            batches = Groups(drawing(load_tokenizer(place)), vocabulary, sizes.seed)
        identity = {"sizes": str(asdict(replace(sizes, save_every=0))), "start": _name_of(start)}
        cost = _train(weights, batches, out / "training", sizes, log, identity)
        write_adapter(out, adapter_of(weights, adapter), base=name_on_hub(model))
        run = {"command": command, "hours": round(log.hours, 2), **cost, "sizes": asdict(sizes)}
        (out / RUNS).write_text(json.dumps([*_runs_of(start), run], indent=2) + "\n", encoding="utf-8")
        TrainingNote(tuple(Mode), "", "", "", {"string": max(LIMITS)}).write(out)
        log(f"saved to {out}")


def _train(
    model: Any, batches: Groups | Stream, folder: Path, sizes: Sizes, log: RunLog, identity: dict[str, str]
) -> dict[str, int]:
    """What was fed, in all: of a run that was resumed, too."""
    settings = Settings(
        steps=sizes.steps, learning_rate=sizes.learning_rate, final_share=sizes.final_share, decay=Decay.LINEAR,
        warmup_steps=min(sizes.warmup, sizes.steps), weight_decay=0.0, average=sizes.average,
        accumulation=1 if sizes.recorders else sizes.groups, save_every=sizes.save_every, seed=sizes.seed,
        precision=Precision(sizes.precision),
    )  # fmt: skip
    loss = lines_loss if sizes.recorders else group_loss
    fed = folder / "fed.json"
    cost = json.loads(fed.read_text()) if fed.exists() else {"documents": 0, "tokens": 0}

    def on_step(step: Step) -> None:
        cost["tokens"] += step.tokens
        cost["documents"] += batches.documents
        batches.documents = 0
        fed.write_text(json.dumps(cost))
        log(f"step {step.number}/{step.steps}  loss {step.loss:.4f}  rate {step.rate:.1e}  {cost['tokens']:,} tokens")

    train(model, batches, settings, folder / "extraction", identity=identity, loss=loss, report=log, on_step=on_step)
    if isinstance(batches, Stream):
        batches.close()
    return cost


def _name_of(start: Path | None) -> str:
    return "fresh" if start is None else fingerprint_of_file(start / ADAPTER_WEIGHTS)


def _runs_of(start: Path | None) -> list[Any]:
    path = None if start is None else start / RUNS
    if path is None or not path.is_file():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise BadData(f"{path} is not JSON: {problem}") from problem
    return found if isinstance(found, list) else []
