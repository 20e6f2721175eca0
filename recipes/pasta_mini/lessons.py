"""Training rows: a program that asks for the attributes of a listing, recorded with the right answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pastalang.plan.plan import Mode
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, JsonBody, Message, Program, Role, Template, TextBody
from pastalang.source import Source, Span
from pastalang.training.errors import BadRow
from pastalang.training.lessons import Lesson, Recorder, planner
from pastalang.training.metrics import Report
from pastalang.training.recording import TrainingRow
from pastalang.training.teacher_forced_eval import score_rows
from pastalang.training.trainer import ReportLine
from recipes.pasta_mini.catalogue import Part, load_catalogue
from recipes.pasta_mini.listings import Listing, make_listing
from recipes.pasta_mini.real_listings import Mixer

_REAL = 0.65  # of the listings are variations of real ones; the others are made up
_SHARES = {Mode.STRICT: 0.5, Mode.SEQUENTIAL: 0.25, Mode.LOCKSTEP: 0.25}

LIMITS = (24, 32, 48)
_NOWHERE = Span(0, 0)
_PLAIN = t.Sampling()
_ORDERS = (
    "You extract product attributes. Write null when the listing does not say.",
    "Extract the attributes of the product. Unknown ones are null.",
    "Fill in the fields from the text. A field that is not stated is null.",
    "You read product listings and answer with JSON.",
)


class DrawLesson:
    """Draws a row in a random mode. Pickles as its tokenizer and listings, for the process that records rows."""

    def __init__(self, tokenizer: Any, real: Sequence[Listing]) -> None:
        self._tokenizer, self._real = tokenizer, tuple(real)
        self._mixer = Mixer(real)
        self._recorder: Recorder | None = None

    def __getstate__(self) -> tuple[Any, tuple[Listing, ...]]:
        return self._tokenizer, self._real

    def __setstate__(self, state: tuple[Any, tuple[Listing, ...]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __call__(self, random: Random) -> TrainingRow | None:
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
    """Rows to be scored, and their categories."""

    name: str
    rows: tuple[TrainingRow, ...]
    categories: tuple[str, ...]

    def report(self, model: Any) -> Report:
        return score_rows(model, self.rows, categories=self.categories)


def exam_of(recorder: Recorder, listings: Sequence[Listing], *, length: int, name: str, report: ReportLine) -> Exam:
    """Rows in strict mode whose values have to be spans of the title if they can be. Reports how many were left out."""
    found: list[tuple[TrainingRow, str]] = []
    for lesson in lessons_of(listings, seed=0, origin=name, quoted=1.0):
        try:
            row = recorder.row(lesson, Mode.STRICT)
        except BadRow:
            continue
        if len(row) <= length:
            found.append((row, lesson.category))
    report(f"{name}: {len(found)} rows, {len(listings) - len(found)} left out")
    return Exam(name, tuple(row for row, _ in found), tuple(category for _, category in found))


def _made_up(random: Random) -> Listing:
    return make_listing(random.choice(load_catalogue()), random, Part.TRAIN)


def lesson_of(listing: Listing, random: Random, *, origin: str, quoted: float = 0.5) -> Lesson:
    """Wording and limits vary, so that the model does not depend on them.

    `quoted`: how often values have to be spans of the title, where they can be.
    """
    limit = random.choice(LIMITS)
    has_text = bool(listing.description)
    is_span = all(value is None or value in listing.title for value in listing.values.values())
    program = extraction_program(
        tuple(listing.values), limit=limit, order=random.choice(_ORDERS), has_description=has_text,
        is_quoted=random.random() < quoted and is_span and not has_text,
    )  # fmt: skip
    inputs = {"title": listing.title} | ({"description": listing.description} if has_text else {})
    return Lesson(planner(program), inputs, dict(listing.values), origin, listing.category)


def extraction_program(
    attributes: Sequence[str], *, limit: int, order: str, has_description: bool = False, is_quoted: bool = False
) -> Program:
    """Every attribute is a text or null. With `is_quoted`, a text has to be a span of the title."""
    names = ("title", "description") if has_description else ("title",)
    inputs = tuple(Input(name, InputKind.TEXT, None, False, _NOWHERE) for name in names)
    asked: list[p.Piece] = [p.Text("Title: "), p.InputValue(("title",), _NOWHERE)]
    if has_description:
        asked += [p.Text("\n"), p.InputValue(("description",), _NOWHERE)]
    text: t.Type = t.Verbatim("title", max_tokens=limit) if is_quoted else t.String(max_tokens=limit)
    fields = tuple(t.Field(attribute, t.Union((text, t.Null()))) for attribute in attributes)
    messages = (
        Message(Role.SYSTEM, TextBody((p.Text(order),)), _NOWHERE),
        Message(Role.USER, TextBody(tuple(asked)), _NOWHERE),
        Message(Role.ASSISTANT, JsonBody(t.Object(fields), _PLAIN), _NOWHERE),
    )
    template = Template("listing", inputs, messages, _PLAIN, None, _NOWHERE)
    return Program(Source("listing.pasta", ""), {}, {"listing": template}, {})


def lessons_of(listings: Sequence[Listing], *, seed: int, origin: str, quoted: float = 0.5) -> Iterator[Lesson]:
    random = Random(f"lessons/{seed}")
    for number, listing in enumerate(listings, start=1):
        yield lesson_of(listing, random, origin=f"{origin} {number}", quoted=quoted)
