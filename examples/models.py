"""Eight of the examples once more, as types of Python: what `pastalang.extract` takes instead of a program.

    invoice = pastalang.extract(Invoice, text)
    answer = pastalang.extract(SourcedAnswer, question, context=sources)

`JOBS` pairs each type with the program that says the same. A program says more: its messages, and running text.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from pastalang import After, Sequential, Tokens, Verbatim

Word = Annotated[str, Tokens(8)]
Name = Annotated[str, Tokens(12)]
Line = Annotated[str, Tokens(16)]
Sentence = Annotated[str, Tokens(24)]
Paragraph = Annotated[str, Tokens(60)]
Quotation = Annotated[str, Verbatim("text"), Tokens(30)]

# ── an invoice ───────────────────────────────────────────────────────────────────────────────────────────


class Money(BaseModel):
    amount: Annotated[float, Field(multiple_of=0.01)]
    currency: Literal["EUR", "USD", "GBP", "CHF"]


class Address(BaseModel):
    street: Line
    postcode: Annotated[str, Field(max_length=10)]
    city: Annotated[str, Tokens(10)]
    country: Annotated[str, Field(pattern="^[A-Z]{2}$", description="ISO 3166, two letters")]


class Seller(BaseModel):
    name: Line
    address: Address
    vat_id: Annotated[str, Field(pattern="^[A-Z]{2}[0-9A-Z]{2,12}$")] | None


class Buyer(BaseModel):
    name: Line
    address: Address


class InvoiceLine(BaseModel):
    description: Line
    quantity: Annotated[float, Field(gt=0)]
    unit_price: float
    total: Annotated[float, After("quantity", "unit_price")]


class Invoice(BaseModel):
    number: Annotated[Name, Field(description="as printed, with its letters")]
    issued: date
    due: date | None
    seller: Seller
    buyer: Buyer
    lines: Annotated[list[InvoiceLine], Field(min_length=1, max_length=20)]
    net: Annotated[Money, After("lines"), Sequential()]
    tax: Annotated[Money, Sequential()]
    gross: Annotated[Money, Sequential()]


# ── a résumé ─────────────────────────────────────────────────────────────────────────────────────────────

Month = Annotated[str, Field(pattern="^[0-9]{4}-(0[1-9]|1[0-2])$")]
Language = Annotated[str, Field(pattern="^[a-z]{2}$")]


class Position(BaseModel):
    employer: Name
    title: Name
    from_: Annotated[Month | None, Field(alias="from")]
    to: Month | Literal["today"] | None
    achievements: Annotated[list[Sentence], Field(max_length=3), Tokens(84)]


class Education(BaseModel):
    school: Line
    degree: Name | None
    year: Annotated[int, Field(ge=1950, le=2035)] | None


class Resume(BaseModel):
    name: Name
    email: Sentence | None
    phone: Annotated[str, Field(pattern="^\\+?[0-9][0-9 ()-]{5,19}$"), Tokens(16)] | None
    positions: Annotated[list[Position], Field(max_length=8)]
    education: Annotated[list[Education], Field(max_length=4)]
    languages: Annotated[dict[Language, Literal["basic", "fluent", "native"]], Field(max_length=6), Tokens(60)]
    skills: Annotated[set[Annotated[str, Tokens(6)]], Field(max_length=12), Tokens(96)]
    years_of_experience: Annotated[int, Field(ge=0, le=60), After("positions")]
    summary: Annotated[Paragraph, After("positions", "education", "skills")]


# ── a report with an introduction and a conclusion ───────────────────────────────────────────────────────


class Criterion(BaseModel):
    title: Word
    judgement: Annotated[str, Tokens(80)]


class Report(BaseModel):
    introduction: Paragraph
    criterion: Annotated[list[Criterion], Field(min_length=2, max_length=5), After("introduction")]
    conclusion: Annotated[Paragraph, After("criterion")]
    confidence: Annotated[Literal["low", "medium", "high"], After("criterion")]


# ── an article: its points one after another, and all sections at the same time ──────────────────────────


class Point(BaseModel):
    point: Annotated[str, Tokens(10)]
    section: Annotated[str, Tokens(120)]


class Article(BaseModel):
    outline: Annotated[list[Point], Field(min_length=3, max_length=6)]
    conclusion: Annotated[Paragraph, After("outline")]


# ── a function call ──────────────────────────────────────────────────────────────────────────────────────


class BookTable(BaseModel):
    function: Literal["book_table"]
    restaurant: Name
    at: datetime
    people: Annotated[int, Field(ge=1, le=20)]
    notes: Sentence | None


class SetTimer(BaseModel):
    function: Literal["set_timer"]
    minutes: Annotated[int, Field(ge=1, le=1440)]
    label: Word | None


class SendMessage(BaseModel):
    function: Literal["send_message"]
    to: Annotated[str, Tokens(10)]
    text: Annotated[str, Tokens(40)]
    urgent: bool


Call = Annotated[BookTable | SetTimer | SendMessage, Field(discriminator="function")]

# ── a medical note ───────────────────────────────────────────────────────────────────────────────────────


class Finding(BaseModel):
    name: Annotated[str, Tokens(10)]
    certainty: Literal["confirmed", "suspected", "ruled out"]
    quote: Quotation


class Dose(BaseModel):
    value: Annotated[float, Field(gt=0)]
    unit: Literal["mg", "g", "ml", "IU"]


class Medication(BaseModel):
    substance: Word
    dose: Dose | None
    times_a_day: Annotated[int, Field(ge=1, le=12)] | None
    status: Literal["started", "continued", "stopped"]


class Vitals(BaseModel):
    systolic: Annotated[Annotated[int, Field(ge=40, le=300)] | None, Field(description="mmHg")]
    diastolic: Annotated[Annotated[int, Field(ge=20, le=200)] | None, Field(description="mmHg")]
    pulse: Annotated[int, Field(ge=20, le=300)] | None
    temperature: Annotated[Annotated[float, Field(ge=30, le=45)] | None, Field(description="degrees Celsius")]


class MedicalRecord(BaseModel):
    encounter: date | None
    complaint: Line
    vitals: Vitals
    findings: Annotated[list[Finding], Field(max_length=8)]
    medications: Annotated[list[Medication], Field(max_length=8)]
    allergies: Annotated[set[Word], Field(max_length=6), Tokens(48)] = set()
    follow_up: date | None
    summary: Annotated[
        Paragraph,
        After("complaint", "findings", "medications"),
        Field(description="for the patient, without technical words"),
    ]


# ── a support ticket ─────────────────────────────────────────────────────────────────────────────────────


class Ticket(BaseModel):
    category: Literal["billing", "bug", "account", "feature request", "other"]
    urgency: Literal["now", "today", "this week", "whenever"]
    product: Word | None
    order_number: Annotated[str, Field(pattern="^[A-Z]{2}-[0-9]{4,8}$"), Tokens(12)] | None
    wants: Annotated[Quotation, Field(description="the sentence that says what the customer wants")]
    is_customer_angry: bool
    team: Annotated[Literal["payments", "engineering", "support"], After("category", "product")]
    reply: Annotated[Paragraph, After("category", "wants"), Field(description="two friendly sentences")]


# ── an answer that quotes several sources, which are given as `context` ──────────────────────────────────


class Claim(BaseModel):
    quote: Annotated[str, Verbatim("context"), Tokens(30)]
    claim: Annotated[Sentence, After("quote")]


class SourcedAnswer(BaseModel):
    claims: Annotated[list[Claim], Field(min_length=1, max_length=4)]
    answer: Annotated[Paragraph, After("claims")]
    is_answered: Annotated[bool, After("claims")]


JOBS: dict[str, Any] = {
    "02-invoice": Invoice,
    "03-resume": Resume,
    "05-comparison-report": Report,
    "06-outline-then-expand": Article,
    "08-function-call": Call,
    "09-medical-note": MedicalRecord,
    "10-ticket-triage": Ticket,
    "11-quoted-answers": SourcedAnswer,
}
