"""What results, fields and engines print, in a terminal and in a notebook."""

from __future__ import annotations

import pastalang
from pastalang import Engine
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import uniform_model

PROGRAM = pastalang.compile(
    'template t(x: text)\nuser """{x}"""\n'
    'assistant json {a: boolean, "b c": string(max=40) | null, l: [{n: integer(1..9)}](1..3)}'
)


def run() -> pastalang.Result:
    return Engine(uniform_model(320), byte_tokenizer()).run(PROGRAM, {"x": "<script>"}, seed=3)


def test_what_the_limit_ended_is_named() -> None:
    cut = [field for field in run().fields if field.truncated]
    assert [field.path for field in cut] == ['"b c"']
    assert 'truncated: "b c"' in repr(run()) and "truncated" in repr(cut[0])


def test_an_engine_prints_what_it_can_hold() -> None:
    engine = Engine(uniform_model(320), byte_tokenizer())
    assert repr(engine).startswith("<Engine on cpu in torch.") and f"{engine.model.cells:,} cells" in repr(engine)


def test_a_notebook_shows_the_answer_in_the_colours_of_its_branches() -> None:
    result = run()
    shown = result._repr_html_()
    assert shown.count("background:hsl(") == sum(not one.is_forced for one in result.answers[0].stretches)
    assert 'title="a"' in shown and "<script" not in shown


def test_a_trace_and_its_usage_are_a_few_lines() -> None:
    result = run()
    trace = f"<Trace of {result.trace.passes} passes: "
    assert repr(result.trace).startswith(trace) and "\n main, a" in repr(result.trace) and len(repr(result.trace)) < 200
    assert f"tokens in {result.usage.forward_passes} passes" in repr(result.usage) and "repair" not in repr(
        result.usage
    )
