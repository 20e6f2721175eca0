"""Texts with threads as rows: what is taught, what each token sees, and what is refused."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers.normalizers import NFC

import pastalang
from pastalang import Engine
from pastalang.errors import WrongMode
from pastalang.plan.branches import Mode, Overrun
from pastalang.plan.build import build_plan
from pastalang.program.types import AutoPolicy
from pastalang.runtime.models.training_note import check_overrun
from pastalang.training.answer import read_thread_text
from pastalang.training.errors import BadData, BadRow, Interrupted
from pastalang.training.evaluation import score_rows_by_decoding
from pastalang.training.fine_tune import Job, fine_tune
from pastalang.training.method import OwnThreads
from pastalang.training.recording import Lesson, Recorder, TrainingRow
from pastalang.training.settings import Precision, Settings
from tests.training.lessons import TOKENIZER, row_of, taught_text, toy_llama

PASTA = 'Food: <promise topic="food" tokens="30"/><async>Goulash.</async>!\n<sync/>Bye.'
APAR = "Food[Fork][Child]: soup.[/Child]. Bye."


def row(policy: str, value: object, *, most: int = 120) -> TrainingRow:
    return row_of(f'template t()\nuser """Go."""\nassistant auto({policy}, max={most})\n', {}, value)


def taught(row: TrainingRow, field: str) -> str:
    return taught_text(row, field).replace(chr(TOKENIZER.eos_token_id), "$")


def test_a_text_teaches_its_tags_and_its_end_and_forced_tags_cost_nothing() -> None:
    pasta, apar = row("pasta", PASTA), row("apar", APAR)
    assert taught(pasta, "answer") == 'Food: <promise topic="food" tokens="30"/>!\n<sync/>Bye.$'
    assert taught(pasta, "thread[]") == "Goulash.</async>"
    assert (taught(apar, "answer"), taught(apar, "thread[]")) == ("Food[Fork]. Bye.$", ": soup.$")


def test_the_end_of_a_promise_predicts_the_text_after_the_thread() -> None:
    found = row("pasta", PASTA)
    after = next(one for one in found.taught if one.field == "answer" and chr(one.token) == "!")
    assert TOKENIZER.decode(found.tokens[found.visible[after.place]]).endswith('tokens="30"/>')
    [next_place] = np.flatnonzero(found.tokens == ord("!"))
    assert found.positions[next_place] == found.positions[after.place] + 1 + 30


def test_only_what_follows_a_wait_sees_a_thread() -> None:
    found = row("pasta", PASTA)
    seen_at = {chr(one.token): TOKENIZER.decode(found.tokens[found.visible[one.place]]) for one in found.taught}
    assert "G" not in seen_at["\n"].partition("Assistant")[2]
    assert "G" in seen_at["B"].partition("Assistant")[2]


@pytest.mark.parametrize("overrun", [Overrun.CONTINUE, Overrun.PAPER])
def test_text_after_a_longer_thread_stands_where_the_placement_says(overrun: Overrun) -> None:
    """The thread takes more tokens than the ten that are announced."""
    program = pastalang.compile('template t()\nuser """Go."""\nassistant auto(pasta, max=99)\n')
    method = OwnThreads(program, None, overrun)
    [plan] = method.evaluated_plans().values()
    value = '<promise tokens="10"/><async>abcdefghijklmnopqrst</async><sync/>!'
    found = Recorder(TOKENIZER).row(Lesson(lambda _: plan, {}, value, "row"), Mode.STRICT)
    [last] = np.flatnonzero(found.tokens == ord("!"))
    is_repeated = found.positions[last] in np.delete(found.positions, last)
    assert is_repeated == (overrun is Overrun.PAPER)
    note = method.note()
    assert note.overrun is overrun
    with pytest.raises(WrongMode, match="--overrun") if overrun is Overrun.PAPER else nullcontext():
        check_overrun(note, build_plan(program.only_template, program))


def test_rows_of_several_turns_teach_the_last_answer() -> None:
    source = 'template t(chat: messages)\n...chat\nuser """More."""\nassistant auto(apar, max=99)\n'
    chat = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "First.[Fork] Not a tag."}]
    found = row_of(source, {"chat": chat}, APAR)
    assert (taught(found, "answer"), taught(found, "thread[]")) == ("Food[Fork]. Bye.$", ": soup.$")
    first = next(one for one in found.taught if one.field == "answer")
    assert "First.[Fork] Not a tag." in TOKENIZER.decode(found.tokens[found.visible[first.place]])


@pytest.mark.parametrize(
    ("policy", "value", "message"),
    [
        ("pasta", 5, "value: has to be the text of the answer, with its threads"),
        ("pasta", '<promise tokens="20"/>A', "value: 1 tag <promise .../> and 0 threads"),
        ("pasta", "A<async>b</async>", "value: thread 1, 'b', does not follow a tag <promise .../>"),
        (
            "pasta",
            '<promise tokens="x"/><async>b</async>',
            """value: thread 1, 'b', does not follow a tag <promise .../>, but '<promise tokens="x"/>'""",
        ),
        ("pasta", "A<sync>b", "value: '<sync>b' is not a tag that acts"),
        ("pasta", APAR, "value: [Child] begins a thread of auto(apar), and the program has auto(pasta)"),
        ("apar", PASTA, "value: <async> begins a thread of auto(pasta), and the program has auto(apar)"),
        ("pasta", '<promise tokens="9"/> <async>b</async>', "value: thread 1, 'b', does not follow a tag <promise"),
        ("pasta", '<promise tokens="9"/><async>a<sync/></async>', "thread 1 has the tag <sync/>"),
        ("pasta", '<promise tokens="9"/><async></async>', "value: thread 1 is empty"),
        ("pasta", "A<async>b", "value: '<async>b' is not a tag that acts"),
        ("pasta", "a" * 130, "`answer` takes 131 tokens with its tags, and the limit is 120"),
        ("apar", "A[Fork]b", "value: 1 tag [Fork] and 0 threads"),
        ("apar", "A[Fork][Child]" + "b" * 130 + "[/Child]", "`thread 1` takes 131 tokens"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_taught_is_refused_with_the_reason(policy: str, value: object, message: str) -> None:
    with pytest.raises(BadRow) as caught:
        row(policy, value)
    assert message in str(caught.value)
    assert str(caught.value).startswith("rows.jsonl:1: ")


def test_a_text_that_the_tokenizer_changes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TOKENIZER.backend_tokenizer, "normalizer", NFC())
    with pytest.raises(BadRow, match=r"the tokenizer writes '.xe9', not 'e.u0301'"):
        row("apar", "cafe\u0301")


def test_a_text_with_threads_among_other_values_is_refused() -> None:
    typed = 'template t()\nuser """Go."""\nassistant json { a: integer, notes: auto(pasta, max=90) }\n'
    with pytest.raises(
        BadData, match=r"`notes` is a text of auto\(pasta\) among other values, which cannot be trained on"
    ):
        row_of(typed, {}, {"a": 1, "notes": "x"})


def test_the_plain_text_has_each_thread_in_the_place_of_its_tag() -> None:
    assert read_thread_text(PASTA, AutoPolicy.PASTA).plain == "Food: Goulash.!\nBye."
    assert read_thread_text(APAR, AutoPolicy.APAR).plain == "Food: soup.. Bye."
    assert [begin.tokens for begin in read_thread_text(PASTA, AutoPolicy.PASTA).begins] == [30]


# ── a run ────────────────────────────────────────────────────────────────────────────────────────────────

PROGRAM = 'template t(word: text)\nuser """{word}"""\nassistant auto(pasta, max=60)\n'
ANSWERS = {"ab": '<promise tokens="10"/><async>a</async><promise tokens="10"/><async>b</async><sync/>!', "c": "c!"}


def test_a_model_learns_to_open_threads_and_an_interrupted_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    model, data = toy_llama(tmp_path / "model"), tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"word": word, "value": value}) + "\n" for word, value in ANSWERS.items()))
    method = OwnThreads(pastalang.compile(PROGRAM))
    settings = Settings(steps=70, learning_rate=6e-3, warmup_steps=10, precision=Precision.FLOAT32, save_every=1000)
    whole = Job(method, str(model), data, tmp_path / "whole", settings, rows=1, warmup=10, device="cpu", workers=1)
    fine_tune(whole, report=lambda _: None)
    parts = replace(whole, out=tmp_path / "parts")
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        fine_tune(parts, report=lambda _: None, is_stopped=lambda: next(calls) == 20)
    fine_tune(parts, report=lambda _: None)
    assert (whole.out / "model.safetensors").read_bytes() == (parts.out / "model.safetensors").read_bytes()

    engine = Engine.load(str(whole.out), device="cpu", cells=1024)
    assert engine.trained_for is not None and engine.trained_for.threads is AutoPolicy.PASTA
    assert [engine.run(pastalang.compile(PROGRAM), {"word": word}).text for word in ANSWERS] == ["ab!", "c!"]
    scored = score_rows_by_decoding(engine, method.evaluated_plans()["pasta"], method.read(data).rows, batch=1)
    assert scored.report.reported.f1 == 100
