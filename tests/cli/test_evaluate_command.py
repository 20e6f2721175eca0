"""`pasta evaluate`: the scores that it prints, and the files that it refuses."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch

from pastalang import Mode
from pastalang.runtime.models.adapters import Adapter, write_adapter
from pastalang.runtime.models.training_note import TrainingNote
from tests.command import pasta
from tests.rows import write_rows

PROGRAM = """\
template product(title: text)

user \"\"\"
{title}
\"\"\"

assistant json {
  brand: verbatim(title, max=6) | null
  kind: "tv" | "phone"
}
"""
ROWS = [
    {"title": "Sony", "value": {"brand": "Sony", "kind": "tv"}, "category": "tv"},
    {"title": "Nokia", "value": {"brand": None, "kind": "phone"}, "category": "phone"},
    {"title": "LG", "value": {"brand": "LG", "kind": "tv"}, "category": "tv"},
]
RIGHT = [{"value": {"brand": "Sony", "color": None, "size": {"width": 5}}, "category": "tv"}]


run = partial(pasta, "evaluate")


@pytest.mark.parametrize(
    ("value", "f1", "hallucinated", "unreadable"),
    [
        ({"brand": "Sony", "color": None, "size": {"width": 5}}, 100.0, 0.0, 0.0),
        ({"brand": "Sony", "color": "red", "size": {"width": 5}}, 80.0, 100.0, 0.0),
        (None, 0.0, 0.0, 100.0),
    ],
)
def test_it_prints_the_scores(value: Any, f1: float, hallucinated: float, unreadable: float, tmp_path: Path) -> None:
    files = write_rows(tmp_path / "right.jsonl", RIGHT), write_rows(tmp_path / "found.jsonl", [{"value": value}])
    found = json.loads(run(*files, "--json").stdout)
    assert found["reported"]["f1"] == pytest.approx(f1, abs=0.01)
    assert found["strict"]["hallucination_rate"] == hallucinated
    assert found["unparseable_rate"] == unreadable
    assert f"F1               {f1:.2f}" in run(*files).stdout


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    files = write_rows(tmp_path / "right.jsonl", RIGHT * 2), write_rows(tmp_path / "found.jsonl", RIGHT)
    result = run(*files)
    assert result.exit_code == 1 and "has 2 rows" in result.stderr


def test_a_row_without_a_value_is_reported_with_its_line(tmp_path: Path) -> None:
    files = write_rows(tmp_path / "right.jsonl", [{"brand": "Sony"}]), write_rows(tmp_path / "found.jsonl", RIGHT)
    result = run(*files)
    assert result.exit_code == 1 and "right.jsonl:1: the key `value` has to hold an object" in result.stderr


def test_an_object_in_place_of_null_counts_as_hallucinated(tmp_path: Path) -> None:
    right = write_rows(tmp_path / "right.jsonl", [{"value": {"price": None}}])
    given = write_rows(tmp_path / "found.jsonl", [{"value": {"price": {"amount": 5}}}])
    assert json.loads(run(right, given, "--json").stdout)["strict"]["hallucination_rate"] == 100.0
    assert "price          absent everywhere, and never filled" in run(right, right).stdout


@pytest.mark.parametrize(
    ("right", "given", "f1"),
    [
        ({"value": {"brand": "Sony"}, "accepted": {"brand": ["SONY"]}}, {"brand": "SONY"}, 100.0),
        ({"value": {"brand": "Sony"}, "accepted": {"brand": ["SONY"]}}, {"brand": "sony"}, 0.0),
        ({"value": {"size": {"width": 5}}, "accepted": {"size.width": [6, None]}}, {"size": {"width": 6.0}}, 100.0),
        ({"target_scores": {"Brand": {"Sony": 1, "SONY": 1, "LG": 0}}}, {"Brand": "SONY"}, 100.0),
        ({"target_scores": {"Brand": {"Sony": 1, "SONY": 1, "LG": 0}}}, {"Brand": "LG"}, 0.0),
        ({"target_scores": {"Size": {"5": 1}, "Cap": {"n/a": 1}}}, {"Size": 5, "Cap": None}, 100.0),
        ({"value": {"lines": [{"name": "a", "qty": 2}]}}, {"lines": [{"qty": 2.0, "name": "a"}]}, 100.0),
        ({"value": {"lines": [{"name": "a"}, {"name": "b"}]}}, {"lines": [{"name": "b"}, {"name": "a"}]}, 0.0),
        ({"value": {"a.b": "x"}}, {"a": {"b": "x"}}, 0.0),
        ({"value": {"a.b": "x"}}, {"a.b": "x"}, 100.0),
    ],
)
def test_values_are_compared_as_json_and_several_may_be_right(
    right: Any, given: Any, f1: float, tmp_path: Path
) -> None:
    files = write_rows(tmp_path / "right.jsonl", [right]), write_rows(tmp_path / "found.jsonl", [{"value": given}])
    result = run(*files, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["reported"]["f1"] == f1


@pytest.mark.parametrize(
    ("right", "message"),
    [
        ({"value": {"a": 1}, "accepted": {"b": [2]}}, "right.jsonl:1: `accepted` names `b`, and the value has `a`"),
        ({"value": {"a": 1}, "accepted": {"a": 2}}, "`accepted` has to hold an object with a list of values"),
        ({"target_scores": {"a": ["x"]}}, "`target_scores` has to hold an object with scored values"),
    ],
)
def test_wrong_lists_of_accepted_values_are_reported_with_their_line(right: Any, message: str, tmp_path: Path) -> None:
    files = write_rows(tmp_path / "right.jsonl", [right]), write_rows(tmp_path / "found.jsonl", [{"value": {"a": 1}}])
    result = run(*files)
    assert result.exit_code == 1 and message in result.stderr


def test_stacked_documents_are_scored_one_by_one(tmp_path: Path) -> None:
    right = write_rows(tmp_path / "right.jsonl", [{"value": [{"brand": "Sony"}, {"brand": "LG"}]}])
    given = write_rows(tmp_path / "found.jsonl", [{"value": [{"brand": "Sony"}, {"brand": "Sony"}]}])
    found = json.loads(run(right, given, "--json").stdout)
    assert (found["documents"], found["reported"]["f1"]) == (2, 50.0)
    shorter = write_rows(tmp_path / "shorter.jsonl", [{"value": [{"brand": "Sony"}]}])
    assert "shorter.jsonl:1: has 1 document, and" in run(right, shorter).stderr


@pytest.fixture
def asked(tmp_path: Path, model: Path) -> list[str]:
    """Options that let the model answer three rows."""
    program = tmp_path / "product.pasta"
    program.write_text(PROGRAM, encoding="utf-8")
    data = write_rows(tmp_path / "rows.jsonl", ROWS)
    return ["--model", str(model), "--program", str(program), "--data", data]


@pytest.mark.parametrize("mode", Mode)
def test_a_model_is_run_and_its_answers_can_be_scored_again(mode: Mode, asked: list[str], tmp_path: Path) -> None:
    report, predictions = tmp_path / "report.json", tmp_path / "found.jsonl"
    files = ["--out", str(report), "--predictions", str(predictions), "--batch", "2"]
    result = run(*asked, *files, "--mode", mode.value)
    assert result.exit_code == 0, result.stderr
    found = json.loads(report.read_text("utf-8"))
    assert (found["documents"], found["mode"], found["batch"], found["unparseable_rate"]) == (3, mode.value, 2, 0.0)
    assert found["passes_per_document"] > 0 and found["documents_per_second"] > 0
    assert f"F1               {found['reported']['f1']:.2f}" in result.stdout
    assert f"forward passes   {found['passes_per_document']:.1f} per document" in result.stdout
    assert (
        found["fields"].keys() == {"brand", "kind"}
        and f"  kind           F1 {found['fields']['kind']['f1']:.2f}" in result.stdout
    )
    assert json.loads(run(str(tmp_path / "rows.jsonl"), str(predictions), "--json").stdout).items() <= found.items()
    for row, line in zip(ROWS, predictions.read_text("utf-8").splitlines(), strict=True):
        value = json.loads(line)["value"]
        assert value["brand"] is None or value["brand"] in str(row["title"])


def test_rows_that_a_model_answers_may_accept_several_values(asked: list[str], tmp_path: Path) -> None:
    rows = [row | {"accepted": {"kind": ["tv", "phone"]}} for row in ROWS]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert json.loads(run(*asked, "--json").stdout)["fields"]["kind"]["f1"] == 100.0
    write_rows(tmp_path / "rows.jsonl", [ROWS[0] | {"accepted": {"knd": ["tv"]}}])
    assert "rows.jsonl:1: `accepted` names `knd`, and the value has `brand`, `kind`" in run(*asked).stderr


def test_a_row_that_cannot_be_evaluated_is_reported_with_file_and_line(asked: list[str], tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", [*ROWS, {"title": "LG", "value": {"brand": "Sony", "kind": "tv"}}])
    result = run(*asked)
    assert (result.exit_code, result.stdout) == (1, "") and "rows.jsonl:4: value" in result.stderr


def test_a_row_that_does_not_fit_into_memory_counts_as_unreadable(asked: list[str]) -> None:
    result = run(*asked, "--cells", "16", "--json")
    assert result.exit_code == 0 and "rows.jsonl:1: not decoded: " in result.stderr
    assert json.loads(result.stdout)["unparseable_rate"] == 100.0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "pass either the two files RIGHT and GIVEN, or --program and --data (and optionally --model)"),
        (["right.jsonl"], 2, "pass either the two files"),
        (["--model", "x", "--program", "y.pasta"], 2, "pass either the two files"),
        (["--model", "./nowhere", "--program", "PROGRAM", "--data", "DATA"], 3, "there is no folder ./nowhere"),
        (["--model", "MODEL", "--program", "PROGRAM", "--data", "none.jsonl"], 3, "there is no file none.jsonl"),
        (["none.jsonl", "none.jsonl"], 3, "there is no file none.jsonl"),
        ([".", "."], 3, ". could not be read: it is a folder, and holds no data set"),
        (["a", "b", "--out", "nowhere/report.json"], 3, "there is no folder nowhere"),
    ],
)
def test_wrong_usage_and_missing_files_are_reported(
    words: list[str], code: int, message: str, asked: list[str]
) -> None:
    known = {"MODEL": asked[1], "PROGRAM": asked[3], "DATA": asked[5]}
    result = run(*(known.get(word, word) for word in words))
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr


def test_a_model_trained_for_another_mode_needs_any_mode(asked: list[str], tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "trained"
    copytree(model, folder)
    TrainingNote((Mode.SEQUENTIAL,), "", "", "", {}).write(folder)
    words = ["--model", str(folder), *asked[2:]]
    refused = run(*words)
    assert refused.exit_code == 1 and "trained for sequential, and this run asks for strict" in refused.stderr
    assert run(*words, "--any-mode").exit_code == 0


AUTO = 'template t(word: text)\nuser """{word}"""\nassistant auto(pasta, max=9)\n'


@pytest.fixture
def threads(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "auto.pasta").write_text(AUTO, encoding="utf-8")
    (tmp_path / "counts.py").write_text('def letters(inputs, text):\n    return {"letters": (len(text), 9)}\n')
    (tmp_path / "judges.py").write_text(
        "def longer(inputs, one, other):\n"
        "    return 'tie' if len(one) == len(other) else 'first' if len(one) > len(other) else 'second'\n"
        "def vague(inputs, one, other):\n    return 'both'\n"
    )
    rows = [{"word": word, "value": "A", "category": kind} for word, kind in (("a", "one"), ("b", "two"))]
    data = write_rows(tmp_path / "r.jsonl", rows)
    return ["threads", "--model", str(model), "--program", "auto.pasta", "--data", data]


def test_threads_are_measured_with_the_adapter_that_is_named(threads: list[str], tmp_path: Path) -> None:
    pair = torch.ones(1, 32), torch.ones(32, 1)
    write_adapter(tmp_path / "up", Adapter({"model.layers.0.self_attn.q_proj": pair}, alpha=40.0), base="toy")
    found = [run(*threads, "--adapter", name, "--predictions", name + ".txt").exit_code for name in ("none", "up", "x")]
    assert found == [0, 0, 3] and (tmp_path / "none.txt").read_bytes() != (tmp_path / "up.txt").read_bytes()


def test_stacked_texts_are_scored_and_their_threads_not_measured(threads: list[str], tmp_path: Path) -> None:
    (tmp_path / "auto.pasta").write_text(AUTO.replace("word:", "each word:", 1), encoding="utf-8")
    write_rows(tmp_path / "r.jsonl", [{"word": ["a", "b"], "value": ["A", "B"]}])
    assert "`evaluate threads` is for programs that answer one document" in run(*threads).stderr
    found = [json.loads(run(*threads[1:], "--json", *words).stdout) for words in ((), ("--cells", "16"))]
    assert [(one["documents"], one["unparseable_rate"]) for one in found] == [(2, 0.0), (2, 100.0)]


def test_threads_are_measured_against_a_model_without_them(threads: list[str], model: Path, tmp_path: Path) -> None:
    result = run(*threads, "--baseline", str(model), "--score", "counts:letters", "--out", "report.json")
    assert result.exit_code == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert list(report["reports"]) == ["all", "one", "two"]
    assert report["reports"]["all"]["answers"] == 2
    assert report["reports"]["one"]["parts"]["letters"][2] == 9
    table = {line[:26].strip(): line[26:].split() for line in result.stdout.splitlines()}
    assert table[""] == ["all", "one", "two"] and table["answers"] == ["2", "1", "1"]
    assert {"theoretical speed-up", "realised, processor time", "right: letters"} <= table.keys()
    assert "without threads: cut by a limit" in result.stdout


def test_answers_are_judged_in_pairs_and_decoded_again_with_drafts(threads: list[str], tmp_path: Path) -> None:
    result = run(*threads, "--judge", "judges:longer", "--drafts", "4", "--out", "report.json")
    assert result.exit_code == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    judged = report["reports"]["all"]["judged"]  # against the right answers, for there is no baseline
    assert (judged["pairs"], judged["inconsistent"]) == (2, 0)
    assert report["reports"]["all"]["quality_of"] == "win rate at equal lengths"
    drafts = report["drafts"]
    assert (drafts["given"], drafts["same"], drafts["answers"]) == (4, 2, 2)
    assert drafts["passes"] <= drafts["passes_without"]
    assert "pairs won" in result.stdout and "with drafts: passes" in result.stdout


def test_reports_are_drawn_together(threads: list[str], model: Path, tmp_path: Path) -> None:
    assert run(*threads, "--baseline", str(model), "--out", "one.json").exit_code == 0
    drawn = run(*threads, "--plot", "both.png", "--add", "other=one.json")
    assert drawn.exit_code == 0, drawn.stderr
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    points = json.loads((tmp_path / "both.json").read_text("utf-8"))
    assert [point["name"] for point in points] == [model.name, "other"]
    assert points[0]["speed"] == points[1]["speed"] and points[0]["quality_of"] == "F1 of words"
    assert run("threads", "--plot", "again.png", "--add", "a=one.json", "--add", "b=one.json").exit_code == 0
    points = json.loads((tmp_path / "again.json").read_text("utf-8"))
    assert [point["name"] for point in points] == ["a", "b", model.name]
    (tmp_path / "lr=1").mkdir()
    (tmp_path / "lr=1" / "one.json").write_bytes((tmp_path / "one.json").read_bytes())
    assert run("threads", "--plot", "again.png", "--add", "lr=1/one.json").exit_code == 0
    text = (tmp_path / "one.json").read_text("utf-8")
    report = json.loads(text)
    report["reports"]["all"]["theoretical"] = float("nan")
    (tmp_path / "nan.json").write_text(json.dumps(report), encoding="utf-8")
    same = [*threads, "--plot", "a.png", "--add", "one.json"]
    for words, message in (
        (["--plot", "one.png", "--add", "one.json"], "this command reads one.json and would overwrite it"),
        ([*threads[1:], "--plot", "two.png", "--out", "two.json"], "--plot two.png writes two.json, too"),
        (same[1:], f"--add: two reports have the name {model.name}; write NAME=FILE"),
        (["--plot", "a.png", "--add", "=one.json"], "--add takes FILE or NAME=FILE, not =one.json"),
        (["--plot", "a.png", "--add", "one.json", "--out", "b.json"], "nothing is measured without --program and"),
        (["--plot", "a.png", "--add", "nan.json"], "--add nan.json: it is not a report of"),
        (["--plot", "a.svg", "--add", "one.json"], "--plot writes a file that ends in .png, not a.svg"),
        (["--plot", "a.png", "--add", "counts.py"], "counts.py: it is not a report of"),
        (["--plot", "a.png", "--add", "none.json"], "--add none.json: no such file"),
        (["--plot", "a.png", "--add", "one.json", "--add", "one.json"], "two reports have the name"),
        (["--add", "one.json"], "--add is for --plot"),
    ):
        assert message in run("threads", *words).stderr
    assert (tmp_path / "one.json").read_text("utf-8") == text and not (tmp_path / "a.png").exists()


def test_a_picture_that_cannot_be_drawn_costs_no_figures(threads: list[str], tmp_path: Path) -> None:
    assert run(*threads, "--score", "counts:letters", "--out", "counted.json").exit_code == 0
    result = run(*threads, "--out", "one.json", "--plot", "both.png", "--add", "counted=counted.json")
    assert result.exit_code == 1 and "theoretical speed-up" in result.stdout
    assert "F1 of words of " in result.stderr and "parts that are right of counted" in result.stderr
    assert json.loads((tmp_path / "one.json").read_text("utf-8"))["rows"] == 2


def test_a_baseline_with_the_name_of_its_model_is_drawn_apart(threads: list[str], model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / model.name
    copytree(model, other)
    assert run(*threads, "--baseline", str(other), "--plot", "both.png").exit_code == 0
    points = json.loads((tmp_path / "both.json").read_text("utf-8"))
    assert [point["name"] for point in points] == [model.name, f"{model.name}, baseline"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--score", "counts"], "--score is written MODULE:FUNCTION, not counts"),
        (["--score", "counts:words"], "--score counts:words: the module 'counts' has no 'words'"),
        (["--program", "product.pasta"], "`evaluate threads` is for programs with `assistant auto(...)`"),
    ],
)
def test_a_wrong_measure_of_threads_is_refused(more: list[str], message: str, threads: list[str], asked: Any) -> None:
    result = run(*threads, *more)
    assert result.exit_code == 2 and message in result.stderr


FAILING = """
def raises(*given):
    raise KeyError("x")
one = lambda text: {}
none = lambda *given: None
number = lambda *given: {"items": 7}
words = lambda *given: {"items": ("7", "8")}
above = lambda *given: {"items": (9, 8)}
below = lambda *given: {"items": (-1, 8)}
nan = lambda *given: {"items": (float("nan"), 8)}
both = lambda *given: "both"
"""


@pytest.mark.parametrize(
    ("option", "name", "code", "message"),
    [
        ("--judge", "raises", 1, "r.jsonl:1: the judge raises KeyError: 'x' (fails.py, line 3)"),
        ("--judge", "both", 1, "r.jsonl:1: the judge returns first, second or tie, or one of them with a confidence"),
        ("--score", "raises", 1, "r.jsonl:1: the score raises KeyError: 'x' (fails.py, line 3)"),
        ("--score", "one", 1, "r.jsonl:1: the score raises TypeError: "),
        *(("--score", name, 1, "r.jsonl:1: the score returns how many parts of each kind are right, of how many")
          for name in ("none", "number", "words", "above", "below", "nan")),
        ("--score", "nothing", 2, "--score fails:nothing: the module 'fails' has no 'nothing'"),
    ],
)  # fmt: skip
def test_a_function_that_fails_is_reported_with_its_row(
    option: str, name: str, code: int, message: str, threads: list[str], tmp_path: Path
) -> None:
    (tmp_path / "fails.py").write_text(FAILING, encoding="utf-8")
    result = run(*threads, option, f"fails:{name}")
    assert result.exit_code == code and message in result.stderr


@pytest.mark.parametrize("text", ["x = = 1", "raise ValueError('no')", "import nowhere_to_be_found", "exit(4)"])
def test_a_module_that_cannot_be_imported_is_reported(text: str, threads: list[str], tmp_path: Path) -> None:
    name = f"broken{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    result = run(*threads, "--score", f"{name}:f")
    assert result.exit_code == 3 and f"--score {name}:f: the module {name!r} cannot be imported: " in result.stderr


def test_options_for_threads_need_the_word(asked: list[str]) -> None:
    refused = run(*asked, "--rounds", "2", "--judge", "a:b").stderr
    assert "only `pasta evaluate threads` takes --judge, --rounds" in refused
    assert "`pasta evaluate threads` needs --program and --data" in run("threads").stderr
