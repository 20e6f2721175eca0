"""Training rows: programs that ask about listings and everyday documents, recorded with the right answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from pastalang.compiler import compile
from pastalang.plan.branches import Mode
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, JsonBody, Message, Program, Role, Template, TextBody
from pastalang.source import Source, Span
from pastalang.training.errors import BadRow
from pastalang.training.metrics import Counts, Report
from pastalang.training.recording import Lesson, Recorder, TrainingRow, planner
from pastalang.training.run_folder import ReportLine
from pastalang.values.conversion import Converted
from pastalang.values.quotes import is_quotation
from pastalang.values.to_source import program_source
from recipes.pasta_mini.catalogue import Part, load_catalogue
from recipes.pasta_mini.documents import TEXT, draw_form, lessons_about
from recipes.pasta_mini.listings import Listing, make_listing
from recipes.pasta_mini.real_listings import Mixer
from recipes.pasta_mini.scores import score_rows

_LISTINGS = 0.72  # of the draws are listings; a draw of documents is several rows, and longer ones
_REAL = 0.7  # of the listings are variations of real ones; the others are made up
_FROM_MODEL = 0.25  # of the listings are asked for as `pastalang.from_model` asks
_DOCUMENTS = 4  # that are drawn with one program, and share its prompt
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


class DrawRows:
    """Draws rows in random modes. Pickles as its tokenizer and listings, for the processes that record rows."""

    def __init__(self, tokenizer: Any, real: Sequence[Listing]) -> None:
        self._tokenizer, self._real = tokenizer, tuple(real)
        self._mixer = Mixer(real)
        self._recorder: Recorder | None = None

    def __getstate__(self) -> tuple[Any, tuple[Listing, ...]]:
        return self._tokenizer, self._real

    def __setstate__(self, state: tuple[Any, tuple[Listing, ...]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __call__(self, random: Random) -> list[TrainingRow]:
        """The rows of one program; none if what was drawn cannot be taught."""
        recorder = self._recorder = self._recorder or Recorder(self._tokenizer)
        found = []
        [mode] = random.choices(tuple(_SHARES), weights=tuple(_SHARES.values()))
        for lesson in self._lessons(random):
            with suppress(BadRow):
                found.append(recorder.row(lesson, mode))
        return found

    def _lessons(self, random: Random) -> list[Lesson]:
        if random.random() >= _LISTINGS:
            return lessons_about(draw_form(random, Part.TRAIN), random, Part.TRAIN, count=_DOCUMENTS, origin="document")
        is_real = random.random() < _REAL
        listing = self._mixer.draw(random) if is_real else _made_up(random)
        origin = f"{'mixed' if is_real else 'made up'}: {listing.title}"
        return [lesson_of(listing, random, origin=origin, as_model=_FROM_MODEL)]


@dataclass(frozen=True, slots=True)
class Exam:
    """Rows to be scored, and their categories. `matched`: the share of fields that are right, absent ones included."""

    name: str
    rows: tuple[TrainingRow, ...]
    categories: tuple[str, ...]

    def report(self, model: Any) -> Report:
        return score_rows(model, self.rows, categories=self.categories)


def matched(counts: Counts) -> float:
    """The share of fields that are exactly right, absent ones included, in per cent."""
    right = counts.absent_left_empty + counts.present_correct
    asked = right + counts.absent_but_filled + counts.present_left_empty + counts.present_wrong
    return 100 * right / max(1, asked)


def document_lessons(count: int, *, seed: int, part: Part) -> list[Lesson]:
    """Each is asked with a program of its own, so each is a category of its own."""
    random = Random(f"documents/{seed}")
    return [
        lessons_about(draw_form(random, part), random, part, count=1, origin=f"unseen {number}")[0]
        for number in range(count)
    ]


def exam_of(recorder: Recorder, lessons: Iterable[Lesson], *, length: int, name: str, report: ReportLine) -> Exam:
    """Rows in strict mode. Reports how many were left out."""
    found: list[tuple[TrainingRow, str]] = []
    left_out = 0
    for lesson in lessons:
        try:
            row = recorder.row(lesson, Mode.STRICT)
        except BadRow:
            left_out += 1
            continue
        if len(row) <= length:
            found.append((row, lesson.category))
        else:
            left_out += 1
    report(f"{name}: {len(found)} rows, {left_out} left out")
    return Exam(name, tuple(row for row, _ in found), tuple(category for _, category in found))


def _made_up(random: Random) -> Listing:
    return make_listing(random.choice(load_catalogue()), random, Part.TRAIN)


def lesson_of(listing: Listing, random: Random, *, origin: str, quoted: float = 0.5, as_model: float = 0.0) -> Lesson:
    """Wording and limits vary, so that the model does not depend on them.

    `quoted`: how often values have to be spans of the title, where they can be. `as_model`: how often the program is
    the one that `pastalang.from_model` writes.
    """
    limit = random.choice(LIMITS)
    has_text = bool(listing.description)
    is_span = all(
        value is None or is_quotation(value, listing.title, t.QuoteUnit.WORDS) for value in listing.values.values()
    )
    if random.random() < as_model:
        shape = _attributes(tuple(listing.values), t.Verbatim(TEXT) if random.random() < 0.4 else t.String())
        text = "\n".join(part for part in (listing.title, listing.description) if part)
        plan = planner(compile(program_source(Converted(shape, {}), name="listing")))
        return Lesson(plan, {TEXT: text}, dict(listing.values), origin, listing.category)
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
    messages = (
        Message(Role.SYSTEM, TextBody((p.Text(order),)), _NOWHERE),
        Message(Role.USER, TextBody(tuple(asked)), _NOWHERE),
        Message(Role.ASSISTANT, JsonBody(_attributes(attributes, text), _PLAIN), _NOWHERE),
    )
    template = Template("listing", inputs, messages, _PLAIN, None, _NOWHERE)
    return Program(Source("listing.pasta", ""), {}, {"listing": template}, {})


def _attributes(names: Sequence[str], type: t.Type) -> t.Object:
    return t.Object(tuple(t.Field(name, t.Union((type, t.Null()))) for name in names))


def lessons_of(listings: Sequence[Listing], *, seed: int, origin: str, quoted: float = 0.5) -> Iterator[Lesson]:
    random = Random(f"lessons/{seed}")
    for number, listing in enumerate(listings, start=1):
        yield lesson_of(listing, random, origin=f"{origin} {number}", quoted=quoted)
