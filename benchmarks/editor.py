"""How long an editor waits for an answer about a long program: python -m benchmarks.editor --lines 500

The program is one template with as many fields as fill its lines; every tenth one waits for another. A changed text is
read when the editor sends it, before anything is asked about it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

from pastalang.lsp.language import Document


def program(lines: int) -> str:
    fields = "".join(
        f"  field_{number}: string(max={4 + number % 9}){f' after field_{number - 1}' if number % 10 == 9 else ''}\n"
        for number in range(lines - 8)
    )
    return f'template long(title: text)\n\nuser """\nTitle: {{title}}\n"""\n\nassistant json {{\n{fields}}}\n'


def questions(text: str) -> Iterator[tuple[str, Callable[[Document], object]]]:
    middle = text.index("field_", len(text) // 2)
    yield "hover", lambda document: document.hover(middle)
    yield "completion", lambda document: document.completion(middle + len(text[middle:].partition(":")[0]) + 2)
    yield "definition", lambda document: [document.definition(one) for one in [document.name_at(middle)] if one]
    yield "rename", lambda document: [document.uses(one) for one in [document.name_at(middle)] if one]
    yield "symbols", lambda document: list(document.symbols())
    yield "format", lambda document: document.edit()
    yield "lens", lambda document: list(document.lenses(earlier={}))
    yield "(forecast, beside other answers)", lambda document: list(document.lenses())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    text = program(arguments.lines).replace("  field_", " field_")  # so that there is something to lay out
    reading: list[float] = []
    print("| question | after a change, ms of CPU | again, ms |")
    print("|---|---:|---:|")
    for name, ask in questions(text):
        first, again = [], []
        for _ in range(arguments.times):
            document = Document(text, path=None)
            reading.append(_cost(lambda document: document.diagnostics, document))
            for found in (first, again):
                found.append(_cost(ask, document))
        print(f"| {name} | {min(first):.1f} | {min(again):.1f} |", flush=True)
    print(f"| (reading a change, and its diagnostics) | {min(reading):.1f} | |")


def _cost(ask: Callable[[Document], object], document: Document) -> float:
    began = time.process_time()
    ask(document)
    return 1000 * (time.process_time() - began)


if __name__ == "__main__":
    main()
