"""Train a small model to write the harbour task, then to write it in threads, and measure both.

tokenizer ── head start ── base: texts without threads ──┬── pasta    `pasta train pasta`
                                                         ├── apar     `pasta train apar`
                                                         ├── linear   the same budget, no threads
                                                         ├── blind    a policy that is wrong, on purpose
                                                         └── mixed    the three of them, to begin preference rounds
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import torch
from transformers import AutoTokenizer

import pastalang
from pastalang.plan.branches import Mode
from pastalang.runtime.models.training_note import FILE, TrainingNote
from pastalang.training.batches import Batch
from pastalang.training.fine_tune import Job, fine_tune
from pastalang.training.method import OwnThreads
from pastalang.training.model_files import save
from pastalang.training.recording import IGNORED
from pastalang.training.run_folder import ReportLine
from pastalang.training.settings import Settings
from pastalang.training.thread_data import CountTokens
from pastalang.training.trainer import train, usual_precision
from recipes.threads_mini.answers import Policy, answer_as, answer_in_brief
from recipes.threads_mini.model import make_model, make_tokenizer
from recipes.threads_mini.ships import HELD_OUT_COUNTS, TRAINED_COUNTS, Table, choose_berths, draw_table
from recipes.threads_mini.tokenizer import BEGIN, END

LIMIT: Final = 480  # tokens of an answer, and of each thread
_OF_THE_BASE: Final = ("hidden", "layers", "base_steps", "tokens", "learning_rate", "seed")
ORDER: Final = (Policy.PASTA, Policy.APAR, Policy.LINEAR, Policy.BLIND, Policy.MIXED)
_TOKENS, _TOKENS_IN_BRIEF = 62, 33  # of a ship, in its table and its answer
_EXAMINED: Final = tuple(sorted({5, 6, 8, *HELD_OUT_COUNTS}))  # numbers of ships
_IN_BRIEF: Final = 0.7  # of the steps of the base stage. Brief answers are nearly all facts, which are hard to copy


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    hidden: int = 320
    layers: int = 7
    base_steps: int = 2000
    tokens: int = 2000  # of a batch of the base stage, about
    learning_rate: float = 5e-4  # a larger one forgets the head start
    rows: int = 2500  # with threads, of each policy
    tune_steps: int = 600
    tune_lines: int = 4
    tune_rate: float = 3e-4
    exam: int = 80  # tables that it is measured with
    seed: int = 0


def make_models(out: Path, sizes: Sizes, *, report: ReportLine) -> None:
    """Write a folder for each policy, next to `base` and the rows. An interrupted run resumes with the same call."""
    torch.set_num_threads(1)
    tokenizer = _tokenizer(out / "tokenizer")
    write_exams(out, tokenizer, sizes)
    _base(out, tokenizer, sizes, report)
    for policy in ORDER:
        _tuned(policy, out, tokenizer, sizes, report)


def program_of(policy: Policy) -> pastalang.Program:
    source = f'template report(table: text)\nuser """{{table}}"""\nassistant auto({policy.tags}, max={LIMIT})\n'
    return pastalang.compile(source)


def counter_of(tokenizer: Any) -> CountTokens:
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def write_exams(out: Path, tokenizer: Any, sizes: Sizes) -> None:
    """For each policy its program and the rows to measure it with: new names, and numbers of ships old and new."""
    for policy in Policy:
        (out / f"{policy.tags}.pasta").write_text(program_of(policy).source.text, encoding="utf-8")
        rows = out / f"test-{policy.value}.jsonl"
        if rows.exists():
            continue
        random, lines = Random(f"test/{sizes.seed}"), list[str]()
        for number in range(sizes.exam):
            count = _EXAMINED[number % len(_EXAMINED)]
            table = draw_table(random, counts=(count,), held_out=True)
            lines.append(_line(policy, table, random, counter_of(tokenizer), category=f"{count} ships"))
        rows.write_text("".join(lines), encoding="utf-8")


def _tokenizer(folder: Path) -> Any:
    if not folder.exists():
        make_tokenizer().save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def _base(out: Path, tokenizer: Any, sizes: Sizes, report: ReportLine) -> None:
    if (out / "base" / FILE).exists():
        return
    report("── base")
    model = make_model(tokenizer, hidden=sizes.hidden, layers=sizes.layers, seed=sizes.seed)
    report(f"{sum(weight.numel() for weight in model.parameters()) / 1e6:.2f} million weights")
    settings = Settings(
        steps=sizes.base_steps, learning_rate=sizes.learning_rate, warmup_steps=30, weight_decay=0.05,
        precision=usual_precision("cpu"), save_every=50, seed=sizes.seed,
    )  # fmt: skip
    batches = LinearBatches(tokenizer, sizes)
    identity = {name: str(value) for name, value in asdict(sizes).items() if name in _OF_THE_BASE}
    train(model, batches, settings, out / "base-training", identity=identity, report=report)
    (out / "base").mkdir(parents=True, exist_ok=True)
    save(model, tokenizer, TrainingNote(tuple(Mode), "", "", "", {"answer": LIMIT}), out / "base")


class LinearBatches:
    """Batches of answers without threads, by number. A batch has tables of one size; the first answers are brief."""

    def __init__(self, tokenizer: Any, sizes: Sizes) -> None:
        self._tokenizer, self._sizes = tokenizer, sizes
        self._count = counter_of(tokenizer)

    def __call__(self, number: int) -> Batch:
        random = Random(f"{self._sizes.seed}/{number}")
        count, is_brief = random.choice(TRAINED_COUNTS), number < self._sizes.base_steps * _IN_BRIEF
        each = (_TOKENS_IN_BRIEF if is_brief else _TOKENS) * count + 20
        rows = [self._row(random, count, is_brief) for _ in range(max(1, self._sizes.tokens // each))]
        length = max(len(prompt) + len(answer) for prompt, answer in rows)
        tokens = torch.zeros(len(rows), length, dtype=torch.long)
        labels = torch.full((len(rows), length), IGNORED, dtype=torch.long)
        for line, (prompt, answer) in enumerate(rows):
            tokens[line, : len(prompt) + len(answer)] = torch.tensor([*prompt, *answer])
            labels[line, len(prompt) - 1 : len(prompt) + len(answer) - 1] = torch.tensor(answer)
        positions = torch.arange(length).expand(len(rows), length).contiguous()
        return Batch(tokens, positions, labels, None, tuple(f"table {number}/{line}" for line in range(len(rows))))

    def _row(self, random: Random, count: int, is_brief: bool) -> tuple[list[int], list[int]]:
        table = draw_table(random, counts=(count,), is_varied=True)
        berths = choose_berths(table, random)
        answer = answer_in_brief(table, berths) if is_brief else answer_as(Policy.LINEAR, table, berths, self._count)
        prompt = f"{BEGIN}user\n{table.text}{END}\n{BEGIN}assistant\n"
        return self._tokenizer.encode(prompt), self._tokenizer.encode(answer + END)


def _tuned(policy: Policy, out: Path, tokenizer: Any, sizes: Sizes, report: ReportLine) -> None:
    folder = out / policy.value
    if (folder / FILE).exists():
        return
    report(f"── {policy.value}")
    rows = out / f"{policy.value}.jsonl"
    if not rows.exists():
        rows.write_text("".join(_lines(policy, tokenizer, sizes)), encoding="utf-8")
    settings = Settings(
        steps=sizes.tune_steps, learning_rate=sizes.tune_rate, warmup_steps=10, weight_decay=0.05,
        precision=usual_precision("cpu"), save_every=50, seed=sizes.seed,
    )  # fmt: skip
    job = Job(
        OwnThreads(program_of(policy)), str(out / "base"), rows, folder, settings, held_out=0.0, rows=sizes.tune_lines,
        warmup=10, device="cpu", workers=1,
    )  # fmt: skip
    fine_tune(job, report=report)


def _lines(policy: Policy, tokenizer: Any, sizes: Sizes) -> list[str]:
    """The same tables and berths for every policy.

    Ships that lie with others stand anywhere. If they stood last, a model would learn where they stand.
    """
    random, count = Random(f"rows/{sizes.seed}"), counter_of(tokenizer)
    return [_line(policy, draw_table(random, is_varied=True), random, count) for _ in range(sizes.rows)]


def _line(policy: Policy, table: Table, random: Random, count: CountTokens, **more: str) -> str:
    value = answer_as(policy, table, choose_berths(table, random), count)
    return json.dumps({"table": table.text, "value": value, **more}) + "\n"
