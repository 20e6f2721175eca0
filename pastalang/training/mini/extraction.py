"""From listings to lessons: what a listing states comes in, a program that asks for it and the answer go out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.program import Input, InputKind, JsonBody, Message, Program, Role, Template, TextBody
from pastalang.source import Source, Span
from pastalang.training.lessons import Lesson, planner
from pastalang.training.synthetic.listing import Listing

LIMITS = (24, 32, 48)
_NOWHERE = Span(0, 0)
_PLAIN = t.Sampling()
_ORDERS = (
    "You extract product attributes. Write null when the listing does not say.",
    "Extract the attributes of the product. Unknown ones are null.",
    "Fill in the fields from the text. A field that is not stated is null.",
    "You read product listings and answer with JSON.",
)


def lesson_of(listing: Listing, random: Random, *, origin: str, quoted: float = 0.5) -> Lesson:
    """The wording and the limit of the values vary, so that the model does not hang on them.

    `quoted` is how often a value that can be a span of the title has to be one.
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
    """Every attribute is a text or null; quoted ones can hold nothing but a span of the title."""
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
