"""Files that an earlier version has saved are read, and those of an unknown version are refused.

`tests/saved` has two programs, and what version 0.1.0 has made of them: plans (`pasta plan --format json`), the rows of
`pasta extract --chunk 2` with its finished run, the same run after its first chunk, and the note next to weights.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import pastalang
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.api.command import Pasta
from tests.api.engines import mini

SAVED = Path(__file__).parents[1] / "saved"
PLANS = sorted(SAVED.glob("*.plan.json"))
EXTRACT = ("order.pasta", "titles.jsonl", "--on-truncated", "keep", "--any-mode")


def changed(path: Path, **keys: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **keys}), encoding="utf-8")


@pytest.fixture
def saved(pasta: Pasta, monkeypatch: pytest.MonkeyPatch) -> None:
    """The saved files in the current folder, and `pasta-mini` loaded once."""
    shutil.copytree(SAVED, Path.cwd(), dirs_exist_ok=True)
    engine = mini()
    monkeypatch.setattr(pastalang.Engine, "load", staticmethod(lambda *_, **__: engine))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name)
def test_a_saved_plan_is_shown_as_that_of_its_program(pasta: Pasta, path: Path) -> None:
    program = SAVED / f"{path.name.partition('.')[0].removesuffix('-lockstep')}.pasta"
    mode = "lockstep" if "lockstep" in path.name else "strict"
    shown = pasta("plan", path)
    assert shown.code == 0 and shown.out == pasta("plan", program, "--mode", mode).out


@pytest.mark.usefixtures("saved")
def test_a_saved_plan_runs_as_its_program_does(pasta: Pasta) -> None:
    words = ("-i", "title=Sharp TV, AB-12", "--on-truncated", "keep")
    ended = pasta("run", "order.plan.json", *words)
    assert ended.code == 0 and ended.json == pasta("run", "order.pasta", *words).json


@pytest.mark.parametrize("version", [0, 2, "1", None])
@pytest.mark.usefixtures("saved")
def test_a_plan_of_another_version_is_refused_by_its_number(pasta: Pasta, version: Any) -> None:
    changed(Path("order.plan.json"), version=version)
    ended = pasta("plan", "order.plan.json")
    assert ended.code in (1, 3) and "version" in ended.error
    assert version != 2 or "this is a plan of version 2; version 1 can be read" in ended.error


@pytest.mark.usefixtures("saved")
def test_the_rows_of_an_earlier_run_are_shown(pasta: Pasta) -> None:
    assert pasta("report", "rows.jsonl", "titles.jsonl", "-o", "page.html").code == 0
    assert Path("page.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.usefixtures("saved")
def test_a_run_of_today_is_written_as_the_earlier_one_was(pasta: Pasta) -> None:
    """Every part of an earlier manifest, journal and row still has its name."""
    assert pasta("extract", *EXTRACT, "-o", "new.jsonl", "--chunk", "2").code == 0
    for file in ("manifest.json", "journal.jsonl"):
        then, now = (Path(f"{name}.jsonl.run", file).read_text("utf-8") for name in ("rows", "new"))
        assert names_of(then) == names_of(now)
    assert names_of(Path("rows.jsonl").read_text("utf-8")) == names_of(Path("new.jsonl").read_text("utf-8"))


def names_of(text: str) -> list[Any]:
    """The keys of every object, in order."""
    documents = [text] if text.startswith("{\n") else text.splitlines()
    return [
        [key, *(names_of(json.dumps(value)) if isinstance(value, dict) and key != "value" else [])]
        for document in documents
        for key, value in json.loads(document).items()
    ]


@pytest.mark.usefixtures("saved")
def test_an_earlier_run_goes_on_after_its_chunk(pasta: Pasta) -> None:
    """Its manifest names the weights and the version; with those of today the saved journal and chunk are taken on."""
    assert pasta("extract", *EXTRACT, "-o", "new.jsonl", "--chunk", "2").code == 0
    shutil.copy("new.jsonl.run/manifest.json", "half.jsonl.run")
    assert pasta("extract", *EXTRACT, "-o", "half.jsonl", "--resume", "--json").json["resumed"] == 2
    lines = [Path(name).read_text("utf-8").splitlines() for name in ("rows.jsonl", "half.jsonl")]
    assert lines[0][:2] == lines[1][:2] and len(lines[1]) == 3


@pytest.mark.usefixtures("saved")
def test_a_run_of_another_release_says_what_differs(pasta: Pasta) -> None:
    manifest = json.loads(Path("half.jsonl.run/manifest.json").read_text("utf-8"))
    changed(Path("half.jsonl.run/manifest.json"), fingerprint={**manifest["fingerprint"], "version": "0.0.9"})
    ended = pasta("extract", *EXTRACT, "-o", "half.jsonl", "--resume")
    assert ended.code == 2 and f"version: 0.0.9 then, {pastalang.__version__} now" in ended.error


@pytest.mark.usefixtures("saved")
def test_a_run_in_an_unknown_format_is_refused_by_its_number(pasta: Pasta) -> None:
    for name in ("half", "rows"):
        changed(Path(f"{name}.jsonl.run/manifest.json"), version=2)
    ended = pasta("extract", *EXTRACT, "-o", "half.jsonl", "--resume")
    assert ended.code == 2 and "half.jsonl.run is of version 2; version 1 can be read" in ended.error
    ended = pasta("report", "rows.jsonl", "titles.jsonl")
    assert ended.code == 3 and "rows.jsonl.run is of version 2; version 1 can be read" in ended.error


# ── the note next to weights ─────────────────────────────────────────────────────────────────────────────

PROGRAM = pastalang.compile('template t()\nuser """Go."""\nassistant json {\n  a: boolean\n  b: auto(apar, max=4)\n}\n')


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=320, **sizes)).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def loaded(weights: Path, **keys: Any) -> pastalang.Engine:
    shutil.copy(SAVED / "pastalang.json", weights)
    changed(weights / "pastalang.json", **keys)
    return pastalang.Engine.load(weights)


def test_a_saved_note_names_the_modes_that_are_allowed(weights: Path) -> None:
    engine = loaded(weights, modes=["lockstep"])
    assert engine.run(PROGRAM, mode="lockstep", on_truncated="keep").value.keys() == {"a", "b"}
    with pytest.raises(pastalang.WrongMode, match="trained for lockstep, and this run asks for strict"):
        engine.run(PROGRAM)
    assert engine.run(PROGRAM, any_mode=True, on_truncated="keep").value.keys() == {"a", "b"}


def test_a_saved_note_names_the_tags_that_the_weights_write(weights: Path) -> None:
    with pytest.raises(pastalang.WrongMode, match=r"trained to write auto\(pasta\)"):
        loaded(weights, threads="pasta").run(PROGRAM)


def test_keys_that_a_note_of_an_earlier_version_lacks_have_their_defaults(weights: Path) -> None:
    shutil.copy(SAVED / "pastalang.json", weights)
    note = json.loads((weights / "pastalang.json").read_text("utf-8"))
    kept = {name: note[name] for name in ("modes", "template", "program", "types", "limits")}
    (weights / "pastalang.json").write_text(json.dumps(kept), encoding="utf-8")
    assert pastalang.Engine.load(weights).run(PROGRAM, on_truncated="keep").value.keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"version": 2}, "it is of version 2; version 1 can be read"),
        ({"modes": []}, "it names no mode"),
        ({"modes": ["fast"]}, "'fast' is not a valid Mode"),
        ({"limits": None}, "limits|items|NoneType"),
    ],
)
def test_a_note_that_cannot_be_read_is_refused(weights: Path, keys: Any, said: str) -> None:
    with pytest.raises(pastalang.LoadError, match=said):
        loaded(weights, **keys)
