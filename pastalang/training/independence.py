"""Independence by likelihood: what the threads of an answer lose by not seeing one another, by a model's own measure.

    written from left to right    prompt  1. AAAA  2. BBBB  3. CCCC      every token sees all before it
    written in threads            prompt  1. AAAA  2. BBBB  3. CCCC      B does not see A, and "2." sees no A either

Both are one forward pass: the text, and after it copies of what threads see otherwise, at the same positions. A thread
that the model finds about as likely in both is independent of the others. The text has no tags, so any language model
can be the judge, also one that was never trained for threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from pastalang.plan.plan import Mode, Plan
from pastalang.program.program import AutoPolicy
from pastalang.runtime.constraints.tagged_text import Begin
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.training.batches import collate
from pastalang.training.data import Row
from pastalang.training.forward import logits_of
from pastalang.training.lessons import Lesson, Recorder
from pastalang.training.recording import IGNORED, TrainingRow
from pastalang.training.thread_text import ThreadText, read_thread_text


@dataclass(frozen=True, slots=True)
class Loss:
    """Of one thread, in nats for each of its tokens: how much less likely it is without the others."""

    thread: int
    tokens: int
    nats: float


class Judge:
    """Measures answers with the model that will write them, or with any other one that has the same tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, plan: Plan) -> None:
        assert plan.auto is not None
        self._model, self._plan, self._policy = model.eval(), plan, plan.auto
        self._recorder = Recorder(tokenizer)
        self._spelling = vocabulary_of(tokenizer, ends=Encoder(tokenizer).ends).spelling

    def losses(self, row: Row, tagged: str) -> list[Loss]:
        """`tagged` is the answer of the row, with its threads. Threads that cannot see fewer than all are left out."""
        read = read_thread_text(tagged, self._policy)
        lesson = Lesson(lambda _: self._plan, row.inputs, read.plain, row.origin)
        plain = self._recorder.row(lesson, Mode.STRICT)
        return self._measured(plain, self._owners(plain, read), _visible_threads(read, self._policy))

    def _owners(self, plain: TrainingRow, read: ThreadText) -> list[int]:
        """For each token of the row the thread that writes it, -1 for the text. A token on a border is the thread's."""
        answer = [taught.token for taught in plain.taught]
        ends = list(accumulate(len(self._spelling[token] or b"") for token in answer))
        spans = [tuple(len(read.plain[:at].encode()) for at in span) for span in read.spans]
        owners = [-1] * (len(plain) - len(answer) + 1)
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            owners.append(next((n for n, (first, last) in enumerate(spans) if begin < last and end > first), -1))
        return owners[: len(plain)]

    def _measured(self, plain: TrainingRow, owners: Sequence[int], visible: Sequence[frozenset[int]]) -> list[Loss]:
        copies = _Copies(owners, visible)
        places = [copies.predictors(thread) for thread in range(len(visible))]
        labels = {
            place: int(plain.tokens[whole + 1])
            for wholes, others in places
            for whole, other in zip(wholes, others, strict=True)
            for place in (whole, other)
        }
        if not labels:
            return []
        scores = self._scores(_row(plain, copies, labels))
        return [
            Loss(thread, len(wholes), float(np.mean(scores[wholes] - scores[others])))
            for thread, (wholes, others) in enumerate(places)
            if wholes
        ]

    def _scores(self, row: TrainingRow) -> Any:
        """The log-probability of each label, by its place."""
        with torch.inference_mode():
            batch = collate([[row]], len(row)).to(next(self._model.parameters()).device)
            where = batch.labels != IGNORED
            found = torch.log_softmax(logits_of(self._model, batch, where=where).double(), dim=-1)
            chosen = found.gather(1, batch.labels[where][:, None])[:, 0].cpu().numpy()
        scores = np.full(len(row), np.nan)
        scores[np.flatnonzero(row.labels != IGNORED)] = chosen
        return scores


def _visible_threads(read: ThreadText, policy: AutoPolicy) -> list[frozenset[int]]:
    """For each thread, those that its text had waited for when it began."""
    found, begun, waited = list[frozenset[int]](), 0, frozenset[int]()
    for _, tag in read.tags:
        if isinstance(tag, Begin):
            found.append(waited if policy is AutoPolicy.PASTA else frozenset())
            begun += 1
        else:
            waited = frozenset(range(begun))
    return found


class _Copies:
    """A row, and after it copies of its tokens as threads see them. `seen`: of each place, the places that it sees."""

    def __init__(self, owners: Sequence[int], visible: Sequence[frozenset[int]]) -> None:
        self._owners, self._visible = owners, visible
        self._first = next((place for place, owner in enumerate(owners) if owner >= 0), len(owners))
        self._known: dict[tuple[int, int], int] = {}
        self.sources = list(range(len(owners)))
        self.seen: list[Sequence[int]] = [range(place + 1) for place in range(len(owners))]

    def predictors(self, thread: int) -> tuple[list[int], list[int]]:
        """The places that predict the tokens of a thread: in the row, and among the copies. None if it sees all."""
        tokens = [place for place, owner in enumerate(self._owners) if owner == thread]
        if not tokens or all(self._may_see(thread, token) for token in range(tokens[0])):
            return [], []
        before = [next(o for o in range(token - 1, -1, -1) if self._may_see(thread, o)) for token in tokens]
        return [token - 1 for token in tokens], [self._copied(token, thread) for token in before]

    def _may_see(self, thread: int, token: int) -> bool:
        owner = self._owners[token]
        return owner in (-1, thread) or owner in self._visible[thread]

    def _copied(self, token: int, thread: int) -> int:
        """The place of a token as the thread sees it. The copy before a thread has its own place: it predicts."""
        if (token, thread) not in self._known:
            others = [other for other in range(self._first, token) if self._may_see(thread, other)]
            before = [self._copied(other, thread) for other in others]
            place = self._known[token, thread] = len(self.sources)
            self.sources.append(token)
            self.seen.append([*range(min(self._first, token)), *before, place])
        return self._known[token, thread]


def _row(plain: TrainingRow, copies: _Copies, labels: dict[int, int]) -> TrainingRow:
    length = len(copies.sources)
    sees = np.zeros((length, length), dtype=np.bool_)
    for place, others in enumerate(copies.seen):
        sees[place, list(others)] = True
    taught = np.full(length, IGNORED, dtype=np.int32)
    taught[list(labels)] = list(labels.values())
    return TrainingRow(
        tokens=plain.tokens[copies.sources], positions=plain.positions[copies.sources], labels=taught,
        sees=np.packbits(sees, axis=1), taught=(), mode=plain.mode, passes=plain.passes, origin=plain.origin,
    )  # fmt: skip
