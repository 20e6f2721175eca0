"""The parallel decoding experiment: its data sets and their split, resuming, and the statements of its report."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import attributes, own_labels
from benchmarks.hpd.__main__ import main
from benchmarks.hpd.certainty import difference, interval, mean_difference
from benchmarks.hpd.documents import Name, read_corpus, taught
from benchmarks.hpd.judged import judge_by, judged
from benchmarks.hpd.measure import Way, load_engine, measure
from benchmarks.hpd.report import BY_HAND
from benchmarks.hpd.rival import first_object
from benchmarks.hpd.work import OutOfTime, Work
from pastalang import Mode
from pastalang.training.errors import BadData, BadRow
from pastalang.training.metrics import Example, evaluate
from tests.hosts.stand_in import StandIn, listening
from tests.oracle.toy_models import save_toy


def titles(path: Path, count: int = 30) -> Path:
    """Rows of one category in the form of OA-Mine and AE-110k."""
    rows = [
        {
            "input": f"Tea {n} red or blue",
            "category": "Tea",
            "target_scores": {"Name": {f"Tea {n}": 1}, "Hue": {"rouge": 1, "red": 1}, "Size": {"n/a": 1}},
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def offers(path: Path) -> Path:
    """Rows in the form of WDC-PAVE, packed."""
    rows = [
        {
            "input_title": f"Cup {n}",
            "input_description": f"A cup of {n} oz" if n % 2 else None,
            "category": "Cups",
            "cluster_id": n // 20,
            "target_scores": {"Volume": {f"{n} oz" if n % 2 else "n/a": {"pid": [1], "score": 1}}},
        }
        for n in range(40)
    ]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


def test_a_tenth_of_the_titles_is_held_out_and_all_that_training_knows_is_asked_for(tmp_path: Path) -> None:
    corpus = read_corpus(Name.AE_110K, titles(tmp_path / "rows.jsonl"))
    assert len(corpus.train) + len(corpus.held_out) == 30
    assert 1 <= len(corpus.held_out) <= 8
    assert corpus.asked == {"Tea": ("Name", "Hue", "Size")}
    document = corpus.train[0]
    assert document.accepted["Hue"] == ("rouge", "red")
    assert taught(document, (*corpus.asked["Tea"], "Weight")) == {
        "Name": document.accepted["Name"][0], "Hue": "red", "Size": None, "Weight": None,
    }  # fmt: skip


def test_a_description_follows_the_title_and_known_products_are_counted(tmp_path: Path) -> None:
    corpus = read_corpus(Name.WDC_PAVE, offers(tmp_path / "rows.jsonl.gz"))
    texts = {document.title: document.text for document in (*corpus.train, *corpus.held_out)}
    assert texts["Cup 3"] == "Cup 3\nA cup of 3 oz"
    assert texts["Cup 4"] == "Cup 4"
    assert corpus.known_products == len(corpus.held_out)


def test_a_row_in_another_form_is_reported_with_its_line(tmp_path: Path) -> None:
    path = titles(tmp_path / "rows.jsonl", 2)
    path.write_text(path.read_text("utf-8") + '{"input": "x"}\n', encoding="utf-8")
    with pytest.raises(BadRow, match=r"rows\.jsonl:3: has no title, category"):
        read_corpus(Name.OA_MINE, path)


def test_attributes_that_are_asked_for_count_even_if_no_answer_names_them() -> None:
    assert evaluate([], asked={"Tea": ("Name",)}).documents == 0
    report = evaluate([Example("Tea", {"Name": ["Numi"]}, {"Name": "Numi", "Hue": "red"})], asked={"Tea": ("Hue",)})
    assert (report.reported.f1, report.strict.hallucination_rate) == (100.0, 100.0)


def test_a_difference_comes_with_its_confidence_interval() -> None:
    good: dict[str, Any] = {"per_document": [[5, 5, 5]] * 20}
    bad: dict[str, Any] = {"per_document": [[1, 5, 5]] * 20}
    assert (str(difference(good, good)), difference(good, good).verdict) == ("+0.0 points (+0.0 … +0.0)", "the same")
    assert (round(difference(bad, good).points), difference(bad, good).verdict) == (-80, "worse")
    assert round(mean_difference([(bad, good), (good, good)]).high) == -40
    mixed: dict[str, Any] = {"per_document": [[5, 5, 5], [0, 5, 5]] * 10}
    other: dict[str, Any] = {"per_document": [[0, 5, 5], [5, 5, 5]] * 10}
    unsure = difference(mixed, other)
    assert unsure.low < 0 < unsure.high and unsure.verdict == "no difference shown"


def test_f1_is_the_mean_of_the_seeds_and_a_verdict_needs_all_of_them() -> None:
    good, bad = [[5, 5, 5]] * 20, [[1, 5, 5]] * 20
    alone = difference({"per_document": good}, {"per_document": bad})
    for other in (bad, [bad, bad]):
        both = difference({"per_document": [good, good]}, {"per_document": other})
        assert (both.low, both.high, both.verdict, both.seeds) == (alone.low, alone.high, "better", (80.0, 80.0))
    unsure = difference({"per_document": [good, bad, good]}, {"per_document": good})
    assert (round(unsure.points, 1), unsure.verdict) == (-26.7, "no difference shown")
    assert str(unsure) == "-26.7 points (-26.7 … -26.7; seeds +0.0, -80.0, +0.0)"
    assert interval({"per_document": [good, bad]}) == (60.0, 60.0)
    with pytest.raises(AssertionError):
        difference({"per_document": [good, good, good]}, {"per_document": [bad, bad]})


def test_a_part_is_made_once_and_none_starts_after_the_time_limit(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> dict[str, Any]:
        made.append(1)
        return {"f1": 1.0}

    work = Work(tmp_path, "figures", None, lambda _: None)
    assert work.part("a/b", make) == work.part("a/b", make) == {"f1": 1.0}
    assert len(made) == 1
    late = Work(tmp_path, "figures", -1.0, lambda _: None)
    assert late.part("a/b", make) == {"f1": 1.0}
    with pytest.raises(OutOfTime):
        late.part("c", make)


def test_an_object_at_the_start_is_read_whatever_follows() -> None:
    assert first_object(' {"a": "b", "c": 5, "d": null} and so on') == {"a": "b", "c": "5", "d": None}
    assert first_object("[1]") is None
    assert first_object('{"a": "b') is None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("mode", Mode)
def test_stacked_documents_have_the_scores_of_documents_alone(mode: Mode, model: Path, tmp_path: Path) -> None:
    corpus = read_corpus(Name.AE_110K, titles(tmp_path / "rows.jsonl"))
    engine = load_engine(model)
    alone, stacked = (
        measure(engine, corpus, corpus.train[:3], Way(mode, limit=6, stack=size, batch=1)) for size in (1, 2)
    )
    assert not alone["problems"] and not stacked["problems"]
    assert alone["per_document"] == stacked["per_document"]
    assert stacked["passes"] < alone["passes"]


def test_documents_of_a_category_can_share_one_prompt(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = attributes.plans_of(("Name", "Hue"), 2)(Mode.STRICT)
    result = load_engine(model).run(plan, {"text1": "Tea 1 red", "text2": "Pot 2 blue"}, on_truncated="keep")
    assert result.prompt.count("Hue: exact quote from text") == 1 and "1: Tea 1 red\n\n2: Pot 2 blue" in result.prompt
    for at, text in (("1", "Tea 1 red"), ("2", "Pot 2 blue")):
        assert all(value is None or value in text for value in result.exact[at].values())
    words = ["--oa-mine", titles(tmp_path / "rows.jsonl"), "--model", model, "--adapter", "none", "--dtype", "float32",
             "--mode", "strict", "--documents", 2, "--stacked", 2, "--generate", 1, "--judge", model]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["attributes", *map(str, words)])
    assert attributes.main() == 0
    said = capsys.readouterr().out
    assert "| none, strict, 2 in a prompt | 2 |" in said and "judges it: F1" in said and "times as long" in said


def test_a_judge_is_a_function_or_a_model_at_an_address() -> None:
    answers = [("a Sony TV", {"Brand": "Sony", "Size": None}), ("a TV", {"Brand": "Sharp", "Size": None})]
    found = judged(
        lambda text, _: {"Brand": "correct" if "Sony" in text else "hallucination", "Size": "correct null"}, answers
    )
    assert (found.precision, found.recall, round(found.f1, 1)) == (75.0, 100.0, 85.7)
    with listening(StandIn()) as address:  # which takes the first option
        assert judged(judge_by(address), answers).counts == {"correct": 2, "missing": 2}
    for said, wrong in (({"Brand": "correct"}, "of each attribute, Brand, Size"), ({"Brand": "", "Size": ""}, "says")):
        with pytest.raises(BadData, match=wrong):
            judged(lambda *_, said=said: said, answers)


def test_a_whole_run_is_reported_resumed_and_keeps_what_was_written_by_hand(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "hpd.md"
    words = [
        "--oa-mine", titles(tmp_path / "rows.jsonl"), "--model", model, "--steps", 1, "--rows", 1, "--documents", 1,
        "--stacked", 1, "--timed", 1, "--rounds", 1, "--tunings", "strict", "mixture", "--work", tmp_path / "work",
        "--out", out, "--seeds", 0, 1,
    ]  # fmt: skip
    assert main([*map(str, words), "--minutes", "-1"]) == 0
    assert "- Nothing was measured." in out.read_text("utf-8")
    assert main([*map(str, words)]) == 0
    said = capsys.readouterr().out
    assert said.count("── oa-mine/quality/base-strict-30-1-64") == 1
    assert said.count("── oa-mine/quality/strict-strict-30-1-64") == 2
    report = out.read_text("utf-8")
    for line in (
        "| base, strict | 30 |",
        "| tuned for one, strict | 10 |",
        "| tuned for one, free JSON | none |",
        "| mixture, lockstep | 30 |",
        "| generate |",
        "held-out documents; 2 seeds.",
    ):
        assert line in report
    assert "| tuned for one, lockstep |" not in report
    out.write_text(report + "By hand.\n", encoding="utf-8")
    assert main([*map(str, words)]) == 0
    assert "──" not in capsys.readouterr().out
    generated, _, kept = out.read_text("utf-8").partition(BY_HAND)
    assert (generated, "By hand." in kept) == (report.partition(BY_HAND)[0], True)


def test_own_labels_are_compared_with_those_of_people(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "own.md"
    words = [
        "--oa-mine", titles(tmp_path / "rows.jsonl"), "--model", model, "--steps", 1, "--rows", 1, "--documents", 1,
        "--trained", 2, "--min-confidence", 0, "--work", tmp_path / "work", "--out", out,
    ]  # fmt: skip
    assert own_labels.main([*map(str, words), "--minutes", "-1"]) == 0
    assert "| base | – | – | – |" in out.read_text("utf-8")
    assert own_labels.main([*map(str, words)]) == 0
    assert "── labels of people, strict" in capsys.readouterr().out
    report = out.read_text("utf-8")
    assert "2 documents to learn from" in report and "| base | 0.0 (0.0 … 0.0) |" in report
    assert own_labels.main([*map(str, words)]) == 0
    assert "── labels of people" not in capsys.readouterr().out and out.read_text("utf-8") == report


def test_a_model_folder_without_a_model_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", str(tmp_path)]) == 1
    assert "holds no model" in capsys.readouterr().err
