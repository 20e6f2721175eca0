"""What threads lose without one another: one forward pass, compared with sequences of what each thread sees."""

from __future__ import annotations

import json

import pytest
import torch

import pastalang
from pastalang import build_plan
from pastalang.source import Source
from pastalang.training.data import read_checked
from pastalang.training.independence import Grader
from tests.oracle.toy_models import Family, toy_model
from tests.runtime.float64 import in_float64, wide_softmax
from tests.training.lessons import TOKENIZER

PARTS = ("1. ", "aaé", "\n2. ", "bb", "\n3. ", "cc c", ".")
SYNCED = "1. T[aaé]\n2. T[bb]<sync/>\n3. T[cc c]."
OPEN = "1. T[aaé]\n2. T[bb]\n3. T[cc c]."


def tagged(text: str) -> str:
    return text.replace("T[", '<promise tokens="10"/><async>').replace("]", "</async>")


def likelihood(model: torch.nn.Module, prompt: str, parts: list[int], of: int, window: int | None) -> float:
    """The mean log-probability of a part, after the prompt and these other parts, all at the places they have."""
    tokens, positions = list(prompt.encode()), list(range(len(prompt)))
    starts = [len(prompt) + sum(len(part.encode()) for part in PARTS[:n]) for n in range(len(PARTS))]
    for part in (*parts, of):
        tokens += PARTS[part].encode()
        positions += range(starts[part], starts[part] + len(PARTS[part].encode()))
    length = len(PARTS[of].encode())
    seen = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
    seen = seen if window is None else seen & ~seen.tril(-window)
    mask = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, torch.finfo(torch.float64).min)
    with torch.inference_mode():
        logits = model(
            input_ids=torch.tensor([tokens]), position_ids=torch.tensor([positions]), attention_mask=mask[None, None]
        ).logits[0]
    scores = torch.log_softmax(logits, dim=-1)[torch.arange(len(tokens) - 1), torch.tensor(tokens[1:])]
    return float(scores[-length:].mean())


@pytest.mark.parametrize(("family", "window"), [(Family.LLAMA, None), (Family.MISTRAL, 12)])
@pytest.mark.parametrize(
    ("text", "expected"),
    [(OPEN, {1: ([0, 1, 2], [0, 2]), 2: ([0, 1, 2, 3, 4], [0, 2, 4])}), (SYNCED, {1: ([0, 1, 2], [0, 2])})],
)
def test_a_thread_is_measured_with_and_without_what_it_cannot_see(
    text: str, expected: dict[int, tuple[list[int], list[int]]], family: Family, window: int | None
) -> None:
    program = pastalang.compile('template t(city: text)\nuser """{city}"""\nassistant auto(pasta, max=90)\n')
    plan = build_plan(program.only_template, program)
    [row] = read_checked(Source("rows", json.dumps({"city": "B", "value": "".join(PARTS)})), plan)
    model = in_float64(toy_model(family, vocabulary=264, seed=3, window=window))
    with wide_softmax():
        found = Grader(model, TOKENIZER, plan).losses(row, tagged(text))
        assert [(loss.thread, loss.tokens) for loss in found] == [
            (thread, len(PARTS[2 * thread + 1].encode())) for thread in expected
        ]
        for loss in found:
            whole, apart = expected[loss.thread]
            of = 2 * loss.thread + 1
            prompt = "User:\nB\n\nAssistant:\n"
            wanted = likelihood(model, prompt, whole, of, window) - likelihood(model, prompt, apart, of, window)
            assert loss.nats == pytest.approx(wanted, abs=1e-9)
            assert abs(wanted) > 1e-6
