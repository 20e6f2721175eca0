"""Makes programs from Pydantic models, JSON Schemas and outlines types, and models and schemas from programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, get_origin

from pastalang.compiler import analyse
from pastalang.failures import InputError
from pastalang.plan.chosen_limits import chosen_limits
from pastalang.program.program import JsonBody, Program
from pastalang.program.types import Object, Schema
from pastalang.values.conversion import Converted, NotExpressible
from pastalang.values.fit import fit
from pastalang.values.json import JsonValue, parse_json, write_json
from pastalang.values.paths import Mismatch
from pastalang.values.to_source import path_at, program_source

if TYPE_CHECKING:  # importing Pydantic takes long, and only models need it
    from pydantic import BaseModel

    from pastalang.values.to_schema import Document

# Texts with their right answers. Of an answer that may be written in several ways, the first that fits is shown.
Examples: TypeAlias = tuple[tuple[str, tuple[JsonValue, ...]], ...]


def from_model(model: Any, *, name: str | None = None, examples: Sequence[tuple[str, Any]] = ()) -> Program:
    """A program that reads a `text` and answers with the model. Its `notes` name what only the model checks, and the
    limits that were chosen for strings and lists that have none.

    The model is a Pydantic model, a dataclass, a `TypedDict`, an enum, or any other type that Pydantic knows, such as
    `list[Model]`, `A | B` or `Literal["a", "b"]`; a term of `outlines.types` and a compiled regular expression are
    accepted too. Raises `NotExpressible` with the path of every part of the model that cannot be enforced.

    `examples` are pairs of a text and its right answer: an instance of the model, or what the model reads. They are
    shown to the language model as earlier turns.
    """
    from pastalang.values.pydantic.from_core import is_type, type_of_model

    if not is_type(model):
        raise TypeError(
            "from_model takes a Pydantic model, a dataclass, a TypedDict or another type, as a class, "
            f"not {model!r:.200}"
        )
    shown = examples_of(model, examples)
    return _compiled(type_of_model(model), name or _template_name(model), examples=shown)


def extraction_program(model: Any, *, examples: Examples = ()) -> Program:
    """The program of `extract`, with inputs for instructions and context. Raises as `from_model` does.

    Keys with a default may be left out: the model of the user fills them in. A JSON Schema has nothing that does.
    """
    from pastalang.values.absent import leaving_out_defaults
    from pastalang.values.pydantic.from_core import type_of_model
    from pastalang.values.schema.importer import type_of_schema

    name = _template_name(model)
    is_schema = isinstance(model, Schema)
    found = type_of_schema(model.document, name=name) if is_schema else leaving_out_defaults(type_of_model(model))
    return _compiled(found, name, is_instructed=True, examples=examples)


def examples_of(model: Any, given: Sequence[tuple[str, Any]]) -> Examples:
    """Examples with their answers as JSON values. Raises `InputError` with the number of the first wrong one."""
    return _examples(given, _json_way if isinstance(model, Schema) else _ways_of(model)) if given else ()


def from_outlines(term: object, *, name: str = "answer") -> Program:
    """A program that reads a `text` and answers with a value of an outlines type.

    The type is a term of `outlines.types`, or a Python type with terms in it such as `list[term]`.
    Raises `NotExpressible`.
    """
    from pastalang.values.outlines_types import from_outlines as type_of_term
    from pastalang.values.pydantic.from_core import type_of_model

    if isinstance(term, type) or get_origin(term) is not None:
        return _compiled(type_of_model(term), name)
    return _compiled(type_of_term(term, name=name), name)


def from_schema(
    document: str | Mapping[str, Any], *, name: str = "record", examples: Sequence[tuple[str, Any]] = ()
) -> Program:
    """A program that reads a `text` and answers with a value of the JSON Schema. Raises `NotExpressible`.

    The schema is given as text, or as the dict that `json.loads` makes of it.
    `examples` are pairs of a text and its right answer, shown to the language model as earlier turns.
    """
    from pastalang.values.schema.importer import type_of_schema

    given: object = document
    if not isinstance(given, str | Mapping):
        raise TypeError(f"from_schema takes a JSON Schema as text or as a dict, not {given!r:.60}")
    if isinstance(document, str) and _names_a_file(document):
        raise ValueError(
            f"from_schema takes a JSON Schema as text, and {document!r} is the name of a file: pass what it contains, "
            f"`from_schema(Path({document!r}).read_text())`, or write `pasta import {document}`"
        )
    return _compiled(type_of_schema(document, name=name), name, examples=_examples(examples, _json_way))


def model_of(program: Program, *, template: str | None = None) -> type[BaseModel]:
    """The Pydantic model of a template's answer. A program with several templates needs the template's name."""
    from pastalang.values.pydantic.to_model import model_of as model_of_type

    body, name = _answer(program, template)
    type, about = body.type, program.templates[name].description
    if isinstance(type, Object) and type.description is None:  # a program writes what a model is about at its template
        type = replace(type, description=about)
    return model_of_type(type, program.types, name=_class_name(name))


def schema_of(program: Program, *, template: str | None = None) -> Document:
    """The JSON Schema of a template's answer, with exact numbers."""
    from pastalang.values.to_schema import schema_of as schema_of_type

    return schema_of_type(_answer(program, template)[0].type, program.types)


def _names_a_file(text: str) -> bool:
    """Returns True if it is rather the name of a file than JSON, which has braces or is one word."""
    return text.endswith((".json", ".yaml", ".yml")) and not text.lstrip().startswith(("{", "[", '"'))


def _template_name(model: object) -> str:
    """The name of a class of the user's; `answer` for other types, such as `int` and `list[Line]`."""
    if isinstance(model, type) and get_origin(model) is None and model.__module__ != "builtins":
        return model.__name__
    return "answer"


def _ways_of(model: Any) -> Callable[[Any], Iterator[JsonValue]]:
    """What is given as an answer: as it is, with the keys that it lacks, and as the model reads it. Validators may
    change a value, and other keys and spellings than those of the type are read. Raises `ValueError` for what the model
    refuses."""
    from pastalang.values.pydantic.from_core import Undefined, adapter_of, json_of

    adapter = adapter_of(model)

    def ways(answer: Any) -> Iterator[JsonValue]:
        read = json_of(adapter.validate_python(answer))
        with suppress(Undefined):
            given = json_of(answer)
            yield from (given, _filled(given, read))
        yield read

    return ways


def _filled(given: JsonValue, read: JsonValue) -> JsonValue:
    """What is given, wherever it is written as what was read."""
    if isinstance(given, dict) and isinstance(read, dict):
        return {key: _filled(given.get(key, part), part) for key, part in read.items()}
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        return [*map(_filled, given, read)]
    return given if type(given) is type(read) else read


def _json_way(answer: Any) -> tuple[JsonValue, ...]:
    return (parse_json(json.dumps(answer)),)


def _examples(given: Sequence[tuple[str, Any]], ways: Callable[[Any], Iterable[JsonValue]]) -> Examples:
    """Raises `InputError` with the number of the first wrong one."""
    from pastalang.values.pydantic.from_core import in_one_line

    found: list[tuple[str, tuple[JsonValue, ...]]] = []
    for number, example in enumerate(given):
        if not isinstance(example, tuple | list) or len(example) != 2 or not isinstance(example[0], str):
            raise InputError(f"`examples[{number}]` must be a pair of a text and its answer, not {example!r:.60}")
        if example[0].encode(errors="replace").decode() != example[0]:
            raise InputError(f"the text of `examples[{number}]` holds half of a surrogate pair")
        try:
            found.append((example[0], tuple(parse_json(write_json(way)) for way in ways(example[1]))))
        except (ValueError, TypeError) as problem:
            raise InputError(f"the answer of `examples[{number}]` does not fit: {in_one_line(problem)}") from problem
    return tuple(found)


def _fitting(examples: Examples, found: Converted) -> Iterator[tuple[str, JsonValue]]:
    """The examples as they are shown. Raises `InputError` for an answer that does not fit its type."""
    for number, (text, ways) in enumerate(examples):
        problems = [fit(found.type, way, found.types, sources={"text": text})[1] for way in ways]
        if all(problems):
            listed = "; ".join(map(str, problems[0]))
            raise InputError(f"the answer of `examples[{number}]` does not fit: {listed}")
        yield text, ways[problems.index(())]


def _compiled(found: Converted, name: str, *, is_instructed: bool = False, examples: Examples = ()) -> Program:
    if not isinstance(name, str):
        raise TypeError(f"`name` is a text, not {name!r:.60}")
    source = program_source(found, name=name, is_instructed=is_instructed, examples=_fitting(examples, found))
    checked = analyse(source, path=None, name=f"<{name}>")
    if (program := checked.program) is None:
        file = None if checked.parsed is None else checked.parsed.file
        errors = [one for one in checked.diagnostics if one.is_error]
        raise NotExpressible(
            name, [Mismatch(() if file is None else path_at(file, one.span), one.headline) for one in errors]
        )
    return replace(program, notes=(*map(str, found.notes), *chosen_limits(program)))


def _answer(program: Program, template: str | None) -> tuple[JsonBody, str]:
    if not isinstance(program, Program):
        raise TypeError(f"a model or a schema is made of a Program, not of {program!r:.60}")
    if template is not None and not isinstance(template, str):
        raise TypeError(f"`template` is the name of a template, not {template!r:.60}")
    names = list(program.templates)
    if template is None and len(names) > 1:
        raise InputError(f"the program has several templates, name one of them: {', '.join(names)}")
    name = names[0] if template is None else template
    if name not in program.templates:
        raise InputError(f"the program has no template {name}; it has {', '.join(names)}")
    body = program.templates[name].messages[-1].body
    if not isinstance(body, JsonBody):
        raise InputError(f"the answer of {name} is running text, which has no model")
    return body, name


def _class_name(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))
