"""What `extract` asks of an engine: the call, checked, and the program of its type.

type ── extraction_program ── Program (once per type) ── engine.run(text, instructions) ── value, or Extraction
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_origin
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from pastalang.interop import Examples, examples_of, extraction_program
from pastalang.program.program import Program
from pastalang.program.types import Schema
from pastalang.runtime.call import EXTRACT_DEFAULTS, OPTIONS, check_names
from pastalang.runtime.doubtful import odd_values
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.runtime.result import Extraction, Result
from pastalang.runtime.windows import Windowing, windowing_of
from pastalang.values.json import write_json
from pastalang.values.pydantic.from_core import is_type, name_of_type
from pastalang.values.to_source import SHOW_SCHEMA


@dataclass(frozen=True, slots=True)
class Question:
    """A call of `extract`, checked: what an engine runs.

    `type` validates the answer; None, of a JSON Schema, leaves it as the program types it.
    """

    type: Any
    program: Program
    inputs: Mapping[str, Any]
    options: Mapping[str, Any]
    windowing: Windowing | None = None

    def inputs_for(self, note: TrainingNote | None) -> Mapping[str, Any]:
        """The inputs, with what depends on how the weights were trained."""
        return self.inputs if note is None or note.reads_schemas else {**self.inputs, SHOW_SCHEMA: False}

    def answer(self, result: Result[Any]) -> Any:
        return self.answered(Extraction.of(result))

    def answered(self, found: Extraction[Any]) -> Any:
        """Without details, nobody would see that the value is doubtful: it is logged."""
        if self.options.get("details"):
            return found
        if doubts := found.doubtful:
            level = logging.WARNING if any(odd_values(found.fields, found.result.truncations)) else logging.INFO
            _LOG.log(level, "the answer is doubtful: %s; `details=True` says more", "; ".join(doubts))
        return found.value


def question_of(type: Any, text: str, given: Mapping[str, Any]) -> Question:
    """Raises `TypeError` for a call that cannot be meant, `NotExpressible` for a type that cannot be decoded."""
    _check_type(type, text)
    _check_text(type, text)
    return question_about(type, given, text=text)


def question_about(type: Any, given: Mapping[str, Any], *, text: str = "") -> Question:
    """`question_of` for texts that come later."""
    _check_type(type, text)
    run_options = {name: value for name, value in given.items() if name in _RUN_OPTIONS}
    check_names(
        {name: value for name, value in given.items() if name not in EXTRACT_DEFAULTS},
        (),
        options=tuple(EXTRACT_DEFAULTS),
        instead=_HINTS,
    )
    if given.get("keep_invalid") and not given.get("details"):
        raise BadInputs("with `keep_invalid` the value may be invalid: add `details=True`, and look at its problems")
    inputs: dict[str, Any] = {"text": text}
    if given.get("instructions") is not None:
        inputs["instructions"] = given["instructions"]
    if given.get("context") is not None:
        inputs["context"] = _texts(given["context"])
    examples = given.get("examples", ())
    if isinstance(examples, str | Mapping) or not isinstance(examples, Sequence):
        raise TypeError(f"`examples` is a list of pairs, a text and its value, not {examples!r:.60}")
    wanted = _schema(type) if isinstance(type, Mapping) else type
    program = program_for(wanted, examples_of(wanted, examples))
    return Question(None if isinstance(wanted, Schema) else type, program, inputs, run_options, windowing_of(given))


_LOG: Final = logging.getLogger("pastalang.answer")
_RUN_OPTIONS: Final = tuple(name for name in OPTIONS if name in EXTRACT_DEFAULTS)
_HINT_INSTRUCTIONS: Final = "write `instructions={value}`"
_HINT_TYPE: Final = "the type of the answer comes first: `extract(Model, text)`"
_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("prompt", "system", "system_prompt", "prompt_description", "instruction"), _HINT_INSTRUCTIONS),
        **dict.fromkeys(("few_shot", "shots", "demos"), "write `examples=[(text, value), ...]`"),
        **dict.fromkeys(("documents", "background", "sources", "docs"), "write `context={value}`"),
        **dict.fromkeys(("response_model", "response_format", "output_type", "output_schema", "schema"), _HINT_TYPE),
        "min_confidence": "write `details=True`, and look at `confidence`",
        "model": "an engine has its model already; `pastalang.extract` takes one by name",
        "template": "the program is made from the type; `run` takes a program and a template",
        "stream": "call `engine.stream` with `pastalang.from_model(Model)`, which yields events",
    }
)


def _schema(document: Mapping[Any, Any]) -> Schema:
    """The schema as a type that equals others of the same text. Raises `NotExpressible` for what is no JSON."""
    from pastalang.values.schema.importer import exact_document

    return Schema(write_json(exact_document(document, name="answer")))


def _check_type(type: object, text: object) -> None:
    if is_type(type) or isinstance(type, Mapping):
        return
    if isinstance(type, str) and (is_type(text) or isinstance(text, Mapping)):
        raise TypeError(f"the type comes first: `extract({name_of_type(text)}, text)`")
    if isinstance(type, str | Path | Program):
        raise TypeError(f"`extract` takes a type; a program or its file is run: `engine.run({_named(type)}, text=...)`")
    if isinstance(type, BaseModel):
        name = type.__class__.__name__
        raise TypeError(f"`extract` takes a class, not an instance of it: write `extract({name}, text)`")
    raise TypeError(f"`extract` takes a type, such as a Pydantic model, or a JSON Schema as a dict, not {type!r:.100}")


def _named(program: str | Path | Program) -> str:
    return "program" if isinstance(program, Program) else repr(str(program)[:40])


def _check_text(type: object, text: object) -> None:
    name = name_of_type(type)
    match text:
        case str() if text.strip():
            return
        case str():
            raise BadInputs("the text is empty")
        case Path():
            advice = 'pass what the file contains: `path.read_text(encoding="utf-8")`'
        case bytes():
            advice = 'decode it first: `text.decode("utf-8")`'
        case list() | tuple():
            advice = f"for many texts, write `extract_many({name}, texts)`"
        case _:
            advice = f'write `extract({name}, "...")`'
    raise TypeError(f"`extract` reads one text, not {_kind(text)}; {advice}")


def _texts(context: object) -> list[str]:
    if isinstance(context, str):
        return [context]
    if isinstance(context, Sequence) and all(isinstance(text, str) for text in context):
        return list(context)
    raise TypeError(f"`context` is a text or a list of texts, not {context!r:.60}")


def _kind(text: object) -> str:
    name = type(text).__name__
    return "None" if text is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


_MOST_FORMS: Final = 64
_MOST_EXAMPLES: Final = 8  # lists of examples, for each type


class ProgramsByType:
    """The program of each type, made once, and those of its latest examples.

    Classes are held weakly, and the last 64 forms such as `list[Line]`.
    """

    def __init__(self) -> None:
        self._of_class: WeakKeyDictionary[Any, dict[str, Program]] = WeakKeyDictionary()
        self._of_form: dict[Any, dict[str, Program]] = {}
        self._lock = threading.Lock()

    def __call__(self, found: Any, examples: Examples = ()) -> Program:
        try:
            hash(found)
        except TypeError:  # such as `Annotated` with a list
            return extraction_program(found, examples=examples)
        key = write_json([[text, *ways] for text, ways in examples])
        with self._lock:
            known = self._programs(found)
            if key not in known:
                if len(known) >= _MOST_EXAMPLES:
                    known.clear()
                known[key] = extraction_program(found, examples=examples)
            return known[key]

    def _programs(self, found: Any) -> dict[str, Program]:
        if isinstance(found, type) and get_origin(found) is None:
            return self._of_class.setdefault(found, {})
        form = (found, str(found))  # two literals or unions are equal in any order of their options
        if form not in self._of_form and len(self._of_form) >= _MOST_FORMS:
            del self._of_form[next(iter(self._of_form))]
        return self._of_form.setdefault(form, {})


program_for: Final = ProgramsByType()
