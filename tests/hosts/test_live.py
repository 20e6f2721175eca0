"""Programs on servers as they are: our own, that of transformers, and that of llama.cpp.

    PASTALANG_LLAMA_SERVER="path/to/llama-server path/to/model-f32.gguf"   where the last of them is

Where our own server, or llama.cpp's, draws greedily from the same weights in float32, its values are those of this
process with values placed densely. The programs are those of the corpus and the examples whose answers a server can be
asked for. Two of them are left out for llama.cpp: they have a value that sees two others which do not see each other.
Those two stand at the same positions in this process, and one behind the other in the prompt of a server.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

import pastalang
from pastalang.errors import HostError, PastaError

ROOT = Path(__file__).parents[2]
CORPUS, EXAMPLES = ROOT / "tests" / "corpus" / "valid", ROOT / "examples"
LISTING = "Norvika Coffee, Dark Roast, 12 oz, bought in Oslo on 2024-03-05 for 12.50 EUR"
# Their values depend on nothing that a JSON schema does not say, such as `after`, quotations and limits in tokens.
_SAME = """
all-built-in-types carriage-returns-and-line-feeds chat-history commas-and-line-ends-together
commas-instead-of-line-ends comment-signs-without-text described-types-and-fields
emoji-and-right-to-left-marks-in-strings empty-object escapes-in-strings
everything-on-one-line formatting-switched-off hash-inside-strings-and-patterns json-answer-of-a-named-type
key-with-a-python-name literals-of-every-kind maps named-types names-in-other-scripts nested-objects
no-line-end-at-the-end-of-the-file numbers-as-written object-or-null object-with-one-field-called-string patterns
quoted-keys recursive-type smallest-program spread tabs-for-indentation tuples
union-over-several-lines unions-of-types very-long-field
"""
_SAID = "after-several-fields array-of-objects blank-lines-in-odd-places defaults sequential-group"  # they have such
_TEXTS = """
answer-without-the-word-text async-block backslashes-in-text blank-lines-in-text doubled-braces fork-tree
hole-in-running-text hole-with-several-stops text-on-one-line
"""
SAME = _SAME.split()
ALIKE = [*SAME, *_SAID.split(), *_TEXTS.split()]


def program_and_inputs(name: str) -> tuple[Any, dict[str, Any]]:
    if name[0].isdigit():
        given = json.loads((EXAMPLES / "data" / f"{name}.json").read_text("utf-8"))
        return pastalang.load(EXAMPLES / f"{name}.pasta"), given
    program = pastalang.load(CORPUS / f"{name}.pasta")
    return program, {one.name: LISTING for one in program.only_template.inputs if one.default is None}


@cache
def mini() -> pastalang.Engine:
    return pastalang.Engine.load("pasta-mini", placement="dense", cells=4096)


@contextmanager
def started(*words: str) -> Iterator[str]:
    """The address of a server in a process of its own, once it lists its models."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*words, "--host", "127.0.0.1", "--port", str(port)], env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            address, end = f"http://127.0.0.1:{port}/v1", time.monotonic() + 240
            while not _lists_models(address):
                assert process.poll() is None and time.monotonic() < end, f"{words[0]} did not start"
                time.sleep(0.2)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:  # transformers serve ends after all that it was asked for
                process.kill()


def _lists_models(address: str) -> bool:
    try:
        return httpx.get(f"{address}/models", timeout=2).is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def ours() -> Iterator[pastalang.RemoteEngine]:
    command = (sys.executable, "-m", "pastalang", "serve", "pasta-mini", "--placement", "dense")
    with started(*command) as address, pastalang.connect(address, timeout=60) as engine:
        yield engine


@pytest.mark.parametrize("name", SAME)
def test_our_server_gives_the_values_of_this_process(name: str, ours: pastalang.RemoteEngine) -> None:
    program, inputs = program_and_inputs(name)
    found = ours.run(program, inputs, on_truncated="keep")
    assert found.exact == mini().run(program, inputs, on_truncated="keep").exact
    assert found.usage.mode == "whole"


@pytest.mark.long
def test_a_server_that_keeps_to_no_schema_gives_a_value_of_the_type_or_one_clear_error() -> None:
    """`transformers serve` takes a JSON schema and does not look at it, so that its answers take minutes."""
    command = shutil.which("transformers", path=str(Path(sys.executable).parent)) or shutil.which("transformers")
    if command is None:
        pytest.skip("there is no command `transformers`")
    pytest.importorskip("accelerate", reason="transformers serve needs pip install 'transformers[serving]'")
    folder = Path(pastalang.__file__).parent / "weights" / "pasta-mini"
    program, inputs = program_and_inputs("after-several-fields")
    with (
        started(command, "serve", str(folder), "--device", "cpu") as address,
        pastalang.connect(f"{address}#{folder}", timeout=300) as engine,
    ):
        try:
            assert engine.run(program, inputs, on_truncated="keep").usage.mode == "whole"
        except HostError as problem:
            assert "the server's 3 answers do not fit their type" in str(problem)


@pytest.mark.long
def test_llama_cpp_gives_the_values_of_this_process() -> None:
    named = os.environ.get("PASTALANG_LLAMA_SERVER", "").split()
    if len(named) != 2:
        pytest.skip("PASTALANG_LLAMA_SERVER names no llama-server and GGUF file")
    local = pastalang.Engine.load(named[1], dtype="float32", placement="dense")
    differing = []
    with (
        started(named[0], "--model", named[1], "--parallel", "4", "--ctx-size", "16384", "--threads", "1") as address,
        pastalang.connect(address, tokenizer=named[1]) as engine,
    ):
        assert engine.kind.value == "llama.cpp"
        for name in ALIKE:
            program, inputs = program_and_inputs(name)
            try:
                found = engine.run(program, inputs, on_truncated="keep")
            except PastaError as problem:
                differing.append(f"{name}: {problem}")
                continue
            wanted = local.run(program, inputs, on_truncated="keep")
            if found.exact != wanted.exact:
                differing.append(f"{name}: {found.exact} for {wanted.exact}")
    assert not differing, "\n".join(differing)
