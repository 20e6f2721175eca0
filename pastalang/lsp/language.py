"""What an editor asks about a program, answered from its text: the checker, the printer and the planner do the work.

Places are numbers of characters. A text that is broken is answered from the part of it that can be read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from operator import eq
from pathlib import Path
from threading import Lock
from typing import Any, Final

from pastalang.check.built_in_types import BUILT_IN_TYPES, INPUT_TYPES
from pastalang.compiler import Analysis, analyse
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.grammar import nodes
from pastalang.grammar.format import format_parsed
from pastalang.plan.branches import Hole
from pastalang.plan.build import build_plan
from pastalang.plan.builder import PlanError
from pastalang.plan.dependencies import critical_path
from pastalang.plan.forecast import totals_of
from pastalang.plan.plan import Plan
from pastalang.plan.structure import fields_of
from pastalang.plan.token_bounds import Lengths
from pastalang.program.program import Program
from pastalang.reading import Reading, read_file, read_text
from pastalang.source import Source, Span
from pastalang.values.describe import counted
from pastalang.values.paths import is_mark, steps_of

Read = Callable[[Path], str | None]  # the text of a file that an editor has open

_MEANT: Final = re.compile(r"did you mean `([^`]+)`")
_SHORT: Final = 100  # lines of a program whose forecasts are made while somebody waits
_WORD: Final = re.compile(r"\w+")
_AFTER: Final = re.compile(r"\bafter\s+(?:[\w\"]+\s*,\s*)*\w*$")
_IN_TEXT: Final = re.compile(r"\{(?:(?:if|if not|fork \w+ in|for \w+ in|sync)\s+)?\w*$")
_TYPE_PLACE: Final = re.compile(r"(?::|\||\[|,)\s*\w*$")
_KEY: Final = re.compile(r'^\s*(?:"([^"\n]+)"|(\w+))(?:\s+as\s+(\w+))?\s*:', re.MULTILINE)
SNIPPETS: Final[Mapping[str, str]] = {
    "template": (
        'template ${1:name}(${2:text}: text)\n\nuser """\n{$2}\n"""\n\nassistant json {\n  ${3:field}: string\n}\n'
    ),
    "type": "type ${1:Name} = {\n  ${2:field}: string\n}\n",
    "import": 'import ${1:Name} from "./${2:types}.pasta"\n',
    "system": 'system """\n$1\n"""\n',
    "user": 'user """\n$1\n"""\n',
    "assistant json": "assistant json {\n  ${1:field}: string\n}\n",
    "assistant text": 'assistant text """\n{${1:answer}: string(max=${2:90})}\n"""\n',
}


@dataclass(frozen=True, slots=True)
class Item:
    """One proposal of a completion. `snippet` is what is inserted, if that is not the label."""

    label: str
    kind: str  # "type", "input", "field" or "snippet"
    snippet: str | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    title: str
    span: Span
    text: str
    diagnostic: Diagnostic


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    kind: Kind
    span: Span
    name_span: Span
    parts: tuple[Symbol, ...] = ()


class Document:
    """A program in an editor. `path` is where it is saved, for its imports, and `read` gives what else is open.

    `forecasts` are kept from one text to the next.
    """

    def __init__(
        self, text: str, *, path: Path | None, read: Read = lambda _: None, forecasts: Forecasts | None = None
    ) -> None:
        self.path = None if path is None else path.resolve()
        self.forecasts = Forecasts() if forecasts is None else forecasts
        self.read = read
        self._text = text
        self._imported: dict[Path, str] = {}

    @cached_property
    def analysis(self) -> Analysis:
        name = "<text>" if self.path is None else self.path.name
        return analyse(self._text, path=self.path, name=name, read=self._reading)

    def _reading(self, path: Path, name: str) -> Reading:
        text = self.read(path)
        reading = read_file(path, name=name) if text is None else read_text(name, text)
        self._imported[path] = reading.source.text
        return reading

    def rests_on(self, path: Path) -> bool:
        """Returns True if it imports this file, itself or through another one, even if there is no such file."""
        return path in self._imported

    @property
    def source(self) -> Source:
        return self.analysis.source

    @cached_property
    def names(self) -> list[Occurrence]:
        return [] if self.analysis.file is None else occurrences(self.analysis.file)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Those of this file. What is wrong in a file that it imports is said there."""
        return [one for one in self.analysis.diagnostics if one.source.name == self.source.name]

    @property
    def errors(self) -> list[Diagnostic]:
        """Those of this file, and of what it imports."""
        return [one for one in self.analysis.diagnostics if one.is_error]

    def name_at(self, offset: int) -> Occurrence | None:
        return next((one for one in self.names if one.span.start <= offset <= one.span.end), None)

    # ── forecasts ────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def questions(self) -> dict[str, Question]:
        """What is asked about each template, if the program has no errors."""
        program, file = self.analysis.program, self.analysis.file
        if program is None or file is None:
            return {}
        declarations = [(one, self.source.slice(one.span)) for one in file.declarations]
        shared = [text for one, text in declarations if not isinstance(one, nodes.TemplateDeclaration)]
        return {
            one.name.text: Question(one.name.text, (text, *shared, *self._imported.values()), program)
            for one, text in declarations
            if isinstance(one, nodes.TemplateDeclaration)
        }

    def unknown(self) -> list[Question]:
        """The templates of which there is no forecast yet."""
        return [one for one in self.questions.values() if self.forecasts.known(one) is None]

    def lenses(self, *, earlier: Mapping[str, str] | None = None) -> Iterator[tuple[Span, str]]:
        """What each template takes, at its name.

        With `earlier` nothing is made: it has the last forecasts of templates, which stand in for those that are not
        known yet.
        """
        for one in self.names:
            question = self.questions.get(one.text) if one.kind is Kind.TEMPLATE else None
            if question is not None:
                found = self.forecasts.answer(question) if earlier is None else self.forecasts.known(question)
                text = (earlier or {}).get(one.text) if found is None else found.text
                if text is not None:
                    yield one.span, text

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────

    def hover(self, offset: int) -> tuple[Span, str] | None:
        """What a name stands for, as Markdown."""
        here = self.name_at(offset)
        if here is None:
            return None
        if here.kind is Kind.BUILT_IN:
            return here.span, f"`{here.text}`: a built-in type"
        place = self.definition(here)
        if place is None:
            return None
        home, there = place
        if there.kind is Kind.TEMPLATE:
            found = home.quick_forecasts.get(here.text)
            known = "" if found is None or found.text is None else f": {found.text}"
            return here.span, f"template `{here.text}`{known}"
        return here.span, "\n\n".join(home.described(here, there.declares))

    def described(self, name: Occurrence, node: object) -> Iterator[str]:
        """What is said of a declaration in this file."""
        match node:
            case nodes.FieldNode():
                yield f"```pasta\n{name.text}: {self.source.slice(node.type.span)}\n```"
                if node.description is not None:
                    yield node.description.text
                waits = ", ".join(f"`{one.text}`" for one in node.after)
                yield "sees the messages, and what is known before it" + (f", and {waits}" if waits else "")
                yield f"waits for {waits}" if waits else "waits for nothing"
                yield from self._passes(name.text)
            case nodes.InputNode():
                each = "each " if node.each else ""
                yield f"```pasta\n{each}{name.text}: {self.source.slice(node.type.span)}\n```\n\nan input"
            case nodes.TypeDeclaration():
                yield f"```pasta\n{self.source.slice(node.span)}\n```"
            case nodes.HoleNode() | nodes.AsyncNode():
                yield f"```pasta\n{self.source.slice(node.span)}\n```"
                alone = isinstance(node, nodes.AsyncNode)
                yield "is written at the same time as what follows" if alone else "sees the text before it"
                yield from self._passes(name.text)
            case nodes.ImportNode():
                yield f"imported from {node.path.text}"
            case _:
                yield f"`{name.text}`"

    @property
    def quick_forecasts(self) -> dict[str, Forecast]:
        """The forecasts that are known, or made soon enough for somebody who waits."""
        is_long = len(self.source.line_starts) > _SHORT
        ask = self.forecasts.known if is_long else self.forecasts.answer
        return {name: found for name, one in self.questions.items() if (found := ask(one)) is not None}

    def _passes(self, name: str) -> Iterator[str]:
        limits = [one.limits[name] for one in self.quick_forecasts.values() if name in one.limits]
        if limits:
            yield f"at most {counted(max(limits), 'token')}, one pass for each"

    def definition(self, name: Occurrence) -> tuple[Document, Occurrence] | None:
        """Where a name is declared: in this file, or in one that it imports from. No file passes its imports on."""
        here = self._declared(name, is_import=False)
        if here is not None:
            return self, here
        imported = self._declared(name, is_import=True)
        if imported is None:
            return None
        other = self.imported(imported.declares)
        there = None if other is None else other._declared(name, is_import=False)
        return (self, imported) if other is None or there is None else (other, there)

    def _declared(self, name: Occurrence, *, is_import: bool) -> Occurrence | None:
        found = (one for one in self.names if one.declares is not None and one.is_same(name))
        return next((one for one in found if isinstance(one.declares, nodes.ImportNode) is is_import), None)

    def imported(self, node: nodes.ImportNode) -> Document | None:
        return None if self.path is None else self.beside(self.path.parent / node.path.text)

    def beside(self, path: Path) -> Document | None:
        """The program in another file, as it is open or saved; None if it cannot be read."""
        try:
            path = path.resolve()
        except (OSError, RuntimeError, ValueError):
            return None
        text = self.read(path)
        reading = read_file(path) if text is None else read_text(path.name, text)
        if not reading.is_usable:
            return None
        return Document(reading.source.text, path=path, read=self.read, forecasts=self.forecasts)

    def imports(self, path: Path | None, name: str) -> bool:
        """Returns True if it imports this name of that file."""
        file = self.analysis.file
        return self.path is not None and any(
            isinstance(node, nodes.ImportNode)
            and name in [one.text for one in node.names]
            and (self.path.parent / node.path.text).resolve() == path
            for node in ([] if file is None else file.declarations)
        )

    def uses(self, name: Occurrence) -> list[Span]:
        return [one.span for one in self.names if one.is_same(name)]

    def edited(self, changes: Iterable[tuple[Span, str]], *, read: Read | None = None) -> Document:
        """The program with other texts at some places."""
        text = self.source.text
        for span, new in sorted(changes, reverse=True):
            text = text[: span.start] + new + text[span.end :]
        return Document(text, path=self.path, read=read or self.read, forecasts=self.forecasts)

    def symbols(self) -> Iterator[Symbol]:
        """Templates with their inputs and values, and types with their fields."""
        for one in self.names:
            node = one.declares
            if isinstance(node, nodes.TypeDeclaration | nodes.TemplateDeclaration):
                parts = tuple(
                    Symbol(part.text, part.kind, part.declares.span, part.span)
                    for part in self.names
                    if part.declares is not None and part.kind in (Kind.FIELD, Kind.LOCAL)
                    and node.span.start <= part.span.start < node.span.end
                )  # fmt: skip
                yield Symbol(one.text, one.kind, node.span, one.span, parts)

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────

    def formatted(self) -> str | None:
        """The canonical text; None if it has syntax errors."""
        parsed = self.analysis.parsed
        return None if parsed is None else format_parsed(self.source, parsed).text

    def edit(self) -> tuple[Span, str] | None:
        """The change that lays it out: the lines from the first that differs to the last."""
        new, old = self.formatted(), self.source.text
        if new is None or new == old:
            return None
        lines, kept = new.splitlines(keepends=True), old.splitlines(keepends=True)
        same = list(map(eq, lines, kept))
        first = same.index(False) if False in same else len(same)
        lines, kept = lines[first:], kept[first:]
        same = list(map(eq, reversed(lines), reversed(kept)))
        last = same.index(False) if False in same else len(same)
        start = len("".join(old.splitlines(keepends=True)[:first]))
        return Span(start, start + len("".join(kept[: len(kept) - last]))), "".join(lines[: len(lines) - last])

    def fixes(self, within: Span) -> Iterator[Fix]:
        """A change for every "did you mean" of a mistake there, written such that it repairs something."""
        for one in self.diagnostics:
            if one.span.start <= within.end and within.start <= one.span.end:
                for meant in (match[1] for advice in one.help if (match := _MEANT.search(advice)) is not None):
                    ways = [f'"{meant}"'] if self.source.slice(one.span)[:1] == '"' else [meant, f'"{meant}"']
                    text = next((text for text in ways if self._repairs(one, text)), None)
                    if text is not None:
                        yield Fix(f"change to `{meant}`", one.span, text, one)

    def _repairs(self, one: Diagnostic, text: str) -> bool:
        """Returns True if fewer errors begin at its place with this text. Others may come to light elsewhere."""
        start, end = one.span.start, one.span.end
        after = self.edited([(one.span, text)])._errors_in(Span(start, start + len(text)))
        return start < end and after + one.is_error <= self._errors_in(one.span)

    def _errors_in(self, place: Span) -> int:
        return sum(one.is_error and place.start <= one.span.start <= place.end for one in self.diagnostics)

    def completion(self, offset: int) -> list[Item]:
        """What may stand here. Found in the text before it, which need not be a program yet."""
        text = self.source.text
        before = text[text.rfind("\n", 0, offset) + 1 : offset]
        header = text[: text.find('"""')] if '"""' in text else text
        if text.count('"""', 0, offset) % 2 and _IN_TEXT.search(before):
            return [Item(one, "input") for one in self._locals()]
        if _AFTER.search(before):
            return [Item(one, "field") for one in _siblings(text, offset)]
        if re.search(r"\bverbatim\(\w*$", before):
            return [Item(one, "input") for one in self._locals()]
        if before.strip() == "" or (before.isidentifier() and offset > 0):
            return [Item(label, "snippet", snippet) for label, snippet in SNIPPETS.items()]
        if _TYPE_PLACE.search(before):
            is_input = bool(re.search(r"\btemplate\s+\w*\([^)]*$", text[:offset])) and offset <= len(header)
            known = INPUT_TYPES if is_input else tuple(BUILT_IN_TYPES)
            own = re.findall(r"^type\s+(\w+)", text, re.MULTILINE)
            imports = re.findall(r"^import\s+([\w\s,]*?)\s*from\b", text, re.MULTILINE)
            taken = [name for part in imports for name in _WORD.findall(part)]
            return [Item(one, "type") for one in dict.fromkeys((*known, *own, *taken))]
        return []

    def _locals(self) -> list[str]:
        found = re.findall(r"^template\s+\w+\(([^)]*)\)", self.source.text, re.MULTILINE)
        inputs = [name for part in found for name in re.findall(r"(\w+)\s*:", part)]
        return list(dict.fromkeys([*inputs, *(one.text for one in self.names if one.kind is Kind.LOCAL)]))


def problem_of_renaming(files: Sequence[Document], name: Occurrence, new: str) -> str | None:
    """Why a name of these programs cannot become another one: an error that they would have, or another meaning."""
    if not new.isidentifier():
        return f"`{new}` is not a name"
    edited: dict[Path | None, Document] = {}

    def read(path: Path) -> str | None:
        return edited[path].source.text if path in edited else files[0].read(path)

    for file in files:
        edited[file.path] = file.edited([(span, new) for span in file.uses(name)], read=read)
    for file in files:
        before, after = file.errors, edited[file.path].errors
        if len(after) > len(before):
            known = {one.headline for one in before}
            return next((one.headline for one in after if one.headline not in known), after[0].headline)
        if len(edited[file.path].uses(replace(name, text=new))) != len(file.uses(name)):
            return f"`{new}` has another meaning in {file.source.name}"
    return None


def _siblings(text: str, offset: int) -> list[str]:
    """The names of the other fields of the innermost braces around a place."""
    start = end = offset
    depth = 0
    while start > 0 and depth >= 0:
        start -= 1
        depth += (text[start] == "}") - (text[start] == "{")
    depth = 0
    while end < len(text) and depth >= 0:
        depth += (text[end] == "{") - (text[end] == "}")
        end += 1
    inside = text[start + 1 : end - 1]
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    own = _KEY.match(line)
    names = [alias or key or f'"{quoted}"' for quoted, key, alias in _KEY.findall(_flat(inside))]
    mine = None if own is None else own[3] or own[2] or f'"{own[1]}"'
    return [name for name in dict.fromkeys(names) if name != mine]


def _flat(text: str) -> str:
    """Without what is in inner braces."""
    depth, found = 0, []
    for letter in text:
        depth -= letter == "}"
        if depth == 0:
            found.append(letter)
        depth += letter == "{"
    return "".join(found)


# ── what templates take ───────────────────────────────────────────────────────────────────────────────


_MOST_BRANCHES: Final = 500  # of a larger plan only the values are counted
_KEPT: Final = 500
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Forecast:
    """`text` is None if there is no plan. `limits` are the tokens that the values of a name take at most."""

    text: str | None
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Question:
    """A template, and all the text that its plan depends on."""

    name: str
    texts: tuple[str, ...]
    program: Program


class Forecasts:
    """Those that have been made. `made` counts them."""

    def __init__(self) -> None:
        self.made = 0
        self._known: dict[tuple[str, ...], Forecast] = {}  # the oldest ones first
        self._wanted: dict[str, tuple[Sequence[Question], Callable[[], None]]] = {}
        self._shown: dict[str, set[tuple[str, ...]]] = {}  # what is asked of each place, which is never dropped
        self._lock = Lock()
        self._beside = ThreadPoolExecutor(1, "forecasts")

    def known(self, question: Question) -> Forecast | None:
        with self._lock:
            return self._known.get(question.texts)

    def answer(self, question: Question) -> Forecast:
        """The forecast, made now if it is not known."""
        found = self.known(question)
        if found is None:
            found = make_forecast(question)
            with self._lock:
                self.made += 1
                self._known[question.texts] = found
                self._drop()
        return found

    def show(self, place: str, questions: Sequence[Question]) -> None:
        """A place shows the answers to these; to none of them once it is closed."""
        with self._lock:
            self._shown[place] = {one.texts for one in questions}
            self._drop()

    def _drop(self) -> None:
        shown = set[tuple[str, ...]]().union(*self._shown.values())
        for texts in [one for one in self._known if one not in shown][: max(0, len(self._known) - _KEPT)]:
            del self._known[texts]

    def want(self, place: str, questions: Sequence[Question], tell: Callable[[], None]) -> None:
        """Make forecasts beside everything else, then `tell`. They replace those that this place still wants."""
        with self._lock:
            self._wanted[place] = (questions, tell)
        self._beside.submit(self._make_wanted, place)

    def _make_wanted(self, place: str) -> None:
        with self._lock:
            questions, tell = self._wanted.pop(place, ((), None))
        for question in questions:
            try:
                self.answer(question)
            except Exception:  # a mistake of ours: one template has no forecast, and the others have theirs
                _LOG.exception("no forecast of %s", question.name)
                with self._lock:
                    self._known[question.texts] = Forecast(None, {})
        if tell is not None:
            tell()


def make_forecast(question: Question) -> Forecast:
    try:
        plan = build_plan(question.program.templates[question.name], question.program)
    except PlanError:
        return Forecast(None, {})
    limits: dict[str, int] = {}
    for _, _, segment in fields_of(plan):
        if isinstance(segment, Hole):
            for name in [step for step in steps_of(segment.field) if not is_mark(step)][-1:]:
                limits[name] = max(segment.max_tokens, limits.get(name, 0))
    return Forecast(_text(plan), limits)


def _text(plan: Plan) -> str:
    """Such as "8 values, 24 passes, 3.1x": everything at its limit, next to one value after another."""
    values = sum(not (isinstance(one, Hole) and one.is_thread) for _, _, one in fields_of(plan))
    if len(plan.branches) > _MOST_BRANCHES:
        return counted(values, "value")
    passes, draws = critical_path(plan, Lengths()).length, totals_of(plan, Lengths()).draws.high
    return f"{counted(values, 'value')}, {counted(passes, 'pass')}, {draws / max(1, passes):.1f}x"


# ── every name of a file: where it is declared and used, and which names are the same ────────────────────────


class Kind(Enum):
    TYPE = "type"
    TEMPLATE = "template"
    LOCAL = "name"  # an input, an item of a loop, or what is written into a text
    FIELD = "field"
    BUILT_IN = "built-in type"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in a file. Names are the same if they have one kind, text and scope: a template, or an object."""

    kind: Kind
    text: str
    span: Span
    scope: int = 0
    declares: Any = None  # the node that it declares

    @property
    def is_shared(self) -> bool:
        """Returns True if other files may import it. A type has no name that is one of a template."""
        return self.kind in (Kind.TYPE, Kind.TEMPLATE)

    def is_same(self, other: Occurrence) -> bool:
        is_alike = self.kind is other.kind or (self.is_shared and other.is_shared)
        return is_alike and (self.text, self.scope) == (other.text, other.scope)


def occurrences(file: nodes.File) -> list[Occurrence]:
    """The names of a file in the order of its text."""
    found = [one for node in file.declarations for one in _in_declaration(node)]
    return sorted(found, key=lambda one: one.span)


def _in_declaration(node: nodes.Declaration) -> Iterator[Occurrence]:
    match node:
        case nodes.ImportNode():
            for name in node.names:
                yield Occurrence(Kind.TYPE, name.text, name.span, declares=node)
        case nodes.TypeDeclaration():
            yield Occurrence(Kind.TYPE, node.name.text, node.name.span, declares=node)
            yield from _inside(node.type, 0, 0)
        case nodes.TemplateDeclaration():
            yield Occurrence(Kind.TEMPLATE, node.name.text, node.name.span, declares=node)
            scope = node.span.start + 1
            for one in node.inputs:
                yield Occurrence(Kind.LOCAL, one.name.text, one.name.span, scope, one)
                yield from _inside(one.type, scope, 0)
            for message in node.messages:
                yield from _inside(message.body, scope, 0)


def _inside(node: Any, scope: int, holder: int) -> Iterator[Occurrence]:
    """The names in a part of a tree. `scope` is that of the names of its template, `holder` that of its fields."""
    match node:
        case nodes.NamedType(name=name):
            is_own = name.text not in BUILT_IN_TYPES and name.text not in INPUT_TYPES
            yield Occurrence(Kind.TYPE if is_own else Kind.BUILT_IN, name.text, name.span)
            for argument in node.arguments:
                if argument.name is None:
                    yield from _inside(argument.value, scope, holder)
            return
        case nodes.Spread(name=name):
            yield Occurrence(Kind.TYPE, name.text, name.span)
            return
        case nodes.PathValue(names=(first, *_)):
            yield Occurrence(Kind.LOCAL, first.text, first.span, scope)
            return
        case nodes.HistoryBody(name=name):
            yield Occurrence(Kind.LOCAL, name.text, name.span, scope)
        case nodes.SyncNode(names=names):
            for name in names:
                yield Occurrence(Kind.LOCAL, name.text, name.span, scope)
        case nodes.ExampleBody(entries=entries):
            for name, _ in entries:
                yield Occurrence(Kind.LOCAL, name.text, name.span, scope)
            return
        case nodes.ObjectType():
            holder = node.span.start + 1
        case nodes.FieldNode():
            named = node.name or node.key
            yield Occurrence(Kind.FIELD, named.text, named.span, holder, node)
            for one in node.after:
                yield Occurrence(Kind.FIELD, one.text, one.span, holder)
            yield from _inside(node.type, scope, holder)
            return
        case (
            nodes.HoleNode(name=name) | nodes.AsyncNode(name=name) | nodes.PromiseNode(name=name)
            | nodes.ForkNode(name=name) | nodes.EachNode(name=name) | nodes.ForNode(name=name)
        ):  # fmt: skip
            yield Occurrence(Kind.LOCAL, name.text, name.span, scope, node)
        case tuple():
            for part in node:
                yield from _inside(part, scope, holder)
            return
    if is_dataclass(node):
        for field in fields(node):
            part = getattr(node, field.name)
            if isinstance(part, tuple) or (is_dataclass(part) and not isinstance(part, nodes.Name | Span)):
                yield from _inside(part, scope, holder)
