"""The rows of pasta-mini: real listings and a random stream come in, recorded rows go out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pastalang.plan.plan import Mode
from pastalang.training.errors import BadRow
from pastalang.training.lessons import Recorder
from pastalang.training.metrics import Report
from pastalang.training.mini.extraction import lesson_of, lessons_of
from pastalang.training.mini.mixing import Mixer
from pastalang.training.scores import score_rows
from pastalang.training.sequence import Sequence as Row
from pastalang.training.synthetic.catalogue import load_catalogue
from pastalang.training.synthetic.listing import Listing, make_listing
from pastalang.training.synthetic.pools import Part

_REAL = 0.65  # of the listings are real ones mixed anew; the others are made up
_SHARES = {Mode.STRICT: 0.5, Mode.SEQUENTIAL: 0.25, Mode.LOCKSTEP: 0.25}


class DrawLesson:
    """Draws a row in some mode. It travels to another process as tokenizer and listings."""

    def __init__(self, tokenizer: Any, real: Sequence[Listing]) -> None:
        self._tokenizer, self._real = tokenizer, tuple(real)
        self._mixer = Mixer(real)
        self._recorder: Recorder | None = None

    def __getstate__(self) -> tuple[Any, tuple[Listing, ...]]:
        return self._tokenizer, self._real

    def __setstate__(self, state: tuple[Any, tuple[Listing, ...]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __call__(self, random: Random) -> Row | None:
        if self._recorder is None:
            self._recorder = Recorder(self._tokenizer)
        is_real = random.random() < _REAL
        listing = self._mixer.draw(random) if is_real else _made_up(random)
        lesson = lesson_of(listing, random, origin=f"{'mixed' if is_real else 'made up'}: {listing.title}")
        [mode] = random.choices(tuple(_SHARES), weights=tuple(_SHARES.values()))
        try:
            return self._recorder.row(lesson, mode)
        except BadRow:
            return None


@dataclass(frozen=True, slots=True)
class Exam:
    """Rows to be scored, and the categories whose fields they are asked for."""

    name: str
    rows: tuple[Row, ...]
    categories: tuple[str, ...]

    def report(self, model: Any) -> Report:
        return score_rows(model, self.rows, categories=self.categories)


def exam_of(
    recorder: Recorder, listings: Sequence[Listing], *, length: int, name: str, tell: Callable[[str], None]
) -> Exam:
    """Strict, and spans of the title wherever they can be. What cannot be taught is left out, and told."""
    found: list[tuple[Row, str]] = []
    for lesson in lessons_of(listings, seed=0, origin=name, quoted=1.0):
        try:
            row = recorder.row(lesson, Mode.STRICT)
        except BadRow:
            continue
        if len(row) <= length:
            found.append((row, lesson.category))
    tell(f"{name}: {len(found)} rows, {len(listings) - len(found)} left out")
    return Exam(name, tuple(row for row, _ in found), tuple(category for _, category in found))


def _made_up(random: Random) -> Listing:
    return make_listing(random.choice(load_catalogue()), random, Part.TRAIN)
