from __future__ import annotations

import torch

from pastalang.runtime.step import CellId, Empty, RowId, Run, StepBatch, TokenId
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model, scripted_model, uniform_model


def text_step(text: str, *, position: int = 0, cell: int = 0, row: int = 0, new: bool = True) -> StepBatch:
    data = text.encode()
    return StepBatch(
        tuple(TokenId(byte) for byte in data),
        tuple(range(position, position + len(data))),
        tuple(CellId(cell + at) for at in range(len(data))),
        (Run(RowId(row), 0, len(data)),),
        (len(data) - 1,),
        (Empty(RowId(row)),) if new else (),
    )


def test_a_uniform_model_prefers_nothing() -> None:
    assert uniform_model(9).forward(text_step("abc")).tolist() == [[0.0] * 9]


def test_a_scripted_model_writes_what_its_script_says_of_what_it_sees() -> None:
    model = scripted_model(lambda fed: len(fed.path), 300)
    assert model.forward(text_step("abc")).argmax().item() == 3
    assert model.forward(text_step("d", position=3, cell=3, new=False)).argmax().item() == 4
    assert [token.token for token in model.fed] == list(b"abcd")


def test_a_hashed_model_knows_tokens_positions_and_what_they_saw() -> None:
    def logits(*steps: StepBatch) -> torch.Tensor:
        model = hashed_model(50)
        return [model.forward(step) for step in steps][-1]

    usual = logits(text_step("abc"))
    assert torch.equal(usual, logits(text_step("abc")))
    assert torch.equal(usual, logits(text_step("ab"), text_step("c", position=2, cell=2, new=False)))
    assert torch.equal(usual, logits(text_step("abc", cell=7, row=3)))
    for other in (text_step("abd"), text_step("xbc"), text_step("abc", position=1), text_step("bc", position=1)):
        assert not torch.equal(usual, logits(other))


# ── the byte tokenizer ───────────────────────────────────────────────────────────────────────────────────


def test_every_text_comes_back_and_every_token_is_a_byte() -> None:
    tokenizer = byte_tokenizer()
    for text in ("", "plain", '"a": é\n\t日本 🍝', " leading", "\x00\x7f", "<end"):
        assert tokenizer.encode(text) == list(text.encode())
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_words_become_one_token_each() -> None:
    tokenizer = byte_tokenizer(words=['",'])
    assert tokenizer.encode('"a", "') == [34, 97, 256, 32, 34]
    assert tokenizer.decode([256]) == '",'


def test_the_end_and_control_tokens_stand_behind_the_bytes() -> None:
    tokenizer = byte_tokenizer(control=["<sync/>"])
    assert (tokenizer.eos_token_id, len(tokenizer)) == (256, 258)
    assert tokenizer.encode("a<sync/>") == [97, 257]


def test_a_chat_template_can_be_given() -> None:
    template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    tokenizer = byte_tokenizer(chat_template=template)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "[user]hi"
