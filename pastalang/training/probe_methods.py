"""Weights and tokens that predict what the model says next but one, and further on, so that decoding saves passes.

ppd     prompt tokens: embeddings, trained on frozen weights. The weights are copied as they are, and `ppd.safetensors`
        is written next to them
            inputs ── the model's own answers ── what it said at each place ── prompt tokens ── how often they are right
space   the weights are taught to predict at masked places, next to what the model is taught anyway (SAR-SFT)
            row            a b c d e f g      the tokens that other methods teach, with the same labels
            cut after c    M M M              masks in the places of d, e, f: they learn to say e, f, g

A mask sees what its host sees, its host, and the masks before it of its own group, as a probe does in decoding. Nothing
else sees it, so a row teaches all of its tokens and several groups of masks at once. The masks share one embedding,
which is trained with the weights and kept next to them in `space.safetensors`. No answer changes: what is predicted is
guessed (`drafts`), and only saves passes if it is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.program.program import Program
from pastalang.program.types import Sampling
from pastalang.runtime.attention.masks import layer_windows
from pastalang.runtime.engine import Engine
from pastalang.runtime.models.loading import LoadedModel, default_device, load_model
from pastalang.runtime.models.probe_tokens import BREAK, Accuracy, Kind, ProbeTokens, with_probe_tokens
from pastalang.training.batches import Batch, Line, Where, collate, logits_of, loss_of
from pastalang.training.data import Asked, read_asked
from pastalang.training.errors import BadData, BadRow, BadRows
from pastalang.training.evaluation import Evaluation
from pastalang.training.method import Method, note_of
from pastalang.training.model_files import Base, read_base, save
from pastalang.training.probe_lines import (
    Contexts,
    Host,
    Hosts,
    ProbeBatches,
    ProbeLine,
    Probing,
    Tally,
    ahead_logits,
    distillation,
    hosts_of,
    lines_of,
    near_of,
    table,
)
from pastalang.training.recording import IGNORED, Drawn, Recorder, TrainingRow, drawn_of, planner
from pastalang.training.row_files import RowFile, fingerprint_of
from pastalang.training.run_folder import (
    WORK,
    Checkpoints,
    Metrics,
    Progress,
    ReportLine,
    Step,
    StepLines,
    check_folder,
    fingerprint_of_weights,
    kept_lines,
    own_folder,
    put_weights,
    write_options,
)
from pastalang.training.settings import LogName, Settings
from pastalang.training.trainer import train
from pastalang.values.describe import counted

_TOGETHER: Final = 16  # rows that are answered together, and kept together
_TOGETHER_ON_GPU: Final = 128  # where a pass takes about as long with hundreds of requests
_CELLS: Final = 1 << 15
_HOSTS: Final = 16  # of a line in a batch
_JUDGED: Final = 64  # of a line that is judged
_CACHED: Final = 2 << 30  # bytes of keys, values and distributions that are kept
_SHARE: Final = 0.1  # of the lines that judge
_KEPT: Final = 1 << 18  # tokens of answers that are saved with the prompt tokens
_FEWEST: Final = 4  # lines; with fewer, all of them train and judge


@dataclass(frozen=True, slots=True)
class PromptTraining:
    """`distances`: how many tokens are predicted; `ensemble`: embeddings at each, whose logits are averaged; `decay`:
    how much less a distance counts than the one before it. `temperature`: of the model's own answers, None: as the
    program says; `samples`: answers to each row."""

    distances: int = 3
    ensemble: int = 1
    decay: float = 0.8
    temperature: float | None = None
    samples: int = 1


@dataclass(frozen=True, slots=True)
class PromptJob:
    """`data` needs the inputs of rows only. `rows`: lines of a batch; `length`: their tokens, at least."""

    program: Program
    model: str
    data: RowFile
    out: Path
    training: PromptTraining
    settings: Settings
    template: str | None = None
    mode: Mode = Mode.STRICT
    rows: int = 8
    length: int = 512
    device: str | None = None
    overwrite: bool = False
    options: Mapping[str, Any] | None = None
    logs: tuple[LogName, ...] = ()


def train_prompt_tokens(
    job: PromptJob, *, report: ReportLine = print, live: ReportLine | None = None,
    is_stopped: Callable[[], bool] = bool,
) -> Accuracy:  # fmt: skip
    """An interrupted run goes on. Gives how good the prompt tokens are. Raises `BadData`, `BadRows`, `Interrupted`."""
    check_folder(job.out, overwrite=job.overwrite)
    plan = planner(job.program, job.template)(job.mode)
    asked = _asked(job, plan)
    base = _loaded(job)
    identity = _identity(job, base, plan)
    with own_folder(job.out, overwrite=job.overwrite):
        write_options(job.out, job.options or {}, identity)
        drawn = _answered(job, base, plan, asked, identity, live)
        rows = list(_rows(job, base, plan, asked, drawn))
        length = max(job.length, *(len(row) for row in rows)) if rows else job.length
        lines = lines_of(rows, length=length, distances=job.training.distances)
        if not lines:
            raise BadData("no answer of the model has two tokens that follow one another: there is nothing to predict")
        hosts = sum(len(line.hosts) for line in lines)
        report(f"{counted(len(rows), 'answer')} of the model, {hosts:,} places to predict from, {len(lines)} lines")
        run = _Run(job, base, plan, lines, length, _texts(drawn), report, live)
        return run.all(identity, is_stopped)


def _loaded(job: PromptJob) -> LoadedModel:
    """Weights that nothing has rounded, because they are saved again."""
    device = job.device or default_device()
    own = read_base(job.model).dtype
    dtype = torch.float32 if device == "cpu" or own is torch.float16 else own  # gradients of float16 vanish
    return load_model(job.model, device=device, dtype=dtype, packed=False, adapter=None)


def _asked(job: PromptJob, plan: Plan) -> list[Asked]:
    found, _ = read_asked(job.data, plan)
    problems = [one for one in found if isinstance(one, BadRow)]
    if problems:
        raise BadRows(problems, rows=len(found))
    return [one for one in found if isinstance(one, Asked)]


def _identity(job: PromptJob, base: LoadedModel, plan: Plan) -> dict[str, str]:
    about = {name: str(value) for name, value in asdict(job.training).items()}
    return {
        **about, "method": "ppd", "program": note_of(plan, (job.mode,)).program, "mode": job.mode.value,
        "model": fingerprint_of_weights(base.weights), "data": fingerprint_of(job.data), "rows": str(job.rows),
        "length": str(job.length),
    }  # fmt: skip


# ── the model's own answers ──────────────────────────────────────────────────────────────────────────────


def _rows(
    job: PromptJob, base: LoadedModel, plan: Plan, asked: Sequence[Asked], drawn: Sequence[Drawn]
) -> Iterator[TrainingRow]:
    """The answers as they were decoded."""
    window = next((one for one in layer_windows(base.weights.config.get_text_config()) if one is not None), None)
    recorder = Recorder(base.tokenizer, window=window)
    for one, found in zip([one for one in asked for _ in range(job.training.samples)], drawn, strict=True):
        if found:
            yield recorder.again(plan, one.inputs, found, origin=one.origin)


def _texts(drawn: Sequence[Drawn]) -> Tensor:
    """What was drawn, one text after the other."""
    texts = [tokens for one in drawn for tokens in one.values()]
    return torch.tensor([token for text in texts for token in (*text, BREAK)][:_KEPT], dtype=torch.int32)


def _answered(
    job: PromptJob, base: LoadedModel, plan: Plan, asked: Sequence[Asked], identity: Mapping[str, str],
    live: ReportLine | None,
) -> list[Drawn]:  # fmt: skip
    """What was drawn is kept in a file, and taken from there."""
    answers = {**identity, "seed": str(job.settings.seed), "distances": "", "ensemble": "", "decay": "", "rows": ""}
    name = sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()[:12]
    kept = job.out / WORK / f"drawn-{name}.jsonl"
    engine: Engine | None = None
    sampling = None if job.training.temperature is None else Sampling(temperature=job.training.temperature)
    before = base.weights.config._attn_implementation
    together = _TOGETHER if base.weights.device.type == "cpu" else _TOGETHER_ON_GPU

    def more(first: int) -> list[list[Any]]:
        """What is drawn for the next rows, all samples of a row in a line."""
        nonlocal engine
        engine = engine or Engine.load((base.weights, base.tokenizer), cells=_CELLS)
        inputs = [one.inputs for one in asked[first : first + together]]
        ways = [
            engine.batch(
                plan, inputs, any_mode=True, sampling=sampling, on_truncated="keep",
                seed=job.settings.seed * 1_000_003 + number,
            )
            for number in range(job.training.samples)
        ]  # fmt: skip
        return [[_written(drawn_of(result)) for result in results] for results in zip(*ways, strict=True)]

    def on_done(done: int) -> None:
        if live is not None:
            live(f"the model answers: {done:,} of {len(asked):,} rows")

    lines = kept_lines(kept, len(asked), more, on_done)
    base.weights.set_attn_implementation(before)
    return [_read(drawn) for line in lines for drawn in line]


def _written(drawn: Drawn) -> list[Any]:
    return [[*lane, list(tokens)] for lane, tokens in drawn.items()]


def _read(drawn: Sequence[Any]) -> Drawn:
    return {(name, tuple(items)): tokens for name, items, tokens in drawn}


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────


class _Run:
    """A run whose answers are known: training, judging, saving."""

    def __init__(
        self, job: PromptJob, base: LoadedModel, plan: Plan, lines: Sequence[ProbeLine], length: int, written: Tensor,
        report: ReportLine, live: ReportLine | None,
    ) -> None:  # fmt: skip
        self._job, self._base, self._plan, self._written = job, base, plan, written
        self._report, self._live = report, live
        count = int(len(lines) * _SHARE) if len(lines) >= _FEWEST else 0
        order = np.random.default_rng(job.settings.seed).permutation(len(lines))
        judged, taught = (sorted(order[:count]), sorted(order[count:])) if count else (range(len(lines)),) * 2
        self._model = base.weights.eval().requires_grad_(False)
        self._vocabulary = int(self._model.config.get_text_config().vocab_size)
        self._judged, self._taught = ([lines[number] for number in some] for some in (judged, taught))
        self._length = length
        most = _room_on(self._model.device)
        self._contexts = Contexts(self._model, self._taught, length=length, most=most)
        self._judged_contexts = Contexts(self._model, self._judged, length=length, most=most // 4)

    def all(self, identity: Mapping[str, str], is_stopped: Callable[[], bool]) -> Accuracy:
        job, work = self._job, self._job.out / WORK
        probing = Probing(self._first_rows())
        steps, metrics = StepLines(self._report, self._live), Metrics(work, job.logs, about=job.options)
        found = Checkpoints(work, {**identity, **job.settings.identity}).latest()
        metrics.begin_after(found.progress.step if found else None)

        def taken(step: Step) -> None:
            metrics.step(step)
            steps(step)

        try:
            progress = train(
                probing, self._batches(self._taught, _HOSTS), job.settings, work, identity=identity,
                judge=lambda probing: self._score(probing), report=self._report, on_step=taken, is_stopped=is_stopped,
                loss=lambda probing, batch: distillation(
                    self._model, probing.rows, batch, self._contexts, decay=job.training.decay
                ),
            )  # fmt: skip
        finally:
            metrics.close()
        return self._save(probing, progress)

    def _first_rows(self) -> Tensor:
        """Embeddings of tokens that the model drew."""
        training, embedding = self._job.training, self._model.get_input_embeddings()
        drawn = [token for line in self._taught for host in line.hosts for token in host.drawn if token != IGNORED]
        chance = np.random.default_rng(self._job.settings.seed)
        chosen = chance.choice(np.array(drawn), size=(training.distances, training.ensemble))
        with torch.no_grad():
            rows: Tensor = embedding(torch.from_numpy(chosen).to(self._model.device))
        return rows.detach().float().clone()

    def _batches(self, lines: Sequence[ProbeLine], hosts: int) -> ProbeBatches:
        training = self._job.training
        return ProbeBatches(
            lines, length=self._length, distances=training.distances, ensemble=training.ensemble,
            vocabulary=self._vocabulary, size=self._job.rows, hosts=hosts, seed=self._job.settings.seed,
        )  # fmt: skip

    def _score(self, probing: Probing) -> float:
        """How many passes the likeliest tokens save: the mean length of a run that is right."""
        return sum(self._accuracy(probing).runs)

    @torch.no_grad()
    def _accuracy(self, probing: Probing) -> Accuracy:
        batches, tally = self._batches(self._judged, _JUDGED), Tally(self._job.training.distances)
        chance = np.random.default_rng(self._job.settings.seed)
        for number, line in enumerate(self._judged):
            some = [line.hosts[index] for index in chance.permutation(len(line.hosts))[:_JUDGED]]
            batch = batches.batch([(number, some)]).to(self._model.device)
            tally.add(batch.drawn, ahead_logits(self._model, probing.rows, batch, self._judged_contexts))
        return tally.accuracy

    def _save(self, probing: Probing, progress: Progress) -> Accuracy:
        job, base = self._job, self._base
        best = Checkpoints(job.out / WORK, {}).best(progress)
        if best is not None:
            put_weights(probing, best)
        accuracy = self._accuracy(probing)
        tokens = ProbeTokens(probing.rows.detach(), accuracy, self._written)
        job.out.mkdir(parents=True, exist_ok=True)
        tokens.save(job.out, self._model, Kind.PPD)
        note = base.trained_for or replace(note_of(self._plan, tuple(Mode)), threads=None)
        save(self._model, base.tokenizer, note, job.out, dtype=read_base(job.model).dtype)
        for line in table(accuracy):
            self._report(line)
        self._report(f"saved to {job.out}")
        return accuracy


def _room_on(device: torch.device) -> int:
    """Bytes for what is kept: of a GPU, a quarter of what is free. To compute it again takes longer than a step."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    return max(_CACHED, free // 4)


# ── masks ────────────────────────────────────────────────────────────────────────────────────────────────────


ASKED: Final = 64  # rows that the model answers to see what it predicts
_SEEN: Final = 1024  # embeddings that the one of the mask token is drawn like
_PREDICTED: Final = 0.1  # a token that masks predict counts as much as so much F1
_MODULE: Final = "mask_token"  # in the model while it is trained


@dataclass(frozen=True, slots=True)
class Masking:
    """`distances`: the masks of a group, each of which predicts a token. A row is shown as it is with the chance
    `plain`, else with groups of masks after `cuts` of its tokens, drawn at random each time."""

    distances: int = 3
    plain: float = 0.5
    cuts: int = 4

    def identity(self, method: Method) -> Mapping[str, str]:
        """That of a run which teaches what the method does, with masks."""
        about = {"distances": str(self.distances), "plain": f"{self.plain:g}", "cuts": str(self.cuts)}
        return {**method.identity, "method": f"space, {method.name}", **about}


class Masks:
    """The masks of a run: in lines, in the model, and what they predict."""

    def __init__(self, masking: Masking, method: Method, base: Base, seed: int) -> None:
        self._masking, self._method, self._seed = masking, method, seed
        self._vocabulary = int(base.config.get_text_config().vocab_size)
        self._recorder = Recorder(base.tokenizer, window=base.window)

    # ── in lines ─────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, line: Line, number: int) -> Line:
        """The line with this number, with masks."""
        chance = np.random.default_rng((self._seed, number, 1))
        return [row if chance.random() < self._masking.plain else self._cut(row, chance) for row in line]

    def most(self, line: Line) -> int:
        return len(line) * self._masking.cuts * self._masking.distances

    def _cut(self, row: TrainingRow, chance: np.random.Generator) -> TrainingRow:
        """In lock-step nothing is guessed, so nothing has to be predicted."""
        if row.mode is Mode.LOCKSTEP:
            return row
        hosts = Hosts(row, self._masking.distances)
        found = (hosts.at(int(place)) for place in chance.permutation(hosts.drawing))
        chosen = islice((host for host in found if host is not None), self._masking.cuts)
        return with_masks(row, list(chosen), self._vocabulary)

    # ── in the model ─────────────────────────────────────────────────────────────────────────────────────

    def put_into(self, model: Any) -> None:
        """Give the model an embedding for the mask token, like those that it has, to be trained with its weights."""
        noise = torch.Generator().manual_seed(self._seed)
        ids = torch.linspace(0, self._vocabulary - 1, min(_SEEN, self._vocabulary)).long()
        embedding = model.get_input_embeddings()
        with torch.no_grad():
            known = embedding(ids.to(embedding.weight.device)).float()
        row = known.mean(dim=0) + known.std(dim=0) * torch.randn(known.shape[1], generator=noise).to(known.device)
        model.add_module(_MODULE, Probing(row[None, None]))

    def take_from(self, model: Any, accuracy: Accuracy) -> ProbeTokens:
        """What `put_into` gave. The model is what it was then, but for what it has learned."""
        rows = getattr(model, _MODULE).rows.detach()
        delattr(model, _MODULE)
        return ProbeTokens(rows, accuracy)

    def loss(self, model: Any, batch: Batch) -> Tensor:
        with self._fed(model, batch) as fed:
            return loss_of(model, fed)

    def logits(self, model: Any, batch: Batch, where: Where) -> Tensor:
        with self._fed(model, batch) as fed:
            return logits_of(model, fed, where=where)

    @contextmanager
    def _fed(self, model: Any, batch: Batch) -> Iterator[Batch]:
        rows = getattr(model, _MODULE).rows
        with with_probe_tokens(model, batch.tokens, rows, self._vocabulary) as tokens:
            yield replace(batch, tokens=tokens)

    # ── what they predict ───────────────────────────────────────────────────────────────────────────────

    def accuracy(self, model: Any, evaluation: Evaluation) -> Accuracy:
        """How often the masks predict what the model draws, when it answers the rows of an evaluation."""
        judged = [name for name in self._method.judged if evaluation.plans[name].mode is not Mode.LOCKSTEP]
        tally = Tally(self._masking.distances)
        was_training = model.training
        for row, drawn in evaluation.drawn(model, judged[0], ASKED) if judged else ():
            if drawn:
                model.eval()
                self._count(
                    model, self._recorder.again(evaluation.plans[judged[0]], row.inputs, drawn, origin=""), tally
                )
        model.train(was_training)
        return tally.accuracy

    def score(self, f1: float, model: Any, evaluation: Evaluation, report: ReportLine) -> float:
        """What the weights of a step are worth, with the masks."""
        predicted = sum(self.accuracy(model, evaluation).runs)
        report(f"{predicted:.2f} tokens are predicted in a row")
        return f1 + _PREDICTED * predicted

    @torch.no_grad()
    def _count(self, model: Any, row: TrainingRow, tally: Tally) -> None:
        hosts = hosts_of(row, self._masking.distances)
        hosts = [hosts[place] for place in np.linspace(0, len(hosts) - 1, min(_JUDGED, len(hosts))).astype(int)]
        if not hosts:
            return
        masked = with_masks(row, hosts, self._vocabulary)
        batch = collate([[masked]], len(masked)).to(next(model.parameters()).device)
        lengths = [len(host.places) - 1 for host in hosts]
        groups = [host for host, length in enumerate(lengths) for _ in range(length)]
        places = [distance for length in lengths for distance in range(length)]
        where = torch.arange(len(row), len(masked), device=batch.tokens.device)
        found = self.logits(model, batch, (torch.zeros_like(where), where)).float()
        logits = found.new_zeros(1, len(hosts), self._masking.distances, found.shape[1])
        drawn = torch.full(logits.shape[:3], IGNORED, device=found.device)
        logits[0, groups, places], drawn[0, groups, places] = found, batch.labels[0, where]
        tally.add(drawn, logits)


def with_masks(row: TrainingRow, hosts: Sequence[Host], mask: int) -> TrainingRow:
    """The row, and after it a group of masks for each host: as many as tokens of its branch follow it."""
    lengths = [len(host.places) - 1 for host in hosts]
    length, size = len(row), len(row) + sum(lengths)
    tokens, positions, labels = (np.full(size, mask, dtype=np.int32) for _ in range(3))
    tokens[:length], positions[:length], labels[:length] = row.tokens, row.positions, row.labels
    visible = np.zeros((size, size), dtype=np.bool_)
    visible[:length, :length] = known = row.visible
    near = None if row.sees_near is None else visible.copy()
    if near is not None:
        near[:length, :length] = known_near = row.near
    end = length
    for host, masks in zip(hosts, lengths, strict=True):
        here, end = slice(end, end + masks), end + masks
        positions[here] = row.positions[host.places[1]] + np.arange(masks)
        labels[here] = host.drawn[1:]
        visible[here, :length] = known[host.places[0]]
        visible[here, here] = np.tri(masks, dtype=np.bool_)
        if near is not None:
            near[here, :length], near[here, here] = near_of(known_near, host, masks), visible[here, here]
    return replace(
        row, tokens=tokens, positions=positions, labels=labels, sees=np.packbits(visible, axis=1), taught=(),
        sees_near=None if near is None else np.packbits(near, axis=1), writers=(),
    )  # fmt: skip
