"""The documents that were written by hand can be asked for and answered as their right answers say."""

from __future__ import annotations

from benchmarks.everyday import failures, plan_for, read_documents
from pastalang import Mode
from pastalang.runtime.doubtful import texts_in
from pastalang.training.answer import answer_of
from pastalang.training.errors import BadRow


def test_every_right_answer_fits_its_type_and_every_free_text_is_a_quotation() -> None:
    documents = read_documents()
    assert len(documents) >= 60
    for document in documents:
        plan = plan_for(document, Mode.STRICT)
        answer_of(plan, dict(document.value), {"text": document.text})
        options = str(document.program.only_template.messages[-1].body)
        for text in texts_in(dict(document.value)):
            is_moment = (text[:4].isdigit() and text[4:5] == "-") or text.endswith(":00")
            assert is_moment or text in document.text or f"value={text!r}" in options, (document.style, text)
        assert not list(failures(document, dict(document.value)))
        assert len(list(failures(document, None))) == len(document.value)


def test_texts_can_be_asked_for_as_spans() -> None:
    unfit: list[str] = []
    for document in read_documents(verbatim=True):
        assert "String(" not in str(document.program.only_template.messages[-1].body)
        try:
            answer_of(plan_for(document, Mode.STRICT), dict(document.value), {"text": document.text})
        except BadRow as problem:
            unfit += [document.style] * str(problem).count("does not begin and end at words")
    assert [style.split()[0] for style in unfit] == ["vCard", "vCard", "calendar", "calendar"]
