"""The command, called in this process."""

from __future__ import annotations

import io
import shlex

from typer.testing import CliRunner, Result

from pastalang.cli.app import build_app


class Terminal(io.StringIO):
    """A stream that people look at."""

    def isatty(self) -> bool:
        return True


def pasta(*words: object, input: str | bytes | None = None) -> Result:
    """What `pasta` with these words prints, and its exit code. Nothing but that code ends it."""
    result = CliRunner().invoke(build_app({str(words[0])}), list(map(str, words)), input=input)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stderr
    return result


def typed(line: str) -> Result:
    """The same of a line, without the name of the command."""
    return pasta(*shlex.split(line))
