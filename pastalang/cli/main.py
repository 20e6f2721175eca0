"""The entry point of the `pasta` command."""

from __future__ import annotations

import sys

from pastalang.cli.exit_codes import ctrl_c_exits_at_once


def main() -> None:
    with ctrl_c_exits_at_once():
        from pastalang import __version__
        from pastalang.cli.output import echo, prepare_streams
        from pastalang.cli.process import exit_code_of

        prepare_streams()
        if sys.argv[1:] == ["--version"]:
            sys.exit(exit_code_of(lambda: echo(f"pasta {__version__}")))
        from pastalang.cli.app import build_app, named_commands

        app = build_app(named_commands())
    sys.exit(exit_code_of(lambda: app(prog_name="pasta")))


if __name__ == "__main__":
    main()
