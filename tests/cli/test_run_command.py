"""`pasta run` with a small model: what it prints and where, the files that it writes, and its exit codes."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from pastalang import Mode
from pastalang.runtime.models import loading, source
from pastalang.runtime.models.llama import LlamaModel
from pastalang.runtime.models.training_note import TrainingNote
from tests.command import pasta

PROGRAM = """\
template product(title: text, stars: integer = 3) with (temperature=1.0)

user \"\"\"
{stars}: {title}
\"\"\"

assistant json {
  brand: string(max=6)
  kind: "tv" | "phone"
  headline: string(max=5) after brand
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "product.pasta"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


run = partial(pasta, "run")


def refused(code: int, *words: object) -> str:
    """The message of a run that prints no answer."""
    result = run(*words)
    assert result.exit_code == code, result.stderr
    assert result.stdout == "" and "Traceback" not in result.stderr
    return result.stderr


def test_the_answer_goes_to_the_standard_output_and_fields_to_the_standard_error(program: Path, model: Path) -> None:
    result = run(program, "--model", model, "--input", "title=x")
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert list(value) == ["brand", "kind", "headline"]
    *fields, note = result.stderr.splitlines()
    assert {line.split(":")[0] for line in fields} == set(value)
    assert note == (
        "note: values were cut at their limits: brand (6 tokens), headline (5 tokens);"
        ' raise their limits, or set `--on-truncated` to "keep", "null" or "raise"'
    )


def test_what_becomes_of_a_cut_value_can_be_chosen(program: Path, model: Path) -> None:
    kept = run(program, "--model", model, "--input", "title=x", "--on-truncated", "keep")
    assert kept.exit_code == 0 and "note:" not in kept.stderr
    said = refused(1, program, "--model", model, "--input", "title=x", "--on-truncated", "raise")
    assert "cut at its limit: brand (6 tokens), headline (5 tokens)" in said


def test_with_json_one_object_is_all_that_is_printed(program: Path, model: Path) -> None:
    result = run(program, "--model", model, "--input", "title=x", "--json")
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert result.stderr == ""
    assert list(found) == ["value", "text", "fields", "usage", "truncations"]
    cut = {"limit": 6, "unit": "token", "became": "keep"}
    assert found["truncations"][0] == {"field": "brand", **cut}
    assert json.loads(found["text"]) == found["value"]
    assert found["usage"]["forward_passes"] == found["usage"]["critical_path"] > 0
    for field in found["fields"]:
        assert found["text"][slice(*field["span"])] == field["text"]


def test_a_thought_is_printed_next_to_the_answer(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "thought.pasta"
    file.write_text('template t()\nuser """Go."""\nassistant think(max=8) json {a: boolean}', encoding="utf-8")
    found = json.loads(run(file, "--model", model, "--json").stdout)
    assert list(found["value"]) == ["a"] and isinstance(found["thinking"][0], str)
    saved = tmp_path / "plan.json"
    saved.write_text(pasta("plan", file, "--format", "json").stdout, encoding="utf-8")
    again = json.loads(run(saved, "--model", model, "--json").stdout)
    assert (again["text"], again["thinking"]) == (found["text"], found["thinking"])


def test_the_timeline_says_who_decoded_when(program: Path, model: Path) -> None:
    lines = run(program, "--model", model, "--input", "title=x", "--timeline").stdout.splitlines()
    names = [line.split()[0] for line in lines[-5:]]
    assert "forward passes" in lines[-5]
    assert names[1:] == ["main", "brand", "kind", "headline"]


def test_a_trace_is_written_as_its_ending_says(program: Path, model: Path, tmp_path: Path) -> None:
    files = {ending: tmp_path / f"run.{ending}" for ending in ("jsonl", "json", "html")}
    for file in files.values():
        assert run(program, "--model", model, "--input", "title=x", "--trace", file).exit_code == 0
    lines = map(json.loads, files["jsonl"].read_text("utf-8").splitlines())
    assert [line["name"] for line in lines if line["kind"] == "lane"] == ["", "brand", "kind", "headline"]
    assert json.loads(files["json"].read_text("utf-8"))["traceEvents"]
    assert files["html"].read_text("utf-8").startswith("<!doctype html>")


def test_each_line_of_inputs_is_a_run(program: Path, model: Path, tmp_path: Path) -> None:
    lines = tmp_path / "inputs.jsonl"
    odd = "y\u2028\u2029\x85y"  # no ends of lines in JSON
    lines.write_text(f'{{"title": "x"}}\n\n{{"title": "{odd}", "stars": 4}}\n', encoding="utf-8")
    found = run(program, "--model", model, "--inputs", lines, "-i", "stars=1")
    assert found.exit_code == 0
    alone = [run(program, "--model", model, "-i", f"title={title}", "-i", "stars=1") for title in ("x", odd)]
    assert [json.loads(line) for line in found.stdout.splitlines()] == [json.loads(one.stdout) for one in alone]
    lines.write_text('{"title": "x"}\n{"titel": "y"}\n', encoding="utf-8")
    assert refused(1, program, "--model", model, "--inputs", lines).startswith(f"{lines}:2: ")


def test_a_missing_input_is_reported_before_a_model_is_loaded(program: Path, model: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):  # no model, but nothing shows it before loading
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert refused(1, program, "--model", tmp_path) == "missing input `title` (text)\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--input", "title"), 2, "--input takes NAME=VALUE"),
        (("--input", "title=x", "--input", "stars=many"), 1, "the input `stars` has to be JSON"),
        (("--inputs", "nowhere.json"), 3, "there is no file nowhere.json"),
        (("--input", "title=@nowhere.txt"), 3, "there is no file nowhere.txt"),
        (("--input", "title=x", "--trace", "run.txt"), 2, "--trace takes a file that ends in .jsonl, .json or .html"),
        (("--input", "title=x", "--device", "quantum"), 2, "--device: a device is cpu, cuda or mps"),
        (("--input", "title=x", "--cells", "20"), 1, "load the model with more `cells`, or pass `--cells`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_on_the_command_line_is_reported(
    words: tuple[str, ...], code: int, message: str, program: Path, model: Path
) -> None:
    assert message in refused(code, program, "--model", model, *words)


def test_all_problems_of_the_inputs_are_reported_together(program: Path, model: Path, tmp_path: Path) -> None:
    words = ("-i", "title=a", "-i", "title=b", "-i", "stars=[", "-i", "colour=red")
    assert refused(1, program, "--model", model, *words).splitlines() == [
        "the input `title` is given twice",
        "the input `stars` has to be JSON, and `[` is not",
        "unknown input `colour`",
    ]
    file = tmp_path / "inputs.json"
    file.write_text('{"stars": "many", "brand": 1}', encoding="utf-8")
    assert refused(3, program, "--model", model, "--inputs", file, "-i", "title=@nofile").splitlines() == [
        "there is no file nofile",
        "unknown input `brand`",
        '`stars` has to be an integer, not "many"',
    ]


@pytest.mark.parametrize("value", ["true", "1.5", "[1, 2]", '"5"', "null", '{"a": null}'])
def test_a_value_of_the_wrong_type_is_shown_as_it_was_written(value: str, program: Path, model: Path) -> None:
    message = refused(1, program, "--model", model, "-i", "title=x", "-i", f"stars={value}")
    assert message == f"`stars` has to be an integer, not {value}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "brackets nest more than 64 deep (at character 65)"),
        ('{"title": "a", "title": "b"}', 'the key "title" occurs twice in one object (at character 16)'),
        ('{"title": "a", "stars": NaN}', "NaN is not a JSON number (at character 25)"),
        ('{\n  "title": "a",\n  "stars": [,]\n}', "not JSON: expecting value (at line 3, column 13)"),
        ("", "not JSON: nothing is written there"),
    ],
    ids=["deep", "twice", "NaN", "lines", "empty"],
)
def test_inputs_have_to_be_strict_json(text: str, message: str, program: Path, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "inputs.json"
    file.write_text(text, encoding="utf-8")
    assert refused(1, program, "--model", model, "--inputs", file) == f"{file}: {message}\n"


def test_a_number_that_is_too_large_is_shown_as_it_was_written(program: Path, model: Path) -> None:
    message = refused(1, program, "--model", model, "-i", "title=x", "-i", "stars=1e400")
    assert message == "the number 1e400 in `stars` is too large: numbers end near 1.8e308\n"


def test_an_input_file_that_is_not_text_is_reported(program: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert "is not UTF-8 text" in refused(3, program, "--model", model, "-i", f"title=@{tmp_path / 'bytes'}")
    assert "could not be read: is a directory" in refused(3, program, "--model", model, "-i", f"title=@{tmp_path}")


def test_a_byte_order_mark_is_not_part_of_an_input(program: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "title").write_bytes(b"\xef\xbb\xbfSony")
    (tmp_path / "inputs.json").write_bytes(b'\xef\xbb\xbf{"title": "Sony"}')
    answers = [
        run(program, "--model", model, *words).stdout
        for words in (
            ("-i", "title=Sony"),
            ("-i", f"title=@{tmp_path / 'title'}"),
            ("--inputs", tmp_path / "inputs.json"),
        )
    ]
    assert answers[0] and answers == answers[:1] * 3


def test_a_run_is_sampled_as_its_options_say(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "word.pasta"
    file.write_text('template t()\nuser """\nGo.\n"""\nassistant json { word: string, two: string(max=4) }\n', "utf-8")
    words = (file, "--model", model, "--json")

    def answer(*options: object) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run(*words, *options).stdout)
        return found

    greedy = answer()
    sampled = answer("--temperature", "3", "--seed", "5")
    assert sampled["text"] != greedy["text"] == answer("--temperature", "3", "--top-k", "1")["text"]
    assert greedy["text"] == answer("--temperature", "3", "--top-p", "1e-9")["text"]
    assert {one["field"]: one["limit"] for one in answer("--max-tokens", "9")["truncations"]} == {"word": 9, "two": 4}
    for option, value in (("--temperature", "-1"), ("--top-p", "2"), ("--top-k", "0"), ("--max-tokens", "2")):
        assert option in refused(2, *words[:-1], option, value)


def test_ctrl_c_stops_with_the_code_that_shells_know(
    program: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LlamaModel, "forward", stop)
    assert refused(130, program, "--model", model, "--input", "title=x") == "stopped\n"


def test_without_a_model_the_shipped_one_is_used(
    program: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "WEIGHTS", tmp_path)
    monkeypatch.setattr(loading, "default_dtype", lambda device: torch.float32)  # the dtype of the shipped model
    message = refused(3, program, "--input", "title=x")
    assert message.startswith("pasta-mini is not part of this installation") and message.count("\n") == 1
    (tmp_path / "pasta-mini").symlink_to(model)
    assert run(program, "--input", "title=x").stdout == run(program, "--model", model, "--input", "title=x").stdout
    monkeypatch.setattr(loading, "kernels_here", lambda: None)
    assert "choose float32" in refused(3, program, "--input", "title=x", "--dtype", "int8")


def test_a_mode_that_the_model_was_not_trained_for_needs_any_mode(program: Path, model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "trained")
    TrainingNote((Mode.LOCKSTEP,), "", "", "", {}).write(tmp_path / "trained")
    words = (program, "--model", tmp_path / "trained", "--input", "title=x")
    assert "trained for lockstep, and this run asks for strict" in refused(1, *words)
    assert run(*words, "--mode", "lockstep").exit_code == 0
    assert run(*words, "--any-mode").exit_code == 0


def test_with_json_an_error_is_one_object_too(program: Path, model: Path, tmp_path: Path) -> None:
    def error(code: int, *words: object) -> dict[str, Any]:
        result = run(*words, "--json")
        assert result.exit_code == code
        found: dict[str, Any] = json.loads(result.stdout)["error"]
        assert result.stderr == found["message"].rstrip("\n") + "\n"
        assert list(found) == ["code", "message", "field", "line"]
        return found

    assert error(1, program, "--model", model)["code"] == "bad_inputs"
    assert error(3, tmp_path / "nowhere.pasta", "--model", model)["code"] == "file-not-found"
    assert error(3, program, "--model", "./nowhere")["code"] == "unreadable"
    program.write_text(PROGRAM.replace("after brand", "after brnad"), encoding="utf-8")
    found = error(1, program, "--model", model)
    assert (found["code"], found["line"]) == ("unknown-name", 10)
    program.write_text(PROGRAM, encoding="utf-8")
    assert error(1, program, "--model", model, "-i", "title=x", "--cells", "20")["code"] == "out_of_memory"


def test_drafts_change_no_answer_on_the_command_line(model: Path, program: Path) -> None:
    def answer(*options: str) -> dict[str, Any]:
        return dict(json.loads(run(program, "-i", "title=tv tv tv", "--model", model, "--json", *options).stdout))

    plain, drafted = answer(), answer("--drafts", "4")
    assert plain["text"] == drafted["text"] and plain["usage"]["drafted_tokens"] == 0
    program.write_text(program.read_text().replace("temperature=1.0", 'drafts="off"'))
    assert answer("--drafts", "4")["usage"]["drafted_tokens"] == 0, "the program takes precedence"
    assert "takes auto, off or a whole number" in refused(2, program, "-i", "a=b", "--model", model, "--drafts", "x")
