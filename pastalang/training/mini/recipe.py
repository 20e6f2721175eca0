"""pasta-mini from nothing: listings and texts come in, a folder with tokenizer, weights and their scores goes out.

tokenizer ── copying ── language ── look-up in labelled listings ── extraction, made up and real, in three modes
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pastalang.plan.plan import Mode
from pastalang.runtime.model.load import default_device
from pastalang.runtime.model.trained import TrainedFor
from pastalang.training.batch import Batch
from pastalang.training.errors import BadRow
from pastalang.training.language import language_batches
from pastalang.training.lessons import Recorder
from pastalang.training.mini.copying import copying_batches
from pastalang.training.mini.extraction import LIMITS, lessons_of
from pastalang.training.mini.model import fresh_model
from pastalang.training.mini.sources import Split, as_text, labelled, made_up
from pastalang.training.mini.tokenizer import PART, SIZE, train_tokenizer
from pastalang.training.packing import packed_batches
from pastalang.training.run import prepare_folder, save
from pastalang.training.scores import score_rows
from pastalang.training.sequence import Sequence as Row
from pastalang.training.settings import Settings
from pastalang.training.synthetic.listing import Listing
from pastalang.training.synthetic.pools import Part
from pastalang.training.trainer import Batches, train

Tell = Callable[[str], None]
MODES = tuple(Mode)
_COPY_LENGTH, _COPY_TEXT = 96, 24


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; `*_steps` are those of the four stages."""

    copying_steps: int = 600
    language_steps: int = 400
    lookup_steps: int = 600
    extraction_steps: int = 3000
    listings: int = 12_000
    labelled: int = 3_000
    rows: int = 8
    length: int = 512
    learning_rate: float = 1.5e-3
    vocabulary: int = SIZE
    hidden: int = 256
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    steps: int
    batches: Batches
    judge: Callable[[Any], float] | None = None


def make_mini(real: Split, texts: Sequence[str], out: Path, sizes: Sizes, *, tell: Tell, overwrite: bool) -> None:
    """Broken off and started again it goes on where it was."""
    prepare_folder(out, overwrite=overwrite)
    listings = made_up(sizes.listings, seed=sizes.seed)
    tokenizer = train_tokenizer([*texts, *map(as_text, listings), *map(as_text, real.train)], size=sizes.vocabulary)
    model = fresh_model(
        len(tokenizer), end=tokenizer.eos_token_id, seed=sizes.seed, hidden=sizes.hidden, layers=sizes.layers,
        heads=sizes.heads, kv_heads=sizes.kv_heads,
    ).to(default_device())  # fmt: skip
    tell(f"{sum(weight.numel() for weight in model.parameters()) / 1e6:.2f} million weights")
    recorder = Recorder(tokenizer)
    held_out = rows_of(recorder, real.held_out, (Mode.STRICT,), sizes, origin="held out", tell=tell)
    unseen = rows_of(
        recorder, made_up(200, seed=1, part=Part.TEST), (Mode.STRICT,), sizes, origin="made up, unseen", tell=tell
    )
    for stage in _stages(recorder, tokenizer, listings, real, texts, held_out, sizes, tell):
        tell(f"── {stage.name}")
        _run(model, stage, out, sizes, tell)
    note = TrainedFor(MODES, "", "", "", {"string": max(LIMITS)})
    save(model.bfloat16(), tokenizer, note, out)
    scores = {
        name: asdict(score_rows(model.float(), [row for [row] in rows]))
        for name, rows in (("oa-mine, held out", held_out), ("made up, unseen values", unseen))
    }
    (out / "scores.json").write_text(json.dumps({"sizes": asdict(sizes), "scores": scores}, indent=2) + "\n")
    tell(f"saved to {out}")


def rows_of(
    recorder: Recorder, listings: Sequence[Listing], modes: Sequence[Mode], sizes: Sizes, *, origin: str, tell: Tell
) -> list[list[Row]]:
    """What a line of a batch or a limit cannot hold is left out, and told: this is no user's data."""
    found, left_out = [], 0
    for lesson in lessons_of(listings, seed=sizes.seed, origin=origin):
        try:
            ways = [recorder.row(lesson, mode) for mode in modes]
        except BadRow:
            left_out += 1
            continue
        if max(map(len, ways)) <= sizes.length:
            found.append(ways)
        else:
            left_out += 1
    tell(f"{origin}: {len(found)} rows, {left_out} left out")
    return found


def _stages(
    recorder: Recorder,
    tokenizer: Any,
    listings: Sequence[Listing],
    real: Split,
    texts: Sequence[str],
    held_out: Sequence[Sequence[Row]],
    sizes: Sizes,
    tell: Tell,
) -> tuple[Stage, ...]:
    def packed(rows: list[list[Row]]) -> Batches:
        return packed_batches(rows, rows=sizes.rows, length=sizes.length, seed=sizes.seed)

    lookup = rows_of(recorder, labelled(sizes.labelled, seed=sizes.seed), MODES, sizes, origin="labelled", tell=tell)
    invented = rows_of(recorder, listings, MODES, sizes, origin="made up", tell=tell)
    stated = rows_of(recorder, real.train, MODES, sizes, origin="oa-mine", tell=tell)
    part = tokenizer.convert_tokens_to_ids(PART)
    documents = [tokenizer.encode(text, add_special_tokens=False) for text in (*texts, *map(as_text, listings))]
    language = language_batches(documents, rows=sizes.rows, length=sizes.length, separator=part, seed=sizes.seed)
    lines = max(1, sizes.rows * sizes.length // _COPY_LENGTH)  # short and many: copying is learnt from large batches
    copying = copying_batches(
        len(tokenizer), first=part + 1, rows=lines, length=_COPY_LENGTH, text=_COPY_TEXT, seed=sizes.seed
    )
    return (
        Stage("copying", sizes.copying_steps, copying),
        Stage("language", sizes.language_steps, language),
        Stage("looking up", sizes.lookup_steps, packed(lookup)),
        Stage(
            "extraction", sizes.extraction_steps, _in_turn(packed(invented), packed(stated), packed(lookup + stated)),
            lambda model: score_rows(model, [row for [row] in held_out]).reported.f1 / 100,
        ),
    )  # fmt: skip


def _in_turn(*sources: Batches) -> Batches:
    def batch(number: int) -> Batch:
        return sources[number % len(sources)](number // len(sources))

    return batch


def _run(model: Any, stage: Stage, out: Path, sizes: Sizes, tell: Tell) -> None:
    settings = Settings(steps=stage.steps, learning_rate=sizes.learning_rate, seed=sizes.seed)
    if stage.judge is not None:
        settings = replace(settings, judge_every=250)
    settings = replace(settings, warmup_steps=min(settings.warmup_steps, max(1, stage.steps // 5)))
    folder = out / "training" / stage.name.replace(" ", "-")
    train(model, stage.batches, settings, folder, fingerprint=str(asdict(sizes)), judge=stage.judge, report=tell)
