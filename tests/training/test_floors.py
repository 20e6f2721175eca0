"""The simple extractors that models are compared with find what such extractors can find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import floors
from benchmarks.hpd.documents import Name, read_corpus

BRANDS = ("Sony", "Sharp", "Loewe", "Philips", "Grundig", "Onkyo Air", "Metz", "Bose")


def oa_mine(path: Path) -> Path:
    """Titles such as `Sony TV, 42 inch`: few brands, each size once. One title in ten is held out."""
    rows = []
    for number in range(60):
        brand, size = BRANDS[number % len(BRANDS)], f"{number} inch"
        values = {"Brand": {brand: 1}, "Size": {size: 1}}
        rows.append({"input": f"{brand} TV, {size}", "category": "TV", "target_scores": values})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_dictionary_knows_what_it_has_seen_and_the_tagger_what_stands_in_its_place(tmp_path: Path) -> None:
    corpus = read_corpus(Name.OA_MINE, oa_mine(tmp_path / "train.jsonl"))
    looked_up = floors.Dictionary(corpus).extract(corpus.held_out)
    tagged = floors.Tagger(corpus, epochs=4).extract(corpus.held_out)
    for document, known, found in zip(corpus.held_out, looked_up, tagged, strict=True):
        [brand], [size] = document.accepted["Brand"], document.accepted["Size"]
        assert known == {"Brand": brand, "Size": None}
        assert found == {"Brand": brand, "Size": size}
    assert floors.Tagger(corpus, epochs=1).extract(corpus.held_out) == floors.Tagger(corpus, epochs=1).extract(
        corpus.held_out
    )


def test_the_table_has_both_measures_and_unseen_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = oa_mine(tmp_path / "train.jsonl")
    held_out = len(read_corpus(Name.OA_MINE, path).held_out)
    monkeypatch.setattr("sys.argv", ["floors", "--oa-mine", str(path)])
    assert floors.main() == 0
    dictionary, tagger = capsys.readouterr().out.splitlines()[-2:]
    assert dictionary.startswith(f"| dictionary | {held_out} | 66.7 | 66.7 | 0.0 % | 0.0 % of {held_out} |")
    assert tagger.startswith(f"| tagger | {held_out} | 100.0 | 100.0 | 0.0 % | 100.0 % of {held_out} |")
