"""The language server: the protocol of editors in front of `language`. Importing it imports pygls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from pastalang.diagnostics.diagnostic import Diagnostic
from pastalang.lsp.language import Document, Forecasts, Item, Kind, Symbol, problem_of_renaming
from pastalang.source import Source, Span
from pastalang.version import __version__

_KINDS: Final = {
    "type": lsp.CompletionItemKind.Class,
    "input": lsp.CompletionItemKind.Variable,
    "field": lsp.CompletionItemKind.Field,
    "snippet": lsp.CompletionItemKind.Snippet,
}
_SYMBOLS: Final = {
    Kind.TYPE: lsp.SymbolKind.Class,
    Kind.TEMPLATE: lsp.SymbolKind.Function,
    Kind.FIELD: lsp.SymbolKind.Field,
    Kind.LOCAL: lsp.SymbolKind.Variable,
}
_CODECS: Final[Mapping[str, str]] = {
    lsp.PositionEncodingKind.Utf8: "utf-8",
    lsp.PositionEncodingKind.Utf16: "utf-16-le",
    lsp.PositionEncodingKind.Utf32: "utf-32-le",
}
_MOST_FILES: Final = 200  # next to a file, in which a name is changed too


def make_server() -> LanguageServer:
    """A server that has not been started: `start_io` reads the standard input.

    Editors send whole texts: pygls counts the lines of a change with ends that a program may have inside a line.
    """
    server = LanguageServer("pasta", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
    documents = Documents(server)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(given: lsp.DidOpenTextDocumentParams) -> None:
        documents.check(given.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(given: lsp.DidChangeTextDocumentParams) -> None:
        documents.check(given.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(given: lsp.DidCloseTextDocumentParams) -> None:
        documents.close(given.text_document.uri)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(given.text_document.uri, []))

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(given: lsp.DidSaveTextDocumentParams) -> None:
        documents.check(None)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed_beside(given: lsp.DidChangeWatchedFilesParams) -> None:
        documents.check(None)

    @server.feature(lsp.INITIALIZED)
    def began(given: lsp.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        watching = None if workspace is None else workspace.did_change_watched_files
        if watching is not None and watching.dynamic_registration:
            watched = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher("**/*.{pasta,json}")])
            one = lsp.Registration("files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, watched)
            server.client_register_capability(lsp.RegistrationParams([one]))

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(given: lsp.HoverParams) -> lsp.Hover | None:
        document, offset = documents.at(given.text_document.uri, given.position)
        found = document.hover(offset)
        if found is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found[1]), documents.range(document, found[0]))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[" ", ":", "{", "(", "|"]))
    def completion(given: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document, offset = documents.at(given.text_document.uri, given.position)
        return [_item(one) for one in document.completion(offset)]

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(given: lsp.DefinitionParams) -> lsp.Location | None:
        document, offset = documents.at(given.text_document.uri, given.position)
        here = document.name_at(offset)
        found = None if here is None else document.definition(here)
        if found is None:
            return None
        uri = documents.uri_of(found[0], given.text_document.uri)
        return lsp.Location(uri, documents.range(found[0], found[1].span))

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def rename(given: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        return documents.rename(given)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(given: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = documents.of(given.text_document.uri)
        return [_symbol(document.source, one, documents.places) for one in document.symbols()]

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatting(given: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        document = documents.of(given.text_document.uri)
        found = document.edit()
        return None if found is None else [lsp.TextEdit(documents.range(document, found[0]), found[1])]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION)
    def actions(given: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document, uri = documents.of(given.text_document.uri), given.text_document.uri
        first = documents.places.offset(document.source, given.range.start)
        last = documents.places.offset(document.source, given.range.end)
        return [
            lsp.CodeAction(
                fix.title, kind=lsp.CodeActionKind.QuickFix, is_preferred=True,
                diagnostics=[_diagnostic(fix.diagnostic, uri, documents.places)],
                edit=lsp.WorkspaceEdit({uri: [lsp.TextEdit(documents.range(document, fix.span), fix.text)]}),
            )
            for fix in document.fixes(Span(first, max(first, last)))
        ]  # fmt: skip

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(given: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        document, found = await documents.lenses(given.text_document.uri)
        return [lsp.CodeLens(documents.range(document, span), lsp.Command(text, "")) for span, text in found]

    return server


class Documents:
    """The programs of an editor. Those that are open are analysed once for a text and the files that they import."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._known: dict[str, Document] = {}
        self._forecasts = Forecasts()
        self._shown: dict[str, dict[str, str]] = {}  # the forecasts that an editor shows, by template

    @property
    def places(self) -> Places:
        return Places(_CODECS[self._server.workspace.position_encoding or lsp.PositionEncodingKind.Utf16])

    def of(self, uri: str) -> Document:
        if uri in self._known:
            return self._known[uri]
        text = self._server.workspace.get_text_document(uri)
        document = Document(text.source, path=_path(uri), read=self._opened, forecasts=self._forecasts)
        if text in self._server.workspace.text_documents.values():
            self._known[uri] = document
        return document

    def at(self, uri: str, position: lsp.Position) -> tuple[Document, int]:
        document = self.of(uri)
        return document, self.places.offset(document.source, position)

    def range(self, document: Document, span: Span) -> lsp.Range:
        return self.places.range(document.source, span)

    def check(self, uri: str | None) -> None:
        """Say what is wrong with the open programs that rest on a file that has changed; without a `uri`, with all."""
        path = None if uri is None else _path(uri)
        for known, document in list(self._known.items()):
            if uri in (None, known) or (path is not None and document.rests_on(path)):
                del self._known[known]
        for one in [text.uri for text in self._server.workspace.text_documents.values()]:
            if one not in self._known:
                found = [_diagnostic(problem, one, self.places) for problem in self.of(one).diagnostics]
                self._server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(one, found))

    def close(self, uri: str) -> None:
        self.check(uri)
        self._shown.pop(uri, None)
        self._forecasts.show(uri, ())

    async def lenses(self, uri: str) -> tuple[Document, list[tuple[Span, str]]]:
        """What is known at once. The rest is made in the background, and then the editor gets a request to refresh.

        An editor that takes no such request waits.
        """
        document, loop = self.of(uri), asyncio.get_running_loop()
        self._forecasts.show(uri, tuple(document.questions.values()))
        unknown = document.unknown()
        if not unknown:
            found = list(document.lenses())
        elif self._can_refresh:
            found = list(document.lenses(earlier=self._shown.get(uri, {})))
            self._forecasts.want(uri, unknown, lambda: self._tell(loop))
        else:
            found = await loop.run_in_executor(None, lambda: list(document.lenses()))
        self._shown[uri] = {document.source.slice(span): text for span, text in found}
        return document, found

    @property
    def _can_refresh(self) -> bool:
        workspace = self._server.client_capabilities.workspace
        lens = None if workspace is None else workspace.code_lens
        return lens is not None and bool(lens.refresh_support)

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called by the thread of forecasts. The editor may have left."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._server.workspace_code_lens_refresh, None)

    def rename(self, given: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        uri, new = given.text_document.uri, given.new_name
        document, offset = self.at(uri, given.position)
        name = document.name_at(offset)
        if name is None or name.kind is Kind.BUILT_IN:
            return None
        home, _ = document.definition(name) or (document, name)
        near = [*_near(home), home] if name.is_shared else []
        files = {
            one.path: one for one in (*near, document) if one.path == home.path or one.imports(home.path, name.text)
        }  # fmt: skip
        problem = problem_of_renaming(list(files.values()), name, new)
        if problem is not None:
            raise JsonRpcInvalidParams(problem)
        return lsp.WorkspaceEdit({
            self.uri_of(file, uri): [lsp.TextEdit(self.range(file, span), new) for span in file.uses(name)]
            for file in files.values()
        })  # fmt: skip

    def uri_of(self, document: Document, usual: str) -> str:
        """How the editor names a file."""
        if document.path is None:
            return usual
        known = [usual, *(text.uri for text in self._server.workspace.text_documents.values())]
        same = (uri for uri in known if _path(uri) == document.path)
        return next(same, None) or from_fs_path(str(document.path)) or usual

    def _opened(self, path: Path) -> str | None:
        texts = self._server.workspace.text_documents.values()
        return next((str(text.source) for text in texts if _path(text.uri) == path), None)


def _near(document: Document) -> Iterator[Document]:
    """The programs that may import a file: those in its folder and below that can be read."""
    if document.path is not None:
        for path in sorted(document.path.parent.rglob("*.pasta"))[:_MOST_FILES]:
            found = document.beside(path)
            if found is not None:
                yield found


def _path(uri: str) -> Path | None:
    """Where a file is, links followed."""
    path = to_fs_path(uri)
    return None if path is None else Path(path).resolve()


# ── places ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Places:
    """Places as an editor counts them: lines from 0, and in a line the units of the encoding that was agreed on."""

    codec: str

    def offset(self, source: Source, position: lsp.Position) -> int:
        """A place behind the end of a line is at its end."""
        if position.line >= len(source.line_starts):
            return len(source.text)
        line = source.line(position.line + 1)
        units = line.encode(self.codec, "surrogatepass")[: self._bytes("\n") * position.character]
        return source.line_starts[position.line] + len(units.decode(self.codec, "ignore"))

    def range(self, source: Source, span: Span) -> lsp.Range:
        return lsp.Range(self._position(source, span.start), self._position(source, span.end))

    def _position(self, source: Source, offset: int) -> lsp.Position:
        place = source.place(min(offset, len(source.text)))
        before = source.line(place.line)[: place.column - 1]
        return lsp.Position(place.line - 1, self._bytes(before) // self._bytes("\n"))

    def _bytes(self, text: str) -> int:
        return len(text.encode(self.codec, "surrogatepass"))


# ── what the protocol calls things ───────────────────────────────────────────────────────────────────────────


def _diagnostic(one: Diagnostic, uri: str, places: Places) -> lsp.Diagnostic:
    advice = "".join(f"\nhelp: {help}" for help in one.help)
    message = f"{one.headline}: {one.message}" if one.message else one.headline
    related = [
        lsp.DiagnosticRelatedInformation(
            lsp.Location(uri, places.range(label.source or one.source, label.span)), label.message
        )
        for label in one.related
        if label.source is None or label.source.name == one.source.name
    ]
    severity = lsp.DiagnosticSeverity.Error if one.is_error else lsp.DiagnosticSeverity.Warning
    return lsp.Diagnostic(
        places.range(one.source, one.span),
        message + advice,
        severity,
        one.code,
        source="pasta",
        related_information=related,
    )  # fmt: skip


def _item(one: Item) -> lsp.CompletionItem:
    given: dict[str, Any] = {}
    if one.snippet is not None:
        given = {"insert_text": one.snippet, "insert_text_format": lsp.InsertTextFormat.Snippet}
    return lsp.CompletionItem(one.label, kind=_KINDS[one.kind], **given)


def _symbol(source: Source, one: Symbol, places: Places) -> lsp.DocumentSymbol:
    return lsp.DocumentSymbol(
        one.name, _SYMBOLS[one.kind], places.range(source, one.span), places.range(source, one.name_span),
        children=[_symbol(source, part, places) for part in one.parts],
    )  # fmt: skip
