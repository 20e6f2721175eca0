"""The test set of documents is sound, and `benchmarks.everyday` can be told to ask for it."""

import sys

import pytest

from benchmarks import everyday
from pastalang import Engine, Mode, model_of

APART = everyday.DOCUMENTS.with_name("apart.toml")


def test_every_answer_fits_its_type_and_every_text_of_it_stands_in_the_document() -> None:
    documents = everyday.read_documents(APART)
    assert len({document.text for document in documents}) == 80
    for document in documents:
        assert everyday.plan_for(document, Mode.STRICT)
        answer = model_of(document.program).model_validate(document.value)
        assert answer.model_dump(by_alias=True).keys() == document.value.keys()
        for name, field in type(answer).model_fields.items():
            found = getattr(answer, name)
            for text in found if isinstance(found, list) else [found]:
                assert not isinstance(text, str) or "Literal" in str(field.annotation) or text in document.text


def test_the_documents_can_be_chosen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Engine, "load", lambda *_, **__: None)
    monkeypatch.setattr(everyday, "measure", lambda *_: [])
    monkeypatch.setattr(sys, "argv", ["everyday", "--documents", str(APART)])
    assert everyday.main() == 0
    assert "fields of apart.toml are right (100.0 %), 80 documents" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["everyday", "--documents", "nowhere.toml"])
    with pytest.raises(SystemExit):
        everyday.main()
    assert "there is no file nowhere.toml" in capsys.readouterr().err
