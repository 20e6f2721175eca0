"""GGUF files in llama.cpp: the same tokens as elsewhere, what is not carried, and what becomes of a step that fails.

That sequences carry every dense plan is a property of `tests/properties`, whose models keep them without llama.cpp.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pastalang
from pastalang import Engine, InputError, LoadError, OutOfMemory, Sampling
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_score
from pastalang.testing.llama_memory import CarriedModel
from tests.oracle.toy_gguf import TEMPLATE, write_gguf

PROGRAM = pastalang.compile('''
template t(title: text)
user """{title}"""
assistant json {
  brand: string(max=4), price: string(max=4), size: "s" | "m" | null, names: [{ name: string(max=5) }](1..4)
  headline: string(max=8) after brand, price
}
''')
INPUTS = [{"title": title} for title in ("Sharp TV", "Nokia phone", "A pot of tea")]
WARM = Sampling(temperature=1.0)


def texts(engine: Engine) -> list[str]:
    found = engine.batch(PROGRAM, INPUTS, on_truncated="keep", sampling=WARM)
    engine.check_integrity()
    return [str(getattr(one, "text", one)) for one in found]


def carried(rows: int = 128) -> Engine:
    return Engine(CarriedModel(hashed_score(320), vocabulary=320, rows=rows), byte_tokenizer())


def test_few_sequences_make_branches_wait_and_change_no_answer() -> None:
    assert texts(carried(rows=9)) == texts(carried(rows=30)) == texts(carried())
    with pytest.raises(OutOfMemory, match="wants a sequence of its own, and all 3 are in use"):
        carried(rows=3).run(PROGRAM, INPUTS[0])


def test_plans_that_are_not_carried_are_refused() -> None:
    with pytest.raises(InputError, match=r'llama\.cpp does not carry lock-step: .* load the model without `host="lla'):
        carried().run(PROGRAM, INPUTS[0], mode="lockstep")
    with pytest.raises(InputError, match=r'carries dense plans only, .* leave out `placement="gaps"`'):
        carried().run(PROGRAM, INPUTS[0], placement="gaps")
    with pytest.raises(InputError, match=r'this one has gaps: build it with `placement="dense"`'):
        carried().run(pastalang.build_plan(PROGRAM.only_template, PROGRAM), INPUTS[0])


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Any]:
    for package in ("llama_cpp", "gguf", "accelerate"):
        pytest.importorskip(package, reason=f"GGUF files in llama.cpp take {package}: pip install 'pastalang[llama]'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "toy.gguf", write_gguf(tmp_path / "toy.gguf", vocabulary=258)  # as many as the tokenizer


def test_a_file_answers_in_float32_as_its_weights_do_elsewhere(toy: tuple[Path, Any]) -> None:
    there = Engine.load(toy[1], byte_tokenizer(words=["ab"], chat_template=TEMPLATE), cells=2048, placement="dense")
    here = Engine.load(toy[0], host="llama.cpp", dtype="float32", cells=2048)
    assert texts(here) == texts(there) == texts(here)
    guessed = here.batch(PROGRAM, [*INPUTS, *INPUTS], drafts=4, on_truncated="keep", sampling=WARM)
    assert [one.text for one in guessed] == 2 * texts(there)  # type: ignore[union-attr]
    assert sum(one.usage.drafted_tokens for one in guessed) > 0  # type: ignore[union-attr]
    named = Engine.load(f"llama.cpp:{toy[0]}", dtype="float32", cells=2048)
    assert texts(named) == texts(here)
    assert named.run(PROGRAM, INPUTS[0]).usage.reused_tokens > 0


def test_a_step_that_fails_leaves_nothing_behind(toy: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.load(toy[0], host="llama.cpp", dtype="float32", cells=2048)
    expected, right, steps = texts(engine), engine.model.context.decode, iter(range(9))  # type: ignore[attr-defined]

    def fail(*given: Any) -> Any:
        if next(steps, 0) == 3:
            raise ConnectionError("the device is gone")
        return right(*given)

    monkeypatch.setattr(engine.model.context, "decode", fail)  # type: ignore[attr-defined]
    with pytest.raises(ConnectionError):
        texts(engine)
    assert texts(engine) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [({"host": "llamacpp"}, r"not 'llamacpp'; did you mean llama\.cpp\?"), ({"dtype": "bfloat16"}, "that of the KV ca"),
     ({"adapter": "x"}, "without an adapter"), ({"source": "some/name"}, "GGUF files, and some/name is none")],
)  # fmt: skip
def test_what_cannot_be_loaded_is_named(given: dict[str, Any], message: str, toy: tuple[Path, Any]) -> None:
    with pytest.raises(LoadError, match=message):
        Engine.load(**{"source": toy[0], "host": "llama.cpp", **given})


def test_a_file_without_a_tokenizer_or_of_another_kind_is_refused(toy: tuple[Path, Any]) -> None:
    write_gguf(toy[0], tokenizer=False)
    with pytest.raises(LoadError, match=r"holds no tokenizer"):
        Engine.load(toy[0], host="llama.cpp")
    toy[0].write_bytes(toy[0].read_bytes()[:3000])
    with pytest.raises(LoadError, match="is cut off or damaged"):
        Engine.load(toy[0], host="llama.cpp")


@pytest.mark.parametrize(
    ("function", "found", "message"),
    [("llama_model_is_recurrent", True, "it is recurrent, and branches share the cells of a KV cache, which it has no"),
     ("llama_model_n_swa", 512, "its layers see a window"), ("llama_model_rope_type", 8, "have several positions each"),
     ("llama_vocab_type", 0, "holds no tokenizer: convert the model")],
)  # fmt: skip
def test_models_without_a_cell_for_each_token_are_refused(
    function: str, found: int, message: str, toy: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"llama_cpp.llama_cpp.{function}", lambda _: found)
    with pytest.raises(LoadError, match=message):
        Engine.load(toy[0], host="llama.cpp")
