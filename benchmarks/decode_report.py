"""Write the results of `decode_speed` as a page and two pictures."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from benchmarks.charts import line_chart

RESULTS = Path(__file__).parent / "results"
PAGE = RESULTS / "decode.md"
ALONE = "One document"
TOGETHER = "Many documents with shared instructions"
STEPS = "One step: 16 branches in one sequence, or 16 rows of a batch, behind 1,024 tokens"
BY_FIELDS = "By the number of fields"
PACKED = "With the weights packed"


@dataclass(frozen=True)
class Row:
    what: str
    seconds: float
    passes: int


@dataclass(frozen=True)
class Found:
    """The times of one document."""

    strict: Row
    sequential: Row
    generate: Row


@dataclass(frozen=True)
class Pair:
    """The seconds of PastaLang, and of the alternative."""

    first: float
    second: float

    @property
    def ratio(self) -> float:
        return self.second / self.first


@dataclass(frozen=True)
class Rival:
    dtype: str
    rows: int
    speed: float  # documents per second


class Report:
    """A page of parts, each measured in one run. A part of an earlier run stays until it is measured again."""

    def __init__(self, command: str, *, is_kept: bool) -> None:
        threads = torch.get_num_threads()
        unit = "seconds of processor time" if threads == 1 else "seconds"
        self._command = f"`{command}`, {unit}."
        self._is_kept = is_kept
        self._parts: dict[str, str] = {}
        if PAGE.exists():
            _, *parts = PAGE.read_text(encoding="utf-8").split("\n## ")
            self._parts = {title: text for title, _, text in (part.strip().partition("\n\n") for part in parts)}

    def alone(self, found: Found) -> None:
        base = found.strict.seconds
        rows = (found.strict, found.sequential, found.generate)
        self._add(
            ALONE,
            "Guides compiled, nothing kept of earlier prompts; the sides take turns, medians.",
            "",
            "| side | seconds | forward passes | ours is faster by |",
            "|---|---:|---:|---:|",
            *(f"| {row.what} | {row.seconds:.2f} | {row.passes} | {row.seconds / base:.1f}× |" for row in rows),
            "",
            f"Theoretical against sequential: {found.sequential.passes / found.strict.passes:.1f}× fewer passes.",
        )

    def together(
        self, together: Mapping[int, float], rivals: Sequence[Rival], *, documents: int, sample: int, written: int
    ) -> None:
        ours, theirs = max(together.values()), max(rival.speed for rival in rivals)
        one = together[min(together)]
        self._add(
            TOGETHER,
            f"Ours: {documents} documents at the best size, {sample} at the others. The other side is reckoned from a",
            f"prompt and {written} steps of a bare loop around the model, sampled at two lengths of the cache.",
            "",
            "| side | documents per second | against one at once |",
            "|---|---:|---:|",
            *(f"| ours, {size} at once | {speed:.3f} | {speed / one:.2f}× |" for size, speed in together.items()),
            *(f"| stock loop, {rival.dtype}, {rival.rows} rows | {rival.speed:.3f} | |" for rival in rivals),
            "",
            f"Each side at its best size and type: ours is faster by {ours / theirs:.1f}×.",
            "",
            "![Documents per second by how many share their passes](decode-documents.svg)",
        )
        points = [(float(size), speed) for size, speed in together.items()]
        across = "documents in the same passes"
        self._draw("decode-documents", line_chart("Documents per second", {"ours": points}, across=across, up="1/s"))

    def steps(self, steps: Pair) -> None:
        self._add(
            STEPS,
            f"Ours {1000 * steps.first:.0f} ms, rows {1000 * steps.second:.0f} ms: faster by {steps.ratio:.1f}×.",
        )

    def by_fields(self, found: Mapping[int, Pair]) -> None:
        self._add(
            BY_FIELDS,
            "One document. Beyond 8 fields the sequential time is reckoned from the two largest counts below.",
            "",
            "| fields | strict, s | sequential, s | realised | theoretical | realised / theoretical |",
            "|---:|---:|---:|---:|---:|---:|",
            *(
                f"| {count} | {pair.first:.2f} | {pair.second:.2f}{' (reckoned)' if count > 8 else ''} "
                f"| {pair.ratio:.1f}× | {count}× | {pair.ratio / count:.0%} |"
                for count, pair in found.items()
            ),
            "",
            "![Realised and theoretical speed-up by fields](decode-fields.svg)",
            "",
            "The gap has three reasons. The prompt is fed once in both modes and grows shorter for nobody. A pass of",
            "one token is bound by reading the weights, one of many by arithmetic: on one core, from about 16 tokens",
            "on, twice as many take nearly twice as long. And every branch attends to the cells of its neighbours,",
            "masked, where keeping them apart would cost more.",
        )
        series = {
            "fewer passes": [(float(count), float(count)) for count in found],
            "realised": [(float(count), pair.ratio) for count, pair in found.items()],
        }
        self._draw("decode-fields", line_chart("Faster than one by one", series, across="fields", up="times"))

    def packed(self, strict: Pair, sequential: Pair, together: Pair, *, documents: int) -> None:
        """Each pair is measured without and with packed weights; `together` is the number of documents at once."""
        named = {
            "one document, strict": strict,
            "one document, sequential": sequential,
            f"{documents} documents at once": together,
        }
        self._add(
            PACKED,
            "As `Engine.load` lays them out on a CPU. The parts above hand their model over, which is left as it is.",
            "",
            "| | as they are, s | packed, s | faster by |",
            "|---|---:|---:|---:|",
            *(
                f"| {what} | {pair.first:.2f} | {pair.second:.2f} | {pair.first / pair.second:.2f}× |"
                for what, pair in named.items()
            ),
            "",
            f"Strict is {sequential.first / strict.first:.1f}× faster than sequential as they are, "
            f"{sequential.second / strict.second:.1f}× packed: passes of one token gain most.",
        )

    def _add(self, title: str, *lines: str) -> None:
        self._parts[title] = "\n".join([*lines, "", self._command])
        print(f"## {title}\n\n{self._parts[title]}\n", flush=True)
        if self._is_kept:
            order = [known for known in (ALONE, TOGETHER, STEPS, BY_FIELDS, PACKED) if known in self._parts]
            PAGE.write_text(
                "\n".join([*_setting(), *(f"\n## {known}\n\n{self._parts[known]}" for known in order)]) + "\n",
                encoding="utf-8",
            )

    def _draw(self, name: str, picture: str) -> None:
        if self._is_kept:
            (RESULTS / f"{name}.svg").write_text(picture, encoding="utf-8")


def _setting() -> list[str]:
    return [
        "# How fast answers are written",
        "",
        "Random Llama of 135 M parameters in bfloat16, 16 string fields of 12 tokens, a prompt of about 256 tokens. An",
        f"{platform.machine()} processor with two cores that much other work shared, torch {torch.__version__},",
        f"transformers {transformers.__version__}. Read the figures as ratios within a part: each part is one run.",
    ]
