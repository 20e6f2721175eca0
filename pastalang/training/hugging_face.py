"""Training with the `Trainer` of Hugging Face: rows of a program, and the collator that makes batches of them.

    rows = rows_for_trainer("rows.jsonl", program, tokenizer)
    Trainer(model, arguments, train_dataset=rows, data_collator=Collator(model.config)).train()

The loss of the model is then that of `pasta train`: of the tokens that holes would draw, where they are decided.
`dataset_of` gives the same rows to trainers that take data sets only, such as those of TRL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from pastalang.plan.branches import Mode
from pastalang.program.program import Program
from pastalang.runtime.attention.masks import FULL, SLIDING, layer_windows
from pastalang.training.batches import Batch, collate, pack, tokens_of
from pastalang.training.data import read_lessons
from pastalang.training.errors import BadData
from pastalang.training.recording import IGNORED, Recorder, TrainingRow
from pastalang.training.row_files import RowFile

_MASKED: Final = ("sdpa", "eager")  # the implementations of attention that take any mask


def rows_for_trainer(
    data: RowFile, program: Program, tokenizer: Any, *, mode: Mode = Mode.STRICT, template: str | None = None,
    config: Any = None,
) -> list[TrainingRow]:  # fmt: skip
    """A data set for the `Trainer`. A model whose layers have windows needs its `config` here.

    Raises `BadData` for the file, and `BadRow` or `BadRows` for rows that cannot be taught.
    """
    windows = set() if config is None else set(layer_windows(config.get_text_config())) - {None}
    recorder = Recorder(tokenizer, window=windows.pop() if windows else None)
    return [recorder.row(lesson, mode) for lesson in read_lessons(data, program, template=template)]


def dataset_of(rows: Sequence[TrainingRow]) -> Any:
    """The rows as a `Dataset` of Hugging Face's `datasets`, for the same collator."""
    from datasets import Dataset

    return Dataset.from_list([_columns_of(row) for row in rows])


class Collator:
    """Makes a batch of rows: those that fit share a line of at most `length` tokens, and none sees another.

    Without a `length`, a line has room for the longest row of its batch. Raises `BadData` for a model whose attention
    takes no masks, such as that of FlashAttention.
    """

    def __init__(self, config: Any, *, length: int | None = None) -> None:
        self._attention = config._attn_implementation
        if self._attention not in _MASKED:
            raise BadData(
                f"the attention {self._attention!r} takes no mask of its own: load the model with "
                "attn_implementation='sdpa'"
            )
        self._windows = set(layer_windows(config.get_text_config()))
        self._length = length

    def __call__(self, rows: Sequence[TrainingRow | Mapping[str, Any]]) -> dict[str, Any]:
        recorded = [row if isinstance(row, TrainingRow) else _row_of(row) for row in rows]
        lines = pack(recorded, self._length or max(map(len, recorded)))
        batch = collate(lines, max(map(tokens_of, lines)) + 1)  # models look for the label of a place at the next one
        labels = pad(batch.labels[:, :-1], (1, 0), value=IGNORED)
        return {
            "input_ids": batch.tokens,
            "position_ids": batch.positions,
            "attention_mask": self._masks(batch),
            "labels": labels,
        }

    def _masks(self, batch: Batch) -> Tensor | dict[str, Tensor]:
        """(rows, 1, length, length). Models of mixed layers take one mask for each kind."""
        assert batch.visible is not None
        far, near = self._mask(batch.visible), self._mask(batch.visible if batch.near is None else batch.near)
        if len(self._windows) > 1:
            return {FULL: far, SLIDING: near}
        return far if None in self._windows else near

    def _mask(self, visible: Tensor) -> Tensor:
        if self._attention == "sdpa":
            return visible[:, None]
        return torch.zeros(visible.shape).masked_fill_(~visible, torch.finfo(torch.float32).min)[:, None]


def _columns_of(row: TrainingRow) -> dict[str, Any]:
    near = row.sees if row.sees_near is None else row.sees_near
    return {
        "input_ids": row.tokens,
        "position_ids": row.positions,
        "labels": row.labels,
        "sees": row.sees.tobytes(),
        "sees_near": near.tobytes(),
        "origin": row.origin,
    }


def _row_of(columns: Mapping[str, Any]) -> TrainingRow:
    tokens, positions, labels = (np.array(columns[name], np.int32) for name in ("input_ids", "position_ids", "labels"))
    sees, near = (
        np.frombuffer(columns[name], np.uint8).reshape(len(tokens), -1).copy() for name in ("sees", "sees_near")
    )
    return TrainingRow(tokens, positions, labels, sees, (), Mode.STRICT, 0, columns["origin"], near)
