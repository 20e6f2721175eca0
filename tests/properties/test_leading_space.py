"""White space given to the hole after it: the same values, the same text, and the tokenizer's own tokens."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pastalang
from pastalang import Engine, FieldDone, Mode, Plan, Sampling, TextDelta, build_plan
from pastalang.plan.branches import Choose, Form, Hole, Repeat
from pastalang.plan.structure import walk_plan
from pastalang.program import types as t
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.binding.whitespace import move_whitespace
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import Guide, State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.testing.fakes import FakeModel, hashed_model, hashed_score
from pastalang.training.recording import IGNORED, TrainingRow, record
from pastalang.values.fit import read
from pastalang.values.json import parse_json
from tests.oracle import logits_from
from tests.oracle.differential import check_exact
from tests.properties.hole_types import SOURCE
from tests.properties.hostile import PICKS, SIMPLE, STRUCTURES, TYPES
from tests.properties.splitting import MERGING, TOKENIZERS, tools
from tests.properties.test_guides import decode

KINDS = sorted(TOKENIZERS)
SAMPLED = Sampling(temperature=1.0)

PRODUCT = '''
template product(note: text)
user """Read: {note}"""
assistant json {
  brand: string(max=24) | null
  kind: "active" | "archived" | "good"
  price: number
  rating: integer(1..5)
  sure: boolean | null
  size: { width: number, unit: "cm" | "in" } | null
  ports: [string(max=6)](max=3, max_tokens=30)
  lines: [{ name: string(max=24), qty: integer(max_tokens=6) }](max=2)
  quote: verbatim(note) | null
  sequential { first: string(max=24), last: boolean }
  headline: string(max=24) after brand
}
'''
TRIP = '''
template trip(note: text)
user """Plan {note}."""
assistant text """
Go: {opening: string(max=10)}. The mood is {mood: "good" | "bad"}, it costs {price: number(max_tokens=8)}.
All: {all: {a: integer(max_tokens=6), b: string(max=6)}}
{async food ~20: string(max=9)}
{fork tip (0..3)}
{n}. {root: string(max=8, stop=":")}: {async detail: string(max=8)}
{end}
{sync food}
In short: {summary: string(max=10)}
"""
'''


def plan_of(source: str, mode: Mode) -> Plan:
    program = pastalang.compile(source)
    return build_plan(program.only_template, program, mode=mode)


def guide_of(type: t.Type, form: Form, follow: str, tokens: Tokens) -> Guide:
    return compile_guide(type, form=form, follow=follow, vocabulary=tokens, types=TYPES, sources={"source": SOURCE})


# ── guides ───────────────────────────────────────────────────────────────────────────────────────────────

CLOSED: tuple[t.Type, ...] = (
    t.Boolean(),
    t.Union((t.Literal("active"), t.Literal("archived"), t.Literal("good"), t.Literal("go"), t.Null())),
    t.Integer(minimum=1, maximum=120),
    t.Union((t.Integer(minimum=-3, maximum=12), t.Null())),
    t.Number(minimum=Decimal(0), maximum=Decimal(2), multiple_of=Decimal("0.25")),
    t.Regex("(the|of)? ?[ab]{1,2}"),
    t.Array(t.Union((t.Literal("new"), t.Boolean())), 0, 2),
)


def language(state: State, left: dict[Any, frozenset[str]], done: bytes, tokens: Tokens) -> frozenset[str]:
    """All values that a guide lets through, whatever their tokens."""
    if state.is_finished:
        return frozenset((state.text,))
    if done not in left:
        found: set[str] = set()
        for token in tokens_of(state.allowed()).tolist():
            after = state.fork()
            after.advance(token)
            found |= language(after, left, done + (tokens.text(token) or b"\x00"), tokens)
        left[done] = frozenset(found)
    return left[done]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type", CLOSED, ids=str)
@pytest.mark.parametrize("lead", [" ", "  "])
def test_white_space_before_a_value_does_not_change_the_values(kind: str, type: t.Type, lead: str) -> None:
    _, _, tokens = tools(kind)
    for form, follow in ((Form.JSON, ",\n"), (Form.TEXT, "")):
        if form is Form.TEXT and isinstance(type, t.Array):
            continue
        bare = guide_of(type, form, follow, tokens)
        led = bare.after(lead)
        limit = 60
        values = language(bare.start(max_tokens=limit), {}, b"", tokens)
        assert len(values) > 1
        assert language(led.start(max_tokens=limit), {}, b"", tokens) == values


@pytest.mark.parametrize("kind", KINDS)
def test_with_random_logits_a_value_after_white_space_fits_its_type_and_limit(kind: str) -> None:
    _, _, tokens = tools(kind)
    rng = random.Random(0)
    shapes = [(type, form) for type in SIMPLE for form in Form] + [(type, Form.JSON) for type in STRUCTURES]
    guides: dict[Any, Guide] = {}
    for _ in range(250):
        type, form = rng.choice(shapes)
        follow, limit, pick, lead = (
            rng.choice(some) for some in (("", ",\n  ", ". The end"), (1, 2, 3, 4, 6, 9, 24), [*PICKS], (" ", "  "))
        )
        key = type, form, follow, lead
        if key not in guides:
            guides[key] = guide_of(type, form, follow, tokens).after(lead)
        state = decode(guides[key], limit, PICKS[pick], tokens, rng)
        if state is not None:
            found = read(state.text, type, TYPES, quoted=form is Form.JSON, sources={"source": SOURCE})
            assert found.fits, (type, form, follow, pick, limit, state.text, found.mismatches)


@pytest.mark.parametrize("kind", sorted(MERGING))
def test_a_text_is_written_with_the_tokens_of_the_tokenizer_itself(kind: str) -> None:
    _, encoder, tokens = tools(kind)
    state = guide_of(t.String(), Form.TEXT, "\n", tokens).after(" ").start(max_tokens=9)
    for token in encoder.text(" Sony the tv\n"):
        assert token in tokens_of(state.allowed())
        state.advance(token)
    assert state.is_finished and state.text == "Sony the tv"


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────


def run(kind: str, source: str, mode: str, seed: int) -> tuple[Any, list[Any], Engine]:
    tokenizer, _, _ = tools(kind)
    engine = Engine(hashed_model(len(tokenizer), seed=seed), tokenizer)
    request = {"mode": mode, "seed": seed, "sampling": SAMPLED}
    events = list(engine.stream(pastalang.compile(source), {"note": "the good Sony tv"}, **request))
    return events[-1].result, events, engine


@pytest.mark.parametrize("kind", KINDS)
@given(
    source=st.sampled_from([PRODUCT, TRIP]), mode=st.sampled_from(["strict", "lockstep", "sequential"]),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=2)
def test_values_spans_and_deltas_are_without_the_lead(kind: str, source: str, mode: str, seed: int) -> None:
    result, events, engine = run(kind, source, mode, seed)
    if source is PRODUCT:
        json.loads(result.text)
    limits = {
        hole.field: hole.max_tokens
        for _, _, hole in walk_plan(engine.plan(pastalang.compile(source), mode=mode))
        if hasattr(hole, "max_tokens")
    }
    for field in result.fields:
        start, end = field.span
        assert result.text[start:end] == field.text and len(field.tokens) <= limits[field.path]
        if field.path == "mood":
            assert field.text in ("good", "bad")
        if field.path == "quote" and field.value is not None:
            assert field.value in "the good Sony tv"
    told: dict[Any, str] = {}
    for event in events:
        if isinstance(event, TextDelta):
            told[event.field, event.items] = told.get((event.field, event.items), "") + event.text
        if isinstance(event, FieldDone):
            assert told.get((event.field, event.items), "").startswith(event.text)
    engine.check_integrity()
    assert engine.scheduler.memory.cells.in_use == engine.scheduler.prefix.size


def check_tokens(kind: str, source: str, mode: Mode, seed: int) -> None:
    tokenizer, _, _ = tools(kind)
    model = hashed_model(len(tokenizer), seed=seed)
    model.dtype = torch.float64
    logits = logits_from(hashed_score(len(tokenizer), seed=seed))
    check_exact(Engine(model, tokenizer), plan_of(source, mode), NOTE, logits, seed=seed, sampling=SAMPLED)


@pytest.mark.parametrize("kind", sorted(MERGING))
@given(st.sampled_from([PRODUCT, TRIP]), st.sampled_from([Mode.STRICT, Mode.SEQUENTIAL]), st.integers(0, 99))
@settings(max_examples=1)
def test_the_slow_decoder_gives_the_same_tokens(kind: str, source: str, mode: Mode, seed: int) -> None:
    check_tokens(kind, source, mode, seed)


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(MERGING))
@given(source=st.sampled_from([PRODUCT, TRIP]), mode=st.sampled_from(list(Mode)), seed=st.integers(0, 999))
def test_the_slow_decoder_gives_the_same_tokens_at_length(kind: str, source: str, mode: Mode, seed: int) -> None:
    check_tokens(kind, source, mode, seed)


@pytest.mark.parametrize("kind", sorted(MERGING))
def test_what_is_decoded_again_has_its_white_space_once(kind: str) -> None:
    """Every field is decoded again behind a comment and its key; the lead comes with the value."""
    tokenizer, _, _ = tools(kind)
    model = hashed_model(len(tokenizer), seed=5)
    program = pastalang.compile('template t\nuser """Say."""\nassistant json { mood: "good" | "bad", sure: boolean }\n')
    result = Engine(model, tokenizer).run(program, {}, retry_below=0.999, seed=5, sampling=SAMPLED)
    again = [text for one in model.fed if '// not sure, once more:\n  "mood":' in (text := _read(tokenizer, one))]
    assert result.usage.attempts > 0 and again
    assert not any('"mood":  ' in text for text in again)
    assert result.value["mood"] in ("good", "bad")


def _read(tokenizer: Any, fed: FedToken) -> str:
    path = sorted({*fed.sees, fed}, key=lambda one: one.position)
    return str(tokenizer.decode([one.token for one in path][-60:]))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 99))
@settings(max_examples=2)
def test_left_to_right_the_model_has_read_the_text_of_the_answer(kind: str, seed: int) -> None:
    tokenizer, _, _ = tools(kind)
    model = hashed_model(len(tokenizer), seed=seed)
    result = Engine(model, tokenizer, prefix_cells=0).run(
        pastalang.compile(PRODUCT), {"note": "the tv"}, mode="sequential", sampling=SAMPLED
    )
    fed = tokenizer.decode([token for step in model.steps for token in step.tokens])
    answer = fed[fed.index("{\n") :]
    assert result.text.startswith(answer) and len(result.text) - len(answer) < 20


@pytest.mark.parametrize("source", [PRODUCT, TRIP])
@pytest.mark.parametrize("mode", list(Mode))
def test_where_white_space_stands_alone_nothing_is_handed_over(source: str, mode: Mode) -> None:
    plan = plan_of(source, mode)
    assert move_whitespace(plan, tools("bytes")[1]) is plan


@pytest.mark.parametrize("kind", sorted(MERGING))
def test_what_a_tokenizer_writes_together_is_handed_over(kind: str) -> None:
    bound = move_whitespace(plan_of(PRODUCT, Mode.STRICT), tools(kind)[1])
    led = {segment.field for _, _, segment in walk_plan(bound) if isinstance(segment, Hole) and segment.space}
    assert {"brand", "kind", "sure", "quote", "lines[].name", "headline", "size.unit"} <= led
    assert ("price" in led) is (kind != "newer"), "digits stand alone where they are split off"
    assert any(segment.space for _, _, segment in walk_plan(bound) if isinstance(segment, Choose | Repeat))


# ── the tokens of the tokenizer itself ───────────────────────────────────────────────────────────────────

names = st.lists(st.sampled_from(["Sony", "the tv", "x", "4K", "größer", "12 cm"]), min_size=1, max_size=2).map(
    " ".join
)


@st.composite
def products(draw: st.DrawFn) -> dict[str, Any]:
    line = st.fixed_dictionaries({"name": names, "qty": st.integers(0, 999)})
    size = st.fixed_dictionaries({"width": st.integers(0, 99), "unit": st.sampled_from(["cm", "in"])})
    return {
        "brand": draw(st.none() | names),
        "kind": draw(st.sampled_from(["active", "archived", "good"])),
        "price": draw(st.integers(0, 9999)),
        "rating": draw(st.integers(1, 5)),
        "sure": draw(st.none() | st.booleans()),
        "size": draw(st.none() | size),
        "ports": draw(st.lists(st.sampled_from(["in", "4K"]), max_size=2)),
        "lines": draw(st.lists(line, max_size=2)),
        "quote": draw(st.sampled_from([None, "good Sony", "tv"])),
        "first": draw(names),
        "last": draw(st.booleans()),
        "headline": draw(names),
    }


NOTE = {"note": "the good Sony tv"}


def taught(kind: str, mode: Mode, value: Any) -> tuple[TrainingRow, BoundPlan]:
    _, encoder, tokens = tools(kind)
    plan = BoundPlan(plan_of(PRODUCT, mode), encoder, GuideCache(tokens))
    return record(plan, tokens, NOTE, parse_json(json.dumps(value))), plan


@pytest.mark.parametrize("kind", KINDS)
@given(value=products(), mode=st.sampled_from([Mode.STRICT, Mode.LOCKSTEP, Mode.SEQUENTIAL]))
@settings(max_examples=3)
def test_a_model_that_says_what_is_taught_gives_the_value_that_is_taught(kind: str, value: Any, mode: Mode) -> None:
    """Every token that the engine feeds stands in the row, seeing the same tokens at the same positions."""
    tokenizer, _, _ = tools(kind)
    row, plan = taught(kind, mode, value)
    visible, labels = row.visible, {}
    for place in np.flatnonzero(row.labels != IGNORED).tolist():
        seen = zip(row.positions[visible[place]].tolist(), row.tokens[visible[place]].tolist(), strict=True)
        labels.setdefault((tuple(sorted(seen)), int(row.positions[place])), []).append(int(row.labels[place]))

    def score(fed: FedToken) -> list[float]:
        seen = tuple(sorted((one.position, one.token) for one in {*fed.sees, fed}))
        wanted = labels[seen, fed.position]
        assert len(set(wanted)) == 1, "two fields draw different tokens from one place"
        return [20.0 * (token == wanted[0]) for token in range(len(tokenizer))]

    result = Engine(FakeModel(score, vocabulary=len(tokenizer)), tokenizer).run(plan.plan, NOTE)
    assert result.value == value and result.usage.critical_path == row.passes


def natural(kind: str, target: str) -> FakeModel:
    """Says the tokens of the tokenizer itself for an answer, whatever of it stands there already."""
    tokenizer, encoder, tokens = tools(kind)
    spelling = tokens.vocabulary.spelling
    whole = encoder.text(target)

    def script(fed: FedToken) -> int:
        path = b"".join(spelling[one.token] or b"" for one in sorted({*fed.sees, fed}, key=lambda one: one.position))
        written = path[path.index(b"Assistant:\n") + len(b"Assistant:\n") :]
        at = 0
        for token in whole:
            if at == len(written):
                return token
            at += len(spelling[token] or b"")
        rest = target.encode()[len(written) :]
        return encoder.text(rest.decode())[0] if rest else min(encoder.ends)

    def score(fed: FedToken) -> list[float]:
        token = script(fed)
        return [20.0 * (one == token) for one in range(len(tokenizer))]

    return FakeModel(score, vocabulary=len(tokenizer))


@pytest.mark.parametrize("kind", KINDS)
@given(value=products())
@settings(max_examples=3)
def test_a_model_that_writes_as_its_tokenizer_does_gets_its_values_through(kind: str, value: Any) -> None:
    """Tokens that hold the end of a value and what follows it are among them: what is before the border counts."""
    tokenizer, _, _ = tools(kind)
    target = answer_text(value)
    result = Engine(natural(kind, target), tokenizer).run(pastalang.compile(PRODUCT), NOTE, mode="sequential")
    assert result.text == target and result.value == value


def answer_text(value: Any) -> str:
    """As the plan lays it out: read from a row of bytes, which ends before what no draw sees."""
    row, _ = taught("bytes", Mode.SEQUENTIAL, value)
    text = bytes(token for token in row.tokens.tolist() if token < 256).decode()
    text = text[text.index("{\n") :]
    return next(text + end for end in ("", "\n}", '"\n}') if (text + end).endswith('"\n}'))
