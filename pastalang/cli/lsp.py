"""`pasta lsp`: a language server on the standard input and output, for editors."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from pastalang.cli.exit_codes import EXIT_USAGE, Refused
from pastalang.cli.process import command


@dataclass(frozen=True, slots=True, kw_only=True)
class LspSettings:
    """`pasta lsp` has no options: editors start it."""


@command(LspSettings)
def lsp_command(settings: LspSettings) -> None:
    try:
        server = import_module("pastalang.lsp.server")
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise Refused("pasta lsp needs pygls: pip install 'pastalang[lsp]'", EXIT_USAGE) from problem
    server.make_server().start_io()
