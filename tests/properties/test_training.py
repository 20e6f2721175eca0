"""One training forward gives the logits that decoding saw, those of masks too, for any program, mode and schedule."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pastalang
from pastalang.plan.branches import Mode
from pastalang.plan.build import build_plan
from pastalang.program.types import Sampling
from pastalang.runtime.binding.bound_plan import BoundPlan
from pastalang.runtime.binding.guide_cache import GuideCache
from pastalang.runtime.constraints.tagged_text import TaggedTextGuides
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.models.probe_tokens import Accuracy, ProbeTokens, with_probe_tokens
from pastalang.runtime.models.transformers import TransformersModel
from pastalang.runtime.sampling.sampler import Sample
from pastalang.runtime.scheduler.scheduler import Scheduler
from pastalang.runtime.scheduler.state import BranchState, RequestState
from pastalang.runtime.scheduler.step_budget import Limits
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.training.answer import Answer, answer_of
from pastalang.training.batches import collate, logits_of
from pastalang.training.probe_lines import hosts_of
from pastalang.training.probe_methods import with_masks
from pastalang.training.recording import IGNORED, Teacher, TrainingRow, record
from pastalang.values.json import JsonValue, parse_json
from tests.oracle.toy_models import Family, toy_model
from tests.properties.tally import Invariant, count
from tests.runtime.float64 import in_float64, wide_softmax
from tests.training.watched import OnlyProbes, Watched, context_of

TOLERANCE = 1e-9
MASKS = 2  # after each token that something is drawn from
Masks = dict[tuple[object, int, int], torch.Tensor]
TOKENIZER = byte_tokenizer()
ENCODER = Encoder(TOKENIZER)
TOKENS = Tokens(vocabulary_of(TOKENIZER, ends=ENCODER.ends, encode=ENCODER.text))
GUIDES = TaggedTextGuides(TOKENS, ENCODER, GuideCache(TOKENS))

SKELETON = '''
template record(title: text)
user """Read: {title}"""
assistant json {
  brand: string(max=30) | null
  kind: "tv" | "phone"
  size: { width: number, unit: "cm" | "in" } | null
  ports: [string(max=6)](max=4, max_tokens=36)
  lines: [{ name: string(max=20), qty: integer }](max=3)
  quote: verbatim(title, at="characters") | null
  sequential { first: string(max=20), sure: boolean }
  headline: string(max=30) after brand
}
'''
STACKED = '''
template records(each note: text)
system """Answer."""
user """{note}"""
assistant json { topic: string(max=30) | null, mood: "good" | "bad" }
'''
RUNNING = '''
template trip(city: text)
user """Plan {city}."""
assistant text """
Go: {opening: string(max=40)}
{async food ~60: string(max=60)}
{fork tip (0..3)}
{n}. {root: string(max=20, stop=":")}: {async detail: string(max=40)}
{end}
{sync food}
In short: {summary: string(max=40)}
"""
'''
THINKING = '''
template verdict(title: text)
user """{title}"""
assistant think(max=30) json { brand: string(max=30) | null, kind: "tv" | "phone" }
'''

OWN_THREADS = '''
template plan(city: text)
user """Plan {city}."""
assistant auto(POLICY, max=220)
'''

words = st.text('abcé "\\', min_size=1, max_size=8).map(str.strip).filter(bool)


@st.composite
def records(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any]:
    title = draw(words) + " tv"
    size = {"width": draw(st.integers(0, 99)), "unit": draw(st.sampled_from(["cm", "in"]))}
    value = {
        "brand": draw(st.none() | words),
        "kind": draw(st.sampled_from(["tv", "phone"])),
        "size": draw(st.none() | st.just(size)),
        "ports": draw(st.lists(st.text("ab", max_size=3), max_size=3)),
        "lines": draw(st.lists(st.fixed_dictionaries({"name": words, "qty": st.integers(-9, 999)}), max_size=3)),
        "quote": draw(st.none() | st.just(title[1:])),
        "first": draw(words),
        "sure": draw(st.booleans()),
        "headline": draw(words),
    }
    return SKELETON, {"title": title}, value


@st.composite
def stacks(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any]:
    one = st.fixed_dictionaries({"topic": st.none() | words, "mood": st.sampled_from(["good", "bad"])})
    notes = draw(st.lists(words, min_size=1, max_size=3))
    return STACKED, {"note": notes}, draw(st.lists(one, min_size=len(notes), max_size=len(notes)))


@st.composite
def trips(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any]:
    tip = st.fixed_dictionaries({"root": words, "detail": words})
    value = {"opening": draw(words), "food": draw(words), "summary": draw(words)}
    return RUNNING, {"city": draw(words)}, value | {"tip": draw(st.lists(tip, max_size=3))}


@st.composite
def own_threads(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any]:
    """Texts with threads of every length, announced longer and shorter than they are, and waits anywhere."""
    policy = draw(st.sampled_from(("pasta", "apar")))
    text = draw(words)
    for thread in draw(st.lists(words, max_size=4)):
        if policy == "apar":
            text += f"[Fork][Child]{thread}[/Child]"
        else:
            text += f'<promise tokens="{draw(st.integers(0, 30))}"/><async>{thread}</async>'
            text += draw(st.sampled_from(("", "", "<sync/>")))
        text += draw(st.just("") | words)
    return OWN_THREADS.replace("POLICY", policy), {"city": draw(words)}, text


def bound(source: str, mode: Mode) -> BoundPlan:
    program = pastalang.compile(source)
    return BoundPlan(build_plan(program.only_template, program, mode=mode), ENCODER, GUIDES)


@st.composite
def verdicts(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any]:
    value = {"brand": draw(st.none() | words), "kind": draw(st.sampled_from(["tv", "phone"]))}
    return THINKING, {"title": draw(words)}, value


def thought_of(source: str, inputs: Any) -> str | None:
    """What is thought before the answer: anything, here the title."""
    return f" {inputs['title']}.\n" if source == THINKING else None


def exact(value: Any) -> JsonValue:
    return parse_json(json.dumps(value))


WINDOWS = {Family.LLAMA: None, Family.GEMMA3: 12, Family.MISTRAL: 20}


@cache
def model_for_tests(family: Family = Family.LLAMA) -> Any:
    return in_float64(toy_model(family, vocabulary=264, seed=3, window=WINDOWS[family]))


def decode(
    plan: BoundPlan, inputs: Any, answer: Answer, model: Any, rest: random.Random | None
) -> tuple[dict[Any, Any], Masks]:
    """The logits that decoding draws from, by field and number of the draw, and those of masks after each token that is
    drawn from; `rest` makes branches pause."""
    moving = None if rest is None else (lambda _: rest.random() < 0.7)
    mask = ProbeTokens(mask_of(model), Accuracy.unknown(MASKS))
    wrapped = Watched(TransformersModel(model, cells=4096, probe_tokens=mask))
    request = RequestState(plan, inputs, number=0, base=Sampling(drafts=MASKS))
    limits = Limits(chunk=5 if rest is not None else None)
    scheduler = Scheduler(
        cells=4096, max_position=60_000, schedule_filter=moving, limits=limits,
        drafter=OnlyProbes(mask.ids(wrapped.vocabulary)),
    )  # fmt: skip
    scheduler.submit(request)
    teacher = Teacher(answer, TOKENS, ENCODER)
    found: dict[Any, list[torch.Tensor]] = {}
    idle = 0
    while not request.is_over:
        step = scheduler.schedule()
        idle = idle + 1 if step is None else 0
        assert idle < 200
        if step is not None:
            logits = wrapped.forward(step.batch)
            pending = scheduler.commit()
            while pending:
                samples = []
                for one in pending:
                    token = teacher.token(one.branch)
                    found.setdefault(name_of(one.branch), []).append(logits[one.row])
                    samples.append((one, Sample(token, 0.0)))
                pending = scheduler.accept(samples)
        scheduler.end_step()
    assert request.error is None, request.error
    return found, wrapped.found


def name_of(branch: BranchState) -> Any:
    if branch.pending.hole is not None:
        return branch.pending.hole.field.path, branch.cursor.items
    assert branch.pending.decision is not None
    return branch.pending.decision.field, branch.cursor.items


def trained(row: TrainingRow, model: Any, neighbours: list[TrainingRow]) -> tuple[dict[Any, Any], Masks]:
    """The logits of one training forward at the places of the labels, the row packed between others; and those of the
    masks after all hosts of the row."""
    hosts, vocabulary = hosts_of(row, MASKS), model.config.get_text_config().vocab_size
    rows = [*neighbours, with_masks(row, hosts, vocabulary)]
    model.set_attn_implementation("eager")  # decoding put its own attention there
    batch = collate([rows], sum(map(len, rows)) + 3)
    start = sum(map(len, neighbours))
    with torch.inference_mode(), with_probe_tokens(model, batch.tokens, mask_of(model), vocabulary) as tokens:
        logits = logits_of(model, replace(batch, tokens=tokens))[0]
    found: dict[Any, list[torch.Tensor]] = {}
    for taught in row.taught:
        assert batch.labels[0, start + taught.place] == taught.token
        found.setdefault((taught.field, taught.items), []).append(logits[start + taught.place])
    masks = iter(logits[start + len(row) :])
    return found, {
        (context_of(row, host), 0, far): next(masks) for host in hosts for far in range(len(host.places) - 1)
    }


@cache
def mask_of(model: Any) -> torch.Tensor:
    """The embedding of a mask token."""
    noise = torch.Generator().manual_seed(1)
    return torch.randn(1, 1, model.config.get_text_config().hidden_size, dtype=torch.float64, generator=noise)


def check(source: str, inputs: Any, value: Any, mode: Mode, seed: int | None, family: Family = Family.LLAMA) -> None:
    model, window = model_for_tests(family), WINDOWS[family]
    plan = bound(source, mode)
    row = record(plan, TOKENS, inputs, exact(value), thought=thought_of(source, inputs), window=window)
    assert int((row.labels != IGNORED).sum()) == len(row.taught)
    neighbour = record(
        bound(STACKED, Mode.STRICT), TOKENS, {"note": ["x"]}, [{"topic": "y", "mood": "bad"}], window=window
    )
    with wide_softmax():
        answer = answer_of(plan.plan, exact(value), inputs, thought=thought_of(source, inputs))
        decoded, masks = decode(plan, inputs, answer, model, None if seed is None else random.Random(seed))
        together, predicted = trained(row, model, [neighbour])
    assert decoded.keys() == together.keys()
    both = masks.keys() & predicted.keys()
    assert 2 * len(both) >= len(predicted) or mode is Mode.LOCKSTEP  # decisions have no masks, and lock-step has none
    assert all((masks[place] - predicted[place]).abs().max() < TOLERANCE for place in both)
    for name, logits in decoded.items():
        assert torch.stack(logits).shape == torch.stack(together[name]).shape
        assert (torch.stack(logits) - torch.stack(together[name])).abs().max() < TOLERANCE


def check_training(data: st.DataObject) -> None:
    sample = data.draw(st.one_of(records(), stacks(), trips(), verdicts(), own_threads()))
    mode, seed = data.draw(modes()), data.draw(schedules())
    source, inputs, value = sample
    check(source, inputs, value, mode, seed, data.draw(st.sampled_from(list(WINDOWS))))
    count(Invariant.TRAINING, sample, mode, seed)


def modes() -> st.SearchStrategy[Mode]:
    return st.sampled_from(list(Mode))


def schedules() -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, 1 << 20)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_one_training_forward_gives_the_logits_of_every_schedule(data: st.DataObject) -> None:
    check_training(data)
