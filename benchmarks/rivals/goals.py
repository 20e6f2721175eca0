"""The goals beside what was found, and what stands in the way where one is missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from benchmarks.rivals.catalogue import DRAFTS, INT8, STRICT
from benchmarks.rivals.figures import Median

LLAMA_F32, LLAMA_Q8 = "llama-f32", "llama-q8"
CONSTRAINED: Final = ("outlines", "guidance", "xgrammar")
_TASKS: Final = (
    ("A", LLAMA_Q8, 2.0), ("A", LLAMA_F32, 3.5), ("C", LLAMA_Q8, 3.5), ("C", LLAMA_F32, 5.0), ("D", "generate", 2.5),
    ("D", LLAMA_F32, 1.5),
)  # fmt: skip
MUCH_LESS: Final = 0.6  # of the tokens of PastaLang
TOKENS_DIFFER: Final = "; the answers themselves are not comparable, since one takes far fewer tokens"
_RATES: Final = ((4, 0.6), (16, 0.8))


class Found(Protocol):
    """What was measured."""

    @property
    def profile(self) -> Mapping[str, Any] | None: ...

    def name(self, side: str) -> str: ...

    def seconds(self, task: str, side: str) -> Median | None: ...

    def ratio(self, task: str, side: str, base: str = STRICT) -> Median | None: ...

    def tokens(self, task: str, side: str) -> float | None: ...

    def batch_ratio(self, side: str) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Goal:
    what: str
    least: float
    found: float | None
    reason: str
    unit: str = ""
    more: str = ""
    on: str = ""  # what a goal that is met rests on

    def row(self) -> str:
        if self.found is None:
            return f"| {self.what} | {self.least:g}{self.unit} | | not measured |"
        if self.found >= self.least:
            verdict = f"met{self.on}"
        else:
            verdict = f"missed by {self.least - self.found:.2f}{self.unit}. {self.reason}".strip()
        return f"| {self.what} | {self.least:g}{self.unit} | {self.found:.2f}{self.unit}{self.more} | {verdict} |"


def goals(found: Found) -> Iterator[Goal]:
    for task, side, least in _TASKS:
        yield _of_task(found, task, side, least)
    yield _of_constrained(found)
    yield Goal(
        "B against llama.cpp, f32, at its best number of slots", 2.0, found.batch_ratio(LLAMA_F32),
        "In a batch, most of the time are the prompts, whose products run at the same rate on both sides.", "×",
    )  # fmt: skip
    if found.profile is not None:
        yield from _of_rates(found.profile)


def _of_task(found: Found, task: str, side: str, least: float) -> Goal:
    ratio, drafts = found.ratio(task, side), found.ratio(task, side, DRAFTS)
    if side == LLAMA_Q8 and (in_int8 := found.ratio(task, side, INT8)) is not None:
        more = f" ({ratio.value:.2f}× in float32)" if ratio is not None else ""
        what = f"{task}, in int8, against {found.name(side)}"
        return Goal(what, least, in_int8.value, "", "×", more, _rests_on(in_int8, least))
    if (for_a_token := _for_a_token(found, task, side, ratio)) is not None:
        return Goal(f"{task} against {found.name(side)}, for a token", least, for_a_token, "", "×", on=TOKENS_DIFFER)
    more = f" ({drafts.value:.2f}× with drafts)" if drafts is not None else ""
    what = f"{task} against {found.name(side)}"
    return Goal(
        what, least, ratio.value if ratio else None, _bound(found, task, side), "×", more, _rests_on(ratio, least)
    )


def _rests_on(ratio: Median | None, least: float) -> str:
    if ratio is None:
        return ""
    doubt = "" if ratio.low >= least else f", though not by all of them: {ratio.low:.2f} to {ratio.high:.2f}"
    return f" on {ratio.count} documents{doubt}"


def _for_a_token(found: Found, task: str, side: str, ratio: Median | None) -> float | None:
    """Where both drew texts of the same length in characters, and one of them took far fewer tokens for them."""
    ours, theirs = found.tokens(task, STRICT), found.tokens(task, side)
    if task != "D" or ratio is None or not ours or not theirs or theirs > MUCH_LESS * ours:
        return None
    return ratio.value * ours / theirs


def _of_constrained(found: Found) -> Goal:
    against = {side: ratio for side in CONSTRAINED if (ratio := found.ratio("A", side)) is not None}
    what = "A against outlines, guidance and xgrammar"
    if not against:
        return Goal(what, 6.0, None, "", "×")
    fastest = min(against, key=lambda side: against[side].value)
    reason = f"The fastest of them is {found.name(fastest)}. {_bound(found, 'A', fastest)}"
    return Goal(what, 6.0, against[fastest].value, reason, "×", on=_rests_on(against[fastest], 6.0))


def _bound(found: Found, task: str, side: str) -> str:
    """How much of our time the prompt takes, and what the ratio would be if nothing else took any."""
    ours, theirs = found.seconds(task, STRICT), found.seconds(task, side)
    if task != "A" or found.profile is None or ours is None or theirs is None:  # the profile is of documents of A
        return ""
    prompt = found.profile["prompt_seconds"]
    return (
        f"The prompt, which every side reads, takes about {prompt:.2f} s of our {ours.value:.2f} s; "
        f"if passes took no time, it would be {theirs.value / prompt:.1f}×"
    )


def _of_rates(profile: Mapping[str, Any]) -> Iterator[Goal]:
    rates = {int(rows): rate for rows, rate in profile["rates"].items()}
    peak, alone = max(rates.values()), rates[min(rates)] / min(rates)
    for rows, least in _RATES:
        share = rates[rows] / peak if rows in rates else None
        reason = (
            f"One row reads the weights at {2 * alone:.0f} GB/s, so at that rate {rows} rows cannot pass "
            f"{min(1.0, rows * alone / peak):.2f}"
        )
        yield Goal(f"products of {rows} rows, share of the prompt's rate", least, share, reason)
    share = profile["limit"]["seconds"] / profile["document"]["seconds"]
    reason = "What takes the rest is [below](#where-the-time-goes)"
    yield Goal("A, share of the physical limit", 0.7, share, reason)
