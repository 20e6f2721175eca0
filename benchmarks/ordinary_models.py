"""Forty Pydantic models as people write them: few limits, many lists, descriptions here and there.

`MODELS` is what `plan_sizes` measures. None of them was changed to make its plan smaller.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal

from pydantic import BaseModel, Field, HttpUrl


class Address(BaseModel):
    street: str
    city: str
    postal_code: str
    country: str


class Contact(BaseModel):
    name: str
    company: str | None = None
    title: str | None = None
    email: str | None = None
    phone: str | None = None
    website: HttpUrl | None = None
    address: Address | None = None


class Person(BaseModel):
    name: str
    age: int
    email: str


class UserDetail(BaseModel):
    """From the first page of many a library."""

    name: str = Field(description="The full name")
    age: int = Field(ge=0, le=150)
    is_student: bool


class InvoiceLine(BaseModel):
    description: str
    quantity: float
    unit_price: Decimal
    total: Decimal


class Invoice(BaseModel):
    number: str
    issued: date
    due: date | None
    seller: str
    buyer: str
    currency: Literal["EUR", "USD", "GBP", "CHF"]
    lines: list[InvoiceLine]
    net: Decimal
    tax: Decimal
    gross: Decimal = Field(description="The amount to pay")


class ReceiptItem(BaseModel):
    name: str
    price: float
    quantity: int = 1


class Receipt(BaseModel):
    merchant: str
    date: date
    items: list[ReceiptItem]
    total: float


class OrderItem(BaseModel):
    sku: str
    name: str
    quantity: int
    price: float


class Order(BaseModel):
    order_id: str
    customer: Person
    items: list[OrderItem]
    shipping_address: Address
    billing_address: Address
    total: float
    note: str | None = None


class Priority(Enum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Ticket(BaseModel):
    title: str = Field(max_length=120)
    category: Literal["billing", "bug", "feature request", "account", "other"]
    priority: Priority
    product: str | None
    sentiment: Literal["negative", "neutral", "positive"]
    summary: str = Field(max_length=500)
    tags: list[str]


class Experience(BaseModel):
    company: str
    role: str
    start: str
    end: str | None
    achievements: list[str]


class Education(BaseModel):
    school: str
    degree: str
    year: int


class Resume(BaseModel):
    name: str
    email: str
    phone: str | None
    summary: str
    skills: list[str]
    experience: list[Experience]
    education: list[Education]
    languages: list[str]


class Ingredient(BaseModel):
    name: str
    amount: float | None
    unit: str | None


class Recipe(BaseModel):
    title: str
    servings: int
    minutes: int
    ingredients: list[Ingredient]
    steps: list[str]
    vegetarian: bool


class Author(BaseModel):
    name: str
    affiliation: str | None


class Paper(BaseModel):
    title: str
    authors: list[Author]
    year: int
    venue: str | None
    abstract: str
    keywords: list[str]
    doi: str | None


class Event(BaseModel):
    name: str
    starts: datetime
    ends: datetime | None
    location: str
    organizer: str
    participants: list[str]


class CalendarEvent(BaseModel):
    name: str
    date: str
    participants: list[str]


class ActionItem(BaseModel):
    task: str
    owner: str | None
    due: date | None


class Minutes(BaseModel):
    topic: str
    attendees: list[str]
    decisions: list[str]
    actions: list[ActionItem]


class Product(BaseModel):
    name: str
    brand: str | None
    price: float
    currency: str
    color: str | None
    material: str | None
    weight_grams: float | None
    in_stock: bool
    features: list[str]


class JobPosting(BaseModel):
    title: str
    company: str
    location: str
    remote: bool
    salary_min: int | None
    salary_max: int | None
    requirements: list[str]
    benefits: list[str]
    apply: HttpUrl | None


class Email(BaseModel):
    sender: str
    subject: str
    intent: Literal["question", "complaint", "order", "other"]
    requests: list[str]
    deadline: date | None
    reply: str = Field(max_length=1000)


class Medication(BaseModel):
    name: str
    dose: str
    frequency: str
    route: str | None


class MedicalNote(BaseModel):
    patient_age: int | None
    complaint: str
    symptoms: list[str]
    diagnoses: list[str]
    medications: list[Medication]
    allergies: list[str]
    follow_up: str | None


class Transaction(BaseModel):
    day: date
    description: str
    amount: Decimal
    balance: Decimal | None


class BankStatement(BaseModel):
    iban: str
    owner: str
    opening: Decimal
    closing: Decimal
    transactions: list[Transaction]


class Listing(BaseModel):
    """A flat or a house."""

    address: Address
    price: int
    rooms: float
    area: float
    floor: int | None
    built: int | None
    amenities: list[str]
    description: str


class Movie(BaseModel):
    title: str
    year: int
    director: str
    genres: list[str]
    cast: list[str]
    rating: float = Field(ge=0, le=10)
    plot: str


class Review(BaseModel):
    stars: int = Field(ge=1, le=5)
    pros: list[str]
    cons: list[str]
    summary: str
    would_recommend: bool


class Entity(BaseModel):
    text: str
    type: Literal["person", "organization", "place", "date", "other"]


class News(BaseModel):
    headline: str
    published: datetime | None
    entities: list[Entity]
    topics: list[str]
    summary: str


class Node(BaseModel):
    id: int
    label: str
    color: str


class Edge(BaseModel):
    source: int
    target: int
    label: str


class KnowledgeGraph(BaseModel):
    nodes: list[Node]
    edges: list[Edge]


class Label(BaseModel):
    label: Literal["spam", "not spam"]
    confidence: float = Field(ge=0, le=1)


class Aspect(BaseModel):
    aspect: str
    opinion: str
    sentiment: Literal["negative", "neutral", "positive"]


class AspectReview(BaseModel):
    overall: Literal["negative", "neutral", "positive"]
    aspects: list[Aspect]


class Segment(BaseModel):
    flight: str
    origin: str
    destination: str
    departs: datetime
    arrives: datetime
    seat: str | None


class FlightBooking(BaseModel):
    reference: str
    passengers: list[str]
    segments: list[Segment]
    fare: Decimal
    currency: str


class HotelBooking(BaseModel):
    hotel: str
    guest: str
    check_in: date
    check_out: date
    adults: int
    children: int
    breakfast: bool
    requests: str | None


class Activity(BaseModel):
    start: time
    title: str
    place: str


class Day(BaseModel):
    theme: str
    activities: list[Activity]


class Trip(BaseModel):
    destination: str
    days: list[Day]
    budget: float | None


class Question(BaseModel):
    question: str
    options: list[str]
    answer: int
    explanation: str


class Quiz(BaseModel):
    title: str
    questions: list[Question]


class Party(BaseModel):
    name: str
    role: str
    address: str | None


class Contract(BaseModel):
    title: str
    parties: list[Party]
    effective: date | None
    terminates: date | None
    law: str | None
    obligations: list[str]
    penalties: list[str]


class BugReport(BaseModel):
    title: str
    component: str | None
    version: str | None
    steps: list[str]
    expected: str
    actual: str
    severity: Literal["minor", "major", "critical"]


class Change(BaseModel):
    kind: Literal["added", "changed", "fixed", "removed"]
    text: str
    issue: int | None


class Release(BaseModel):
    version: str
    day: date
    changes: list[Change]
    breaking: bool


class Search(BaseModel):
    query: str
    filters: dict[str, str]
    since: date | None
    limit: int = Field(default=10, ge=1, le=100)


class WebSearch(BaseModel):
    tool: Literal["search"]
    query: str
    site: HttpUrl | None


class SendMail(BaseModel):
    tool: Literal["send_mail"]
    to: list[str]
    subject: str
    body: str


class GetWeather(BaseModel):
    tool: Literal["get_weather"]
    city: str
    day: date | None


class ToolCall(BaseModel):
    thought: str
    call: Annotated[WebSearch | SendMail | GetWeather, Field(discriminator="tool")]


class LogEntry(BaseModel):
    at: datetime
    level: Literal["debug", "info", "warning", "error"]
    service: str
    message: str
    user_id: int | None
    request_id: str | None


class Claim(BaseModel):
    policy: str
    claimant: Person
    happened: date
    place: str
    damage: str
    estimate: float | None
    witnesses: list[Person]
    police_report: bool


class Dish(BaseModel):
    name: str
    price: float
    vegan: bool


class MenuSection(BaseModel):
    title: str
    dishes: list[Dish]


class Menu(BaseModel):
    restaurant: str
    sections: list[MenuSection]


class Link(BaseModel):
    title: str
    url: HttpUrl


class Page(BaseModel):
    title: str
    language: str
    links: list[Link]


class Fact(BaseModel):
    statement: str
    quotes: list[str] = Field(description="Exact quotes from the text")


class Answer(BaseModel):
    answer: str
    facts: list[Fact]
    confident: bool


class Section(BaseModel):
    heading: str
    points: list[str]


class Outline(BaseModel):
    title: str
    introduction: str
    sections: list[Section]
    conclusion: str


class Course(BaseModel):
    title: str
    teacher: str
    weeks: list[Section]
    books: list[str]


class Playlist(BaseModel):
    class Song(BaseModel):
        title: str
        artist: str
        seconds: int

    name: str
    songs: list[Song]


class Species(BaseModel):
    name: str
    latin: str
    habitat: str
    diet: list[str]
    weight_kg: float | None
    endangered: bool


MODELS: tuple[type[BaseModel], ...] = (
    Contact, UserDetail, Invoice, Receipt, Order, Ticket, Resume, Recipe, Paper, Event, CalendarEvent, Minutes, Product,
    JobPosting, Email, MedicalNote, BankStatement, Listing, Movie, Review, News, KnowledgeGraph, Label, AspectReview,
    FlightBooking, HotelBooking, Trip, Quiz, Contract, BugReport, Release, Search, ToolCall, LogEntry, Claim, Menu,
    Page, Answer, Outline, Playlist,
)  # fmt: skip
