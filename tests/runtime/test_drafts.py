"""Drafts: fewer passes, and not one token different."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pastalang
from pastalang import BadInputs, Engine, OutOfMemory, ProgramError, Result, Sampling, build_plan
from pastalang.plan.serialise import from_json, to_json
from pastalang.runtime.display.page import page_of, render_page
from pastalang.runtime.display.timeline import draw_timeline
from pastalang.runtime.drafts import sources
from pastalang.runtime.drafts.budget import StepCosts, worth_feeding
from pastalang.runtime.scheduler.draft_tree import FROM_BRANCH, Guess
from pastalang.runtime.step import StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel, SeenToken, hashed_score
from pastalang.values.to_source import type_source

TITLE = "Panasonic Viera 42 inch plasma television, black, with stand"
COPIES = pastalang.compile('''
template t(title: text)
user """
{title}
"""
assistant json {
  brand: verbatim(title, max=20)
  line: verbatim(title, max=30) | null
  size: integer(0..999) after brand
}
''')


def copying_model(*, cells: int = 1 << 14, max_position: int = 1 << 20) -> FakeModel:
    """Goes on as the text did where its last two tokens stood before; otherwise as chance has it."""
    by_chance = hashed_score(320, seed=3)

    def score(token: SeenToken) -> Any:
        path = [*token.sees, token]
        logits = torch.as_tensor(by_chance(token)).clone()
        for place in range(len(path) - 2, 0, -1):
            if (path[place].token, path[place - 1].token) == (path[-1].token, path[-2].token):
                logits[path[place + 1].token] += 6
                break
        return logits.tolist()

    return FakeModel(score, vocabulary=320, cells=cells, max_position=max_position)


def run(mode: str = "strict", *, engine: Engine | None = None, **options: Any) -> Result:
    engine = engine or Engine(copying_model(), byte_tokenizer())
    result = engine.run(COPIES, {"title": TITLE}, mode=mode, **options)
    engine.check_integrity()
    assert engine.scheduler.memory.cells.in_use == sum(len(one.memory.cells) for one in engine.scheduler.prefix.nodes)
    return result


def same(one: Result, other: Result) -> bool:
    def facts(result: Result) -> Any:
        return result.text, [(field.tokens, field.log_probabilities) for field in result.fields]

    return facts(one) == facts(other)


@pytest.mark.parametrize("mode", ["strict", "sequential"])
@pytest.mark.parametrize("sampling", [None, Sampling(temperature=0.7), Sampling(temperature=1.0, top_p=0.9)])
@pytest.mark.parametrize("details", [False, True])
def test_drafts_save_passes_and_change_nothing(mode: str, sampling: Sampling | None, details: bool) -> None:
    plain = run(mode, sampling=sampling, details=details)
    drafted = run(mode, sampling=sampling, details=details, drafts=8)
    assert same(plain, drafted)
    before, after = plain.usage, drafted.usage
    assert before.drafted_tokens == before.confirmed_tokens == 0
    assert 0 < after.confirmed_tokens <= after.drafted_tokens
    assert after.forward_passes < before.forward_passes
    assert (after.input_tokens, after.forced_tokens) == (before.input_tokens, before.forced_tokens)
    assert sum(one.tokens for one in drafted.trace.fed) == after.input_tokens + after.forced_tokens


@pytest.mark.parametrize(
    ("between", "runs_on"), [(" and ", True), (" and then, after a long while," + " so" * 40, False)]
)
def test_a_draft_runs_on_into_the_next_field_unless_the_text_between_is_long(between: str, runs_on: bool) -> None:
    program = pastalang.compile(f'template t\nassistant text """\n{{a: boolean}}{between}{{b: boolean}}\n"""\n')
    engine = Engine(copying_model(), byte_tokenizer())
    first, again = (engine.run(program, drafts=32) for _ in range(2))
    assert same(first, again)
    assert (again.usage.drafted_tokens > len(between)) is runs_on


def test_what_followed_before_is_guessed_whoever_asks() -> None:
    def score(token: SeenToken) -> Any:
        last = tuple(one.token for one in (*token.sees, token)[-3:])
        return [float(letter == ord("a") + hash(last) % 26) for letter in range(320)]

    program = pastalang.compile('template t(q: text)\nuser """{q}"""\nassistant text """{a: string(max=48)}"""\n')
    engine = Engine(FakeModel(score, vocabulary=320), byte_tokenizer(), drafts=8)
    first, again = (engine.run(program, {"q": question}, mode="sequential") for question in ("one", "and another"))
    assert first.text == again.text
    assert first.usage.forward_passes > 40 > 4 * again.usage.forward_passes


NAMES = tuple(
    pastalang.compile(
        f'template t(title: text)\nuser """{{title}}"""\nassistant json {{\n  name: {type}\n  line: {line}\n}}\n'
    )
    for type, line in (
        ("verbatim(title, max=20)", "verbatim(title, max=12) | null"), ("string(max=12)", "/[a-z ]{3,9}/"),
        ("/[a-n]{2,6}/", "string(max=6)"), ('"Vier" | "Viera" | "Vie"', "verbatim(title, max=30)"),
    )
)  # fmt: skip
TITLES = ("Viera 42 black", "Viera 42 blue", "Vier 42", "a Viera, black", "Viera Viera 4")


@given(st.data())
def test_what_a_field_held_before_may_not_be_allowed_again(data: st.DataObject) -> None:
    model, tokenizer = copying_model(), byte_tokenizer()
    drafting, plain = Engine(model, tokenizer), Engine(copying_model(), tokenizer)
    for _ in range(data.draw(st.integers(2, 5))):
        program, title = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from(TITLES))
        given = {"inputs": {"title": title}, "mode": data.draw(st.sampled_from(("strict", "sequential")))}
        drafted = drafting.run(program, **given, drafts=data.draw(st.sampled_from((1, 4, 16))), on_truncated="keep")
        assert same(drafted, plain.run(program, **given, on_truncated="keep"))
    drafting.check_integrity()


def test_a_request_of_a_keeper_leaves_nothing_to_guess_from_and_guesses_from_nothing_of_others() -> None:
    def passes_of(engine: Engine, keeper: str) -> int:
        request = engine.prepare(COPIES, {"title": TITLE}, {"drafts": 8}, with_events=False, keeper=keeper)
        engine.loop.submit(request)
        while not request.is_over:
            engine.loop.step()
        return request.counts.forward_passes

    engine = Engine(copying_model(), byte_tokenizer(), prefix_cells=0)
    alone = passes_of(engine, "one")
    assert passes_of(engine, "one") == passes_of(engine, "two") == alone
    assert passes_of(engine, "") == alone > passes_of(engine, "")
    assert passes_of(engine, "one") == alone


def test_what_followed_very_often_is_counted_on() -> None:
    often, as_often = [1, 5, sources.BREAK], [1, 6, sources.BREAK]
    ngrams = sources.Ngrams()
    ngrams._note(often * 254 + as_often * 300)
    assert [token for token, _ in ngrams.after([1])] == [6, 5]


def test_contexts_that_push_each_other_out_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_SLOTS", 3)
    engine = Engine(copying_model(), byte_tokenizer())
    for mode in ("strict", "sequential") * 3:
        assert same(run(mode, engine=engine, drafts=8), run(mode))


def test_no_guess_stands_behind_the_last_position_of_the_model() -> None:
    def last(engine: Engine) -> int:
        return max(position for step in engine.model.steps for position in step.positions)

    plain = Engine(copying_model(), byte_tokenizer())
    run("sequential", engine=plain)
    engine = Engine(copying_model(max_position=last(plain)), byte_tokenizer())
    found = [run("sequential", engine=engine, drafts=8) for _ in range(3)]
    assert last(engine) == last(plain) and found[-1].usage.confirmed_tokens > 0


def test_an_error_among_guesses_ends_the_run_that_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, branch: Any) -> Any:
        if "!" in branch.request.values["title"]:
            raise ValueError("no tree")
        return tree(self, branch)

    engine = Engine(copying_model(), byte_tokenizer())
    tree = type(engine.loop.drafter)._tree
    monkeypatch.setattr(type(engine.loop.drafter), "_tree", broken)
    found = engine.batch(COPIES, [{"title": TITLE + end} for end in ("", "!", "?")], drafts=8)
    assert [type(one).__name__ for one in found] == ["Result", "RunError", "Result"] and "no tree" in str(found[1])
    engine.check_integrity()
    assert same(run(engine=engine, drafts=8), run())


def test_the_trace_says_what_was_guessed() -> None:
    engine = Engine(copying_model(), byte_tokenizer())
    drafted, plain = run(engine=engine, drafts=8), run(engine=engine)
    trace, usage = drafted.trace, drafted.usage
    assert plain.trace.drafts == () and "guesses" not in draw_timeline(plain.trace)
    assert sum(one.fed for one in trace.drafts) == usage.drafted_tokens
    assert sum(one.confirmed for one in trace.drafts) == usage.confirmed_tokens
    assert all(0 <= one.confirmed <= one.fed and 1 <= one.forward_pass <= trace.passes for one in trace.drafts)
    assert trace.json_lines().count('"kind": "drafted"') == len(trace.drafts) > 0
    assert f"({usage.confirmed_tokens} of {usage.drafted_tokens})" in draw_timeline(trace)
    pages = [render_page(page_of(one, engine.plan(COPIES))) for one in (drafted, plain)]
    assert ["guesses right" in page for page in pages] == [True, False]


WITH = 'template t(title: text) with (drafts={})\nuser """\n{{title}}\n"""\nassistant json {{\n{}\n}}\n'
QUOTED = "{}: verbatim(title, max=20)"


@pytest.mark.parametrize(
    ("program", "engine", "call", "is_drafted"),
    [
        (8, "off", "off", True),
        ('"off"', 8, 8, False),
        (None, "off", 8, True),
        (None, 8, "off", False),
        (None, 8, None, True),
        (None, "off", None, False),
    ],
)
def test_a_program_is_heeded_before_a_call_and_a_call_before_an_engine(
    program: object, engine: Any, call: Any, is_drafted: bool
) -> None:
    source = WITH.format(program, QUOTED.format("a"))
    compiled = pastalang.compile(source if program else source.replace(" with (drafts=None)", ""))
    found = Engine(copying_model(), byte_tokenizer(), drafts=engine).run(compiled, {"title": TITLE}, drafts=call)
    assert (found.usage.drafted_tokens > 0) is is_drafted
    assert same(found, Engine(copying_model(), byte_tokenizer()).run(compiled, {"title": TITLE}, seed=0))


def test_each_field_may_say_how_much_is_guessed() -> None:
    fields = QUOTED.format("a") + '\n  b: verbatim(title, max=20) with (drafts="off")'
    engine = Engine(copying_model(), byte_tokenizer())
    for mode in ("strict", "sequential", "strict", "sequential"):  # what fields held is remembered for the second time
        found = engine.run(pastalang.compile(WITH.format(8, fields)), {"title": TITLE}, mode=mode)
        assert 0 < found.usage.confirmed_tokens <= len(found.fields[0].tokens)
        draws = sorted(found.trace.drawn, key=lambda one: one.position)
        gap = max(range(1, len(draws)), key=lambda at: draws[at].position - draws[at - 1].position)
        quiet = {one.forward_pass for one in draws[gap:]}
        assert len(quiet) == len(draws) - gap > 9, "each draw of `b` has a pass of its own"


def test_a_program_that_asks_for_what_is_worth_its_time_has_the_steps_measured() -> None:
    engine = Engine(copying_model(), byte_tokenizer())
    engine.run(pastalang.compile(WITH.format('"auto"', QUOTED.format("a"))), {"title": TITLE})
    assert engine.loop.drafter.costs is not None


@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", '"always"', "true", "null", "[1]"])
def test_nonsense_in_a_program_is_refused_where_it_stands(wrong: str) -> None:
    with pytest.raises(ProgramError, match='`drafts` must be "auto", "off" or a whole number of at least 1'):
        pastalang.compile(WITH.format(wrong, QUOTED.format("a")))


@pytest.mark.parametrize("asked", ['"auto"', '"off"', "12"])
def test_what_a_program_says_about_drafts_is_written_and_read_back(asked: str) -> None:
    program = pastalang.compile(WITH.format('"auto"', f"a: string(max=4) with (drafts={asked})"))
    plan = build_plan(program.only_template, program)
    assert from_json(to_json(plan)) == plan and plan.output is not None
    again = pastalang.compile("template t(title: text)\nassistant json " + type_source(plan.output))
    assert build_plan(again.only_template, again).output == plan.output


def test_no_drafts_in_lock_step() -> None:
    assert run("lockstep", drafts=8).usage.drafted_tokens == 0


def test_drafts_fit_into_the_memory_that_the_answer_needs() -> None:
    plain = run()
    small = Engine(copying_model(cells=plain.usage.peak_cells), byte_tokenizer(), prefix_cells=0)
    assert same(plain, run(engine=small, drafts=8))


def test_a_device_without_memory_for_drafts_goes_on_without_them() -> None:
    class Narrow(FakeModel):
        def forward(self, batch: StepBatch) -> torch.Tensor:
            if not all(run.keep for run in batch.runs):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return super().forward(batch)

    engine = Engine(Narrow(copying_model()._score, vocabulary=320, cells=1 << 14), byte_tokenizer())
    plain, drafted = run(), run(engine=engine, drafts=8)
    assert same(plain, drafted) and drafted.usage.forward_passes == plain.usage.forward_passes
    assert engine.scheduler.step_budget.most is None, "steps without drafts were never too large"


def test_a_number_of_drafts_is_fed_whatever_it_costs() -> None:
    engine = Engine(copying_model(), byte_tokenizer(), prefix_cells=0)
    engine.loop.drafter.costs = STEEP
    asked = run(engine=engine, drafts=8).usage.drafted_tokens
    assert run(engine=engine, drafts="auto").usage.drafted_tokens < asked, "not every guess is worth its time"


def test_a_number_of_drafts_is_the_most_guesses_of_a_field() -> None:
    few, many = (run(drafts=most).usage for most in (1, 8))
    assert few.drafted_tokens < many.drafted_tokens and few.forward_passes > many.forward_passes


SHORT = pastalang.compile('''
template t
user """x"""
assistant json {
  a: boolean
  b: "red" | "green" | null
  c: integer(0..99)
  d: boolean
}
''')


def test_one_after_another_a_draft_runs_on_into_the_next_field() -> None:
    engine = Engine(copying_model(), byte_tokenizer())
    first, again = (engine.run(SHORT, mode="sequential", drafts=32) for _ in range(2))
    assert same(first, again)
    assert first.usage.forward_passes == len(first.fields) + 1 and again.usage.forward_passes == 2


@pytest.mark.parametrize("cells", [1, 3])
def test_a_memory_without_room_to_measure_has_no_drafts(cells: int) -> None:
    engine = Engine(copying_model(cells=cells), byte_tokenizer(), prefix_cells=0)
    with pytest.raises(OutOfMemory):
        engine.run(COPIES, {"title": TITLE}, drafts="auto")
    assert engine.scheduler.memory.cells.in_use == 0


@pytest.mark.parametrize("problem", [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."), OSError()])
def test_a_step_that_cannot_be_measured_leaves_nothing_behind(problem: Exception) -> None:
    class Failing(FakeModel):
        def forward(self, batch: StepBatch) -> torch.Tensor:
            if len(batch.wanted) == 16:
                raise problem
            return super().forward(batch)

    engine = Engine(Failing(copying_model()._score, vocabulary=320, cells=1 << 12), byte_tokenizer(), prefix_cells=0)
    if isinstance(problem, OSError):
        with pytest.raises(OSError):
            run(engine=engine, drafts="auto")
        assert engine.scheduler.memory.cells.in_use == 0
    else:
        assert same(run(), run(engine=engine, drafts="auto"))
        costs = engine.loop.drafter.costs
        assert costs is not None and [size for size, _ in costs.measured] == [1, 4, 8]


@pytest.mark.parametrize("wrong", [0, -1, True, "always", 1.5])
def test_what_drafts_may_be_is_said(wrong: object) -> None:
    with pytest.raises(BadInputs, match='`drafts` must be "auto", "off" or a whole number of at least 1'):
        run(drafts=wrong)
    with pytest.raises(BadInputs, match="`drafts` must be"):
        Engine(copying_model(), byte_tokenizer(), drafts=wrong)  # type: ignore[arg-type]


# ── the budget ───────────────────────────────────────────────────────────────────────────────────────────


def chain(*chances: float) -> list[Guess]:
    return [Guess(7, number - 1, chance) for number, chance in enumerate(chances)]


STEEP = StepCosts(((1, 1.0), (100, 100.0)))


def test_where_tokens_cost_nothing_all_guesses_are_fed() -> None:
    tree = chain(0.9, 0.2, 0.01)
    assert worth_feeding([tree, tree], StepCosts.flat(), step=2, most=9) == (tuple(tree), tuple(tree))


def test_where_a_token_costs_as_much_as_a_pass_none_is_fed() -> None:
    assert worth_feeding([chain(0.99, 0.99)], STEEP, step=1, most=9) == ((),)


def test_the_likeliest_guesses_of_all_branches_come_first() -> None:
    low, high = chain(0.5, 0.5), chain(0.9, 0.9)
    assert [len(tree) for tree in worth_feeding([low, high], StepCosts.flat(), step=2, most=2)] == [0, 2]


@given(st.lists(st.lists(st.floats(0.01, 1), max_size=6), min_size=1, max_size=4), st.integers(0, 12), st.data())
def test_a_guess_comes_with_its_parent(chances: list[list[float]], most: int, data: st.DataObject) -> None:
    trees = [
        [
            Guess(10 * tree + place, data.draw(st.integers(FROM_BRANCH, place - 1)), chance)
            for place, chance in enumerate(one)
        ]
        for tree, one in enumerate(chances)
    ]
    costs = data.draw(st.sampled_from((StepCosts.flat(), StepCosts(((1, 1.0), (64, 3.0))), STEEP)))
    kept = worth_feeding(trees, costs, step=len(trees), most=most)
    assert sum(map(len, kept)) <= most
    for tree, taken in zip(trees, kept, strict=True):
        parents = {guess.token: _token(tree, guess.parent) for guess in tree}
        assert all(parents[guess.token] == _token(taken, guess.parent) for guess in taken)
        assert all(guess.parent < place for place, guess in enumerate(taken))


def _token(tree: Sequence[Guess], place: int) -> int | None:
    return None if place == FROM_BRANCH else tree[place].token


def test_times_that_fall_are_noise() -> None:
    costs = StepCosts.of([(1, 2.0), (4, 1.0), (8, 3.0)])
    assert costs.measured == ((1, 1.0), (4, 1.0), (8, 3.0))
    assert [costs(tokens) for tokens in (1, 2, 6, 12)] == [1.0, 1.0, 2.0, 5.0]
