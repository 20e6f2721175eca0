"""The model of the package by its name, and what is noted beside weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pastalang import Engine, LoadError, Mode, WrongMode, compile
from pastalang.program.types import AutoPolicy
from pastalang.runtime.models import source as sources
from pastalang.runtime.models.loading import load_model
from pastalang.runtime.models.training_note import TrainingNote, read_note
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.oracle.toy_models import toy_model

PROGRAM = compile(
    '''
    template t(title: text)
    user """{title}"""
    assistant json { brand: string(max=3), size: string(max=3) }
    '''
)
NOTE = TrainingNote((Mode.LOCKSTEP, Mode.SEQUENTIAL), "t", "", "", {"brand": 3})


def write_model(folder: Path, note: TrainingNote | None = None) -> Path:
    toy_model(vocabulary=320).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    if note is not None:
        note.write(folder)
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands for the folder of weights in the package."""
    folder = tmp_path_factory.mktemp("weights")
    write_model(folder / "pasta-mini", NOTE)
    return folder


def load(source: str | Path) -> Engine:
    return Engine.load(source, device="cpu", dtype=torch.float32, cells=512)


def test_nothing_is_fetched_for_the_shipped_model(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("somebody went to the network")

    monkeypatch.setattr(sources, "WEIGHTS", weights)
    monkeypatch.setattr("socket.socket.connect", connect)
    assert load_model("pasta-mini", device="cpu").trained_for == NOTE


def test_the_name_means_the_package_wherever_it_is_used(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "WEIGHTS", weights)
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "pasta-mini")
    assert load("pasta-mini").trained_for == NOTE
    assert load("./pasta-mini").trained_for is None


def test_files_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "WEIGHTS", tmp_path)
    with pytest.raises(
        LoadError, match=r"pasta-mini is not part of this installation: .*config\.json, tokenizer\.json"
    ):
        load("pasta-mini")
    (tmp_path / "pasta-mini").mkdir()
    (tmp_path / "pasta-mini" / "config.json").write_text("{}")
    with pytest.raises(LoadError, match=r"has no tokenizer\.json, model\.safetensors; name another model"):
        load("pasta-mini")


@pytest.mark.parametrize("asked", ["assistant auto({}, max=8)", "assistant json {{ notes: auto({}, max=8) }}"])
def test_tags_that_the_weights_were_not_trained_for_are_refused(tmp_path: Path, asked: str) -> None:
    note = TrainingNote(tuple(Mode), "t", "", "", {}, threads=AutoPolicy.PASTA)
    engine = load(write_model(tmp_path, note))
    assert engine.trained_for == note
    template = 'template t(title: text)\nuser """{{title}}"""\n' + asked
    with pytest.raises(WrongMode, match=r"trained to write auto\(pasta\), and this program asks for auto\(apar\)"):
        engine.run(compile(template.format("apar")), {"title": "x"})
    assert engine.run(compile(template.format("pasta")), {"title": "x"}, on_truncated="keep").fields
    assert engine.run(compile(template.format("apar")), {"title": "x"}, on_truncated="keep", any_mode=True).fields


def test_a_mode_that_the_weights_were_not_trained_for_is_refused_by_name(tmp_path: Path) -> None:
    engine = load(write_model(tmp_path, NOTE))
    inputs = {"title": "x"}
    message = (
        "trained for lockstep, sequential, and this run asks for strict; choose the mode lockstep, or set any_mode"
    )
    with pytest.raises(WrongMode, match=message):
        engine.run(PROGRAM, inputs)
    with pytest.raises(WrongMode):
        engine.batch(PROGRAM, [inputs])
    with pytest.raises(WrongMode):
        list(engine.stream(engine.plan(PROGRAM), inputs))
    assert engine.scheduler.is_idle
    for mode in NOTE.modes:
        assert engine.run(PROGRAM, inputs, mode=mode).value
    assert engine.run(PROGRAM, inputs, any_mode=True).value


def test_a_note_of_another_kind_cannot_be_read(tmp_path: Path) -> None:
    for text, message in (("[]", "it is not a JSON object"), ("{}", "its key 'modes' is missing")):
        (tmp_path / "pastalang.json").write_text(text, encoding="utf-8")
        with pytest.raises(LoadError, match=f"cannot be read: {message}"):
            read_note(tmp_path)
