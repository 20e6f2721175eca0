"""How long the machine works for the page `docs/first-hour.md`: `python -m benchmarks.first_hour`.

Every command and every block of code is a process of its own, as somebody would start it who types along. Counted are
the seconds of the processor, which do not depend on what else the machine does.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from examples.pages import Code, Command, SavedFile, Step, steps_of

PAGE = Path(__file__).parents[1] / "docs" / "first-hour.md"


def seconds_of(step: Step, folder: Path) -> float:
    match step:
        case SavedFile(path=path, text=text):
            (folder / path).write_text(text, encoding="utf-8")
            return 0.0
        case Code(text=text):
            call = [sys.executable, "-c", text]
        case Command(arguments=arguments):
            call = [sys.executable, "-c", "from pastalang.cli.main import main; main()", *arguments]
    begin = _worked()
    subprocess.run(call, cwd=folder, check=False, capture_output=True)
    return _worked() - begin


def _worked() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    total = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for step in steps_of(PAGE):
            taken = seconds_of(step, Path(folder))
            total += taken
            if not isinstance(step, SavedFile):
                print(f"{taken:6.1f} s  line {step.line}")
    print(f"{total:6.1f} s  in all")


if __name__ == "__main__":
    main()
