"""Product listings made up from a seed: a title, perhaps a description, and the values that they state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from random import Random

from pastalang.values.json import spell_json
from recipes.pasta_mini.catalogue import Attribute, Category, Part, draw, load_catalogue

_SEPARATORS = (", ", ", ", ", ", " - ", " | ", " ", " ", "; ", " – ", ",")
_OPENINGS = ("Meet the", "Introducing the", "This is the", "Our", "The new", "You will love the")
_SENTENCES = (
    "{name}: {value}.",
    "It comes with {value}.",
    "The {name} is {value}.",
    "With {value} you get more.",
    "Enjoy {value} every day.",
    "{value} included.",
)
_CLOSINGS = (
    "Order today.",
    "Ships fast.",
    "Great gift.",
    "Satisfaction guaranteed.",
    "Limited offer.",
    "Easy returns.",
)


@dataclass(frozen=True, slots=True)
class Listing:
    """`values` holds every attribute that is asked for, in that order; None if the text does not state it.

    A stated value is always a span of the title or the description, letter for letter.
    """

    category: str
    title: str
    description: str
    values: Mapping[str, str | None]


def make_listings(seed: int, part: Part) -> Iterator[Listing]:
    """An endless stream. The same seed and part give the same listings."""
    random = Random(f"{seed}/{part.value}")
    categories = load_catalogue()
    while True:
        yield make_listing(random.choice(categories), random, part)


def made_up(count: int, *, seed: int, part: Part = Part.TRAIN) -> list[Listing]:
    return list(islice(make_listings(seed, part), count))


def as_text(listing: Listing) -> str:
    """A listing followed by its answer, for training the tokenizer."""
    fields = ",\n  ".join(f"{spell_json(name)}: {spell_json(value)}" for name, value in listing.values.items())
    return f"Title: {listing.title}\n{listing.description}\n{{\n  {fields}\n}}"


def make_listing(category: Category, random: Random, part: Part) -> Listing:
    names = {attribute: random.choice(attribute.names) for attribute in category.attributes}
    stated = [a for a in category.attributes if random.random() < a.share] or list(category.attributes[:1])
    values = {names[a]: draw(a.pool, random, part).strip() for a in stated}
    in_description = {name for name in values if random.random() < 0.35} if random.random() < 0.3 else set()
    in_title = [(name, value) for name, value in values.items() if name not in in_description]
    title = _title(category, [value for _, value in in_title], random)
    description = _description(category, {n: v for n, v in values.items() if n in in_description}, random)
    asked = _questions(category, names, random)
    text = f"{title}\n{description}"
    return Listing(
        category=category.name,
        title=title,
        description=description,
        values={name: value if (value := values.get(name)) is not None and value in text else None for name in asked},
    )


def _title(category: Category, values: list[str], random: Random) -> str:
    """Values in their usual order with a few swaps, the noun near the front, and some words that mean nothing."""
    words = list(values)
    if len(words) > 2 and random.random() < 0.35:
        place = random.randrange(1, len(words) - 1)
        words[place], words[place + 1] = words[place + 1], words[place]
    words.insert(random.randint(min(1, len(words)), min(4, len(words))), random.choice(category.nouns))
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        words.insert(random.randint(1, len(words)), random.choice(category.fillers))
    return _glue([word for word in words if word] or [category.name], random)


def _glue(words: list[str], random: Random) -> str:
    main = random.choice(_SEPARATORS)
    text = words[0]
    for word in words[1:]:
        roll = random.random()
        if roll < 0.1 and text and "(" not in word:
            text += f" ({word})"
        else:
            text += (main if roll < 0.7 else random.choice(_SEPARATORS)) + word
    return text


def _description(category: Category, values: dict[str, str], random: Random) -> str:
    if not values and random.random() < 0.85:
        return ""
    noun = next(noun for noun in (*category.nouns, category.name) if noun)
    sentences = [f"{random.choice(_OPENINGS)} {noun.lower()}."]
    sentences += [random.choice(_SENTENCES).format(name=name, value=value) for name, value in values.items()]
    sentences += random.sample(_CLOSINGS, k=random.choice((0, 1, 2)))
    return " ".join(sentences)


def _questions(category: Category, names: dict[Attribute, str], random: Random) -> list[str]:
    """Most attributes of the category, sometimes shuffled, and sometimes one of another category."""
    asked = [names[a] for a in category.attributes if random.random() < 0.9] or [names[category.attributes[0]]]
    if random.random() < 0.3:
        random.shuffle(asked)
    if random.random() < 0.4:
        stranger = random.choice(random.choice(load_catalogue()).attributes)
        own = {name for attribute in category.attributes for name in attribute.names}
        if not own.intersection(stranger.names):
            asked.insert(random.randint(0, len(asked)), random.choice(stranger.names))
    return list(dict.fromkeys(asked))
