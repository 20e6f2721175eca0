"""Prompt tokens and mask tokens: what their probes see, what they save, and the file next to the weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import pastalang
from pastalang import Engine, LoadError, Result, Sampling
from pastalang.runtime.attention.plain_views import FedToken
from pastalang.runtime.drafts.budget import Probing, StepCosts, worth_feeding
from pastalang.runtime.drafts.guess_tree import Chances
from pastalang.runtime.drafts.sources import kind_of
from pastalang.runtime.models import probe_tokens
from pastalang.runtime.models.probe_tokens import BUCKETS, Accuracy, Kind, ProbeTokens, find_probe_tokens
from pastalang.runtime.scheduler.draft_tree import FROM_BRANCH, PROBE, DraftTree, Guess, Node
from pastalang.runtime.step import CellId, StepBatch
from pastalang.testing.byte_tokenizer import byte_tokenizer
from pastalang.testing.fakes import FakeModel
from tests.oracle.toy_models import toy_model

VOCABULARY = 320
TEXT = pastalang.compile('''
template t
user """Go."""
assistant text """
{a: string(max=40)} and {b: string(max=12)}
"""
''')
JSON = pastalang.compile('template t\nuser """Go."""\nassistant json { a: string(max=9), b: string(max=9) }')
SURE = ProbeTokens(torch.zeros(3, 2, 1), Accuracy.unknown(3))
MASK = ProbeTokens(torch.zeros(1, 1, 1), Accuracy.unknown(3))  # the same at each distance


def by_position(token: FedToken) -> list[float]:
    """The next token depends on the position only, so a probe predicts it as well as the token would."""
    logits = [0.0] * VOCABULARY
    logits[97 + token.position * 7 % 24] = 9.0
    return logits


def run(
    program: pastalang.Program = TEXT, *, ahead: ProbeTokens | None = SURE, **options: Any
) -> tuple[Result, FakeModel]:
    model = FakeModel(by_position, vocabulary=VOCABULARY)
    model.probe_tokens = ahead
    return Engine(model, byte_tokenizer()).run(program, **options), model


@pytest.mark.parametrize("ahead", [SURE, MASK])
@pytest.mark.parametrize("sampling", [None, Sampling(temperature=1.0)])
def test_what_probes_predict_is_drawn_in_fewer_passes(sampling: Sampling | None, ahead: ProbeTokens) -> None:
    plain, _ = run(sampling=sampling, ahead=ahead)
    drafted, _ = run(sampling=sampling, drafts=12, ahead=ahead)
    assert drafted.text == plain.text
    assert [field.log_probabilities for field in drafted.fields] == [field.log_probabilities for field in plain.fields]
    assert drafted.usage.forward_passes < plain.usage.forward_passes / 2
    assert run(sampling=sampling, drafts=12, ahead=None)[0].usage.forward_passes > drafted.usage.forward_passes


def test_a_probe_sees_its_host_and_those_of_its_own_row_before_it() -> None:
    _, model = run(drafts=12)
    probes = [one for one in model.fed if one.token >= VOCABULARY]
    assert {one.token for one in probes} == set(range(VOCABULARY, VOCABULARY + 6))
    for one in probes:
        distance, ensemble = divmod(one.token - VOCABULARY, SURE.ensemble)
        seen = [other for other in one.sees if other.token >= VOCABULARY]
        assert [other.token - VOCABULARY for other in seen] == [2 * near + ensemble for near in range(distance)]
        host = next(other for other in reversed(one.sees) if other.token < VOCABULARY)
        assert one.position == host.position + distance + 1
    assert not any(other.token >= VOCABULARY for one in model.fed if one.token < VOCABULARY for other in one.sees)


def test_masks_see_those_of_their_own_group_and_the_candidates_before_it() -> None:
    _, model = run(drafts=12, ahead=MASK)
    masks = [one for one in model.fed if one.token == VOCABULARY]
    groups = {step: set[int]() for step in range(4)}  # where masks stand, by how many of them they see
    for one in masks:
        seen = [other for other in one.sees if other.token == VOCABULARY and other is not one]
        host = next(other for other in reversed(one.sees) if other.token != VOCABULARY)
        assert one.position == host.position + len(seen) + 1
        assert [other.position for other in seen] == list(range(host.position + 1, one.position))
        groups[len(seen)].add(host.position)
    assert groups[0] >= groups[1] >= groups[2] and groups[2] and not groups[3]
    assert not any(other.token == VOCABULARY for one in model.fed if one.token < VOCABULARY for other in one.sees)


def test_what_is_sampled_is_predicted_by_the_key_that_samples_it() -> None:
    """Each of 24 letters is about as likely, so a guess would mostly be wrong if it were not drawn as the token is."""

    def score(token: FedToken) -> list[float]:
        return [0.0 if 97 <= one < 121 else -60.0 for one in range(VOCABULARY)]

    model = FakeModel(score, vocabulary=VOCABULARY)
    model.probe_tokens = MASK
    engine = Engine(model, byte_tokenizer())
    plain, drafted = (engine.run(TEXT, seed=5, sampling=Sampling(temperature=1.0), drafts=most) for most in ("off", 12))
    assert drafted.text == plain.text and len(set(plain.fields[0].tokens)) > 12
    assert drafted.usage.forward_passes < plain.usage.forward_passes / 2


@pytest.mark.parametrize(
    ("options", "has_probes"),
    [({}, False), ({"drafts": "off"}, False), ({"drafts": 8, "mode": "lockstep"}, False), ({"drafts": 8}, True)],
)
def test_no_probe_without_drafts_and_none_in_lock_step(options: dict[str, Any], has_probes: bool) -> None:
    assert any(one.token >= VOCABULARY for one in run(JSON, **options)[1].fed) is has_probes


def forget_ngrams(engine: Engine) -> None:
    engine.loop.drafter._ngrams.after = lambda _: iter(())  # type: ignore[method-assign]


def test_the_time_to_note_the_texts_of_the_model_counts_against_no_guess() -> None:
    model = FakeModel(by_position, vocabulary=VOCABULARY)
    model.probe_tokens = replace(SURE, written=torch.arange(200, dtype=torch.int32) % 90)
    engine = Engine(model, byte_tokenizer())
    ngrams = engine.loop.drafter._ngrams
    engine.prepare(TEXT, None, {"drafts": 8}, with_events=False)
    assert not list(ngrams.after([3])), "whoever asks for no weighing waits for no texts before they are needed"
    engine.prepare(TEXT, None, {"drafts": "auto"}, with_events=False)
    assert [token for token, _ in ngrams.after([3])] == [4], "before the first step whose time is taken"


@pytest.mark.parametrize(("seconds", "is_worth_it"), [(0.0, True), (0.5, True), (10.0, False)])
def test_what_takes_longer_to_read_than_it_saves_is_not_predicted(seconds: float, is_worth_it: bool) -> None:
    """A pass takes a second, and a probe is nearly always right: it saves up to three passes."""
    model = FakeModel(by_position, vocabulary=VOCABULARY)
    model.probe_tokens = SURE
    engine = Engine(model, byte_tokenizer())
    ahead = engine.loop.drafter._ahead
    assert ahead is not None
    forget_ngrams(engine)
    now, feed, look = 0.0, model.forward, ahead.look

    def forward(batch: StepBatch) -> torch.Tensor:
        nonlocal now
        now += 1.0
        return feed(batch)

    def slow_look(*given: Any) -> None:
        nonlocal now
        now += seconds
        look(*given)

    engine.loop.drafter._clock = lambda: now
    engine.loop.drafter.costs = StepCosts(((1, 1.0), (2, 1.0)))
    with mock.patch.object(model, "forward", forward), mock.patch.object(ahead, "look", slow_look):
        runs = [engine.run(TEXT, drafts="auto").usage for _ in range(4)]
    plain = engine.run(TEXT, drafts="off").usage.forward_passes
    if is_worth_it:
        assert all(one.forward_passes < plain / 2 for one in runs)
    else:
        assert sum(one.forward_passes for one in runs) > 3.5 * plain
        assert sum(one.drafted_tokens > 0 for one in runs) > 1, "tried again now and then"


def test_probes_whose_second_guess_is_right_go_on_being_fed() -> None:
    """The likeliest token that they predict never is."""

    def score(token: FedToken) -> list[float]:
        logits = by_position(token)
        if token.token >= VOCABULARY:
            logits[96] = 9.7
        return logits

    model = FakeModel(score, vocabulary=VOCABULARY)
    model.probe_tokens = SURE
    engine = Engine(model, byte_tokenizer())
    drafter = engine.loop.drafter
    drafter._clock = lambda: 0.0
    drafter.costs = StepCosts(((1, 1.0), (101, 11.0)))
    drafter.remember = lambda _: None  # type: ignore[method-assign]
    plain, *runs = (engine.run(TEXT, drafts=drafts).usage for drafts in ("off", *["auto"] * 12))
    assert runs[-1].forward_passes < plain.forward_passes / 2


def test_probes_that_predict_nothing_worth_guessing_are_given_up() -> None:
    """Each token is as likely as any other, so no guess of theirs is ever fed."""

    def score(token: FedToken) -> list[float]:
        return [0.0] * VOCABULARY if token.token >= VOCABULARY else by_position(token)

    model = FakeModel(score, vocabulary=VOCABULARY)
    model.probe_tokens = SURE
    engine = Engine(model, byte_tokenizer())
    forget_ngrams(engine)
    before = engine.loop.drafter._ahead.probing([]).gains
    for _ in range(8):
        engine.run(TEXT, drafts=12)
    after = engine.loop.drafter._ahead.probing([]).gains
    assert all(now < then / 5 for now, then in zip(after, before, strict=True))


@pytest.mark.parametrize(("probability", "other"), [(0.06, 0.005), (0.3, 0.15), (0.95, 0.6)])
def test_a_predicted_token_is_not_judged_by_others_that_are_less_likely(probability: float, other: float) -> None:
    chances = Chances(lambda distance, bucket: SURE.accuracy.by_chance[distance][bucket])
    before = chances.of(kind_of(1, probability))
    wrong = Node(Guess(5, FROM_BRANCH, 0.1, kind_of(1, other)), cell=CellId(0), position=0, row=0)
    for _ in range(300):
        chances.learn(DraftTree(mock.Mock(), 0, [wrong], is_weighed=True))
    assert chances.of(kind_of(1, probability)) == before
    assert chances.of(kind_of(1, other)) < 0.03


# ── the budget ───────────────────────────────────────────────────────────────────────────────────────────

PROBES = Probing((0.8, 0.5), ((320,), (321,)))


def test_probes_follow_the_guess_that_is_likely_to_be_the_last_right_one() -> None:
    tree = [Guess(1, FROM_BRANCH, 0.9), Guess(2, FROM_BRANCH, 0.05)]
    [found] = worth_feeding([tree], StepCosts.flat(), step=1, most=3, probing=PROBES)
    assert [(guess.token, guess.parent) for guess in found] == [(1, -1), (320, 0), (321, 1)]


def test_where_tokens_cost_nothing_probes_follow_everything() -> None:
    [found] = worth_feeding([[Guess(1, FROM_BRANCH, 0.5)]], StepCosts.flat(), step=1, most=99, probing=PROBES)
    assert sorted((guess.token, guess.parent) for guess in found if guess.kind == PROBE) == [
        (320, -1), (320, 0), (321, 1), (321, 3),
    ]  # fmt: skip


def test_a_probe_is_fed_only_if_it_is_worth_its_time() -> None:
    costly = StepCosts(((1, 1.0), (100, 80.0)))
    assert worth_feeding([[]], costly, step=1, most=9, probing=Probing((0.7,), ((320,),))) == ((),)
    assert len(worth_feeding([[]], costly, step=1, most=9, probing=Probing((0.9,), ((320,),)))[0]) == 1


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────


ACCURACY = Accuracy(((0.5, 0.6), (0.2, 0.3)), (0.5, 0.1), ((0.1,) * BUCKETS, (0.2,) * BUCKETS))


@pytest.fixture(params=[Kind.PPD, Kind.SPACE])
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(request.param)


@pytest.fixture
def folder(tmp_path: Path, kind: Kind) -> Path:
    model = toy_model(vocabulary=VOCABULARY)
    model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    save(tmp_path, kind, model.config.hidden_size)
    return tmp_path


def save(folder: Path, kind: Kind, hidden: int) -> None:
    rows = torch.randn(2, 2, hidden) if kind is Kind.PPD else torch.randn(1, 1, hidden)
    ProbeTokens(rows, ACCURACY).save(folder, toy_model(vocabulary=VOCABULARY), kind)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_they_are_found_next_to_the_weights(folder: Path, kind: Kind, dtype: Any) -> None:
    engine = pastalang.Engine.load(folder, dtype=dtype, device="cpu")
    found = engine.model.probe_tokens
    assert found is not None and found.accuracy.runs == (0.5, 0.1) and found.accuracy.by_chance[1] == (0.2,) * BUCKETS
    assert found.ids(VOCABULARY) == (((320, 321), (322, 323)) if kind is Kind.PPD else ((320,), (320,)))
    drafted = engine.run(TEXT, drafts=8)
    assert drafted.usage.drafted_tokens > 0
    if dtype == "float32":
        assert drafted.text == engine.run(TEXT).text


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Kind.PPD, "holds the prompt tokens of other weights: train again with `pasta train ppd`"),
        (Kind.SPACE, "holds the mask token of other weights: train again with `pasta train space`"),
    ],
)
def test_those_of_other_weights_are_refused(folder: Path, kind: Kind, said: str) -> None:
    other = toy_model(vocabulary=VOCABULARY, seed=9)
    other.save_pretrained(folder)
    with pytest.raises(LoadError, match=said):
        pastalang.Engine.load(folder)
    assert find_probe_tokens(folder, other, may_be_of_others=True) is None


def test_those_of_another_width_are_refused(folder: Path, kind: Kind) -> None:
    save(folder, kind, 48)
    with pytest.raises(LoadError, match="of other weights"):
        pastalang.Engine.load(folder)


def test_two_kinds_of_them_are_refused(folder: Path, kind: Kind) -> None:
    for one in Kind:
        save(folder, one, 32)
    with pytest.raises(LoadError, match=r"holds ppd.safetensors and space.safetensors, .* delete the other"):
        pastalang.Engine.load(folder)


@pytest.mark.parametrize("damage", [b"", b"not a file", None])
def test_a_damaged_file_is_named(folder: Path, kind: Kind, damage: bytes | None) -> None:
    file = folder / kind.file
    file.write_bytes(file.read_bytes()[:-9] if damage is None else damage)
    with pytest.raises(LoadError, match=f"{kind.file}, {kind.holds} of the model, cannot be read"):
        pastalang.Engine.load(folder)


def test_a_file_of_an_older_version_is_refused_with_what_to_do(folder: Path, kind: Kind) -> None:
    with mock.patch.object(probe_tokens, "_VERSION", "1"):
        save(folder, kind, 32)
    with pytest.raises(LoadError, match=f"of version 1, and version 2 can be read: train again with `{kind.command}`"):
        pastalang.Engine.load(folder)


@pytest.mark.parametrize(
    "written", [torch.tensor([[1]]), torch.tensor([1.5]), torch.tensor([3, -7], dtype=torch.int32)]
)
def test_a_file_with_texts_that_are_none_is_refused(folder: Path, kind: Kind, written: torch.Tensor) -> None:
    file = folder / kind.file
    with safe_open(file, framework="pt") as found:
        about, tensors = found.metadata(), {name: found.get_tensor(name) for name in ("rows", "weights")}
    save_file(tensors | {"written": written}, file, about)
    with pytest.raises(LoadError, match="its parts do not fit together"):
        pastalang.Engine.load(folder)


def test_a_file_under_the_name_of_the_other_kind_is_refused(folder: Path, kind: Kind) -> None:
    other = next(one for one in Kind if one is not kind)
    (folder / kind.file).rename(folder / other.file)
    with pytest.raises(LoadError, match="its parts do not fit together"):
        pastalang.Engine.load(folder)
