"""The entry point of the `pasta` command."""

from __future__ import annotations

import gc
import sys

from pastalang.cli.exit_codes import ctrl_c_exits_at_once

_GARBAGE = (50_000, 20, 50)  # objects until Python looks for cycles of them, and how often it looks at older ones


def main() -> None:
    gc.set_threshold(*_GARBAGE)  # imports make hundreds of thousands of objects that stay
    with ctrl_c_exits_at_once():
        from pastalang.cli.output import echo, prepare_streams
        from pastalang.cli.process import exit_code_of
        from pastalang.version import __version__

        prepare_streams()
        if sys.argv[1:] == ["--version"]:
            sys.exit(exit_code_of(lambda: echo(f"pasta {__version__}")))
        from pastalang.cli.app import build_app, named_commands

        app = build_app(named_commands())
    code = exit_code_of(lambda: app(prog_name="pasta"))
    gc.freeze()  # nothing is looked at once more before the process ends
    sys.exit(code)
