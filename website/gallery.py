"""Makes the runs that docs/gallery.md shows: python -m website.gallery (takes smollm2, a minute of a processor)

Each run is a picture and a page in docs/gallery. The documents and their right answers are those of
`benchmarks/everyday.toml`. A run whose answer is not the right one ends the command: choose another document then.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.everyday import Document, read_documents
from pastalang import Engine, Plan, Result
from pastalang.runtime.display.page import page_of, render_page
from pastalang.values.json import parse_json, same_json
from website.pages import ROOT
from website.picture import lanes, svg

RUNS = ROOT / "docs" / "gallery"
MODEL = "smollm2"
SHOWN = {  # the names of the files, in the order of the page, and the styles of the documents
    "registration": "product registration card",
    "absence-note": "school absence note",
    "delivery-note": "delivery note",
    "review": "customer review",
    "parcel": "parcel notice by text message",
}
_ROOM = 640  # for the columns of a picture


def main() -> None:
    documents = {document.style: document for document in read_documents()}
    engine = Engine.load(MODEL, dtype="float32")  # so that the order of the runs does not round their values
    RUNS.mkdir(exist_ok=True)
    for name, style in SHOWN.items():
        result = _right_result(documents[style], engine)
        page = _page(name.replace("-", " "), result, engine.plan(documents[style].program))
        (RUNS / f"{name}.html").write_text(page, encoding="utf-8")
        (RUNS / f"{name}.svg").write_text(_picture(result), encoding="utf-8")
        print(f"{style}: {result.usage.forward_passes} passes, {result.usage.output_tokens} left to right", flush=True)


def _right_result(document: Document, engine: Engine) -> Result:
    result = engine.run(document.program, text=document.text)
    if not same_json(parse_json(result.text), dict(document.value)):
        sys.exit(f"{document.style}: the answer is not the right one\n{result.text}")
    return result


def _page(title: str, result: Result, plan: Plan) -> str:
    """Without the time, which is that of the machine that made the page."""
    page = page_of(result, plan, model=MODEL)
    figures = tuple(figure for figure in page.figures if not figure[0].endswith(" s"))
    return render_page(
        replace(page, title=title.capitalize(), subtitle=f"strict · {MODEL} with its adapter", figures=figures)
    )


def _picture(result: Result) -> str:
    passes = result.trace.passes
    drawing, width, height = lanes(result.trace, top=0, column=max(min(_ROOM // passes, 68), 34))
    return svg(drawing, width, height + 2, title=f"{passes} forward passes, {result.usage.output_tokens} left to right")


if __name__ == "__main__":
    main()
