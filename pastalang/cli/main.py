"""The `pasta` command as a process: whatever happens, it ends in words and with one documented exit code."""

from __future__ import annotations

import sys

from pastalang.cli.exit_codes import ends_at_once


def main() -> None:
    with ends_at_once():
        from pastalang import __version__
        from pastalang.cli.output import prepare_streams, say
        from pastalang.cli.process import exit_code_of

        prepare_streams()
        if sys.argv[1:] == ["--version"]:
            sys.exit(exit_code_of(lambda: say(f"pasta {__version__}")))
        from pastalang.cli.app import build_app, named_commands

        app = build_app(named_commands())
    sys.exit(exit_code_of(lambda: app(prog_name="pasta")))


if __name__ == "__main__":
    main()
