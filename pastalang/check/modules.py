"""Loads the files of a program: the checked file and everything it imports, each with the names usable in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from pastalang.check.built_in_types import BUILT_IN_TYPES, INPUT_TYPES
from pastalang.check.report import Report
from pastalang.diagnostics.diagnostic import Diagnostic, Label
from pastalang.grammar import nodes
from pastalang.limits import MAX_FILES
from pastalang.reading import Reading
from pastalang.source import Source

Parse: TypeAlias = Callable[[Source], tuple[nodes.File | None, tuple[Diagnostic, ...]]]
Read: TypeAlias = Callable[[Path, str], Reading]  # a file, and how it is named in messages


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredType:
    """A type declaration and the file that declares it. `key` is its name in `Program.types`."""

    key: str
    node: nodes.TypeDeclaration
    module: Module


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredTemplate:
    node: nodes.TemplateDeclaration
    module: Module


@dataclass(slots=True, eq=False)
class Module:
    """One file. `types` and `templates` are the names that can be used in it, its imports included."""

    source: Source
    path: Path | None
    file: nodes.File
    types: dict[str, DeclaredType] = field(default_factory=dict)
    templates: dict[str, DeclaredTemplate] = field(default_factory=dict)
    imported: dict[str, nodes.Name] = field(default_factory=dict)  # each imported name, where the import names it
    lost: set[str] = field(default_factory=set)  # names of imports that failed: their use is not reported again

    def own_types(self) -> Iterable[DeclaredType]:
        return (declared for declared in self.types.values() if declared.module is self)


@dataclass(slots=True)
class Loader:
    """Reads each file of a program once. Imports may not leave `folder`."""

    folder: Path | None
    parse: Parse
    report: Report
    read: Read
    modules: dict[Path, Module] = field(default_factory=dict)
    order: list[Module] = field(default_factory=list)  # each module comes after the modules it imports
    loading: list[tuple[Path, Label]] = field(default_factory=list)  # the chain of imports being followed
    keys: set[str] = field(default_factory=set)

    def load(self, source: Source, path: Path | None, file: nodes.File) -> Module:
        module = Module(source, path, file)
        if path is not None:
            self.modules[path] = module
        report = self.report.for_source(source)
        imports = [node for node in file.declarations if isinstance(node, nodes.ImportNode)]
        _declare(module, report, self.keys)
        followed = [(node, self._follow(node, path, report)) for node in imports]
        for node, other in followed:
            if other is not None:
                _import_names(node, other, module, report)
            else:
                module.lost.update(name.text for name in node.names)
        self.order.append(module)
        return module

    def _follow(self, node: nodes.ImportNode, importer: Path | None, report: Report) -> Module | None:
        target = self._resolve(node, importer, report)
        if target is None:
            return None
        if any(path == target for path, _ in self.loading) or target == importer:
            self._report_cycle(node, target, report)
            return None
        if target in self.modules:
            return self.modules[target]
        return self._open(node, target, importer, report)

    def _open(self, node: nodes.ImportNode, target: Path, importer: Path | None, report: Report) -> Module | None:
        if len(self.modules) >= MAX_FILES:
            report.add(
                "too-large",
                f"the program consists of more than {MAX_FILES} files",
                node.path.span,
                message="this file exceeds it",
            )
            return None
        reading = self.read(target, self._shown(target))
        file, problems = self.parse(reading.source) if reading.is_usable else (None, ())
        if not reading.was_opened:
            report.add(
                "bad-import", f"there is no file {node.path.text} to import from", node.path.span, help=self._near(node)
            )
            return None
        self.report.diagnostics.extend((*reading.diagnostics, *problems))
        if file is None:
            report.add("bad-import", f"{node.path.text} cannot be imported: it has errors of its own", node.path.span)
            return None
        if importer is not None:
            self.loading.append((importer, Label(node.path.span, "imported here", report.source)))
        module = self.load(reading.source, target, file)
        if importer is not None:
            self.loading.pop()
        return module

    def _resolve(self, node: nodes.ImportNode, importer: Path | None, report: Report) -> Path | None:
        found = self._target(node.path.text, importer)
        if isinstance(found, Path):
            return found
        problem, advice = found
        report.add("bad-import", problem, node.path.span, help=advice)
        return None

    def _target(self, written: str, importer: Path | None) -> Path | tuple[str, str]:
        """The file, or what is wrong with its path, and advice."""
        inside = "an import names a file inside the program's folder: `./types.pasta`"
        if not written or "\0" in written or len(written) > 1000:
            return "an import needs the path of a file", inside
        if "://" in written:
            return "an import cannot fetch a URL", "save the file next to the program and import it from there"
        if PurePosixPath(written).is_absolute() or "\\" in written or written[1:2] == ":" or written[:1] == "~":
            return f"the import path {written} is not relative", inside
        if importer is None or self.folder is None:
            return "a program given as text has no folder to import from", "save it to a file and load that"
        try:
            target = (importer.parent / written).resolve()
        except (OSError, RuntimeError, ValueError):
            return f"the path {written} cannot be resolved", inside
        if not target.is_relative_to(self.folder):
            return f"the import {written} is outside the program's folder", inside
        return target

    def _shown(self, target: Path) -> str:
        assert self.folder is not None
        relative = target.relative_to(self.folder).as_posix()
        root = next(iter(self.modules.values()))
        shown_folder = PurePosixPath(root.source.name).parent
        return str(shown_folder / relative)

    def _near(self, node: nodes.ImportNode) -> str:
        assert self.folder is not None
        names = sorted(path.relative_to(self.folder).as_posix() for path in self.folder.glob("*.pasta"))[:100]
        return self.report.suggest(node.path.text.removeprefix("./"), names)

    def _report_cycle(self, node: nodes.ImportNode, target: Path, report: Report) -> None:
        chain = [label for _, label in self.loading]
        start = next((i for i, (path, _) in enumerate(self.loading) if path == target), len(self.loading))
        report.add(
            "import-cycle",
            f"{self._shown(target)} imports itself"
            + (f" through {len(chain) - start} other file{'s'[: len(chain) - start > 1]}" if chain[start:] else ""),
            node.path.span,
            related=chain[start:],
            help="move the declarations that both files need into a third file",
        )


def _declare(module: Module, report: Report, keys: set[str]) -> None:
    """Add the types and templates that the file itself declares."""
    seen: dict[str, nodes.Name] = {}
    for node in module.file.declarations:
        if isinstance(node, nodes.ImportNode):
            continue
        name = node.name
        if name.text in seen:
            _report_duplicate(name, seen[name.text], report)
            continue
        seen[name.text] = name
        if isinstance(node, nodes.TemplateDeclaration):
            module.templates[name.text] = DeclaredTemplate(node, module)
            continue
        if name.text in (*BUILT_IN_TYPES, *INPUT_TYPES):
            report.add(
                "reserved-name",
                f"`{name.text}` is the name of a built-in type",
                name.span,
                help=f"choose another name, for example `{name.text.capitalize()}`",
            )
            continue
        module.types[name.text] = DeclaredType(_unique(name.text, keys), node, module)


def _unique(name: str, keys: set[str]) -> str:
    """Types of different files may have the same name; in the program each has a key of its own."""
    key, number = name, 1
    while key in keys:
        number += 1
        key = f"{name}_{number}"
    keys.add(key)
    return key


def _import_names(node: nodes.ImportNode, other: Module, module: Module, report: Report) -> None:
    own_types = {name for name, declared in other.types.items() if declared.module is other}
    own_templates = {name for name, declared in other.templates.items() if declared.module is other}
    for name in node.names:
        if name.text in module.types or name.text in module.templates or name.text in module.imported:
            first = module.imported.get(name.text) or _declared_name(name.text, module)
            _report_duplicate(name, first, report)
        elif name.text in own_types:
            module.types[name.text] = other.types[name.text]
            module.imported[name.text] = name
        elif name.text in own_templates:
            module.templates[name.text] = other.templates[name.text]
            module.imported[name.text] = name
        else:
            module.lost.add(name.text)
            report.add(
                "unknown-name",
                f"{node.path.text} does not declare `{name.text}`",
                name.span,
                help=report.suggest(name.text, sorted(own_types | own_templates)),
            )


def _declared_name(name: str, module: Module) -> nodes.Name:
    declared = module.types.get(name) or module.templates[name]
    return declared.node.name


def _report_duplicate(name: nodes.Name, first: nodes.Name, report: Report) -> None:
    help = "give one of them another name"
    report.add_twice("duplicate-name", f"`{name.text}` is declared twice", name.span, first.span, help=help)
