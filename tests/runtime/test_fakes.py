from __future__ import annotations

import torch

from pastalang.runtime.step import CellId, Empty, RowId, Run, StepBatch, TokenId
from pastalang.testing.fakes import hashed_model, scripted_model


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
