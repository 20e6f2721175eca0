"""SPACE: weights that are taught to foretell at masked places, next to what the model is taught anyway (SAR-SFT).

    row            a b c d e f g      the tokens that other methods teach, with the same labels
    cut after c    M M M              masks in the places of d, e, f: they learn to say e, f, g

A mask sees what its host sees, its host, and the masks before it of its own group, as a probe does in decoding. Nothing
else sees it, so a row teaches all of its tokens and several groups of masks at once. The masks share one embedding,
which is trained with the weights and kept next to them in `space.safetensors`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from pastalang.plan.plan import Mode, Plan
from pastalang.runtime.models.probe_tokens import Accuracy, ProbeTokens, with_probe_tokens
from pastalang.runtime.models.training_note import TrainingNote
from pastalang.training.batches import Batch, Line, collate
from pastalang.training.data import Reading
from pastalang.training.exam import Exam
from pastalang.training.foretold import Tally
from pastalang.training.forward import Where, logits_of, loss_of
from pastalang.training.lessons import Recorder
from pastalang.training.method import Method, RecordRow
from pastalang.training.model_files import Base
from pastalang.training.probe_lines import Host, Hosts, Probing, hosts_of, near_of
from pastalang.training.recording import IGNORED, TrainingRow
from pastalang.training.row_files import RowFile
from pastalang.training.run_log import ReportLine

ASKED: Final = 64  # rows that the model answers to see what it foretells
_JUDGED: Final = 64  # hosts of each answer
_SEEN: Final = 1024  # embeddings that the one of the mask token is drawn like
_FORETOLD: Final = 0.1  # a token that masks foretell counts as much as so much F1
_MODULE: Final = "mask_token"  # in the model while it is trained


@dataclass(frozen=True, slots=True)
class Masking:
    """`distances`: the masks of a group, each of which foretells a token. A row is shown as it is with the chance
    `plain`, else with groups of masks after `cuts` of its tokens, drawn at random each time."""

    distances: int = 3
    plain: float = 0.5
    cuts: int = 4


@dataclass(frozen=True)
class SemiAutoregressive:
    """`space`: what another method teaches, with masks."""

    inner: Method
    masking: Masking

    @property
    def name(self) -> str:
        return "space"

    @property
    def identity(self) -> Mapping[str, str]:
        masking = self.masking
        about = {"distances": str(masking.distances), "plain": f"{masking.plain:g}", "cuts": str(masking.cuts)}
        return {**self.inner.identity, "method": f"space, {self.inner.name}", **about}

    def read(self, path: RowFile) -> Reading:
        return self.inner.read(path)

    def recorder(self, tokenizer: Any, window: int | None) -> RecordRow:
        return self.inner.recorder(tokenizer, window)

    def exams(self) -> Mapping[str, Plan]:
        return self.inner.exams()

    @property
    def judged(self) -> Sequence[str]:
        return self.inner.judged

    def note(self) -> TrainingNote:
        return self.inner.note()


def masks_of(method: Method, base: Base, seed: int) -> Masks | None:
    """None for a method without masks."""
    return Masks(method, base, seed) if isinstance(method, SemiAutoregressive) else None


class Masks:
    """The masks of a run: in lines, in the model, and what they foretell."""

    def __init__(self, method: SemiAutoregressive, base: Base, seed: int) -> None:
        self._masking, self._method, self._seed = method.masking, method, seed
        self._vocabulary = int(base.config.get_text_config().vocab_size)
        self._recorder = Recorder(base.tokenizer, window=base.window)

    # ── in lines ─────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, line: Line, number: int) -> Line:
        """The line with this number, with masks."""
        chance = np.random.default_rng((self._seed, number, 1))
        return [row if chance.random() < self._masking.plain else self._cut(row, chance) for row in line]

    def most(self, line: Line) -> int:
        return len(line) * self._masking.cuts * self._masking.distances

    def _cut(self, row: TrainingRow, chance: np.random.Generator) -> TrainingRow:
        """In lock-step nothing is guessed, so nothing has to be foretold."""
        if row.mode is Mode.LOCKSTEP:
            return row
        hosts = Hosts(row, self._masking.distances)
        found = (hosts.at(int(place)) for place in chance.permutation(hosts.drawing))
        chosen = islice((host for host in found if host is not None), self._masking.cuts)
        return with_masks(row, list(chosen), self._vocabulary)

    # ── in the model ─────────────────────────────────────────────────────────────────────────────────────

    def put_into(self, model: Any) -> None:
        """Give the model an embedding for the mask token, like those that it has, to be trained with its weights."""
        noise = torch.Generator().manual_seed(self._seed)
        ids = torch.linspace(0, self._vocabulary - 1, min(_SEEN, self._vocabulary)).long()
        embedding = model.get_input_embeddings()
        with torch.no_grad():
            known = embedding(ids.to(embedding.weight.device)).float()
        row = known.mean(dim=0) + known.std(dim=0) * torch.randn(known.shape[1], generator=noise).to(known.device)
        model.add_module(_MODULE, Probing(row[None, None]))

    def take_from(self, model: Any, accuracy: Accuracy) -> ProbeTokens:
        """What `put_into` gave. The model is what it was then, but for what it has learned."""
        rows = getattr(model, _MODULE).rows.detach()
        delattr(model, _MODULE)
        return ProbeTokens(rows, accuracy)

    def loss(self, model: Any, batch: Batch) -> Tensor:
        with self._fed(model, batch) as fed:
            return loss_of(model, fed)

    def logits(self, model: Any, batch: Batch, where: Where) -> Tensor:
        with self._fed(model, batch) as fed:
            return logits_of(model, fed, where=where)

    @contextmanager
    def _fed(self, model: Any, batch: Batch) -> Iterator[Batch]:
        rows = getattr(model, _MODULE).rows
        with with_probe_tokens(model, batch.tokens, rows, self._vocabulary) as tokens:
            yield replace(batch, tokens=tokens)

    # ── what they foretell ───────────────────────────────────────────────────────────────────────────────

    def accuracy(self, model: Any, exam: Exam) -> Accuracy:
        """How often the masks foretell what the model draws, when it answers the rows of an exam."""
        judged = [name for name in self._method.judged if exam.plans[name].mode is not Mode.LOCKSTEP]
        tally = Tally(self._masking.distances)
        was_training = model.training
        for row, drawn in exam.drawn(model, judged[0], ASKED) if judged else ():
            if drawn:
                model.eval()
                self._count(model, self._recorder.again(exam.plans[judged[0]], row.inputs, drawn, origin=""), tally)
        model.train(was_training)
        return tally.accuracy

    def score(self, f1: float, model: Any, exam: Exam, report: ReportLine) -> float:
        """What the weights of a step are worth, with the masks."""
        foretold = sum(self.accuracy(model, exam).runs)
        report(f"{foretold:.2f} tokens are foretold in a row")
        return f1 + _FORETOLD * foretold

    @torch.no_grad()
    def _count(self, model: Any, row: TrainingRow, tally: Tally) -> None:
        hosts = hosts_of(row, self._masking.distances)
        hosts = [hosts[place] for place in np.linspace(0, len(hosts) - 1, min(_JUDGED, len(hosts))).astype(int)]
        if not hosts:
            return
        masked = with_masks(row, hosts, self._vocabulary)
        batch = collate([[masked]], len(masked)).to(next(model.parameters()).device)
        lengths = [len(host.places) - 1 for host in hosts]
        groups = [host for host, length in enumerate(lengths) for _ in range(length)]
        places = [distance for length in lengths for distance in range(length)]
        where = torch.arange(len(row), len(masked), device=batch.tokens.device)
        found = self.logits(model, batch, (torch.zeros_like(where), where)).float()
        logits = found.new_zeros(1, len(hosts), self._masking.distances, found.shape[1])
        drawn = torch.full(logits.shape[:3], IGNORED, device=found.device)
        logits[0, groups, places], drawn[0, groups, places] = found, batch.labels[0, where]
        tally.add(drawn, logits)


def with_masks(row: TrainingRow, hosts: Sequence[Host], mask: int) -> TrainingRow:
    """The row, and after it a group of masks for each host: as many as tokens of its branch follow it."""
    lengths = [len(host.places) - 1 for host in hosts]
    length, size = len(row), len(row) + sum(lengths)
    tokens, positions, labels = (np.full(size, mask, dtype=np.int32) for _ in range(3))
    tokens[:length], positions[:length], labels[:length] = row.tokens, row.positions, row.labels
    visible = np.zeros((size, size), dtype=np.bool_)
    visible[:length, :length] = known = row.visible
    near = None if row.sees_near is None else visible.copy()
    if near is not None:
        near[:length, :length] = known_near = row.near
    end = length
    for host, masks in zip(hosts, lengths, strict=True):
        here, end = slice(end, end + masks), end + masks
        positions[here] = row.positions[host.places[1]] + np.arange(masks)
        labels[here] = host.drawn[1:]
        visible[here, :length] = known[host.places[0]]
        visible[here, here] = np.tri(masks, dtype=np.bool_)
        if near is not None:
            near[here, :length], near[here, here] = near_of(known_near, host, masks), visible[here, here]
    return replace(
        row, tokens=tokens, positions=positions, labels=labels, sees=np.packbits(visible, axis=1), taught=(),
        sees_near=None if near is None else np.packbits(near, axis=1), writers=(),
    )  # fmt: skip
