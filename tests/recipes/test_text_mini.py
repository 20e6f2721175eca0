"""Texts to passages and rows: nothing held out is learned, no row crosses documents, and a run that goes on again."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import Mode
from pastalang.training.batches import PackedBatches
from pastalang.training.recording import IGNORED, Lesson, Recorder, planner
from pastalang.training.run_folder import RESUME
from recipes.pasta_mini.tokenizer import train_tokenizer
from recipes.text_mini import __main__ as command
from recipes.text_mini.texts import Document, Passage, Rows, Texts, passages_of, program_for, read_documents

LENGTH = 96
SIZES = ("--steps", "3", "--rows", "2", "--length", str(LENGTH), "--vocabulary", "500", "--hidden", "32", "--layers",
         "2", "--heads", "2", "--examples", "5", "--exam", "3")  # fmt: skip


def text(number: int) -> str:
    """Says in each line which document it is of."""
    return "".join(f"d{number} line {line} adds {line + number} to {line}\n" for line in range(12))


@cache
def tokenizer() -> Any:
    return train_tokenizer([text(number) for number in range(30)], size=500)


def passages(count: int) -> list[Passage]:
    documents = [Document(text(number), f"document {number}") for number in range(count)]
    return list(passages_of(documents, "sums", tokenizer(), LENGTH))


def test_a_document_is_cut_at_ends_of_lines_and_nothing_of_it_is_lost() -> None:
    found = passages(1)
    assert len(found) > 1
    assert "\n".join(one.beginning + one.rest for one in found) == text(0).strip("\n")
    assert all(one.beginning.startswith("d0 line") for one in found)


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_passages_of_any_text_stand_in_it_and_fit_into_a_row(given: str) -> None:
    rows = Rows(tokenizer(), LENGTH)
    for passage in passages_of([Document(given, "any")], "any", tokenizer(), LENGTH):
        assert passage.beginning and passage.beginning + passage.rest in given
        assert len(rows.row(passage)) <= LENGTH


def test_no_passage_fits_into_rows_that_are_shorter_than_a_prompt() -> None:
    document = Document(text(0), "document 0")
    assert [list(passages_of([document], "sums", tokenizer(), length)) for length in (8, 24)] == [[], []]


def test_a_row_of_an_exam_is_what_the_program_teaches() -> None:
    program = pastalang.compile(program_for(LENGTH))
    for passage in passages(2):
        lesson = Lesson(planner(program), {"beginning": passage.beginning}, {"rest": passage.rest}, passage.origin)
        taught, row = (
            Recorder(tokenizer()).row(lesson, Mode.STRICT),
            Rows(tokenizer(), LENGTH).row(passage, is_exam=True),
        )
        assert np.array_equal(row.tokens, taught.tokens) and np.array_equal(row.labels, taught.labels)
        assert np.array_equal(row.positions, taught.positions) and np.array_equal(row.visible, taught.visible)


def test_no_token_sees_or_predicts_another_document() -> None:
    rows = [Rows(tokenizer(), LENGTH * 2).row(one) for one in passages(8)]
    batch = PackedBatches([[row] for row in rows], rows=2, length=LENGTH * 2, seed=0)(1)
    assert batch.visible is not None and (batch.positions[:, 1:] == 0).any(), "no line has two passages"
    for line in range(2):
        starts = (batch.positions[line] == 0).cumsum(0)
        is_fed = batch.labels[line] != IGNORED
        together = starts[:, None] == starts[None, :]
        assert not (batch.visible[line] & ~together)[is_fed].any()
        ends = is_fed[:-1] & (starts[1:] != starts[:-1])
        assert (batch.labels[line][:-1][ends] == 0).all()


def test_articles_and_rows_are_documents_and_a_row_without_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wiki.txt").write_text(" \n = One = \n \n Text . \n = = Part = = \n More . \n = Two = \n \n Text . \n")
    assert [one.text.split("\n")[0] for one in read_documents([tmp_path / "wiki.txt"])] == [" = One = ", " = Two = "]
    (tmp_path / "sums.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    [asked] = read_documents([tmp_path / "sums.jsonl"])
    assert (asked.beginning, asked.text) == ("1 + 1?", "2")
    (tmp_path / "bad.jsonl").write_text('{"title": "x"}\n')
    with pytest.raises(pastalang.PastaError, match=r"bad\.jsonl:1: has no text; expected `question` and `answer`, or"):
        read_documents([tmp_path / "bad.jsonl"])
    with pytest.raises(pastalang.PastaError, match="sums: 1 document cannot be divided"):
        Texts("sums", (asked,))


def test_an_interrupted_run_goes_on_and_writes_a_model_that_the_engine_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for number in range(40):
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_text(text(number))
    out = tmp_path / "out"
    some, others = (["--text", "sums", *map(str, part)] for part in (files[:20], files[20:]))
    words = ["text_mini", *some, *others, "--licence", "sums", "CC BY 4.0", "--out", str(out), *SIZES]

    def run(*more: str) -> str:
        monkeypatch.setattr("sys.argv", [*words, *more])
        return f"{command.main()} {capsys.readouterr()}"

    assert "holds no checkpoint yet" in run("--so-far")
    monkeypatch.setattr("recipes.text_mini.recipe.SAVE_EVERY", 1)

    class PulledPlug(BaseException):
        pass

    call = PackedBatches.__call__

    def pulled(self: PackedBatches, number: int) -> Any:
        if number == 2:
            raise PulledPlug
        return call(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(PackedBatches, "__call__", pulled)
        with pytest.raises(PulledPlug):
            run()
    assert [place.name for place in (out / "training" / RESUME).glob("step-*2")], "no checkpoint after step 2"
    assert "after step 2 of 3" in run("--so-far") + (out / "model" / "MODEL_CARD.md").read_text()
    assert "going on after step 2 of 3" in run()
    card = (out / "model" / "MODEL_CARD.md").read_text()
    assert "Unfinished" not in card and "| sums | 40 files, 0.txt to 39.txt | CC BY 4.0 |" in card
    assert "--text sums 0.txt … --licence sums 'CC BY 4.0' --steps 3" in card
    names = ("rows.jsonl", "held-out.jsonl")
    rows = {name: [json.loads(line) for line in (out / name).read_text().splitlines()] for name in names}
    documents = {name: {row["beginning"].split()[0] for row in found} for name, found in rows.items()}
    assert documents["rows.jsonl"].isdisjoint(documents["held-out.jsonl"]) and all(documents.values())
    engine = pastalang.Engine.load(str(out / "model"))
    result = engine.run(pastalang.load(out / "write.pasta"), {"beginning": rows["held-out.jsonl"][0]["beginning"]})
    assert result.usage.output_tokens > 0
