"""Writes docs/speed.md, its pictures and README's table of speed from the record of a measurement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from string import Template
from textwrap import fill
from typing import Any, Final

from benchmarks.charts import bar_chart, line_chart
from benchmarks.rivals.catalogue import ENTRIES, INT8, STRICT
from benchmarks.rivals.figures import Median, exponent_of, median_of
from benchmarks.rivals.goals import CONSTRAINED, LLAMA_F32, LLAMA_Q8, MUCH_LESS, Goal, goals
from benchmarks.rivals.tasks import TASKS

ROOT: Final = Path(__file__).parents[2]
RECORD: Final = ROOT / "benchmarks" / "results" / "speed.json"
IMAGES: Final = "images"
LINE: Final = 120
_POINTS: Final = 4  # of a curve, for an exponent
PICTURED: Final = ("A", "C")
JsonObject = dict[str, Any]


def write_pages(record: JsonObject, root: Path = ROOT) -> None:
    """All that is generated. `root` has the folder docs, and README.md."""
    page = Page(record)
    (root / "docs" / "speed.md").write_text(page.text(), encoding="utf-8")
    for name, picture in page.pictures().items():
        (root / "docs" / IMAGES / name).write_text(picture, encoding="utf-8")
    for path, begin, end, part in (
        (root / "README.md", "\n## Speed\n\n", "\n## ", page.readme()),
        (root / "docs" / "index.md", "<!-- speed -->\n", "<!-- end of speed -->", page.start()),
    ):
        path.write_text(_with(part, path.read_text(encoding="utf-8"), begin, end), encoding="utf-8")


def _with(part: str, text: str, begin: str, end: str) -> str:
    """The text with another part between these two marks."""
    before, _, rest = text.partition(begin)
    assert end in rest, f"there is no {begin.strip()} in the page"
    return f"{before}{begin}{part}{rest[rest.index(end) :]}"


class Page:
    def __init__(self, record: JsonObject) -> None:
        self._record, self._about = record, record["about"]
        self.profile: JsonObject | None = record.get("profile")
        self._rows: dict[tuple[str, str], list[JsonObject]] = {}
        for one in record["answers"]:
            if not one["is_first"]:
                self._rows.setdefault((one["task"], one["side"]), []).append(one)

    # ── figures ──────────────────────────────────────────────────────────────────────────────────────────

    def seconds(self, task: str, side: str, what: str = "processor") -> Median | None:
        rows = self._rows.get((task, side))
        return median_of([one[what] for one in rows]) if rows else None

    def ratio(self, task: str, side: str, base: str = STRICT) -> Median | None:
        """By how much the base is faster: the median of the documents that both were asked for."""
        ours = {one["number"]: one["processor"] for one in self._rows.get((task, base), ())}
        pairs = [
            one["processor"] / ours[one["number"]] for one in self._rows.get((task, side), ()) if one["number"] in ours
        ]
        return median_of(pairs) if pairs else None

    def best_batch(self, side: str) -> JsonObject | None:
        found = [one for one in self._record["batches"] if one["side"] == side]
        return min(found, key=lambda one: one["processor"] / one["documents"]) if found else None

    def batch_ratio(self, side: str) -> float | None:
        ours, theirs = self.best_batch(STRICT), self.best_batch(side)
        if ours is None or theirs is None:
            return None
        return float(theirs["processor"] / theirs["documents"] / (ours["processor"] / ours["documents"]))

    def name(self, side: str) -> str:
        return ENTRIES[side].name if side in ENTRIES else side

    # ── the page ─────────────────────────────────────────────────────────────────────────────────────────

    def text(self) -> str:
        """The page. Its sentences are in page.txt."""
        tasks = [self._batches() if key == "B" else self._task(key) for key in TASKS]
        return self._filled(
            "page.txt", goals=self._goals(), tasks="\n\n".join([*filter(None, tasks), self._memory()]),
            growth=self._growth(), profile=self._profile(), skipped=self._skipped(), versions=self._versions(),
        )  # fmt: skip

    def readme(self) -> str:
        """README's section."""
        return self._filled("readme.txt", many=self._many())

    def _many(self) -> str:
        found = [(self.name(side), ratio) for side in (LLAMA_F32, "batched") if (ratio := self.batch_ratio(side))]
        if not found:
            return ""
        said = " and ".join(f"{ratio:.1f} times as fast as {_short(name)}" for name, ratio in found)
        return f" Of many documents at once, each side at its best batch size, it is {said}."

    def start(self) -> str:
        """The table of the site's first page."""
        return self._filled("start.txt")

    def _filled(self, name: str, **parts: str) -> str:
        about = self._about
        words = {
            **{key: str(value) for key, value in about.items()}, "model": _model(about), "processor": _processor(about),
            "threads": _threads(about), "load": f"{about['load']:.1f}", "gains": self._gains(), **parts,
        }  # fmt: skip
        text = Template((Path(__file__).with_name(name)).read_text(encoding="utf-8")).substitute(words)
        return "\n\n".join(filter(None, map(_rewrapped, text.split("\n\n")))) + "\n"

    def _gains(self) -> str:
        sides = [side for side in (LLAMA_F32, LLAMA_Q8, *CONSTRAINED, "generate") if self._is_measured(side)]
        if not sides or self.seconds("A", STRICT) is None:
            return "Nothing to compare with was measured."
        ours_too = [INT8] if self._is_measured(INT8) else []
        names = [_short(self.name(side)) for side in (*ours_too, *sides)]
        rows = [f"| a document takes | PastaLang | {' | '.join(names)} |", "|---|---:|" + "---:|" * len(names)]
        for key in ("A", "C", "D", "E", "F"):
            ours = self.seconds(key, STRICT)
            if ours is None:
                continue
            cells = [self._seconds_cell(key, side) for side in ours_too]
            cells += [self._gain_cell(key, side) for side in sides]
            length = f" ({_median(self._rows[key, STRICT], 'tokens')} tokens)" if self._shorter(key) else ""
            rows.append(f"| {_lower(TASKS[key].title)} | {ours.value:.2f} s{length} | {' | '.join(cells)} |")
        return "\n".join(rows)

    def _seconds_cell(self, task: str, side: str) -> str:
        seconds = self.seconds(task, side)
        return "" if seconds is None else f"{seconds.value:.2f} s"

    def _gain_cell(self, task: str, side: str) -> str:
        seconds, ratio = self.seconds(task, side), self.ratio(task, side)
        if seconds is None or ratio is None:
            return ""
        length = f" ({_median(self._rows[task, side], 'tokens')} tokens)" if side in self._shorter(task) else ""
        return f"{seconds.value:.2f} s, {ratio.value:.1f}×{length}"

    def tokens(self, task: str, side: str) -> float | None:
        return float(_median(self._rows.get((task, side), ()), "tokens") or 0) or None

    def _shorter(self, task: str) -> list[str]:
        """The sides that wrote much less than PastaLang, which writes no keys."""
        ours = self.tokens(task, STRICT) or 0
        return [side for side in ENTRIES if 0 < (self.tokens(task, side) or 0) < MUCH_LESS * ours]

    def _lengths(self, task: str) -> str:
        shorter = self._shorter(task)
        if not shorter:
            return ""
        names = " and ".join(self.name(side) for side in shorter)
        return (
            "\n\nAll strings have the same length in characters, but the texts differ in tokens: "
            f"{names} needed far fewer tokens than PastaLang, so compare seconds per token."
        )

    def _is_measured(self, side: str) -> bool:
        return any(key == side for _, key in self._rows)

    def _goals(self) -> str:
        return "\n".join(["| goal | target | measured | |", "|---|---:|---:|---|", *map(Goal.row, goals(self))])

    # ── tasks ────────────────────────────────────────────────────────────────────────────────────────────

    def _task(self, key: str) -> str:
        sides = [side for side in ENTRIES if (key, side) in self._rows]
        if not sides:
            return ""
        picture = (
            f"\n\n![{TASKS[key].title}: seconds of a document]({IMAGES}/speed-{_slug(key)}.svg)"
            if key in PICTURED
            else ""
        )
        rows = [
            "| side | processor, s | clock, s | tokens | passes | fit | right | time relative to PastaLang |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
            *(self._task_row(key, side) for side in sorted(sides, key=lambda side: self._value(key, side))),
        ]  # fmt: skip
        return (
            f"## {key}: {_lower(TASKS[key].title)}\n\n"
            + "\n".join(rows)
            + picture
            + self._lengths(key)
            + self._failures(key)
        )

    def _value(self, key: str, side: str) -> float:
        found = self.seconds(key, side)
        return found.value if found else 0.0

    def _task_row(self, key: str, side: str) -> str:
        rows = self._rows[key, side]
        processor, wall, ratio = self.seconds(key, side), self.seconds(key, side, "wall"), self.ratio(key, side)
        assert processor is not None and wall is not None
        fit, known = sum(one["fits"] for one in rows), sum(one["known"] for one in rows)
        right = f"{100 * sum(one['right'] for one in rows) / known:.0f} %" if known else ""
        faster = "" if side == STRICT or ratio is None else f"{ratio.shown()}×"
        return (
            f"| {self.name(side)} | {processor.shown()} | {wall.value:.2f} | {_median(rows, 'tokens')} "
            f"| {_median(rows, 'passes')} | {fit} of {len(rows)} | {right} "
            f"| {faster} |"
        )

    def _failures(self, key: str) -> str:
        failed = [one for one in self._record["failed"] if one["task"] == key]
        lines = [f"- {self.name(one['side'])}: {one['reason']}" for one in failed]
        return "\n\nNo answer:\n\n" + "\n".join(lines) if lines else ""

    def _batches(self) -> str:
        sides = [side for side in ENTRIES if self.best_batch(side) is not None]
        if not sides:
            return ""
        rows = ["| side | at once | processor, s a document | documents | fit | time relative to PastaLang |"]
        rows.append("|---|---:|---:|---:|---:|---:|")
        for side in sorted(sides, key=lambda side: self._batch_value(side)):
            best, ratio = self.best_batch(side), self.batch_ratio(side)
            assert best is not None
            faster = "" if side == STRICT or ratio is None else f"{ratio:.2f}×"
            rows.append(
                f"| {self.name(side)} | {best['at_once']} | {self._batch_value(side):.2f} | {best['documents']} "
                f"| {best['fit']} of {best['documents']} | {faster} |"
            )
        tried = "; ".join(f"{self.name(side)}: {', '.join(map(str, ENTRIES[side].sizes))}" for side in sides)
        return "\n".join([
            f"## B: {_lower(TASKS['B'].title)}", "", *rows, "",
            f"The best of the settings that were tried, at once ({tried}).",
        ]) + self._failures("B")  # fmt: skip

    def _batch_value(self, side: str) -> float:
        best = self.best_batch(side)
        return float(best["processor"] / best["documents"]) if best else 0.0

    # ── growth ───────────────────────────────────────────────────────────────────────────────────────────

    def _growth(self) -> str:
        growth = self._record.get("growth")
        if growth is None:
            return ""
        parts = [
            "## Growth",
            "",
            "Seconds of the processor. Prompts and answers are drawn anew for each point, so single points scatter. An",
            "exponent is fitted to the logarithms where there are four points or more.",
            "",
        ]
        for key, axis in AXES.items():
            series = {name: [(x, y) for x, y in points] for name, points in growth[key].items()}
            parts += [f"### {axis.title}", "", _in_words(axis, series), ""]
            parts += [f"![{axis.title}]({IMAGES}/speed-by-{key}.svg)", ""]
        return "\n".join(parts)

    def pictures(self) -> dict[str, str]:
        found = {}
        for key in PICTURED:
            sides = [side for side in ENTRIES if (key, side) in self._rows]
            if sides:
                values = {
                    self.name(side): self._value(key, side)
                    for side in sorted(sides, key=lambda one: self._value(key, one))
                }
                ours = [self.name(side) for side in sides if ENTRIES[side].is_ours]
                title = f"{TASKS[key].title}: seconds of a document"
                found[f"speed-{_slug(key)}.svg"] = bar_chart(title, values, unit="s", ours=ours)
        for key, axis in AXES.items():
            series = self._record.get("growth", {}).get(key)
            if series:
                found[f"speed-by-{key}.svg"] = line_chart(axis.title, series, across=axis.across, up="seconds")
        return found

    # ── the profile ──────────────────────────────────────────────────────────────────────────────────────

    def _profile(self) -> str:
        profile = self.profile
        if profile is None:
            return ""
        parts, limit, whole = profile["document"], profile["limit"], profile["document"]["seconds"]
        groups = sorted(parts["groups"].items(), key=lambda one: -one[1])
        rates = sorted((int(rows), rate) for rows, rate in profile["rates"].items())
        peak = max(rate for _, rate in rates)

        def table(head: str, found: Iterable[tuple[str, float]]) -> list[str]:
            rows = (f"| {name} | {seconds:.3f} | {100 * seconds / whole:.0f} % |" for name, seconds in found)
            return [f"| {head} | s | share of the document |", "|---|---:|---:|", *rows, ""]

        return "\n".join([
            "## Where the time goes", "",
            f"A document of A without drafts takes {whole:.2f} s; {profile['prompt_seconds']:.2f} s are the prompt.",
            f"{parts['fed']:.0f} tokens are fed in {parts['passes']:.0f} passes, and {parts['drawn']:.0f} are drawn.",
            "torch's profiler times operations; Python is what is left of runs without it.", "",
            *table("what", groups), *table("rows of a product", _by_width(parts["widths"])),
            "All products of the layers by themselves, with weights as they are packed here:", "",
            "| rows | GFLOP/s | share of the highest rate |", "|---:|---:|---:|",
            *(f"| {rows} | {rate:.0f} | {rate / peak:.2f} |" for rows, rate in rates), "",
            f"The tokens that must be fed take {limit['operations'] / 1e9:.0f} billion operations,",
            f"or {limit['seconds']:.2f} s at the highest rate, {100 * limit['seconds'] / whole:.0f} % of a document.",
        ])  # fmt: skip

    def _versions(self) -> str:
        found = ", ".join(f"{name} {version}" for name, version in sorted(self._record.get("versions", {}).items()))
        return f" The sides ran with {found}." if found else ""

    def _memory(self) -> str:
        """Over the whole measurement: what a process has held once, it has held in every task after it."""
        peaks: dict[str, float] = {}
        for one in (*self._record["answers"], *self._record["batches"]):
            peaks[one["side"]] = max(peaks.get(one["side"], 0.0), one["memory"])
        rows = (f"| {self.name(side)} | {peaks[side]:,.0f} |" for side in ENTRIES if side in peaks)
        return "\n".join(["## Memory", "", "| side | peak over all of its tasks, MB |", "|---|---:|", *rows])

    def _skipped(self) -> str:
        skipped = self._record["skipped"]
        if not skipped:
            return ""
        return "## Sides that were skipped\n\n" + "\n".join(
            f"- {self.name(key)}: {why}" for key, why in skipped.items()
        )


# ── growth in words ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Axis:
    title: str
    across: str
    what: str
    note: str = ""


AXES: Final[Mapping[str, Axis]] = {
    "fields": Axis("Fields", "fields of 24 characters", "as many fields"),
    "length": Axis("Length of a value", "tokens of each of twelve values", "as long values",
                   "A value has four characters for each of these tokens."),
    "prompt": Axis("Length of the prompt", "tokens of the prompt", "as long prompts",
                   "It is fed once, for all values."),
    "requests": Axis("Requests at once", "requests at once", "as many requests", "This is the time of one document."),
    "vocabulary": Axis("Vocabulary", "tokens of the vocabulary", "as large vocabularies",
                       "A pass of a model of two layers, with its head and its masks."),
    "program": Axis("Size of a program", "fields of the program", "as many fields",
                    "The program is read, checked and planned; no model is asked."),
}  # fmt: skip


def _in_words(axis: Axis, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    (name, first), *_ = series.items()
    (x, y), (last_x, last_y) = first[0], first[-1]
    values = ", ".join(f"{_brief(seconds)} for {value:,g}" for value, seconds in first)
    fitted = [f"{exponent_of(points):.2f} ({name})" for name, points in series.items() if len(points) >= _POINTS]
    exponents = f", exponent {' and '.join(fitted)}" if fitted else ""
    parts = (
        f"{last_x / x:g} times {axis.what}: {last_y / y:.1f} times the time{exponents}.", axis.note,
        f"{name[:1].upper()}{name[1:]}: {values}.",
    )  # fmt: skip
    return " ".join(filter(None, parts))


# ── words and numbers ────────────────────────────────────────────────────────────────────────────────────


def _by_width(widths: Mapping[str, float]) -> list[tuple[str, float]]:
    bounds = (0, 1, 4, 16, 64, 512)
    names = ["1", *(f"{low + 1} to {high}" for low, high in pairwise(bounds[1:]))]
    found = dict.fromkeys([*names, f"more than {bounds[-1]}"], 0.0)
    for rows, seconds in widths.items():
        at = next((number for number, high in enumerate(bounds[1:]) if int(rows) <= high), len(names))
        found[[*names, f"more than {bounds[-1]}"][at]] += seconds
    return [(name, seconds) for name, seconds in found.items() if seconds]


def _model(about: Mapping[str, Any]) -> str:
    return "SmolLM2-135M in float32" if about["model"] == "smollm2" else f"{about['model']} in float32"


def _processor(about: Mapping[str, Any]) -> str:
    return f"an {about['processor']} with {'AVX-512' if about['has_avx512'] else 'AVX2'}"


def _threads(about: Mapping[str, Any]) -> str:
    return "one thread" if about["threads"] == 1 else f"{about['threads']} threads"


def _median(rows: Sequence[Mapping[str, Any]], what: str) -> str:
    found = [one[what] for one in rows if one[what] is not None]
    return f"{median(found):.0f}" if found else ""


def _brief(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"


def _short(name: str) -> str:
    return (
        name.replace("llama.cpp server", "llama.cpp").replace(", as a logits processor", "").replace(", no schema", "")
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _slug(key: str) -> str:
    return key.lower().replace("=", "-equal")


def _rewrapped(block: str) -> str:
    """A paragraph or a list in lines of equal length, whatever was filled in; tables and headings as they are."""
    block = block.strip()
    if block.startswith(("|", "#", "![")):
        return block
    if not block.startswith("- "):
        return fill(block, LINE, break_long_words=False, break_on_hyphens=False)
    items = re.split(r"\n(?=- )", block)
    return "\n".join(
        fill(" ".join(one.split()), LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for one in items
    )
