"""Facts: what a document may state, as it is printed and as a typed answer.

printed                 answer                     answer as text
May 3, 2026             "2026-05-03"               "May 3, 2026"
$1,250.00               1250.00                    "$1,250.00"
unpaid                  false
P1                      "urgent"  (an option)      "P1"
Anna Okafor; Leo Chen   ["Anna Okafor", "Leo Chen"]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, TypeAlias

from pastalang.program import types as t
from pastalang.values.json import JsonValue
from recipes.pasta_mini.catalogue import Part, Pool, belongs, draw, load_names

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CURRENCIES = ("$", "€", "£", "EUR", "USD", "GBP", "CHF", "SEK")
_UNITS = (
    "",
    "",
    "%",
    " %",
    " °C",
    " C",
    " km",
    " L",
    " kWh",
    " mm",
    " m",
    "mg",
    " mmol/L",
    " hours",
    " points",
    " pcs",
    " kW",
)
_ENDINGS = (".com", ".org", ".net", ".de", ".co.uk", ".io", ".example")
_CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_FIRST_DAY = date(1994, 1, 1)
_DAYS_KNOWN = 14_000
_SHOUTED = 0.06  # of the texts are printed in capitals
_BARE = 0.2  # of the amounts have no currency
_CHANGED = 0.3  # of the texts, lists and items
_LONG_WORD = re.compile("[A-Za-z]{4,}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WIDE = 100  # of numbers from a wider range, half are from its lowest tenth


@dataclass(frozen=True, slots=True)
class Fact:
    """`lines`: a list of things can also be printed one below the other."""

    printed: str
    value: JsonValue
    is_span: bool = True  # may also be asked for as text, as it is printed
    lines: tuple[str, ...] = ()


Slot: TypeAlias = Mapping[str, Any]  # a table of a file in `kinds`
Maker: TypeAlias = Callable[[Random], Fact]


def make_fact(slot: Slot, pools: Mapping[str, Pool], random: Random, part: Part, today: date = _FIRST_DAY) -> Fact:
    """What a slot states, drawn anew. Most dates of a document are not far from its own."""
    name = str(slot["pool"])
    match name:
        case "flag":
            return _flag(slot, random)
        case "choice":
            return _choice(slot, random)
        case "date" | "moment":
            return (_date if name == "date" else _moment)(_day_near(today, random), random)
        case "items":
            return _items(slot, pools, random, part)
        case "integer":
            units, is_plain = slot.get("units", ()), slot.get("plain", False)
            return _whole(slot.get("low", 1), slot.get("high", 500), *units, is_plain=is_plain)(random)
        case "decimal":
            return _decimal(slot, random)
        case _ if name.startswith("list:"):
            return _list(pools[name.removeprefix("list:")], random, part)
        case _ if name in _TYPED:
            return _TYPED[name][0](random)
        case _:
            text = _drawn(pools[name], random, part).strip()
            return _text(text.upper() if random.random() < _SHOUTED else text)


def type_of(slot: Slot) -> t.Type:
    """How a program asks for what the slot states."""
    match str(slot["pool"]):
        case "flag":
            return t.Boolean()
        case "choice":
            return t.Union(tuple(t.Literal(option[0]) for option in slot["options"]))
        case "items":
            return t.Array(t.Object(tuple(t.Field(name, type) for name, type in _parts(slot))))
        case "decimal":
            return t.Number()
        case name if name.startswith("list:"):
            return t.Array(t.String())
        case name if name in _DATED:
            return _DATED[name]
        case name:
            return _TYPED[name][1] if name in _TYPED else t.String()


def narrowed(slot: Slot, random: Random, part: Part) -> Slot:
    """A slot as one program asks for it: some of the options in any order, and names for the parts of items."""
    match str(slot["pool"]):
        case "choice":
            kept = [option for option in slot["options"] if random.random() < 0.85]
            kept = kept if len(kept) > 1 else list(slot["options"])
            return {**slot, "options": random.sample(kept, len(kept))}
        case "items":
            names = [random.choice(choices) for choices in _ITEM_NAMES[part is Part.TEST]]
            asked = [True, random.random() < 0.7, random.random() < 0.8]
            return {**slot, "parts": [name if keep else None for name, keep in zip(names, asked, strict=True)]}
        case _:
            return slot


def _text(printed: str) -> Fact:
    return Fact(printed, printed)


def _drawn(pool: Pool, random: Random, part: Part) -> str:
    """A value; in training, one of its words is often changed, so that values are copied and not remembered."""
    value = draw(pool, random, part)
    if part is Part.TEST or random.random() > _CHANGED:
        return value
    words = list(_LONG_WORD.finditer(value))
    if not words:
        return value
    word = random.choice(words)
    changed = value[: word.start()] + _other(word[0], random) + value[word.end() :]
    return changed if belongs(changed, part) else value


def _other(word: str, random: Random) -> str:
    """An invented word, or this one with a letter more, less, or another: `Tanaka`, `Tanuka`."""
    if random.random() < 0.3:
        invented = load_names().word(random)
        return invented.lower() if word.islower() else invented.upper() if word.isupper() else invented
    place = random.randrange(1, len(word))
    letter = random.choice(_LETTERS.upper() if word.isupper() else _LETTERS)
    return word[:place] + random.choice(("", letter, letter + word[place])) + word[place + 1 :]


# ── moments ──────────────────────────────────────────────────────────────────────────────────────────────


def draw_day(random: Random) -> date:
    return _FIRST_DAY + timedelta(days=random.randrange(_DAYS_KNOWN))


def _day_near(today: date, random: Random) -> date:
    far = random.choice((3, 12, 40, 150, 400, None))
    return draw_day(random) if far is None else today + timedelta(days=random.randint(-far, far))


def _date(day: date, random: Random) -> Fact:
    month = _MONTHS[day.month - 1]
    ways = [
        day.isoformat(), day.isoformat(), f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}",
        f"{day.day}. {month} {day.year}", f"{day.day} {month[:3]} {day.year}", f"{month[:3]} {day.day}, {day.year}",
        f"{day.day:02}.{day.month:02}.{day.year}", f"{_DAYS[day.weekday()]}, {day.day} {month} {day.year}",
        f"{_DAYS[day.weekday()][:3]} {month[:3]} {day.day} {day.year}", f"{day.year}/{day.month:02}/{day.day:02}",
        f"{_DAYS[day.weekday()][:3]} {day.day} {month} {day.year}", f"{day.day:02} {month[:3].upper()} {day.year}",
        f"{_DAYS[day.weekday()]} {day.day} {month[:3]} {day.year}", f"{day.year}{day.month:02}{day.day:02}",
    ]  # fmt: skip
    if day.day > 12:
        ways += [f"{day.day}/{day.month}/{day.year}", f"{day.month}/{day.day}/{day.year}"]
        ways += [f"{day.day:02}/{day.month:02}/{day.year}", f"{day.month:02}/{day.day:02}/{day.year}"]
    return Fact(random.choice(ways), day.isoformat())


def _time(random: Random) -> Fact:
    hour = random.choice((random.randrange(24), random.randrange(7, 22)))
    minute = random.choice((0, 0, 15, 30, 45, random.randrange(60)))
    half = "am" if hour < 12 else "pm"
    ways = [f"{hour:02}:{minute:02}", f"{hour}:{minute:02}", f"{(hour - 1) % 12 + 1}:{minute:02} {half}"]
    if minute == 0:
        ways += [f"{(hour - 1) % 12 + 1} {half}", f"{(hour - 1) % 12 + 1}{half}"]
    return Fact(random.choice(ways), f"{hour:02}:{minute:02}:00")


def _moment(day: date, random: Random) -> Fact:
    clock = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
    value = f"{day.isoformat()}T{clock}"
    month = _MONTHS[day.month - 1][:3]
    ways = (
        value, value, f"{day.isoformat()} {clock}", f"{day.isoformat()} {clock}",
        f"{day.year}/{day.month:02}/{day.day:02} {clock}", f"{day.day:02}/{month}/{day.year}:{clock} +0000",
        f"{day.day} {month} {day.year}, {clock}", value.replace("-", "").replace(":", ""), f"{value}Z",
    )  # fmt: skip
    return Fact(random.choice(ways), value)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────


def _money(random: Random) -> Fact:
    printed = price(random)
    if random.random() < _BARE:
        return Fact(printed, Decimal(printed.replace(",", "")))
    sign = random.choice(_CURRENCIES)
    if sign.isalpha():
        shown = random.choice((f"{sign} {printed}", f"{printed} {sign}"))
    else:
        shown = random.choice((f"{sign}{printed}", f"{sign}{printed}", f"{printed} {sign}"))
    return Fact(shown, Decimal(printed.replace(",", "")))


def price(random: Random) -> str:
    amount = random.choice((random.uniform(1, 100), random.uniform(1, 2000), random.uniform(100, 90_000)))
    cents = random.random() < 0.7
    return f"{amount:,.2f}" if cents and random.random() < 0.6 else f"{amount:.2f}" if cents else f"{amount:.0f}"


def _whole(low: int, high: int, *units: str, is_plain: bool = False) -> Maker:
    def make(random: Random) -> Fact:
        is_small = high - low > _WIDE and random.random() < 0.5
        number = random.randint(low, low + (high - low) // 10 if is_small else high)
        printed = f"{number:,}" if random.random() < 0.4 and not is_plain else str(number)
        return Fact(printed + (random.choice(units) if units else ""), number)

    return make


def _quantity(random: Random) -> Fact:
    number = f"{random.uniform(-30, random.choice((10, 100, 2000))):.{random.choice((0, 0, 1, 1, 2))}f}"
    number = "0" if float(number) == 0 else number
    return Fact(number + random.choice(_UNITS), Decimal(number))


def _decimal(slot: Slot, random: Random) -> Fact:
    number = f"{random.uniform(slot['low'], slot['high']):.{random.choice((0, slot['decimals'], slot['decimals']))}f}"
    number = number.removeprefix("-") if float(number) == 0 else number
    return Fact(number + random.choice(slot.get("units", ("",))), Decimal(number))


def _weight(random: Random) -> Fact:
    number = f"{random.uniform(0.2, 60):.{random.choice((0, 1, 1, 2))}f}"
    return Fact(f"{number}{random.choice((' kg', 'kg', ' kilos'))}", Decimal(number))


# ── texts of a form ──────────────────────────────────────────────────────────────────────────────────────


def _code(random: Random) -> Fact:
    letters = "".join(random.choices(_CODE_LETTERS, k=random.choice((1, 2, 2, 3, 3))))
    digits, year = str(random.randint(1, 10 ** random.choice((3, 4, 5, 6, 8)))), random.randint(2015, 2031)
    ways = (
        f"{letters}-{digits}", f"{letters}{digits}", digits, f"{letters}-{year}-{digits}", f"{year}/{digits}",
        f"#{digits}", f"{letters}/{digits}", f"{letters} {digits}", f"{random.getrandbits(32):08x}",
        f"{random.randint(10, 999)}-{digits}", f"{letters}{digits}{random.choice(_CODE_LETTERS)}",
        f"{random.randint(1000, 9999)} {random.randint(1000, 9999)} {random.randint(1, 99):02}",
        f"{letters.lower()}-{digits}", f"{random.getrandbits(28):07x}",
    )  # fmt: skip
    return _text(random.choice(ways))


def _phone(random: Random) -> Fact:
    digits = "".join(str(random.randrange(10)) for _ in range(10))
    area, middle, last = digits[:3], digits[3:6], digits[6:]
    ways = (
        f"{area}-{middle}-{last}", f"({area}) {middle}-{last}", f"+{random.randint(1, 99)} {area} {middle} {last}",
        f"0{area} {middle}{last}", f"0{area}/{middle}{last}", f"+{random.randint(30, 49)} {area[:2]} {middle}{last}",
    )  # fmt: skip
    return _text(random.choice(ways))


def _word(random: Random) -> str:
    return load_names().word(random).lower()


def _email(random: Random) -> Fact:
    user = random.choice((_word(random), f"{_word(random)}.{_word(random)}", f"{_word(random)[:1]}.{_word(random)}"))
    user = random.choice((user, user, "info", "jobs", "office", f"{user}{random.randint(1, 99)}"))
    return _text(f"{user}@{_word(random)}{random.choice(_ENDINGS)}")


def _site(random: Random) -> Fact:
    host = f"{_word(random)}{random.choice(_ENDINGS)}"
    path = random.choice(("", "", f"/{_word(random)}"))
    return _text(random.choice((f"www.{host}", f"https://{host}{path}", f"https://www.{host}{path}", host)))


def _ip(random: Random) -> Fact:
    return _text(".".join(str(random.randrange(1, 255)) for _ in range(4)))


def _user(random: Random) -> Fact:
    return _text(
        random.choice((_word(random), f"{_word(random)[:1]}{_word(random)}", f"{_word(random)}{random.randint(1, 99)}"))
    )


_DATED = {"date": t.Temporal(t.Moment.DATE), "moment": t.Temporal(t.Moment.DATETIME)}
_TYPED: Mapping[str, tuple[Maker, t.Type]] = {
    "time": (_time, t.Temporal(t.Moment.TIME)),
    "money": (_money, t.Number()),
    "weight": (_weight, t.Number()),
    "quantity": (_quantity, t.Number()),
    "integer": (_whole(1, 500), t.Integer()),
    "minutes": (_whole(5, 240, " minutes", " min", " mins"), t.Integer()),
    "year": (_whole(1960, 2026, is_plain=True), t.Integer()),
    "distance": (_whole(500, 240_000, " km", " miles"), t.Integer()),
    "milliseconds": (_whole(1, 9000, "ms", " ms"), t.Integer()),
    "area": (_whole(15, 300, " sqm", " m2", " square meters", " m²"), t.Integer()),
    "code": (_code, t.String()),
    "phone": (_phone, t.String()),
    "email": (_email, t.String()),
    "site": (_site, t.String()),
    "ip": (_ip, t.String()),
    "user": (_user, t.String()),
}


# ── closed values and lists ──────────────────────────────────────────────────────────────────────────────


def _flag(slot: Slot, random: Random) -> Fact:
    is_true = random.random() < 0.5
    return Fact(random.choice(slot["yes"] if is_true else slot["no"]), is_true, is_span=False)


def _choice(slot: Slot, random: Random) -> Fact:
    right = random.choice(slot["options"])
    return Fact(random.choice(right[1:]), right[0])


def _list(pool: Pool, random: Random, part: Part) -> Fact:
    values = list(dict.fromkeys(_drawn(pool, random, part) for _ in range(random.choice((1, 2, 2, 3, 3, 4, 5)))))
    glue = random.choice((", ", ", ", "; ", " / "))
    return Fact(glue.join(values), [*values], is_span=False, lines=tuple(values))


_ITEM_NAMES = (
    (("item", "name", "description", "article"), ("quantity", "count", "qty"), ("price", "amount", "cost")),
    (("product", "title", "what"), ("number", "units"), ("unit_price", "each")),
)  # the second row is for tests


def _parts(slot: Slot) -> Iterator[tuple[str, t.Type]]:
    names = slot.get("parts", ("item", "quantity", "price"))
    types: tuple[t.Type, ...] = (t.String(), t.Integer(), t.Number())
    return ((name, type) for name, type in zip(names, types, strict=True) if name is not None)


def _items(slot: Slot, pools: Mapping[str, Pool], random: Random, part: Part) -> Fact:
    """Things with a number and a price. All of it is printed, even what the program does not ask for."""
    names, way = slot["parts"], random.randrange(4)
    lines: list[str] = []
    values: list[JsonValue] = []
    for _ in range(random.choice((1, 2, 2, 3, 4))):
        item, cost = _drawn(pools["item"], random, part), price(random)
        count = random.choice((1, 1, 2, 3, random.randint(1, 40)))
        ways = (f"{count} x {item} {cost}", f"{item} ({count}) {cost}", f"{item}, {count} pcs, {cost}")
        lines.append((*ways, f"{count} {item} @ {cost}")[way])
        given: tuple[JsonValue, ...] = (item, count, Decimal(cost.replace(",", "")))
        values.append({name: value for name, value in zip(names, given, strict=True) if name is not None})
    return Fact("; ".join(lines), values, is_span=False, lines=tuple(lines))
