"""What every side is asked: made-up documents, the same instructions and the same JSON Schema for each.

No module of PastaLang is imported here: the sides of other libraries read it in environments of their own. Lengths are
limited by the schemas, in characters, so that all sides have the same room. In the tasks of equal length a string has
exactly so many characters as it may have, so that nobody is faster by writing less.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Document:
    """A request: the messages, the type of its answer, and the right answer where the document holds one."""

    kind: str
    instructions: str
    text: str
    schema: Schema
    truth: Mapping[str, Any] | None = None

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.instructions}, {"role": "user", "content": self.text}]


@dataclass(frozen=True, slots=True)
class Task:
    """Makes the documents of a task from a source of chance. `key` is its letter on the page."""

    key: str
    title: str
    make: Callable[[Random, int], Document]
    is_batch: bool = False

    def documents(self) -> Iterator[Document]:
        """Endless, the same ones in every run."""
        chance, number = Random(self.key), 0
        while True:
            yield self.make(chance, number)
            number += 1


# ── types ────────────────────────────────────────────────────────────────────────────────────────────────


def record(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def text(most: int, *, least: int = 1) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most}


def whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def one_of(*options: str) -> Schema:
    return {"type": "string", "enum": list(options)}


def pattern(regex: str) -> Schema:
    return {"type": "string", "pattern": regex}


YES_NO: Final[Schema] = {"type": "boolean"}
AMOUNT: Final = pattern(r"^[0-9]{1,3}\.[0-9]{2}$")
DATE: Final = pattern(r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$")
CHANNEL, PRIORITY = one_of("phone", "email", "chat", "shop"), one_of("low", "normal", "high", "urgent")


def of_equal_length(schema: Schema) -> Schema:
    """The same type with strings of exactly their greatest length."""
    if schema.get("type") == "string" and "maxLength" in schema:
        return {**schema, "minLength": schema["maxLength"]}
    if schema == AMOUNT:
        return pattern(r"^[0-9]{3}\.[0-9]{2}$")
    if "properties" in schema:
        return {**schema, "properties": {key: of_equal_length(one) for key, one in schema["properties"].items()}}
    if "items" in schema:
        return {**schema, "items": of_equal_length(schema["items"])}
    return schema


def instructions_for(what: str, schema: Schema) -> str:
    return f"You read {what} and answer with a JSON object that has the keys {', '.join(schema['properties'])}."


# ── a note of a help desk ────────────────────────────────────────────────────────────────────────────────

_NAMES = ("Ada Brook", "Jonas Weil", "Mira Castell", "Tom Okafor", "Lena Sand", "Igor Palm", "Noor Haddad", "Pia Lund")
_THINGS = ("kettle K20", "lamp Aurora", "drill D7", "heater Nord 3", "speaker Tuva", "fan Breeze 2", "toaster Halm")
_CITIES = ("Lindau", "Porto", "Graz", "Odense", "Leeds", "Turku", "Gdansk", "Verona")
_FAULTS = ("does not switch on", "arrived with a cracked case", "makes a loud noise", "smells of burning")
_TALK = (
    "The note was taken while the line was busy, so a few details may have to be asked for again.",
    "A colleague of the evening shift has already looked at the case and found nothing unusual in the system.",
    "Our records show that the warehouse had sent the parcel on time and that the carrier scanned it twice.",
    "The customer has been with the shop for several years and has not complained before.",
    "Please keep in mind that the shop is closed for stocktaking on the last two days of the month.",
    "No photographs have been sent so far, although the form on the website asks for them.",
    "The usual questions about the packaging, the seal and the accessories were not asked in this call.",
    "If the case goes to the manufacturer, it takes up to three weeks until an answer comes back to the shop.",
)

NOTE: Final = record(
    customer=text(30), product=text(30), city=text(24), fault=text(44), order=whole(10_000, 99_999), units=whole(1, 9),
    price=AMOUNT, days=whole(1, 99), channel=CHANNEL, priority=PRIORITY, is_complete=YES_NO, wants_refund=YES_NO,
)  # fmt: skip
QUESTIONS: Final = record(
    channel=CHANNEL, priority=PRIORITY, mood=one_of("calm", "annoyed", "angry"),
    topic=one_of("delivery", "defect", "invoice", "return"), is_under_warranty=YES_NO, wants_refund=YES_NO,
    is_complete=YES_NO, was_opened=YES_NO, has_receipt=YES_NO, is_business=YES_NO, was_late=YES_NO, needs_reply=YES_NO,
)  # fmt: skip
SECTION: Final = 320  # characters, about 80 tokens
SECTIONS: Final = record(**{name: text(SECTION, least=SECTION) for name in ("summary", "cause", "next_step")})


def _note(chance: Random) -> tuple[str, dict[str, Any]]:
    """About three hundred tokens in which the values stand among sentences that say nothing of them."""
    name, thing, city, fault = map(chance.choice, (_NAMES, _THINGS, _CITIES, _FAULTS))
    order, units, price = chance.randrange(10_000, 99_999), chance.randrange(1, 9), chance.randrange(900, 19_900) / 100
    channel, days, wants_refund = (
        chance.choice(("email", "chat", "phone")),
        chance.randrange(1, 40),
        chance.random() < 0.5,
    )
    facts = [
        f"{name} from {city} wrote by {channel} about order {order}.",
        f"The order had {units} pieces of the {thing} at {price:.2f} each.",
        f"According to the customer, the {thing} {fault}.",
        f"It was delivered {days} days ago, and the box was opened the same evening.",
        chance.choice(("The receipt is attached.", "The customer cannot find the receipt.")),
        "The customer wants the money back." if wants_refund else "The customer would rather have a replacement.",
        chance.choice(("The tone was calm throughout.", "The customer was angry and asked for a call today.")),
    ]
    talk = chance.sample(_TALK, len(_TALK))
    sentences = [part for pair in zip([*facts, ""], talk, strict=True) for part in pair if part]
    truth = {
        "customer": name, "product": thing, "city": city, "fault": fault, "order": order, "units": units,
        "price": f"{price:.2f}", "days": days, "channel": channel, "wants_refund": wants_refund,
    }  # fmt: skip
    return " ".join(sentences), truth


def _about_note(schema: Schema, chance: Random) -> Document:
    body, truth = _note(chance)
    instructions = instructions_for("a note of a help desk", schema)
    return Document(
        "note", instructions, body, schema, {key: truth[key] for key in truth if key in schema["properties"]}
    )


# ── a receipt and an advertisement ───────────────────────────────────────────────────────────────────────

_GOODS = (
    "whole grain bread", "oat milk", "free range eggs", "red apples", "mountain cheese", "espresso beans", "olive oil",
    "tomato passata", "basil in a pot", "dark chocolate", "sparkling water", "washing powder",
)  # fmt: skip
RECEIPT: Final = record(
    shop=text(30), street=text(30), town=text(24), cashier=text(24), receipt_number=whole(1000, 9999), date=DATE,
    total=AMOUNT, tax=AMOUNT, articles=whole(1, 99), payment=one_of("cash", "card", "voucher"),
    has_loyalty_card=YES_NO, is_copy=YES_NO,
)  # fmt: skip


def _receipt(schema: Schema, chance: Random) -> Document:
    town, cashier = chance.choice(_CITIES), chance.choice(_NAMES)
    shop, street = (
        chance.choice(("Corner Market", "Green Basket", "Harbour Foods")),
        f"{chance.randrange(1, 99)} Mill Road",
    )
    goods = [(one, chance.randrange(1, 4), chance.randrange(90, 1400)) for one in chance.sample(_GOODS, 9)]
    total = sum(count * cents for _, count, cents in goods) / 100
    number, day = chance.randrange(1000, 9999), f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    payment, has_card = chance.choice(("cash", "card")), chance.random() < 0.5
    lines = [
        shop, f"{street}, {town}", f"Receipt {number}    {day}    till 4", f"You were served by {cashier}", "",
        *(f"{count} x {name:<20} {cents / 100:6.2f} {count * cents / 100:8.2f}" for name, count, cents in goods), "",
        f"TOTAL EUR {total:.2f}", f"of which 7 % tax {total * 7 / 107:.2f}", f"paid by {payment}",
        "loyalty card: yes, thank you" if has_card else "no loyalty card? Ask at the till!",
        "Goods can be returned within 14 days with this receipt.",
    ]  # fmt: skip
    truth = {
        "shop": shop, "street": street, "town": town, "cashier": cashier, "receipt_number": number, "date": day,
        "total": f"{total:.2f}", "tax": f"{total * 7 / 107:.2f}", "articles": sum(count for _, count, _ in goods),
        "payment": payment, "has_loyalty_card": has_card, "is_copy": False,
    }  # fmt: skip
    return Document("receipt", instructions_for("a receipt", schema), "\n".join(lines), schema, truth)


JOB: Final = record(
    position=text(30), employer=text(30), place=text(24), contact=text(24), salary=whole(10_000, 99_999),
    hours=whole(10, 40), holidays=whole(10, 40), starts=DATE, contract=one_of("permanent", "temporary", "freelance"),
    level=one_of("junior", "senior", "lead"), is_remote=YES_NO, needs_licence=YES_NO,
)  # fmt: skip
_POSITIONS = ("Hydrologist", "Bookkeeper", "Ship's Cook", "Bicycle Mechanic", "Data Steward", "Sound Engineer")
_FIRMS = ("RiverSense Ltd", "Hartmann Orthopaedics", "North Line Ferries", "Copper Kettle Brewing", "Tidewater Labs")


def _job(schema: Schema, chance: Random) -> Document:
    level, position, firm = (
        chance.choice(("junior", "senior", "lead")),
        chance.choice(_POSITIONS),
        chance.choice(_FIRMS),
    )
    town, contact, contract = chance.choice(_CITIES), chance.choice(_NAMES), chance.choice(("permanent", "temporary"))
    salary, hours, days = chance.randrange(240, 900) * 100, chance.randrange(20, 41), chance.randrange(24, 36)
    starts, is_remote = f"2027-{chance.randrange(1, 13):02}-01", chance.random() < 0.5
    body = (
        f"{firm} in {town} is growing, and we are looking for a {level} {position} who likes to work in a small team. "
        f"You would plan your own week, talk to customers and suppliers, and show new colleagues how things are done "
        f"here. The position is {contract}, with {hours} hours a week and {days} days of holiday, and it starts on "
        f"{starts}. We pay {salary} euros a year, and there is a yearly bonus that depends on how the firm has done. "
        f"{'You may work from wherever you like.' if is_remote else 'You would work in our office near the station.'} "
        "What you should bring: some years of practice, an eye for detail, and the patience to explain the same thing "
        "twice. What we bring: a kitchen with a good coffee machine, a budget for courses, and colleagues who have "
        "stayed for ten years and more. No driving licence is needed. A letter of a few lines is enough. If "
        f"you have questions, ask {contact}, who answers the telephone every morning between nine and eleven. "
        "Applications are read in the order in which they arrive, and everybody gets an answer within two weeks."
    )
    truth = {
        "position": position, "employer": firm, "place": town, "contact": contact, "salary": salary, "hours": hours,
        "holidays": days, "starts": starts, "contract": contract, "level": level, "is_remote": is_remote,
        "needs_licence": False,
    }  # fmt: skip
    return Document("job", instructions_for("a job advertisement", schema), body, schema, truth)


# ── an invoice, and a table of 96 values ─────────────────────────────────────────────────────────────────

INVOICE: Final = record(
    number=whole(1000, 9999), issued=DATE, supplier=text(24), currency=one_of("EUR", "GBP", "NOK"),
    customer=record(name=text(24), city=text(16)),
    lines={
        "type": "array", "minItems": 4, "maxItems": 4,
        "items": record(item=text(20), quantity=whole(1, 99), unit=one_of("piece", "box", "hour"), price=AMOUNT),
    },
)  # fmt: skip


def _invoice(chance: Random, number: int) -> Document:
    supplier, name, city = chance.choice(_FIRMS), chance.choice(_NAMES), chance.choice(_CITIES)
    code, issued = chance.randrange(1000, 9999), f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    lines = [
        {"item": item, "quantity": chance.randrange(1, 60), "unit": chance.choice(("piece", "box")),
         "price": f"{chance.randrange(100, 9900) / 100:.2f}"}
        for item in chance.sample([one for one in _GOODS if len(one) <= 20], 4)
    ]  # fmt: skip
    body = [
        f"{supplier}", f"Invoice {code} of {issued}", f"To: {name}, {city}", "All prices in EUR, without tax.", "",
        *(f"{one['quantity']} {one['unit']}, {one['item']}, at {one['price']}" for one in lines), "",
        "Please pay within 30 days. Thank you for your order, and see you soon.",
    ]  # fmt: skip
    truth = {
        "number": code, "issued": issued, "supplier": supplier, "currency": "EUR",
        "customer": {"name": name, "city": city}, "lines": lines,
    }  # fmt: skip
    return Document("invoice", instructions_for("an invoice", INVOICE), "\n".join(body), INVOICE, truth)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_STATIONS = ("north", "south", "east", "west", "harbour", "airport", "castle", "river")
WEATHER: Final = record(**{name: record(**{month: whole(10, 99) for month in _MONTHS}) for name in _STATIONS})


def _weather(chance: Random, number: int) -> Document:
    truth = {name: {month: chance.randrange(10, 99) for month in _MONTHS} for name in _STATIONS}
    rows = [f"{name}: {' '.join(map(str, values.values()))}" for name, values in truth.items()]
    body = "\n".join([f"Millimetres of rain, {' '.join(_MONTHS)}", *rows])
    return Document("weather", instructions_for("a table of rain by station", WEATHER), body, WEATHER, truth)


# ── the tasks ────────────────────────────────────────────────────────────────────────────────────────────


def _three_kinds(chance: Random, number: int) -> Document:
    makers = ((_about_note, NOTE), (_receipt, RECEIPT), (_job, JOB))
    make, schema = makers[number % len(makers)]
    return make(schema, chance)


def _three_kinds_of_equal_length(chance: Random, number: int) -> Document:
    makers = ((_about_note, NOTE), (_receipt, RECEIPT), (_job, JOB))
    make, schema = makers[number % len(makers)]
    return make(of_equal_length(schema), chance)


TASKS: Final = {
    task.key: task
    for task in (
        Task("A", "One document, twelve open fields", _three_kinds),
        Task("A=", "The same, every string of the same length for all", _three_kinds_of_equal_length),
        Task("B", "Many documents, each side at its best setting", _three_kinds, is_batch=True),
        Task("C", "One document, twelve closed questions", lambda chance, number: _about_note(QUESTIONS, chance)),
        Task("D", "Three sections of 80 tokens", lambda chance, number: _about_note(SECTIONS, chance)),
        Task("E", "An invoice with four lines", _invoice),
        Task("F", "96 values", _weather),
    )
}


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
