from __future__ import annotations

import pytest
import torch

from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.models.reference import reference_logits, reference_path
from pastalang.runtime.step import CellId, TokenId
from tests.oracle.toy_models import Family, toy_model
from tests.runtime.float64 import in_float64, wide_softmax

EXACT = 1e-9


def chain(tokens: list[int], *, sees: tuple[FedToken, ...] = (), position: int = 0) -> list[FedToken]:
    """Tokens that follow one another behind what they see."""
    fed: list[FedToken] = []
    for offset, token in enumerate(tokens):
        fed.append(FedToken(TokenId(token), position + offset, CellId(0), (*sees, *fed)))
    return fed


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("window", [None, 3])
def test_a_lone_chain_gives_what_transformers_gives(family: Family, window: int | None) -> None:
    model, tokens = in_float64(toy_model(family, window=window)), [9, 8, 7, 6, 5, 4]
    model.set_attn_implementation("eager")
    with wide_softmax(), torch.inference_mode():
        expected = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
        torch.testing.assert_close(reference_path(model, chain(tokens)[-1]), expected, atol=EXACT, rtol=0)


def test_only_differences_of_positions_matter_to_a_rotary_model() -> None:
    model = in_float64(toy_model())
    with wide_softmax():
        here, there = (reference_logits(model, chain([5, 6, 7], position=at)[-1]) for at in (0, 100))
    torch.testing.assert_close(here, there, atol=1e-5, rtol=0)  # angles are computed in float32


def test_a_gap_is_not_read_as_another_sequence() -> None:
    model = toy_model()
    gapped = chain([8], sees=tuple(chain([5, 6, 7])), position=40)[0]
    alone = chain([8], position=40)[0]
    assert not torch.allclose(reference_logits(model, gapped), reference_logits(model, alone), atol=0.01)


def test_joined_branches_do_not_see_each_other_in_hindsight() -> None:
    """The joiner sees both; each of them is computed as if the other had never been."""
    model = in_float64(toy_model())
    prompt = tuple(chain([5, 6, 7]))
    left = chain([10, 11], sees=prompt, position=3)
    right = chain([12, 13], sees=prompt, position=20)
    joiner = chain([14], sees=(*prompt, *left, *right), position=40)[0]
    with wide_softmax():
        path = reference_path(model, joiner)
        torch.testing.assert_close(path[6], reference_logits(model, right[-1]), atol=EXACT, rtol=0)
        in_a_row = chain([5, 6, 7, 10, 11, 12, 13, 14])[-1]
        assert not torch.allclose(path[-1], reference_logits(model, in_a_row), atol=0.01)


def test_what_only_a_seen_token_saw_still_has_its_part() -> None:
    """Views need not be closed: the logits of what is seen were computed with everything that it saw."""
    model = in_float64(toy_model())
    hidden, seen = chain([5, 6])
    token = FedToken(TokenId(7), 2, CellId(0), (seen,))
    other = FedToken(TokenId(7), 2, CellId(0), tuple(chain([6], position=1)))
    with wide_softmax():
        assert not torch.allclose(reference_logits(model, token), reference_logits(model, other), atol=0.01)
    assert not token.may_see(hidden) and token.may_see(seen)
