"""Every causal family of transformers decodes exactly or is refused, and docs/models.md says which.

A sample is built in every run. `make families` builds all of them and writes the page anew.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest
import transformers

from pastalang.runtime.attention.masks import layer_windows
from pastalang.runtime.models.compatibility import UnsupportedModel, check_config
from tests.runtime.models.families import FAMILIES, Outcome, Verdict, default_config, quietly, verdict_of

PAGE = Path(__file__).parents[3] / "docs" / "models.md"
BEGIN, END = "<!-- families: written by `make families` -->", "<!-- families: end -->"
SAMPLE = ("afmoe", "deepseek_v3", "gemma3", "gpt_oss", "mimo_v2_flash", "moshi")


def test_the_sample_is_what_the_page_says() -> None:
    page = _section(PAGE.read_text(encoding="utf-8"))
    verdicts = {family: verdict_of(family) for family in SAMPLE}
    _none_is_wrong(verdicts)
    if f"transformers {transformers.__version__}" in page:
        for row in _rows(verdicts):
            what, families = row.strip("| ").split(" | ")
            line = next((line for line in page.splitlines() if line.startswith(f"| {what} |")), "")
            assert set(families.split(", ")) <= set(line.strip("| ").rpartition(" | ")[2].split(", ")), what


def test_every_configuration_is_accepted_or_refused_in_words() -> None:
    with quietly():
        for family in set(FAMILIES) - {"gemma4_assistant"}:  # its own validation refuses its defaults
            with suppress(UnsupportedModel):
                config = default_config(family)
                check_config(config)
                assert layer_windows(config.get_text_config())


@pytest.mark.long
def test_the_page_lists_every_family() -> None:
    verdicts = {family: verdict_of(family) for family in FAMILIES}
    _none_is_wrong(verdicts)
    text = PAGE.read_text(encoding="utf-8")
    written = text[: text.index(BEGIN) + len(BEGIN)] + _written(verdicts) + text[text.index(END) :]
    if os.environ.get("PASTA_UPDATE_FAMILIES"):
        PAGE.write_text(written, encoding="utf-8")
    elif f"transformers {transformers.__version__}" in text:
        assert written == text, "`make families` writes the page anew"


def _none_is_wrong(verdicts: dict[str, Verdict]) -> None:
    assert {name: one.reason for name, one in verdicts.items() if one.outcome is Outcome.WRONG} == {}


def _section(text: str) -> str:
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def _written(verdicts: dict[str, Verdict]) -> str:
    counts = Counter(one.outcome for one in verdicts.values())
    summary = (
        f"Of the {len(verdicts)} causal families of transformers {transformers.__version__}, "
        f"{counts[Outcome.EXACT] + counts[Outcome.FLOAT32]} can be used and {counts[Outcome.REFUSED]} are refused. "
        f"{counts[Outcome.NOT_BUILT]} were not tried."
    )
    return "\n".join(("", summary, "", "| result | families |", "|---|---|", *_rows(verdicts), ""))


def _rows(verdicts: dict[str, Verdict]) -> list[str]:
    """A row for each result and reason, the most frequent first."""
    families = defaultdict(list)
    order = list(Outcome)
    for family, verdict in verdicts.items():
        families[order.index(verdict.outcome), _result(verdict)].append(f"`{family}`")
    ranked = sorted(families.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1]))
    return [f"| {result} | {', '.join(names)} |" for (_, result), names in ranked]


def _result(verdict: Verdict) -> str:
    """The result without the sizes of the tiny model."""
    match verdict.outcome:
        case Outcome.REFUSED:
            general = re.sub(r" of [\d,]+ (rows|tokens)( \([^)]*\))?| for its layer \d+", "", verdict.reason)
            return "refused: " + re.sub(r"its layer \d+", "a layer", general).replace("|", "/")
        case Outcome.NOT_BUILT:
            return "not tried: the test has no small configuration of it"
        case _:
            return " ".join((verdict.outcome.value, verdict.reason)).strip()
