"""Adapters beside weights: merged when they are loaded, and refused where they do not belong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import pastalang
from pastalang import Engine, LoadError, Mode, WrongMode
from pastalang.runtime.models import source as sources
from pastalang.runtime.models.adapters import Adapter, merge_adapter, read_adapter, sample_of, write_adapter
from pastalang.runtime.models.choice import revision_of
from pastalang.runtime.models.source import adapter_folder
from pastalang.runtime.models.training_note import TrainingNote, read_note
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.command import pasta
from tests.oracle.toy_models import toy_model

ADAPTED = ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj")
NOTE = TrainingNote((Mode.STRICT,), "", "", "", {"string": 48})
PROGRAM = pastalang.compile(
    'template t(title: text)\nuser """{title}"""\nassistant json { brand: string(max=8), size: string(max=4) }\n'
)


def random_adapter(model: Any, *, rank: int = 4, seed: int = 0, sampled: bool = True) -> Adapter:
    generator = torch.Generator().manual_seed(seed)
    pairs = {}
    for name, module in model.named_modules():
        if name.endswith(ADAPTED):
            rows, columns = module.weight.shape
            down, up = torch.randn(rank, columns, generator=generator), torch.randn(rows, rank, generator=generator)
            pairs[name] = (0.2 * down.bfloat16().float(), 0.2 * up.bfloat16().float())
    return Adapter(pairs, alpha=8.0, sample=sample_of(model, pairs) if sampled else None)


@pytest.fixture
def model() -> Any:
    return toy_model()


@pytest.fixture
def weights(model: Any, tmp_path: Path) -> Path:
    model.save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def folder(model: Any, tmp_path: Path) -> Path:
    write_adapter(tmp_path / "adapter", random_adapter(model), base="toy")
    NOTE.write(tmp_path / "adapter")
    return tmp_path / "adapter"


def answer(engine: Engine) -> str:
    return engine.run(PROGRAM, title="Norvika 12", on_truncated="keep").text


def test_a_merged_adapter_is_added_to_its_matrices_alone(model: Any, folder: Path) -> None:
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    adapter = read_adapter(folder)
    merge_adapter(model, folder)
    for name, weight in model.state_dict().items():
        down, up = adapter.pairs.get(name.removesuffix(".weight"), (None, None))
        change = torch.zeros(()) if down is None or up is None else 2.0 * (up.float() @ down.float())
        assert torch.allclose(weight, before[name] + change, atol=1e-6), name


def test_an_engine_with_an_adapter_answers_as_merged_weights_do(model: Any, weights: Path, folder: Path) -> None:
    bare, adapted = Engine.load(weights, cells=512), Engine.load(weights, adapter=folder, cells=512)
    merge_adapter(model, folder)
    assert answer(adapted) == answer(Engine.load(model, byte_tokenizer(), cells=512)) != answer(bare)
    assert adapted.trained_for == NOTE and bare.trained_for is None
    with pytest.raises(WrongMode, match="trained for strict"):
        adapted.run(PROGRAM, title="x", mode="lockstep")


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # of peft itself
def test_what_peft_wrote_is_read_and_what_is_written_peft_reads(model: Any, weights: Path, folder: Path) -> None:
    peft = pytest.importorskip("peft", reason="adapters are trained with peft: pip install 'pastalang[lora]'")
    ids = torch.arange(12)[None]
    theirs = peft.PeftModel.from_pretrained(toy_model(), folder)(ids).logits
    merge_adapter(model, folder)
    assert torch.allclose(model(ids).logits, theirs, atol=1e-4)
    own = peft.get_peft_model(toy_model(), peft.LoraConfig(r=3, lora_alpha=6, target_modules="all-linear"))
    for name, weight in own.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    own.save_pretrained(folder.parent / "theirs")
    again = toy_model()
    merge_adapter(again, folder.parent / "theirs")
    assert torch.allclose(again(ids).logits, own(ids).logits, atol=1e-4)


def test_weights_that_were_rounded_are_still_the_same(folder: Path) -> None:
    merge_adapter(toy_model().bfloat16(), folder)
    noisy = toy_model()
    with torch.no_grad():
        for weight in noisy.parameters():
            weight += 0.08 * weight.std() * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    merge_adapter(noisy, folder)


def test_an_adapter_of_other_weights_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(LoadError, match=r"adapter in .* was trained for other weights than these"):
        merge_adapter(toy_model(seed=1), folder)
    with pytest.raises(LoadError, match=r"belongs to another model: its model\.layers\.0\..* is 32 x 64, not 64 x 128"):
        merge_adapter(toy_model(hidden=64), folder)
    with pytest.raises(LoadError, match=r"belongs to another model: this one has no matrix model\.layers\.1\."):
        merge_adapter(toy_model(layers=1), folder)
    write_adapter(tmp_path / "unsigned", random_adapter(toy_model(), sampled=False), base="toy")
    merge_adapter(toy_model(seed=1), tmp_path / "unsigned")  # nothing is known of its weights but their shapes


def test_the_embedding_is_not_changed_by_the_way() -> None:
    model = toy_model()
    model.lm_head.weight = model.get_input_embeddings().weight
    adapter = Adapter({"lm_head": (torch.zeros(2, 32), torch.zeros(320, 2))}, alpha=4.0)
    folder = Path(__file__).parent / "nowhere"
    with pytest.raises(LoadError, match="cannot be read"):
        merge_adapter(model, folder)
    from pastalang.runtime.models.adapters import _check_shapes, _matrices

    with pytest.raises(LoadError, match="has no matrix lm_head"):
        _check_shapes(adapter, dict(_matrices(model)), folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "describes no adapter of the kind LORA"),
        ({"use_dora": True}, "sets use_dora, which cannot be merged"),
        ({"bias": "all"}, "sets bias"),
        ({"alpha_pattern": {"q_proj": 3}}, "sets alpha_pattern"),
        ({"lora_alpha": None}, "cannot be read"),
    ],
)
def test_what_cannot_be_merged_is_named(change: dict[str, Any], message: str, model: Any, folder: Path) -> None:
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | change))
    refused(model, folder, message)


def test_a_file_of_other_tensors_is_refused(model: Any, folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    first = next(iter(tensors))
    save_file({**tensors, "base_model.model.norm.weight": torch.zeros(3)}, path)
    refused(model, folder, r"base_model\.model\.norm\.weight is no part of a pair of low rank")
    save_file({name: tensor for name, tensor in tensors.items() if name != first}, path)
    refused(model, folder, "is no part of a pair|do not fit")
    path.write_bytes(b"noise")
    refused(model, folder, "cannot be read")
    path.unlink()
    refused(model, folder, "cannot be read")


def refused(model: Any, folder: Path, message: str) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        merge_adapter(model, folder)
    assert len(str(caught.value).splitlines()) == 1


# ── by name ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def shipped(weights: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package has an adapter `extract` for pasta-mini, which is its own."""
    package = tmp_path / "package"
    package.mkdir()
    weights.rename(package / "pasta-mini")
    folder.rename(package / "pasta-mini" / "extract")
    monkeypatch.setattr(sources, "WEIGHTS", package)
    return package


def test_a_name_means_an_adapter_of_the_package(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract = shipped / "pasta-mini" / "extract"
    assert adapter_folder("pasta-mini", "extract") == extract
    assert adapter_folder("pasta-mini", "own") is adapter_folder("pasta-mini", None) is None
    monkeypatch.setitem(sources.KNOWN, "pasta-mini", replace(sources.KNOWN["pasta-mini"], own="extract"))
    assert adapter_folder("pasta-mini", "own") == extract
    engines = [Engine.load("pasta-mini", cells=512, **how) for how in ({}, {"adapter": "extract"}, {"adapter": None})]
    assert [engine.trained_for for engine in engines] == [NOTE, NOTE, None]
    assert answer(engines[0]) == answer(engines[1]) != answer(engines[2])


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("extrakt", r"there is no adapter extrakt; pasta-mini has extract, and a folder of that name does not exist"),
        (str(Path(__file__).parent), r"holds no adapter: it has no adapter_config\.json"),
    ],
)
def test_an_adapter_that_does_not_exist_is_refused(named: str, message: str, shipped: Path) -> None:
    with pytest.raises(LoadError, match=message):
        Engine.load("pasta-mini", adapter=named)


def test_the_adapter_of_the_package_says_what_it_is() -> None:
    folder = adapter_folder("smollm2", "extract")
    assert folder is not None and sum(path.stat().st_size for path in folder.iterdir()) < 10_000_000
    adapter, note = read_adapter(folder), read_note(folder)
    assert note is not None and set(note.modes) == set(Mode) and adapter.sample is not None
    assert {down.dtype for down, _ in adapter.pairs.values()} == {torch.bfloat16}
    runs = json.loads((folder / "runs.json").read_text(encoding="utf-8"))
    assert all(run["command"].startswith("python -m recipes.smollm2") for run in runs)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "OA-Mine" in card and "development set" in card


def test_a_loaded_model_takes_no_adapter(model: Any, folder: Path) -> None:
    with pytest.raises(LoadError, match="merge it into the model that you pass"):
        Engine.load(model, byte_tokenizer(), adapter=folder)


def test_another_adapter_is_another_revision(shipped: Path, model: Any, tmp_path: Path) -> None:
    bare = revision_of("pasta-mini", None)
    assert bare == revision_of("pasta-mini") != revision_of("pasta-mini", "extract")
    write_adapter(tmp_path / "other", replace(random_adapter(model, seed=1)), base="toy")
    assert revision_of("pasta-mini", tmp_path / "other") not in (bare, revision_of("pasta-mini", "extract"))


def test_the_command_line_names_adapters(shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "p.pasta").write_text(
        'template t(title: text)\nuser """{title}"""\nassistant json { brand: string(max=4), size: string(max=4) }\n'
    )

    def run(*words: str) -> Any:
        return pasta("run", tmp_path / "p.pasta", "-i", "title=x", "--model", "pasta-mini", *words)

    assert run("--adapter", "none").stdout == run().stdout != run("--adapter", "extract").stdout
    wrong = run("--adapter", "other")
    assert wrong.exit_code == 3 and "--adapter: there is no adapter other; pasta-mini has extract" in wrong.stderr
