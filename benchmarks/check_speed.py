"""Measure `pasta check` and `pasta --version`: python benchmarks/check_speed.py [--write]

The program is a generated file of about 1,000 lines like those of the examples. Each time is the best of several runs,
to reduce the influence of other work on the machine. `--write` records the times in `results/check.md`.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pastalang.check.checker import check_file
from pastalang.compiler import check_source
from pastalang.grammar.parser import parse
from pastalang.source import Source

RESULTS = Path(__file__).parent / "results" / "check.md"

BLOCK = '''
type Line{0} = {{
  description: string(max=16)
  quantity: number(above=0)
  unit: "piece" | "hour" | "kg" | "m"
  total: number after quantity
}}

template invoice{0}(document: text, tags: [text] = []) with (temperature=0.2)

system """
You turn invoices into data. {{tags}}
"""

user """
{{document}}
"""

assistant json {{
  number: /[A-Z]{{2}}-[0-9]{{4,8}}/
  issued: date
  due: date | null
  seller: {{ name: string(max=16), city: string(max=10), vat_id: /[A-Z]{{2}}[0-9A-Z]{{2,12}}/ | null }}
  buyer: {{ name: string(max=16), city: string(max=10) }}
  lines: [Line{0}](1..20)
  sequential {{ net: number after lines, tax: number, gross: number }}
  quote: verbatim(document, max=30)
}}
'''


def program_of(lines: int) -> str:
    blocks: list[str] = []
    while sum(block.count("\n") for block in blocks) < lines:
        blocks.append(BLOCK.format(len(blocks)))
    return "".join(blocks)


def best_of(times: int, action: Callable[[], object]) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return min(found)


def command(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-m", "pastalang.cli.main", *words], capture_output=True, check=True)


def rows() -> list[tuple[str, float]]:
    text = program_of(1_000)
    source = Source("big.pasta", text)
    file = parse(source).file
    assert file is not None
    found = [
        ("parse 1,000 lines", best_of(9, lambda: parse(source))),
        ("check their syntax tree", best_of(9, lambda: check_file(source, file, path=None, parse=_no_imports))),
        ("both, from text to program", best_of(9, lambda: check_source(text))),
        ("both, 4,000 lines", best_of(5, lambda: check_source(program_of(4_000)))),
        ("`python -c pass`", best_of(9, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))),
        ("`pasta --version`", best_of(9, command("--version"))),
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".pasta") as big:
        big.write(text)
        big.flush()
        found.append(("`pasta check` of 1,000 lines, start-up included", best_of(7, command("check", big.name))))
    return found


def _no_imports(source: Source) -> tuple[None, tuple[()]]:
    raise AssertionError("the program imports nothing")


def main() -> None:
    table = [f"| {name} | {seconds * 1000:,.0f} ms |" for name, seconds in rows()]
    lines = ["| what | best time |", "|---|---|", *table]
    print("\n".join(lines))
    if "--write" in sys.argv[1:]:
        about = f"Python {platform.python_version()}, {platform.machine()}, `python benchmarks/check_speed.py --write`."
        text = "\n".join(["# How long checking takes", "", about, "", *lines, ""])
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
