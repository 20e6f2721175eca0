"""What users may rely on: the public names, and examples that check, are formatted and planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pastalang
from examples import check

EXAMPLES = sorted(Path("examples").glob("*.pasta"))


def test_the_public_names_are_these_and_can_be_used() -> None:
    names = """
    After Answer BadInputs BadList Cancelled DeadEnd Diagnostic Done Engine Event Extraction Failed FieldAgain
    FieldDone FieldResult FieldStarted FileError HostError InputError Invalid Joined Limits LoadError Mode
    NotExpressible NotFiniteLogits OutOfMemory Partial PastaError Plan PlanError Problem Program ProgramError
    RemoteEngine Result RunError RuntimeFailure Sampling Sequential TextDelta Tokens TooLong Trace Truncated
    Truncation TruncationWarning Unsupported Usage ValidatorFailed Verbatim WrongMode aextract aextract_many
    astream_model build_plan check_path check_source compile connect extract extract_many from_model from_outlines
    from_schema load model_of schema_of stream_model
    """
    assert sorted(pastalang.__all__) == names.split()
    assert all(getattr(pastalang, name) is not None for name in pastalang.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'complie'"):
        pastalang.complie  # noqa: B018


def test_compile_can_be_called_before_and_after_its_module_is_imported() -> None:
    text = "template t()\nassistant json {a: date}"
    assert pastalang.load(EXAMPLES[0]).only_template.name == "product"
    assert list(pastalang.compile(text).templates) == ["t"]


def test_there_are_nine_examples_numbered_without_gaps() -> None:
    numbered = [path.name[:2] for path in EXAMPLES if path.stem != "tips"]  # which needs weights of its own
    assert numbered == [f"{number:02}" for number in range(1, len(numbered) + 1)] and len(numbered) >= 9


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_is_for_and_has_inputs_to_try(path: Path) -> None:
    assert path.read_text("utf-8").startswith("# ")
    given = json.loads((path.parent / "data" / f"{path.stem}.json").read_text("utf-8"))
    (template,) = pastalang.load(path).templates.values()
    needed = {one.name for one in template.inputs if one.default is None}
    assert needed <= given.keys() <= {one.name for one in template.inputs}


def test_the_make_target_is_content_with_every_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main() == 0
    assert f"{len(EXAMPLES)} examples" in capsys.readouterr().out


def test_every_exception_is_in_the_module_of_errors_too() -> None:
    from pastalang import errors

    public = {name: getattr(pastalang, name) for name in pastalang.__all__}
    raised = {name for name, one in public.items() if isinstance(one, type) and issubclass(one, Exception)}
    assert pastalang.InputError.__module__ == errors.__name__
    assert dir(errors) == sorted(raised) and all(getattr(errors, name) is getattr(pastalang, name) for name in raised)
