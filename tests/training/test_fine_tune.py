"""Fine-tuning on files: the model learns, a run can be resumed, and bad data is reported with its file and line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

import pastalang
from pastalang import LoadError, Mode
from pastalang.runtime.models.adapters import merge_adapter, read_adapter
from pastalang.runtime.models.training_note import FILE, check_mode, read_note
from pastalang.training.data import read_lessons
from pastalang.training.errors import BadData, BadRows, CheckpointError
from pastalang.training.fine_tune import Job, fine_tune
from pastalang.training.method import ParallelValues
from pastalang.training.model_files import Lora
from pastalang.training.recording import Recorder
from pastalang.training.settings import Precision, Settings
from recipes.pasta_mini.scores import score_rows
from tests.training.lessons import TOKENIZER, PulledPlug, pulled_at, silent, toy_llama

SOURCE = '''
template colour(word: text)
user """{word}"""
assistant json { colour: "red" | "green" | "blue" | null, size: "S" | "M" | null }
'''
PROGRAM = pastalang.compile(SOURCE)
COLOURS = {"r": "red", "g": "green", "b": "blue", "-": None}
SIZES = {"1": "S", "2": "M", "0": None}
SETTINGS = Settings(steps=200, learning_rate=4e-3, warmup_steps=20, precision=Precision.FLOAT32, save_every=1000)


def write_rows(path: Path) -> Path:
    rows = [
        {"id": 1, "word": colour + size, "value": {"colour": COLOURS[colour], "size": SIZES[size]}, "category": "words"}
        for colour in COLOURS
        for size in SIZES
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(toy_llama(tmp_path / "model"))


def job_of(model: str, tmp_path: Path, *, steps: int = 200, **more: Any) -> Job:
    data = write_rows(tmp_path / "rows.jsonl")
    modes = more.pop("modes", (Mode.STRICT,))
    settings = replace(SETTINGS, steps=steps)
    method = ParallelValues(PROGRAM, modes)
    return Job(method, model, data, tmp_path / "out", settings, **{"rows": 2, "device": "cpu", "warmup": 20} | more)


def scores(folder: Path, tmp_path: Path, mode: Mode = Mode.STRICT) -> Any:
    trained = LlamaForCausalLM.from_pretrained(folder)
    lessons = read_lessons(tmp_path / "rows.jsonl", PROGRAM)
    recorder = Recorder(TOKENIZER)
    return score_rows(trained, [recorder.row(lesson, mode) for lesson in lessons])


def assert_same_weights(one: Path, other: Path) -> None:
    models = (LlamaForCausalLM.from_pretrained(folder) for folder in (one, other))
    for expected, found in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(expected, found)


def test_two_hundred_steps_learn_a_toy_task_in_every_mode(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, modes=tuple(Mode), rows=4)
    losses: list[str] = []
    fine_tune(job, report=losses.append)
    first, *_, last = (json.loads(line) for line in (job.out / "training/metrics.jsonl").read_text().splitlines())
    assert first["loss"] > 0.5 and last["loss"] < 0.1 and last["step"] == 200
    assert "12 rows = " in losses[0] and "; 200 steps = " in losses[0] and "no rows for validation" in losses[0]
    assert scores(Path(model), tmp_path).reported.f1 < 60
    for mode in Mode:
        assert scores(job.out, tmp_path, mode).reported.f1 > 95
    assert scores(job.out, tmp_path).strict.hallucination_rate == 0


def test_the_best_weights_on_the_validation_rows_are_kept(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, steps=4, validation=write_rows(tmp_path / "validation.jsonl"))
    job = replace(job, settings=replace(job.settings, judge_every=2))
    lines: list[str] = []
    progress = fine_tune(job, report=lines.append)
    assert sum("validation score" in line for line in lines) == 2
    assert progress.best_score is not None
    scores = json.loads((job.out / "scores.json").read_text())
    assert scores["before"].keys() == scores["after"].keys() == {mode.value for mode in Mode}
    assert scores["after"]["strict"]["f1"] == pytest.approx(100 * progress.best_score)
    table = lines[lines.index(next(line for line in lines if line.startswith("F1"))) :]
    assert [line.split()[0] for line in table] == ["F1", "strict", "lockstep", "sequential", "colour", "size", "saved"]


def test_the_folder_says_what_its_weights_were_trained_for(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, steps=1, modes=(Mode.LOCKSTEP,))
    fine_tune(job, report=silent)
    note = read_note(job.out)
    assert note is not None
    assert (note.modes, note.template) == ((Mode.LOCKSTEP,), "colour")
    assert set(note.limits) == {"colour", "size"}
    check_mode(job.out, Mode.LOCKSTEP)
    check_mode(model, Mode.STRICT)  # this folder does not say what it was trained for
    with pytest.raises(LoadError, match="trained for lockstep, and this run asks for strict"):
        check_mode(job.out, Mode.STRICT)


def test_nothing_is_overwritten_unless_it_may_be(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, steps=1)
    job.out.mkdir()
    (job.out / "notes.txt").write_text("mine")
    with pytest.raises(BadData, match="is not empty; choose another folder, or pass --overwrite"):
        fine_tune(job, report=silent)
    fine_tune(replace(job, overwrite=True), report=silent)
    assert (job.out / "notes.txt").read_text() == "mine"


def test_overwriting_a_run_begins_anew_and_keeps_no_weights_of_it(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, steps=2, overwrite=True)
    fine_tune(replace(job, validation=job.data, settings=replace(job.settings, judge_every=1)), report=silent)
    again, fresh = replace(job, settings=replace(job.settings, seed=1)), tmp_path / "fresh"
    fine_tune(again, report=silent)
    fine_tune(replace(again, out=fresh), report=silent)
    assert_same_weights(job.out, fresh)
    with pytest.raises(BadData, match="holds a finished run; choose another folder, or begin anew with --overwrite"):
        fine_tune(replace(job, overwrite=False), report=silent)


def test_a_run_that_ended_while_it_was_saved_is_saved_again(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, steps=1)
    fine_tune(job, report=silent)
    expected = (job.out / "model.safetensors").read_bytes()
    (job.out / FILE).unlink()
    (job.out / "model.safetensors").write_bytes(b"half")
    lines: list[str] = []
    fine_tune(job, report=lines.append)
    assert "going on after step 1 of 1" in lines
    assert (job.out / "model.safetensors").read_bytes() == expected


def test_what_a_run_was_started_with_is_what_it_goes_on_with(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, steps=1)
    fine_tune(job, report=silent)
    (job.out / FILE).unlink()
    other = LlamaForCausalLM.from_pretrained(model)
    with torch.no_grad():
        other.model.norm.weight += 1
    other.save_pretrained(model)
    for changed, name in (
        (replace(job, method=ParallelValues(PROGRAM, (Mode.SEQUENTIAL,))), "mode was strict, now sequential"),
        (replace(job, validation=job.data), "validation was none, now [0-9a-f]+"),
        (job, "model was [0-9a-f]+, now [0-9a-f]+; go on"),
    ):
        with pytest.raises(CheckpointError, match=name):
            fine_tune(changed, report=silent)


def test_all_bad_rows_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"word": "{number}"}}\n' for number in range(30)) + '{"word": ', encoding="utf-8")
    with pytest.raises(BadRows) as refused:
        read_lessons(path, PROGRAM)
    head, *lines = str(refused.value).splitlines()
    assert head == "31 of 31 rows cannot be used"
    assert len(lines) == 21 and lines[-1] == "  and 11 more"
    assert lines[19] == f"  {path}:20: the key `value` is missing: it holds the right answer"
    assert refused.value.problems[-1].reason.startswith("is not JSON")


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # of peft itself
@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.BFLOAT16])
def test_adapters_learn_are_merged_and_kept_and_go_on(model: str, tmp_path: Path, precision: Precision) -> None:
    peft = pytest.importorskip("peft", reason="LoRA needs peft")
    if precision is Precision.BFLOAT16:  # which only takes a model that is not rounded by it
        LlamaForCausalLM.from_pretrained(model).to(torch.bfloat16).save_pretrained(model)

    lora = Lora(8, dropout=0.1, targets=("q_proj", "v_proj", "down_proj"))
    job = job_of(model, tmp_path, steps=30, rows=4, lora=lora, keep_adapter=True)
    settings = replace(job.settings, precision=precision, save_every=15, learning_rate=2e-2, checkpointing=True)
    whole = replace(job, settings=settings, out=tmp_path / "whole")
    parts = replace(whole, out=tmp_path / "parts")
    fine_tune(whole, report=silent)
    with pytest.raises(PulledPlug):
        fine_tune(parts, report=pulled_at("step 20/"))
    fine_tune(parts, report=silent)
    assert_same_weights(whole.out, parts.out)

    saved = LlamaForCausalLM.from_pretrained(whole.out)
    assert saved.dtype is LlamaForCausalLM.from_pretrained(model).dtype, "as the model came in"
    first, *_, last = (json.loads(line) for line in (whole.out / "training/metrics.jsonl").read_text().splitlines())
    assert last["loss"] < first["loss"] - 0.3
    base = LlamaForCausalLM.from_pretrained(model)
    names = [name for name, weight in saved.named_parameters() if not torch.equal(weight, base.get_parameter(name))]
    assert names and all(any(target in name for target in lora.targets) for name in names), "nothing else is changed"
    kept = peft.PeftModel.from_pretrained(base, whole.out / "adapter").merge_and_unload()
    for one, other in zip(kept.parameters(), saved.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-2)
    merged = LlamaForCausalLM.from_pretrained(model)
    merge_adapter(merged, whole.out / "adapter")
    for one, other in zip(merged.parameters(), saved.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-2)
    others = LlamaForCausalLM(base.config).to(torch.float32)
    with pytest.raises(LoadError, match="was trained for other weights"):
        merge_adapter(others, whole.out / "adapter")
    going_on = Lora.going_on(whole.out / "adapter", dropout=0.0, is_four_bit=False)
    still = replace(settings, steps=1, learning_rate=1e-9)
    fine_tune(replace(whole, out=tmp_path / "on", lora=going_on, settings=still), report=silent)
    before, after = (read_adapter(folder / "adapter").pairs for folder in (whole.out, tmp_path / "on"))
    assert before.keys() == after.keys() and going_on.rank == 8
    for name, pair in before.items():
        assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(pair, after[name], strict=True))
    assert read_note(whole.out / "adapter") == read_note(whole.out)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", BadData, "holds no rows"),
        ("\n\n", BadData, "holds no rows"),
        ('{"word": "r", "value": \n', BadRows, r"rows\.jsonl:1: is not JSON"),
        ("[1]\n", BadRows, r"rows\.jsonl:1: has to be a JSON object"),
        ('\n{"word": "r"}\n', BadRows, r"rows\.jsonl:2: the key `value` is missing"),
        ('{"word": "r", "value": {"colour": "red"}}', BadRows, r'rows\.jsonl:1: value: the key "size" is missing'),
        ('{"word": 1, "value": {"colour": null, "size": null}}', BadRows, r"rows\.jsonl:1: `word` has to be text"),
        ('{"wrod": "r", "value": {"colour": null, "size": null}}', BadRows, r"unknown input `wrod`"),
    ],
)
def test_rows_that_cannot_be_taught_are_reported_with_their_line(
    text: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=message):
        read_lessons(path, PROGRAM)


def test_an_interrupted_run_equals_an_unbroken_one(model: str, tmp_path: Path) -> None:
    job = job_of(model, tmp_path, steps=24, modes=(Mode.STRICT, Mode.LOCKSTEP))
    whole = replace(job, out=tmp_path / "whole", settings=replace(job.settings, save_every=10))
    parts = replace(whole, out=tmp_path / "parts")
    fine_tune(whole, report=silent)
    with pytest.raises(PulledPlug):
        fine_tune(parts, report=pulled_at("step 20/"))
    fine_tune(parts, report=silent)
    assert_same_weights(whole.out, parts.out)
