"""The plans that ask for the attributes of a document. Every value is a span of the text or null."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from benchmarks.hpd.documents import Corpus, Document, taught
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.program.program import Program
from pastalang.training.recording import Lesson, planner
from pastalang.values.json import JsonValue
from recipes.pasta_mini.lessons import extraction_program

ORDER = "You extract product attributes. Write null when the listing does not say."
TEXT = "title"  # the input that holds what is read


@cache
def plans_of(asked: tuple[str, ...], limit: int, is_stacked: bool = False) -> Callable[[Mode], Plan]:
    """`limit` is the token limit of a value. The same arguments give the same plans."""
    return planner(_program(asked, limit, is_stacked))


def lesson_of(corpus: Corpus, document: Document, limit: int, *, origin: str) -> Lesson:
    asked = corpus.asked[document.category]
    values: dict[str, JsonValue] = {**taught(document, asked)}
    return Lesson(plans_of(asked, limit), {TEXT: document.text}, values, origin, document.category)


def _program(asked: tuple[str, ...], limit: int, is_stacked: bool) -> Program:
    program = extraction_program(asked, limit=limit, order=ORDER, is_quoted=True)
    if not is_stacked:
        return program
    template = program.only_template
    inputs = tuple(replace(one, each=True) for one in template.inputs)
    return replace(program, templates={template.name: replace(template, inputs=inputs)})
