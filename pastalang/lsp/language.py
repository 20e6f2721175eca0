"""What an editor asks about a program, answered from its text: the checker, the printer and the planner do the work.

Places are numbers of characters. A text that is broken is answered from the part of it that can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from pastalang.check.built_in_types import BUILT_IN_TYPES, INPUT_TYPES
from pastalang.compiler import Analysis, analyse
from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.grammar import nodes
from pastalang.grammar.format import format_source
from pastalang.lsp.names import Kind, Occurrence, occurrences
from pastalang.plan.branches import Hole
from pastalang.plan.build import build_plan
from pastalang.plan.builder import PlanError
from pastalang.plan.dependencies import critical_path
from pastalang.plan.plan import Plan
from pastalang.plan.run_bounds import totals_of
from pastalang.plan.structure import fields_of
from pastalang.plan.token_bounds import Lengths
from pastalang.reading import Reading, read_file, read_text
from pastalang.source import Source, Span
from pastalang.values.describe import counted
from pastalang.values.paths import is_mark, steps_of

Read = Callable[[Path], str | None]  # the text of a file that an editor has open

_MEANT: Final = re.compile(r"did you mean `([^`]+)`")
_MOST_BRANCHES: Final = 500  # of a larger plan there is no forecast: an editor does not wait
_SHORT: Final = 100  # lines of a program whose plan is made while somebody waits
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
    """A program in an editor. `path` is where it is saved, for its imports, and `read` gives what else is open."""

    def __init__(self, text: str, *, path: Path | None, read: Read = lambda _: None) -> None:
        self.path = path
        self._read = read
        self._text = text

    @cached_property
    def analysis(self) -> Analysis:
        name = "<text>" if self.path is None else self.path.name
        return analyse(self._text, path=self.path, name=name, read=self._reading)

    def _reading(self, path: Path, name: str) -> Reading:
        text = self._read(path)
        return read_file(path, name=name) if text is None else read_text(name, text)

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

    def name_at(self, offset: int) -> Occurrence | None:
        return next((one for one in self.names if one.span.start <= offset <= one.span.end), None)

    # ── plans ────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def plans(self) -> dict[str, Plan]:
        """The plan of each template, if the program has no errors."""
        program = self.analysis.program
        found: dict[str, Plan] = {}
        if program is None:
            return found
        for name, template in program.templates.items():
            try:
                found[name] = build_plan(template, program)
            except PlanError:
                continue
        return found

    def lenses(self) -> Iterator[tuple[Span, str]]:
        """What each template takes, at its name."""
        for one in self.names:
            if one.kind is Kind.TEMPLATE and (plan := self.plans.get(one.text)) is not None:
                yield one.span, forecast_text(plan)

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────

    def hover(self, offset: int) -> tuple[Span, str] | None:
        """What a name stands for, as Markdown."""
        here = self.name_at(offset)
        if here is None:
            return None
        if here.kind is Kind.BUILT_IN:
            return here.span, f"`{here.text}`: a built-in type"
        place = self.definition(here)
        node = here.declares if place is None else place[1].declares
        home = self if place is None else place[0]
        if here.kind is Kind.TEMPLATE:
            plan = self.quick_plans.get(here.text)
            text = f"template `{here.text}`" + ("" if plan is None else f": {forecast_text(plan)}")
            return here.span, text
        return (here.span, "\n\n".join(home.described(here, node))) if node is not None else None

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
    def quick_plans(self) -> dict[str, Plan]:
        """The plans that are known, or made soon enough for somebody who waits."""
        is_long = len(self.source.line_starts) > _SHORT
        known: dict[str, Plan] = self.__dict__.get("plans", {}) if is_long else self.plans
        return known

    def _passes(self, name: str) -> Iterator[str]:
        limits = {
            segment.max_tokens
            for plan in self.quick_plans.values()
            for _, _, segment in fields_of(plan)
            if isinstance(segment, Hole)
            and name in [step for step in steps_of(segment.field) if not is_mark(step)][-1:]
        }
        if limits:
            most = max(limits)
            yield f"at most {counted(most, 'token')}, one pass for each"

    def definition(self, name: Occurrence) -> tuple[Document, Occurrence] | None:
        """Where a name is declared: in this file, or in one that it imports."""
        found = next((one for one in self.names if one.declares is not None and one.is_same(name)), None)
        if found is None or not isinstance(found.declares, nodes.ImportNode):
            return None if found is None else (self, found)
        other = self.imported(found.declares)
        there = None if other is None else other.definition(Occurrence(Kind.TYPE, name.text, name.span))
        return there or (self, found)

    def imported(self, node: nodes.ImportNode) -> Document | None:
        if self.path is None:
            return None
        path = (self.path.parent / node.path.text).resolve()
        try:
            text = self._read(path)
            text = path.read_text("utf-8") if text is None else text
        except (OSError, ValueError):
            return None
        return Document(text, path=path, read=self._read)

    def imports(self, path: Path, name: str) -> bool:
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
        return format_source(self.source).text

    def fixes(self) -> Iterator[Fix]:
        """A change for every "did you mean"."""
        for one in self.diagnostics:
            for meant in (match[1] for advice in one.help if (match := _MEANT.search(advice)) is not None):
                written = self.source.slice(one.span)
                if written and "\n" not in written:
                    quoted = f'"{meant}"' if written[:1] == '"' else meant
                    yield Fix(f"change to `{meant}`", one.span, quoted, one)

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


def _last(field: str) -> str:
    """The key or name that a field of a plan has by itself."""
    return [step for step in steps_of(field) if step != "[]" and not is_mark(step)][-1].strip('"')


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


def forecast_text(plan: Plan) -> str:
    """Such as "8 values, 24 passes, 3.1x": everything at its limit, next to one value after another."""
    values = sum(not (isinstance(one, Hole) and one.is_thread) for _, _, one in fields_of(plan))
    if len(plan.branches) > _MOST_BRANCHES:
        return counted(values, "value")
    passes, draws = critical_path(plan, Lengths()).length, totals_of(plan, Lengths()).draws.high
    return f"{counted(values, 'value')}, {counted(passes, 'pass')}, {draws / max(1, passes):.1f}x"
