"""What is chosen without a hole is told while a program runs, like what is decoded."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pastalang
from pastalang import Done, Engine, FieldDone, FieldStarted, Mode, Sampling, TextDelta
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model

CHOICES = pastalang.compile('''
template t()
user """Go."""
assistant json {
  size: { width: integer(0..9), height: integer(0..9) } | null
  rows: [{ name: string(max=3), sizes: { width: integer(0..9) } | null }](0..2)
  shape: { kind: "dot" } | { kind: "circle", radius: integer(0..9) }
}
''')


def reached(value: Any, path: str, items: tuple[int, ...]) -> Any:
    """The part of the answer that a field names."""
    numbers = iter(items)
    for key in path.split("."):
        name = key.split("(")[0]
        value = value[name.removesuffix("[]")]
        if name.endswith("[]"):
            value = value[next(numbers)]
    return value


@pytest.mark.parametrize("mode", Mode)
def test_an_arm_without_holes_and_an_empty_list_are_told_with_their_values(mode: Mode) -> None:
    kinds = set()
    for seed in range(24):
        engine = Engine(hashed_model(320, seed=seed), byte_tokenizer())
        events = list(engine.stream(CHOICES, {}, mode=mode, sampling=Sampling(temperature=1.0), seed=seed))
        assert isinstance(events[-1], Done)
        value = events[-1].result.value
        told = [event for event in events if isinstance(event, FieldDone)]
        for done in told:
            assert json.loads(done.text) == reached(value, done.field, done.items)
            texts = [event.text for event in events if isinstance(event, TextDelta) and _is_of(event, done)]
            assert "".join(texts) == done.text
            assert events.index(FieldStarted(done.field, done.items)) < events.index(done)
        assert len({(done.field, done.items) for done in told}) == len(told), "a value is told once"
        assert _known(value) == {(done.field, done.items) for done in told if done.field in ("size", "rows", "shape")}
        kinds |= {field for field, _ in _known(value)}
    assert kinds == {"size", "rows", "shape"}


def _is_of(event: TextDelta, done: FieldDone) -> bool:
    return (event.field, event.items) == (done.field, done.items)


def _known(value: Any) -> set[tuple[str, tuple[int, ...]]]:
    """The fields of an answer that were chosen whole."""
    chosen = {"size": value["size"] is None, "rows": not value["rows"], "shape": value["shape"] == {"kind": "dot"}}
    return {(name, ()) for name, is_whole in chosen.items() if is_whole}
