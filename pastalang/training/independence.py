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

from pastalang.plan.plan import Mode, Plan
from pastalang.program.types import AutoPolicy
from pastalang.runtime.constraints.tagged_text import Begin
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.training.data import Row
from pastalang.training.forward import window_of
from pastalang.training.lessons import Lesson, Recorder
from pastalang.training.likelihood import Asked, Copies, log_likelihoods
from pastalang.training.recording import TrainingRow
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
        self._window = window_of(model)
        self._recorder = Recorder(tokenizer, window=self._window)
        self._spelling = vocabulary_of(tokenizer, ends=Encoder(tokenizer).ends).spelling

    def losses(self, row: Row, tagged: str) -> list[Loss]:
        """`tagged` is the answer of the row, with its threads. Threads that cannot see fewer than all are left out."""
        read = read_thread_text(tagged, self._policy)
        lesson = Lesson(lambda _: self._plan, row.inputs, read.plain, row.origin, thought=row.thought)
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
        copies = Copies(plain, window=self._window)
        asked: list[tuple[int, Asked, Asked]] = []
        for thread, others in enumerate(visible):
            may_see = [owner in (-1, thread) or owner in others for owner in owners]
            tokens = [place for place, owner in enumerate(owners) if owner == thread]
            if not tokens or all(may_see[: tokens[0]]):
                continue
            hidden = frozenset(place for place, may in enumerate(may_see) if not may)
            for token in tokens:
                label = int(plain.tokens[token])
                before = next(place for place in range(token - 1, -1, -1) if may_see[place])
                asked.append((thread, Asked(token - 1, label), Asked(copies.place(before, hidden), label)))
        scores = log_likelihoods(self._model, copies.row(), [one for _, *pair in asked for one in pair])
        lost: dict[int, list[float]] = {}
        for (thread, *_), whole, apart in zip(asked, scores[0::2], scores[1::2], strict=True):
            lost.setdefault(thread, []).append(float(whole - apart))
        return [Loss(thread, len(each), float(np.mean(each))) for thread, each in lost.items()]


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
