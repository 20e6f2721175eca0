"""The pages of the Python reference, written from signatures and docstrings while the site is built.

Signatures are read as `help` reads them, so the options behind `**options` are listed. Names of the package in
backticks become links, and what is indented in a docstring becomes code.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from types import FunctionType
from typing import Any, get_args

import pastalang

FOLDER = "python"


@dataclass(frozen=True, slots=True)
class Chapter:
    """A page of the reference: `names` in their order, separated by spaces."""

    title: str
    words: str
    names: str


PAGES = {
    "extraction": Chapter(
        "Extraction",
        "One call from a type and a text to a value. [One call: extract](../extraction.md) shows them in use.",
        """extract extract_many stream_model aextract aextract_many astream_model
        Extraction FieldResult Truncation Partial""",
    ),
    "annotations": Chapter(
        "Annotations of types",
        "What `Annotated[...]` may say in a Pydantic model. [Pydantic models](../pydantic.md) shows them in use.",
        "Verbatim Tokens After Sequential",
    ),
    "engines": Chapter(
        "Engines",
        """An engine runs programs on one model: [the runtime](../runtime.md) shows it in use. One whose model is on a
        server is made by `connect`: see [hosts](../hosts.md).""",
        "Engine Limits Sampling connect RemoteEngine",
    ),
    "results": Chapter(
        "Results and events",
        "What a run returns, and what it yields while it runs.",
        "Result Answer Usage Trace Event FieldStarted TextDelta FieldDone FieldAgain Joined Done Failed",
    ),
    "programs": Chapter(
        "Programs and plans",
        "Programs from text, files, types and schemas, and the plans that they become.",
        """compile load check_source check_path Diagnostic from_model from_schema from_outlines model_of schema_of
        Program build_plan Plan Mode""",
    ),
    "errors": Chapter(
        "Errors",
        "Whatever is raised on purpose is a `PastaError`. [Errors of a run](../runtime.md#errors) says what to do.",
        """PastaError ProgramError PlanError InputError BadInputs Problem NotExpressible FileError LoadError WrongMode
        RuntimeFailure RunError TooLong OutOfMemory DeadEnd BadList NotFiniteLogits ValidatorFailed Cancelled Truncated
        Invalid HostError Unsupported TruncationWarning""",
    ),
    "testing": Chapter(
        "Testing",
        "`pastalang.testing`: property-test your own programs. [Testing](../testing.md) shows it in use.",
        """testing.programs testing.plans testing.runs testing.schedules testing.Schedule testing.check_plan
        testing.check_schedule_changes_nothing testing.check_cells testing.sees testing.sees_all
        testing.execute testing.named_views""",
    ),
}
INTERNAL = {"check_integrity", "longest_text", "ask", "aask", "windows_of", "prepare", "outcome_of"}  # of an engine
_WIDTH = 88
_BAR = "\\|"


def pages() -> dict[str, str]:
    """All pages of the reference, by their paths on the site."""
    written = {f"{FOLDER}/{page}.md": "\n".join(_page(page)) for page in PAGES}
    return {f"{FOLDER}/README.md": "\n".join(_index()), **written}


def names_of(page: str) -> list[str]:
    return PAGES[page].names.split()


@cache
def _home(name: str) -> str | None:
    return next((page for page in PAGES if name in names_of(page)), None)


def _documented(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(f"pastalang.{module}") if module else pastalang, last)


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────


def _index() -> Iterator[str]:
    yield "# Python\n\nEverything that can be imported from `pastalang`, by what it is for. Names are imported when"
    yield "they are first used, so `import pastalang` costs nothing.\n"
    for page in PAGES:
        yield f"## [{PAGES[page].title}]({page}.md)\n\n| name | what it is |\n|---|---|"
        yield from (f"| [`{name}`]({page}.md#{_anchor(name)}) | {_first_sentence(name)} |" for name in names_of(page))
        yield ""


def _first_sentence(name: str) -> str:
    documented = _documented(name)
    text = "What `Engine.stream` yields." if get_args(documented) else _text(documented)
    paragraph = text.split("\n\n", 1)[0].replace("\n", " ")
    sentence = re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph, maxsplit=1)[0].rstrip(":")
    return _linked(sentence, page="").replace("|", "\\|")


def _page(page: str) -> Iterator[str]:
    chapter = PAGES[page]
    yield f"# {chapter.title}\n\n{_linked(textwrap.dedent(chapter.words), page=page)}\n"
    for name in names_of(page):
        yield from _entry(name, page)


def _entry(name: str, page: str) -> Iterator[str]:
    documented = _documented(name)
    yield f"## `{name}` {{ #{_anchor(name)} }}\n"
    if members := [member.__name__ for member in get_args(documented)]:
        yield _linked(f"One of {', '.join(f'`{member}`' for member in members)}.\n", page=page)
    elif inspect.isclass(documented):
        yield from _class(documented, name, page)
    else:
        yield _code(_signature(documented, name.rpartition(".")[2]))
        yield _prose(_text(documented), page)


def _class(kind: type, name: str, page: str) -> Iterator[str]:
    if bases := [base.__name__ for base in kind.__bases__ if _home(base.__name__) is not None]:
        yield _linked(f"A kind of {' and '.join(f'`{base}`' for base in bases)}.\n", page=page)
    if _is_made_by_users(kind):
        yield _code(_signature(kind, kind.__name__))
    text, said = _attributes_of(_text(kind))
    yield _prose(text, page, owner=name)
    yield from _table_of(kind, said, page)
    for member in _methods(kind):
        yield f"### `{name}.{member}` {{ #{_anchor(name)}-{member} }}\n"
        method = inspect.getattr_static(kind, member)
        function = getattr(method, "__func__", method)
        yield _code(_signature(function, member, is_bound=not isinstance(method, staticmethod)))
        yield _prose(_text(function), page, owner=name)


def _attributes_of(text: str) -> tuple[str, dict[str, str]]:
    """A docstring without its list of attributes ("value, text   what they are"), and that list."""
    said: dict[str, str] = {}
    left: list[str] = []
    for block in text.split("\n\n"):
        rows = re.split(r"\n(?=\S)", block)
        found = [re.fullmatch(r"(\w+(?:, \w+)*) {2,}(\S.*)", row, re.DOTALL) for row in rows]
        if all(found):
            said |= {name: re.sub(r"\s+", " ", row[2]) for row in found if row for name in row[1].split(", ")}
        else:
            left.append(block)
    return "\n\n".join(left), said


def _is_made_by_users(kind: type) -> bool:
    """Results and events are made by runs: their fields say more than how they are built."""
    return kind.__name__ in {"Limits", "Sampling", "Verbatim", "Tokens", "After", "Sequential", "Schedule"}


def _table_of(kind: type, said: dict[str, str], page: str) -> Iterator[str]:
    found = [*_members_of_enum(kind), *_fields(kind), *_properties(kind)]
    rows = [(name, type, words or said.get(name, "")) for name, type, words in found]
    if not rows:
        return
    has_words = any(words for *_, words in rows)
    yield "| attribute | type | what it is |\n|---|---|---|" if has_words else "| attribute | type |\n|---|---|"
    for name, type, words in rows:
        last = f" {_linked(words, page=page, owner=kind.__name__).replace('|', _BAR)} |" if has_words else ""
        yield f"| `{name}` | `{type.replace('|', _BAR)}` |{last}"
    yield ""


def _members_of_enum(kind: type) -> Iterator[tuple[str, str, str]]:
    if issubclass(kind, Enum):
        yield from ((member.name, repr(member.value), "") for member in kind)


def _fields(kind: type) -> Iterator[tuple[str, str, str]]:
    if is_dataclass(kind):
        for one in fields(kind):
            if not one.name.startswith("_"):
                default = "" if one.default is MISSING or _is_made_up(one.default) else f" = {_shown(one.default)}"
                yield one.name, _annotation(one.type) + default, ""


def _is_made_up(default: object) -> bool:
    return " at 0x" in repr(default) or len(repr(default)) > 40


def _properties(kind: type) -> Iterator[tuple[str, str, str]]:
    for name in _public(kind):
        found = inspect.getattr_static(kind, name)
        if isinstance(found, property) and found.fget is not None:
            yield name, _annotation(inspect.signature(found.fget).return_annotation), _text(found).replace("\n", " ")


def _methods(kind: type) -> list[str]:
    found = ((name, inspect.getattr_static(kind, name)) for name in _public(kind))
    return [name for name, one in found if isinstance(one, FunctionType | staticmethod | classmethod) and _text(one)]


def _public(kind: type) -> list[str]:
    """What a class and its bases of the package define for users, in the order of the source."""
    own = [base for base in reversed(kind.__mro__) if base.__module__.startswith("pastalang.")]
    names = dict.fromkeys(name for base in own for name in vars(base))
    members = {} if not issubclass(kind, Enum) else kind.__members__
    return [name for name in names if not name.startswith("_") and name not in INTERNAL and name not in members]


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────


def _text(documented: Any) -> str:
    text = inspect.getdoc(documented) or ""
    return "" if text.startswith(f"{getattr(documented, '__name__', '')}(") else text  # that is written by `dataclass`


def _prose(text: str, page: str, *, owner: str = "") -> str:
    """A docstring as Markdown: what is indented further than its text is code."""
    written: list[str] = []
    for is_code, lines in groupby(_with_kinds(text.splitlines()), key=itemgetter(0)):
        block = "\n".join(line for _, line in lines).strip("\n")
        written.append(_code(textwrap.dedent(block)) if is_code else _linked(block, page=page, owner=owner) + "\n")
    return "\n".join(written)


def _with_kinds(lines: list[str]) -> Iterator[tuple[bool, str]]:
    """Each line, and whether it is code. An empty line belongs to what stands before it."""
    was_code = False
    for line in lines:
        was_code = line.startswith("    ") if line.strip() else was_code
        yield was_code, line


def _linked(text: str, *, page: str, owner: str = "") -> str:
    """Names in backticks lead to where they are described: methods of the owner, or names of the package."""

    def link(found: re.Match[str]) -> str:
        name, _, member = found[1].partition(".")
        if owner and not member and name in _methods(_documented(owner)):
            name, member = owner, name
        home = _home(name)
        if home is None or (name == owner and not member) or (member and member not in _methods(_documented(name))):
            return found[0]
        anchor = _anchor(name) + (f"-{member}" if member else "")
        return f"[{found[0]}]({'' if home == page else f'{home}.md'}#{anchor})"

    return re.sub(r"(?<!\[)`([A-Za-z_]\w*(?:\.\w+)?)`", link, text)


def _anchor(name: str) -> str:
    return name.replace(".", "-")


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────


def _signature(function: Callable[..., Any], name: str, *, is_bound: bool = False) -> str:
    """On one line, or with a line for each argument."""
    signature = inspect.signature(function)
    given = list(signature.parameters.values())[1 if is_bound else 0 :]
    arguments = [*_arguments(given)]
    returned = "" if inspect.isclass(function) else f" -> {_annotation(signature.return_annotation)}"
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{prefix}{name}({', '.join(arguments)}){returned}"
    if len(line) <= _WIDTH:
        return line
    return f"{prefix}{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){returned}"


def _arguments(parameters: list[inspect.Parameter]) -> Iterator[str]:
    was_starred = False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not was_starred:
            was_starred = True
            yield "*"
        was_starred |= one.kind is one.VAR_POSITIONAL
        stars = "*" * (one.kind is one.VAR_POSITIONAL) or "**" * (one.kind is one.VAR_KEYWORD)
        annotation = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
        yield f"{stars}{one.name}{annotation}" + ("" if one.default is one.empty else f" = {_shown(one.default)}")


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return "None"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\bt\.(?=[A-Z])|^'|'$|\btyping\.", "", text)


def _shown(default: Any) -> str:
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    return "..." if _is_made_up(default) else repr(default)
