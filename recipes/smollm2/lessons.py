"""What is drawn: documents of one program, or titles of one category, recorded in one of the modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, Final

from pastalang.compiler import compile
from pastalang.errors import PastaError
from pastalang.plan.branches import Mode
from pastalang.program import types as t
from pastalang.program.program import Program
from pastalang.training.errors import BadRow
from pastalang.training.recording import Lesson, Recorder, TrainingRow, planner
from pastalang.values.conversion import Converted
from pastalang.values.json import JsonValue
from pastalang.values.to_source import program_source
from recipes.pasta_mini.batches import shared_prompt
from recipes.pasta_mini.catalogue import Part
from recipes.pasta_mini.documents import TEXT, draw_form, lessons_about, with_examples
from recipes.pasta_mini.listings import Listing
from recipes.pasta_mini.real_listings import Mixer
from recipes.smollm2.written import Record, lessons_of, read_written

SHARES: Final = {Mode.STRICT: 0.6, Mode.SEQUENTIAL: 0.2, Mode.LOCKSTEP: 0.2}
TITLES: Final = 0.15  # of the groups
WRITTEN: Final = 0.23
_DOCUMENTS, _LISTINGS = 5, 6  # of a group, if they fit
_SHORT_PROGRAMS: Final = 0.2  # of those with few fields are kept: many fields share the cost of a document
_MANY_FIELDS: Final = 5
_LONGEST_ROW: Final = 520
_LEAST_PROMPT: Final = 20
_LEAST_LABELS: Final = 20
_VERBATIM: Final = 0.4
_SHOWN: Final = 0.3  # of the groups have examples in their prompt
_EXAMPLES: Final = (1, 2, 2, 3)


class DrawGroup:
    """Draws rows that share a prompt. The same random stream gives the same rows.

    `title_share` and `written` are the shares of titles and of written documents. These are in `files`, or in all files
    if none are named.
    """

    def __init__(
        self, tokenizer: Any, titles: Sequence[Listing], *, longest: int, title_share: float = TITLES,
        written: float = WRITTEN, files: str = "",
    ) -> None:  # fmt: skip
        self._recorder, self._mixer, self._longest = Recorder(tokenizer), Mixer(titles), longest
        self._title_share, self._written, self._files = title_share, written, files

    def __call__(self, random: Random) -> list[TrainingRow]:
        while True:
            rows = self._rows(random)
            if sum(len(row.taught) for row in rows) >= _LEAST_LABELS:
                return rows

    def _rows(self, random: Random) -> list[TrainingRow]:
        [mode] = random.choices(tuple(SHARES), weights=tuple(SHARES.values()))
        shown = random.choice(_EXAMPLES) if random.random() < _SHOWN else 0
        lessons: Sequence[Lesson] = ()
        with suppress(PastaError):  # an example whose value is no whole words of its text
            lessons = self._lessons(random, shown)
        longest = self._longest if shown else _LONGEST_ROW
        rows: list[TrainingRow] = []
        for lesson in lessons:
            with suppress(BadRow):
                row = self._recorder.row(lesson, mode)
                if len(row) <= longest and _fits([*rows, row], self._longest):
                    rows.append(row)
        return rows

    def _lessons(self, random: Random, shown: int) -> Sequence[Lesson]:
        kind = random.random()
        if kind < self._title_share:
            return self._titles(random, shown)
        if kind < self._title_share + self._written:
            return lessons_of(random.choice(_taught(self._files)), random, shown=min(shown, 1))
        return _documents(random, shown)

    def _titles(self, random: Random, shown: int) -> list[Lesson]:
        """Titles with attributes that all of them may have. One that a title does not state is null."""
        group = [self._mixer.draw(random)]
        for _ in range(60):
            if len(group) == _LISTINGS + shown:
                break
            other = self._mixer.draw(random)
            if other.category == group[0].category and len(set(group[0].values) & set(other.values)) >= 3:
                group.append(other)
        names = [name for name in group[0].values if all(name in other.values for other in group)]
        if random.random() < 0.3:
            random.shuffle(names)
        return lessons_of_titles(group[shown:], names, random, examples=group[:shown])


@cache
def _taught(files: str) -> tuple[Record, ...]:
    return tuple(record for record in read_written(files) if not record.is_held_out)


def lessons_of_titles(
    group: Sequence[Listing], names: Sequence[str], random: Random, examples: Sequence[Listing] = ()
) -> list[Lesson]:
    keys = _spelled(names, random.choice(_SPELLINGS))
    text = t.Verbatim(TEXT) if random.random() < _VERBATIM else t.String()
    shape = t.Object(tuple(t.Field(key, t.Union((text, t.Null()))) for key in keys.values()))
    answers: list[JsonValue] = [{keys[name]: one.values[name] for name in names} for one in (*examples, *group)]
    shown = [(one.title, answer) for one, answer in zip(examples, answers, strict=False)]
    plan = planner(compile(program_source(Converted(shape, {}), name="listing", examples=shown)))
    return [
        Lesson(plan, {TEXT: one.title}, answer, one.title, one.category)
        for one, answer in zip(group, answers[len(examples) :], strict=True)
    ]


def program_of_titles(names: Sequence[str], examples: Sequence[Listing]) -> Program:
    """It asks for these attributes, as texts or null, and shows the examples with their answers."""
    shape = t.Object(tuple(t.Field(name, t.Union((t.String(), t.Null()))) for name in names))
    shown: list[tuple[str, JsonValue]] = [
        (one.title, {name: one.values.get(name) for name in names}) for one in examples
    ]
    return compile(program_source(Converted(shape, {}), name="listing", examples=shown))


def _documents(random: Random, shown: int) -> list[Lesson]:
    form = draw_form(random, Part.TRAIN)
    while len(form.questions) < _MANY_FIELDS and random.random() >= _SHORT_PROGRAMS:
        form = draw_form(random, Part.TRAIN)
    if shown:
        form = with_examples(form, random, Part.TRAIN, count=shown)
    return lessons_about(form, random, Part.TRAIN, count=_DOCUMENTS, origin="document")


def _fits(rows: Sequence[TrainingRow], longest: int) -> bool:
    prompt = shared_prompt(rows)
    return prompt >= _LEAST_PROMPT and prompt + sum(len(row) - prompt for row in rows) <= longest


def _spelled(names: Sequence[str], spell: Callable[[str], str]) -> dict[str, str]:
    keys = {name: spell(name) for name in names}
    is_clear = len({key.casefold() for key in keys.values()}) == len(keys)
    return keys if is_clear else {name: name for name in names}


def _snake(name: str) -> str:
    return name.lower().replace(" ", "_")


def _camel(name: str) -> str:
    return name[:1].lower() + name.title().replace(" ", "")[1:]


_SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (str, str, _snake, _camel)
