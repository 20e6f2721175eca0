"""Everyday documents and the programs that ask about them, both made up from a seed.

A program asks for some of what a kind of document may state, under names of its own, with and without descriptions.
The prompt is the one that `pastalang.from_model` writes. A document of the same kind may leave any of it out:

    Invoice no.: KX-2024-118        number: string | null        "KX-2024-118"
    Pay by: 3 May 2026              due: date | null             "2026-05-03"
    VAT: 12.40                      settled: boolean | null      null

One kind has no fixed vocabulary: its labels are put together from words, so that a model has to read what it is asked.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from pastalang.compiler import compile
from pastalang.program import types as t
from pastalang.program.pieces import Text
from pastalang.program.program import Program, TextBody
from pastalang.training.recording import Lesson, planner
from pastalang.values.conversion import Converted
from pastalang.values.json import JsonValue
from pastalang.values.to_source import program_source
from recipes.pasta_mini.catalogue import Part, Pool, build_pool, draw, invented_pools, load_names
from recipes.pasta_mini.facts import Fact, Slot, draw_day, make_fact, narrowed, type_of
from recipes.pasta_mini.layouts import Entry, add_entries, lay_out
from recipes.pasta_mini.templates import Template, read_template

KINDS = Path(__file__).with_name("kinds")
POOLS = Path(__file__).with_name("pools.toml")
TEXT = "text"  # the input of the programs that `from_model` writes

_OPEN = "form"  # the kind whose labels are made up
_OPEN_TITLES = ("Form", "", "Record", "Sheet", "Overview")
_OPEN_SHARE = 0.25
_TEMPLATE_SHARE = 0.6  # of the documents whose kind has templates
_BESIDE = 0.15  # how often a document states more than its template has places for
_OPEN_POOLS = (
    "phrase", "phrase", "phrase", "person", "company", "city", "word", "code", "code", "date", "money", "integer",
    "email", "phone", "user", "quantity", "quantity", "time", "moment", "site", "flag", "choice", "choice", "list:word",
)  # fmt: skip
_ABOUT = ("the {}", "{}", "{}, as printed", "what the document gives as {}", "the document's {}", "says which {} it is")
_SAY = ("The {0} is {1}.", "{1} is the {0}.", "As {0} we have {1}.", "{0}: {1}.", "For the {0}, see {1}.")
AS_TEXT = ("date", "time", "moment", "money", "weight", "quantity")  # of these, texts show the sign or the unit
_OPAQUE_SHARE = 0.1  # of the programs of training have names that say nothing, and descriptions
_OPAQUE = ("field", "value", "x", "item", "entry", "f", "key", "col")
_ABOUT_ALL = (None, None, None, "A record of the document.", "What the text says.", "The facts of this page.")


@dataclass(frozen=True, slots=True)
class Question:
    """One field of a program. `type` is the type without null; `as_text`: the value as it is printed."""

    slot: Slot
    key: str
    about: str | None
    type: t.Type
    as_text: bool
    may_be_null: bool


@dataclass(frozen=True, slots=True)
class Form:
    """A program and what its documents state. `inner` are the fields of one object inside the answer."""

    kind: str
    titles: Sequence[str]
    templates: Sequence[str]
    ordered: Sequence[tuple[str, str]]
    slots: tuple[Slot, ...]
    questions: tuple[Question, ...]
    inner: tuple[str, tuple[str, ...]] | None
    answer: t.Object
    program: Program

    @property
    def prompt(self) -> str:
        """The system message: known text, whatever the document is."""
        body = self.program.only_template.messages[0].body
        assert isinstance(body, TextBody)
        return "".join(piece.text for piece in body.pieces if isinstance(piece, Text))


@dataclass(frozen=True, slots=True)
class Document:
    """`facts` are by the names that `slot_id` gives. It may state others than it is asked for."""

    kind: str
    text: str
    value: Mapping[str, JsonValue]
    facts: Mapping[str, Fact]


@cache
def load_kinds() -> tuple[Mapping[str, Any], ...]:
    return tuple(kind for area in _areas() for kind in area["kinds"])


@cache
def load_pools() -> dict[str, Pool]:
    pools = invented_pools(load_names())
    general = tomllib.loads(POOLS.read_text(encoding="utf-8"))
    for definitions in (general, *(area.get("pools", {}) for area in _areas())):
        for name, definition in definitions.items():
            assert name not in pools or definitions is general, f"two pools are called {name}"
            pools[name] = build_pool(definition, pools)
    return pools


@cache
def _areas() -> tuple[Mapping[str, Any], ...]:
    return tuple(tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(KINDS.glob("*.toml")))


def lessons_about(form: Form, random: Random, part: Part, *, count: int, origin: str) -> list[Lesson]:
    """Documents of one form, each with its right answer. They share a program, and with it a category of scores."""
    plan = planner(form.program)
    found = []
    for number in range(count):
        document = draw_document(form, random, part)
        where = f"{origin}, {form.kind} {number}"
        found.append(Lesson(plan, {TEXT: document.text}, dict(document.value), where, f"{origin}, {form.kind}"))
    return found


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────


def draw_form(random: Random, part: Part) -> Form:
    is_open = random.random() < _OPEN_SHARE
    chosen = _open_kind(random, part) if is_open else random.choice(load_kinds())
    slots = [narrowed(slot, random, part) for slot in chosen["slots"]]
    asked = random.sample(slots, min(len(slots), random.choice((1, 2, 3, 4, 5, 5, 6, 6, 7, 8, 9, 10))))
    if random.random() < 0.4:
        asked.sort(key=slots.index)
    spell, described = draw_spelling(random), random.choice((0.0, 0.3, 0.7, 1.0, 1.0))
    says_nothing = random.random() < _OPAQUE_SHARE and part is Part.TRAIN
    opaque = 1.0 if says_nothing else 0.25 if is_open else 0.0
    questions: dict[str, Question] = {}
    for slot in asked:
        question = _question(slot, random, part, spell, described, opaque=opaque)
        questions.setdefault(question.key.casefold(), question)
    return _form(chosen, slots, tuple(questions.values()), random)


def _form(kind: Mapping[str, Any], slots: list[Slot], questions: tuple[Question, ...], random: Random) -> Form:
    inner = None
    if len(questions) > 3 and random.random() < 0.15:
        names = [
            name for name in ("details", "more", "rest", "info", "other") if name not in {q.key for q in questions}
        ]
        inner = random.choice(names), tuple(question.key for question in questions[-random.choice((2, 3)) :])
    fields = tuple(t.Field(one.key, _nullable(one), description=one.about) for one in questions)
    if inner is not None:
        name, keys = inner
        held = tuple(one for one in fields if one.key in keys)
        fields = (*(one for one in fields if one.key not in keys), t.Field(name, t.Object(held)))
    answer = t.Object(fields, description=random.choice(_ABOUT_ALL))
    program = compile(program_source(Converted(answer, {}), name="record"))
    looks = kind["name"], kind["titles"], kind["templates"], kind.get("ordered", ())
    return Form(*looks, tuple(slots), questions, inner, answer, program)


def with_examples(form: Form, random: Random, part: Part, *, count: int) -> Form:
    """The form, whose prompt shows some documents with their answers first."""
    drawn = [draw_document(form, random, part) for _ in range(count)]
    shown = [(document.text, dict(document.value)) for document in drawn]
    return replace(form, program=compile(program_source(Converted(form.answer, {}), name="record", examples=shown)))


def _nullable(question: Question) -> t.Type:
    if not question.may_be_null:
        return question.type
    arms = question.type.arms if isinstance(question.type, t.Union) else (question.type,)
    return t.Union((*arms, t.Null()))


def _question(slot: Slot, random: Random, part: Part, spell: Spelling, described: float, *, opaque: float) -> Question:
    words = _kept(slot["names"], random, part)
    about = _kept(slot["about"], random, part) if random.random() < described else None
    if random.random() < opaque:
        words, about = f"{random.choice(_OPAQUE)} {random.randint(1, 30)}", _kept(slot["about"], random, part)
    type = type_of(slot)
    as_text = type == t.String() or (slot["pool"] in AS_TEXT and random.random() < 0.2)
    if as_text:
        type = t.Verbatim(TEXT) if random.random() < 0.35 else t.String()
    return Question(slot, spell(words), about, type, as_text, may_be_null=random.random() < 0.75)


def _kept(ways: Sequence[str], random: Random, part: Part) -> str:
    """The last of several ways is for tests."""
    if len(ways) < 2:
        return ways[0]
    return ways[-1] if part is Part.TEST else random.choice(ways[:-1])


class Spelling:
    """`due date` as one program writes names: `due_date`, `dueDate`, `Due date`."""

    def __init__(self, way: int) -> None:
        self._way = way

    def __call__(self, words: str) -> str:
        first, *others = words.replace("-", " ").replace("_", " ").split()
        match self._way:
            case 0:
                return first + "".join(word.capitalize() for word in others)
            case 1:
                return " ".join([first.capitalize(), *others])
            case 2:
                return " ".join(word.capitalize() for word in (first, *others))
            case _:
                return "_".join([first, *others])


def draw_spelling(random: Random) -> Spelling:
    return Spelling(random.choice((0, 1, 2, 3, 3, 3, 3)))


def _open_kind(random: Random, part: Part) -> dict[str, Any]:
    """A kind whose labels are made up of words, some of which are only used in tests."""
    slots: dict[str, Slot] = {}
    pools = load_pools()
    for _ in range(random.randint(4, 9)):
        noun, role = draw(pools["noun"], random, part), pools["part"](random)
        quality = pools["quality"](random)
        label = random.choice(
            (noun, f"{noun} {role}", f"{noun} {role}", f"{quality} {noun}", f"{quality} {noun} {role}")
        )
        pool = random.choice(_OPEN_POOLS)
        say = random.choice(_SAY).replace("{0}", label).replace("{1}", "{}")
        named = random.choices(("noun", "part", "quality", "skill"), k=4)
        options = {draw(pools[name], random, part) for name in named}
        slots[label] = {
            "pool": pool, "say": [say], "names": [label], "share": 0.8,
            "labels": [label.capitalize(), label, label.title()],
            "about": [random.choice(_ABOUT).format(label)], "yes": ["yes", "true", "done"],
            "no": ["no", "false", "not yet"],
            "options": [[word, word, word.capitalize(), word.upper()] for word in sorted(options)],
        }  # fmt: skip
    return {"name": _OPEN, "titles": _OPEN_TITLES, "templates": (), "slots": list(slots.values())}


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────


def draw_document(form: Form, random: Random, part: Part) -> Document:
    """What the program requires is stated; anything else may be left out."""
    required = {slot_id(question.slot) for question in form.questions if not question.may_be_null}
    template = _template(form, random, part)
    facts: dict[str, Fact] = {}
    today = draw_day(random)
    for slot in form.slots:
        name = slot_id(slot)
        if template is not None and name in template.fixed:
            facts[name] = Fact("", template.fixed[name], is_span=False)
        elif name in required or random.random() < _share(slot, template):
            facts[name] = make_fact(slot, load_pools(), random, part, today)
    for earlier, later in form.ordered:
        if earlier in facts and later in facts and str(facts[earlier].value) > str(facts[later].value):
            facts[earlier], facts[later] = facts[later], facts[earlier]
    text, printed = ("", frozenset[str]()) if template is None else template.fill(facts, random)
    if template is not None:  # a place inside of an empty one is not reached
        facts = {name: fact for name, fact in facts.items() if name in printed | required or name not in template.names}
    entries = [
        _entry(slot, facts[slot_id(slot)], random, part)
        for slot in form.slots
        if slot_id(slot) in facts and slot_id(slot) not in printed and facts[slot_id(slot)].printed
    ]
    if template is None:
        text = lay_out(random.choice(form.titles), entries, random, part, is_log=form.kind == "log")
    else:
        text = add_entries(text, entries, random, part)
    values = {question.key: _value(question, facts.get(slot_id(question.slot))) for question in form.questions}
    return Document(form.kind, text, _nested(form, values), facts)


def slot_id(slot: Slot) -> str:
    """What templates call it."""
    return str(slot["names"][0])


def _template(form: Form, random: Random, part: Part) -> Template | None:
    if not form.templates or random.random() > _TEMPLATE_SHARE:
        return None
    template = read_template(_kept(form.templates, random, part))
    quotes = any(isinstance(question.type, t.Verbatim) for question in form.questions)
    options = {slot_id(slot): [option[0] for option in slot.get("options", ())] for slot in form.slots}
    is_no_option = any(options[name] and value not in options[name] for name, value in template.fixed.items())
    return None if is_no_option or (quotes and template.is_glued) else template


def _share(slot: Slot, template: Template | None) -> float:
    if template is None or slot_id(slot) in template.optional:
        return float(slot["share"])
    return 1.0 if slot_id(slot) in template.required else _BESIDE


def _nested(form: Form, values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if form.inner is None:
        return values
    name, keys = form.inner
    outer = {key: value for key, value in values.items() if key not in keys}
    return {**outer, name: {key: values[key] for key in keys}}


def _entry(slot: Slot, fact: Fact, random: Random, part: Part) -> Entry:
    say = slot.get("say")
    sentence = _kept(say, random, part).replace("{}", fact.printed) if say else None
    sentence = sentence and sentence[0].upper() + sentence[1:]
    if sentence and fact.is_span and fact.printed not in sentence:
        sentence = None  # the sentence began with the value, and a value keeps its first letter
    return Entry(random.choice(slot["labels"]), fact.printed, fact.lines, sentence)


def _value(question: Question, fact: Fact | None) -> JsonValue:
    if fact is None:
        return None
    return fact.printed if question.as_text else fact.value
