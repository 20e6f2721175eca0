"""What fields held before: how their values begin, go on and end."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence

from pastalang.runtime.scheduler.state import RequestState
from pastalang.runtime.scheduler.transcript import Field, Written, WrittenField, WrittenLoop

END = -1  # instead of a token: the value ended
_LONGEST = 8  # tokens of a value that are remembered
_BEGINNINGS = 10_000  # of values that are remembered, those that were met last
_DOUBT, _MEMORY = 1, 64  # what was never seen counts like so many values; what was seen, like so many at most


class Values:
    """Fields are known by their path, whatever program they stand in: a wrong guess costs time and nothing else."""

    def __init__(self) -> None:
        self._next: OrderedDict[tuple[str, tuple[int, ...]], Counter[int]] = OrderedDict()
        self._closings: dict[str, int] = {}

    def note(self, request: RequestState) -> None:
        """Remember the values of a request that is over."""
        for branch in request.live:
            for field in _fields(branch.written):
                if field.is_done and field.decoding.tokens:
                    self._note(field)

    def after(self, path: str, beginning: Sequence[int]) -> list[tuple[int, float]]:
        """What may follow the first tokens of a value, with its chance: tokens or `END`, the likeliest first."""
        counts = self._next.get((path, tuple(beginning)))
        if counts is None:
            return []
        total = counts.total() + _DOUBT
        return [(token, count / total) for token, count in counts.most_common(3)]

    def closing(self, path: str) -> int | None:
        """The token that ends a value of the field, or of any field if this one has not been seen."""
        return self._closings.get(path, self._closings.get(""))

    def _note(self, field: Field) -> None:
        decoding = field.decoding
        tokens = decoding.tokens[:-1] if decoding.dropped else decoding.tokens
        for place, token in enumerate((*tokens, END)[:_LONGEST]):
            self._count((field.path, tuple(tokens[:place])), token)
        if not field.truncated and not decoding.dropped and len(tokens) > 1:
            if len(self._closings) > _BEGINNINGS:
                self._closings.clear()
            self._closings[field.path] = self._closings[""] = tokens[-1]

    def _count(self, beginning: tuple[str, tuple[int, ...]], token: int) -> None:
        counts = self._next.setdefault(beginning, Counter())
        counts[token] += 1
        if counts.total() > _MEMORY:
            for one in list(counts):
                counts[one] //= 2
            self._next[beginning] = +counts
        self._next.move_to_end(beginning)
        if len(self._next) > _BEGINNINGS:
            self._next.popitem(last=False)


def _fields(written: Sequence[Written]) -> Iterator[Field]:
    for one in written:
        if isinstance(one, WrittenField):
            yield one.field
        elif isinstance(one, WrittenLoop):
            for item in one.items:
                yield from _fields(item)
