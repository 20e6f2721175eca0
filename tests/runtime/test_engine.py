"""Programs run end to end on tiny random models: passes, values, batches, memory, errors."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pastalang
from pastalang import Engine, Mode, Result, Sampling, TooLong
from pastalang.program.program import Input, InputKind, InputType, ListOf, OneOf, RecordOf
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import hashed_model, uniform_model
from tests.oracle.toy_models import Family, toy_model

WARM = Sampling(temperature=1.0)
EXAMPLES = sorted(Path("examples").glob("*.pasta"))
PRODUCT = pastalang.compile('''
template product(title: text)
user """
Title: {title}
"""
assistant json {
  brand: string(max=12) | null
  stars: integer(1..5)
  kind: "tv" | "phone"
  headline: string(max=8) after brand, kind
}
''')
DOCUMENTS = pastalang.compile('''
template product(each title: text)
system """
Read the title.
"""
user """
{title}
"""
assistant json {
  brand: string(max=12)
  stars: integer(1..5)
}
''')


def toy_engine(**options: Any) -> Engine:
    cells = options.pop("cells", 4096)
    return Engine(TransformersModel(toy_model(Family.LLAMA), cells=cells, check=False), byte_tokenizer(), **options)


def fake_engine(*, cells: int = 1 << 16, **options: Any) -> Engine:
    model = hashed_model(320, seed=7)
    model.cells = cells
    return Engine(model, byte_tokenizer(), **options)


def sample_of(type: InputType) -> Any:
    match type:
        case ListOf(item=item):
            return [sample_of(item), sample_of(item)]
        case OneOf(options=options):
            return options[-1]
        case RecordOf(fields=fields):
            return {name: sample_of(inner) for name, inner in fields}
        case _:
            return {
                InputKind.MESSAGES: [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
                InputKind.TEXT: "a 12", InputKind.INTEGER: 3, InputKind.NUMBER: 1.5, InputKind.BOOLEAN: True
            }[type]  # fmt: skip


def inputs_of(inputs: tuple[Input, ...]) -> Mapping[str, Any]:
    return {input.name: sample_of(ListOf(input.type) if input.each else input.type) for input in inputs}


@cache
def engine_of_examples() -> Engine:
    """One for all modes, so that a type of an example is compiled once."""
    return toy_engine()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_takes_as_many_passes_as_its_plan_asks_for(path: Path, mode: Mode) -> None:
    engine = engine_of_examples()
    program = pastalang.load(path)
    for name in program.templates:
        plan = engine.plan(program, template=name, mode=mode)
        result = engine.run(plan, inputs_of(plan.inputs), sampling=WARM)
        assert result.usage.forward_passes == result.usage.critical_path
        engine.check_integrity()
        assert engine.scheduler.memory.cells.in_use == engine.scheduler.prefix.size


def test_a_batch_takes_as_many_passes_as_its_longest_request() -> None:
    engine = fake_engine()
    results = engine.batch(PRODUCT, [{"title": "a" * length} for length in range(1, 7)], sampling=WARM)
    assert engine.scheduler.forward_passes == max(
        result.usage.forward_passes for result in results if isinstance(result, Result)
    )


def test_concurrent_runs_share_passes() -> None:
    engine = fake_engine()

    async def all_of_them() -> list[Result]:
        return await asyncio.gather(*(engine.arun(PRODUCT, {"title": title}) for title in ("a", "b", "c")))

    results = asyncio.run(all_of_them())
    assert engine.scheduler.forward_passes < sum(result.usage.forward_passes for result in results)
    engine.check_integrity()


def test_what_is_too_long_is_told_before_anything_is_decoded_with_what_to_shorten() -> None:
    engine = fake_engine()
    engine.scheduler._max_position = 150
    with pytest.raises(TooLong) as caught:
        engine.run(PRODUCT, {"title": "x" * 90})
    assert engine.scheduler.forward_passes == 0
    told = str(caught.value)
    assert "shorten `title` (90 tokens), or read it in parts, with `window=128` of `extract` (`--window`), or" in told
    assert "or lower the limits of the fields with the largest gaps: `headline` (20), `brand` (12), " in told


def test_the_longest_of_stacked_documents_is_the_one_to_shorten() -> None:
    engine = fake_engine()
    engine.scheduler._max_position = 100
    with pytest.raises(TooLong, match=r"shorten `title` \(99 tokens\)"):
        engine.run(DOCUMENTS, {"title": ["x" * 7, "x" * 99]})


def test_one_token_is_one() -> None:
    engine = fake_engine()
    engine.scheduler._max_position = 20
    with pytest.raises(TooLong, match=r"shorten `title` \(1 token\)"):
        engine.run(PRODUCT, {"title": "x"})


def test_a_trace_has_a_line_for_each_of_its_parts() -> None:
    result = fake_engine().run(PRODUCT, {"title": "x"}, sampling=WARM)
    trace, lines = result.trace, [json.loads(line) for line in result.trace.json_lines().splitlines()]
    parts = {"lane": trace.lanes, "joined": trace.joins, "fed": trace.fed, "drawn": trace.drawn}
    assert Counter(line["kind"] for line in lines) == {"run": 1, **{kind: len(part) for kind, part in parts.items()}}
    assert [line["text"] for line in lines if line["kind"] == "drawn"] == [one.text for one in trace.drawn]
    assert len(result.trace.drawn) == result.usage.output_tokens
    assert json.loads(result.trace.chrome())["traceEvents"]


def test_what_another_lane_has_drawn_is_not_fed_text_of_the_lane_that_joins_it() -> None:
    text = "Start. {async a ~9: string(max=8)} Then {b: string(max=4)}\n{sync} End {c: string(max=4)}"
    program = pastalang.compile(f'template t()\nassistant text """\n{text}\n"""')
    result = Engine(uniform_model(320), byte_tokenizer()).run(program, {})
    assert [one.text for one in result.trace.fed if one.lane == 0] == ["Assistant:\nStart.", "  Then ", "\n End "]
    assert result.usage.input_tokens == len("Assistant:\n")
    assert result.usage.forced_tokens == len("Start.  Then \n End ")


@pytest.mark.parametrize("events", [0, 1, 5, 20])
def test_closing_a_stream_gives_everything_back(events: int) -> None:
    engine = fake_engine(prefix_cells=0)
    stream = engine.stream(PRODUCT, {"title": "x"}, sampling=WARM)
    for _ in range(events):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    engine.check_integrity()
    if events:
        assert engine.scheduler.memory.cells.in_use == 0 and engine.scheduler.is_idle
