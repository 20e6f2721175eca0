"""What is asked of every document: a program, the type of its values, and the texts of a document that it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pastalang.bulk.documents import BadDocument, Columns, Document, Record
from pastalang.errors import InputError
from pastalang.plan.build import build_plan
from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import Input, InputKind, OneOf, Program
from pastalang.runtime.call import template_of
from pastalang.runtime.errors import BadInputs, RunError
from pastalang.runtime.question import Question, question_of

if TYPE_CHECKING:  # a task is made before torch is imported
    from pastalang.runtime.engine import Engine

_TEXT: Final = "text"  # the input of the program of a type


@dataclass(frozen=True, slots=True)
class Task:
    """`columns` names, for each input of the program, the columns that it is made of.

    `type` validates the answers; None leaves them as the program types them. `constants` are inputs that are the same
    for all documents, and `options` those of `Engine.run`. `max_tokens` limits the texts whose types set no limit.
    """

    program: Program
    type: Any
    inputs: tuple[Input, ...]
    columns: Mapping[str, tuple[str, ...]]
    id: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    question: Question | None = None  # for a task made from a type
    template: str | None = None
    max_tokens: int | None = None
    _plans: dict[Mode, Plan] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def read(self) -> Columns:
        """The columns that documents are read for."""
        needed = {one.name for one in self.inputs if one.default is None}
        parts = [(name, name in needed, columns) for name, columns in self.columns.items()]
        return Columns(
            tuple(column for _, is_needed, columns in parts if is_needed for column in columns),
            tuple(column for _, is_needed, columns in parts if not is_needed for column in columns),
            self.id,
        )

    def plan(self, mode: Mode | None = None) -> Plan:
        """The plan in the mode of the task, or in another one. Raises `PlanError`."""
        mode = mode or Mode(self.mode)
        if mode not in self._plans:
            template = template_of(self.program, self.template)
            self._plans[mode] = build_plan(template, self.program, mode=mode, max_tokens=self.max_tokens)
        return self._plans[mode]

    @property
    def runnable(self) -> Program | Plan:
        """What an engine runs, the same object each time. Raises `PlanError`."""
        return self.program if self.max_tokens is None else self.plan()

    @property
    def mode(self) -> str:
        return Mode(self.options.get("mode", Mode.STRICT)).value

    def constants(self, engine: Engine) -> Mapping[str, Any]:
        """The inputs that are the same for all documents."""
        if self.question is None:
            return {}
        return {name: value for name, value in self.question.inputs_for(engine.trained_for).items() if name != _TEXT}

    def inputs_of(self, document: Document) -> dict[str, Any] | InputError | RunError:
        """The inputs of a document by name, or why it has none."""
        if document.error is not None:
            assert isinstance(document.error, InputError | RunError)
            return document.error
        try:
            found = dict(self._bound(document.record))
        except BadDocument as problem:
            return BadDocument(f"{document.origin}: {problem}" if document.origin else str(problem))
        texts = [value for value in found.values() if isinstance(value, str)]
        if texts and not any(text.strip() for text in texts):
            return BadDocument(f"{document.origin}: its text is empty" if document.origin else "the text is empty")
        return found

    def _bound(self, record: Record) -> Iterator[tuple[str, Any]]:
        declared = {one.name: one for one in self.inputs}
        for name, columns in self.columns.items():
            one = declared[name]
            if len(columns) > 1:
                yield name, "\n".join(text for _, text in parts_of(record, columns))
            elif (value := record.get(columns[0])) is not None:
                yield name, _text(columns[0], value) if _is_text(one) else _value(columns[0], value)
            elif one.default is None:
                has_it = columns[0] in record
                raise BadDocument(f"`{columns[0]}` is null" if has_it else f"it has no `{columns[0]}`")


def task_of_type(
    type: Any, *, text: Sequence[str] = (_TEXT,), id: str | None = None, options: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
) -> Task:  # fmt: skip
    """The task of `extract`. Several text columns are one text, a line for each, with the name of the column.

    Raises what `extract` raises for a type or an option that is wrong.
    """
    if not text:
        raise BadInputs("name at least one text column")
    question = question_of(type, "", {**(options or {}), "details": True})  # as for a call that returns an `Extraction`
    run = {name: value for name, value in question.options.items() if name != "details"}
    inputs = tuple(one for one in question.program.only_template.inputs if one.name == _TEXT)
    return Task(question.program, type, inputs, {_TEXT: tuple(text)}, id, run, question, max_tokens=max_tokens)


def task_of_program(
    program: Program,
    *,
    text: Sequence[str] = (),
    id: str | None = None,
    template: str | None = None,
    options: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
) -> Task:
    """The task of a program: an input is the column of its name, or the one that `text` gives as `input=column`.

    A single column without an input belongs to the only input that has no default. Raises `BadInputs`.
    """
    inputs = template_of(program, template).inputs
    names = [one.name for one in inputs]
    columns = {name: (name,) for name in names}
    needed = [one.name for one in inputs if one.default is None]
    for given in text:
        name, is_named, column = given.partition("=")
        if not is_named:
            if len(needed) != 1 or len(text) != 1:
                raise BadInputs(
                    f"say which input is which column, such as `{(needed or names or ['title'])[0]}={given}`"
                )
            name, column = needed[0], given
        if name not in names:
            raise BadInputs(f"the program has no input `{name}`; it has {', '.join(f'`{one}`' for one in names)}")
        columns[name] = (column,)
    run = {**(options or {}), **({} if template is None else {"template": template})}
    return Task(program, None, inputs, columns, id, run, template=template, max_tokens=max_tokens)


def parts_of(record: Record, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The columns that a text is made of, each with its line of that text. Empty ones are left out."""
    for column in columns:
        if record.get(column) is not None and (text := _text(column, record[column])).strip():
            yield column, f"{column}: {text}"


def _text(column: str, value: object) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise BadDocument(f"`{column}` is not UTF-8 text") from None
    if not isinstance(value, str):
        raise BadDocument(f"`{column}` is not a text, but {value!r:.40}")
    try:
        value.encode()
    except UnicodeEncodeError as problem:
        half = ascii(value[problem.start])[1:-1]
        raise BadDocument(f"`{column}` is not a text: {half} is half of a surrogate pair") from None
    return value


def _value(column: str, value: object) -> object:
    """An input that is not a text. In a table, which holds only texts, it is written as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise BadDocument(f"`{column}` is not JSON: {value!r:.40}") from None


def _is_text(input: Input) -> bool:
    return not input.each and (input.type is InputKind.TEXT or isinstance(input.type, OneOf))
