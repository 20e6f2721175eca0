"""For comparing what training computes with what decoding computes: a run that feeds probes alone, and their logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import pastalang
from pastalang import Engine, Mode, Sampling, build_plan
from pastalang.runtime.attention.plain_views import PlainViews
from pastalang.runtime.models.probe_tokens import Accuracy, ProbeTokens
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.scheduler.draft_tree import FROM_BRANCH, PROBE, DraftTree, Guess
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.step import StepBatch
from pastalang.training.probe_lines import Host
from pastalang.training.recording import Recorder, TrainingRow, drawn_of
from tests.oracle.toy_models import Family, toy_model
from tests.runtime.float64 import in_float64
from tests.training.lessons import TOKENIZER

VOCABULARY, DISTANCES = 320, 3
PROGRAM = pastalang.compile('''
template t(title: text)
user """{title}"""
assistant json {
  a: string(max=9)
  b: { c: "tv" | "phone", d: string(max=6) | null }
  e: string(max=7) after a
}
''')
TEXT = pastalang.compile('template t(title: text)\nuser """{title}"""\nassistant text """{a: string(max=24)}!"""\n')


class Watched:
    """Keeps the logits of the probes of a run, by what they see of the text, their token, and how many probes they
    see."""

    def __init__(self, inner: TransformersModel) -> None:
        self.inner, self.views, self.vocabulary = inner, PlainViews(), inner.vocabulary
        self.found: dict[tuple[object, int, int], torch.Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        fed, logits = self.views.feed(batch), self.inner.forward(batch)
        for row, index in enumerate(batch.wanted):
            probe = fed[index]
            if probe.token >= self.vocabulary:
                text = [seen for seen in probe.sees if seen.token < self.vocabulary]
                context = frozenset((seen.token, seen.position) for seen in text)
                before = sum(seen.token >= self.vocabulary for seen in probe.sees if seen is not probe)
                self.found[context, probe.token - self.vocabulary, before] = logits[row]
        return logits


def context_of(row: TrainingRow, host: Host) -> object:
    """The same of a host in a row."""
    seen = row.visible[host.places[0]]
    return frozenset(zip(row.tokens[seen].tolist(), row.positions[seen].tolist(), strict=True))


class OnlyProbes:
    """Probes after everything that is drawn from, and no guesses. `ids`: the tokens of each distance."""

    def __init__(self, ids: Sequence[Sequence[int]]) -> None:
        self.ids = ids

    def propose(self, branches: Sequence[BranchState], *, step: int, most: int) -> Sequence[Sequence[Guess]]:
        tree: list[Guess] = []
        for chain in zip(*self.ids, strict=True):
            for distance, token in enumerate(chain):
                tree.append(Guess(token, len(tree) - 1 if distance else FROM_BRANCH, 0.0, PROBE))
        return [tree] * len(branches)

    def learn(self, tree: DraftTree) -> None: ...
    def remember(self, request: RequestState) -> None: ...


def decoded(
    family: Family, window: int | None, program: pastalang.Program, mode: Mode, *, embeddings: torch.Tensor
) -> tuple[Any, Watched, TrainingRow]:
    """A model in float64, the probes of a run with these embeddings, (distances or 1, ensemble, 32), and its row."""
    network = in_float64(toy_model(family, window=window, layers=2, vocabulary=VOCABULARY))
    before = network.config._attn_implementation
    ahead = ProbeTokens(embeddings, Accuracy.unknown(DISTANCES))
    watched = Watched(TransformersModel(network, cells=2048, probe_tokens=ahead))
    engine = Engine(watched, TOKENIZER, drafts=8, prefix_cells=0)  # type: ignore[arg-type]
    engine.scheduler.drafting.drafter = OnlyProbes(ahead.ids(VOCABULARY))
    plan, given = build_plan(program.only_template, program, mode=mode), {"title": "Sony 55"}
    result = engine.run(plan, given, sampling=Sampling(temperature=1.0), on_truncated="keep")
    row = Recorder(TOKENIZER, window=window).again(plan, given, drawn_of(result), origin="0")
    network.set_attn_implementation(before)  # decoding put its own there
    return network, watched, row
