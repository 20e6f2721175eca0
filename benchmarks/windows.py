"""Ask a model for an open list of long documents, in windows and as a whole: python -m benchmarks.windows --model NAME

Documents are made up, so the place of every part that they name is known. An entry names a customer, which is the same
in all of them, and from one to three parts; one entry of the document names the warehouse. Recall and precision count
places: a part that is found is right if it is quoted from where it stands. Names are from the test part of the pools of
pasta-mini.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

from pydantic import BaseModel

from pastalang import Engine, Tokens, TruncationWarning, Verbatim
from pastalang.runtime.windows import MergeRule
from recipes.pasta_mini.catalogue import Part, draw
from recipes.pasta_mini.documents import load_pools

Quote = Annotated[str, Verbatim("text"), Tokens(16)]
_REMARKS = ("The driver waited at the gate.", "Nothing was damaged.", "The papers were complete.", "It rained all day.")


class Deliveries(BaseModel):
    customer: Quote | None
    warehouse: Quote | None
    parts: Annotated[list[Quote], Tokens(256)]


class AllDeliveries(Deliveries):
    """Read as a whole. Memory is reserved for the longest list, so windows have a shorter one."""

    parts: Annotated[list[Quote], Tokens(4000)]


@dataclass(frozen=True, slots=True)
class Document:
    text: str
    customer: str
    warehouse: str
    parts: frozenset[tuple[int, int]]


def draw_document(random: Random, entries: int) -> Document:
    pools = load_pools()
    customer, warehouse = (draw(pools[name], random, Part.TEST) for name in ("person", "city"))
    text, places = "", set()
    named = random.randrange(entries)
    for number in range(entries):
        text += f"Delivery {random.randrange(1000, 9999)}\nCustomer: {customer}\n"
        text += f"Warehouse: {warehouse}\n" if number == named else ""
        text += f"{random.choice(_REMARKS)}\nParts: "
        for index in range(random.randrange(1, 4)):
            part = draw(pools["object"], random, Part.TEST)
            text += ", " if index else ""
            places.add((len(text), len(text) + len(part)))
            text += part
        text += "\n\n"
    return Document(text, customer, warehouse, frozenset(places))


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one way to read documents of one length. `cells` are those of the largest request."""

    tokens: float
    windows: float
    recall: float
    precision: float
    warehouse: float
    customer: float
    passes: float
    cells: int
    seconds: float

    def __str__(self) -> str:
        shares = (self.recall, self.precision, self.warehouse, self.customer)
        figures = [f"{self.tokens:,.0f}", f"{self.windows:.0f}", *(f"{100 * one:.0f} %" for one in shares)]
        return " | ".join([*figures, f"{self.passes:.0f}", f"{self.cells:,}", f"{self.seconds:.1f}"])


def measure(engine: Engine, documents: Sequence[Document], window: int | None, merge: MergeRule) -> Row:
    options: dict[str, Any] = {} if window is None else {"window": window, "merge": merge}
    asked = AllDeliveries if window is None else Deliveries
    found = right = wanted = warehouse = customer = tokens = passes = windows = cells = 0
    began = time.perf_counter()
    for document in documents:
        read = engine.extract(asked, document.text, details=True, **options)
        spans = {(one.start, one.end) for one in read.field("parts").sources}
        found, wanted, right = found + len(spans), wanted + len(document.parts), right + len(spans & document.parts)
        warehouse += read.value.warehouse == document.warehouse
        customer += read.value.customer == document.customer
        tokens += engine.encoder.count(document.text)
        passes, windows = passes + read.usage.forward_passes, windows + max(len(read.windows), 1)
        cells = max(cells, read.usage.peak_cells)
    count = len(documents)
    return Row(
        tokens / count, windows / count, right / wanted, right / max(found, 1), warehouse / count, customer / count,
        passes / count, cells, (time.perf_counter() - began) / count,
    )  # fmt: skip


def rows(arguments: argparse.Namespace, engine: Engine) -> Iterator[str]:
    figures = "tokens | windows | recall | precision | warehouse | customer | passes | cells | seconds"
    yield f"| entries | read | {figures} |"
    yield "|---:|---|" + "---:|" * 9
    for entries in arguments.entries:
        random = Random(f"{arguments.seed} {entries}")
        documents = [draw_document(random, entries) for _ in range(arguments.documents)]
        ways: list[tuple[str, int | None, MergeRule]] = (
            [] if entries > arguments.whole else [("as a whole", None, "first")]
        )
        ways += [(f"in windows of {size}", size, "confidence") for size in arguments.windows]
        ways += [(f"in windows of {arguments.windows[0]}, agreement", arguments.windows[0], "agreement")]
        for name, window, merge in ways:
            yield f"| {entries} | {name} | {measure(engine, documents, window, merge)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="pasta-mini")
    parser.add_argument("--entries", type=int, nargs="+", default=[2, 8, 32, 128])
    parser.add_argument("--windows", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--whole", type=int, default=32, help="the most entries that are also read as a whole")
    parser.add_argument("--documents", type=int, default=10)
    parser.add_argument("--cells", type=int, default=8192)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    engine = Engine.load(arguments.model, cells=arguments.cells)
    warnings.simplefilter("ignore", TruncationWarning)
    for asked in (Deliveries, AllDeliveries):
        engine.extract(asked, "Parts: lamp")  # guides are made before anything is timed
    for row in rows(arguments, engine):
        print(row, flush=True)


if __name__ == "__main__":
    main()
