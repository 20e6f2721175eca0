"""Measure the masks of one decoding step of 1 to 256 rows: machines of plain values, and llguidance in their place.

    python -m benchmarks.mask_rows [FOLDER OF TEXT] > benchmarks/results/mask-rows.md

Every row is at another place of its own value. The grammar is the one that the value has inside a structure.
"""

from __future__ import annotations

import random
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from llguidance import LLExecutor

from benchmarks.guides import FOLLOW, TYPES, train
from pastalang.plan.branches import Form
from pastalang.runtime.constraints.automaton_machine import forget_types
from pastalang.runtime.constraints.compile import compile_guide, prepare_vocabulary
from pastalang.runtime.constraints.guide import Guide
from pastalang.runtime.constraints.lark import grammar_of
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.matcher import Matcher, Matchers
from pastalang.runtime.constraints.tokens import Tokens

SIZE = 64_000
ROWS = (1, 16, 64, 256)
STEPS = 12
THREADS = 2
NAMES = (
    "integer", "number", "date", "uuid", "/[A-Z]{2}-[0-9]{4}/", "email", "email, 40 characters", "url",
    "string, 20 characters",
)  # fmt: skip


def machine_steps(guide: Guide, rows: int) -> list[float]:
    """The processor time of all masks of each step, in milliseconds."""
    rng, found = random.Random(rows), list[float]()
    states = [guide.start(max_tokens=64) for _ in range(rows)]
    for _ in range(STEPS):
        masks, cost = _timed(lambda states=states: [state.allowed() for state in states])
        found.append(cost)
        for state, mask in zip(states, masks, strict=True):
            state.advance(int(rng.choice(tokens_of(mask))))
        states = [guide.start(max_tokens=64) if state.is_finished else state for state in states]
    return found


def grammar_steps(matchers: Matchers, rows: int, size: int) -> tuple[list[float], list[float]]:
    """The same for llguidance: one row after the other, and all rows in one call with threads."""
    rng, alone, together = random.Random(rows), list[float](), list[float]()
    executor, words = LLExecutor(THREADS), (size + 32) // 32
    buffer = np.zeros((rows, words), dtype=np.int32)
    states = [matchers.copy() for _ in range(rows)]
    for _ in range(STEPS):
        copies = [(state.copy().inner, row) for row, state in enumerate(states)]
        _, cost = _timed(
            lambda copies=copies: executor.unsafe_compute_mask_ptr(copies, buffer.ctypes.data, words * 4, rows)
        )
        together.append(cost / THREADS)
        masks, cost = _timed(lambda states=states: [state.mask() for state in states])
        alone.append(cost)
        states = [_advanced(state, mask, rng) or matchers.copy() for state, mask in zip(states, masks, strict=True)]
    return alone, together


def _advanced(state: Matcher, mask: np.ndarray, rng: random.Random) -> Matcher | None:
    """The state after a random token; None where the value has ended."""
    taken = mask.any() and state.take([int(rng.choice(tokens_of(mask)))])
    return state if taken and not state.is_over else None


def _timed(act: Callable[[], Sequence[np.ndarray] | None]) -> tuple[Sequence[np.ndarray], float]:
    """The result, and milliseconds of processor time of all threads."""
    started = time.process_time()
    found = act()
    return found or (), (time.process_time() - started) * 1e3


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sysconfig.get_path("stdlib")) / "email"
    tokens = train(folder, SIZE)
    prepare_vocabulary(tokens)
    print(f"# Masks of one step, with a vocabulary of {SIZE:,} tokens\n")
    print(f"Milliseconds of processor time for all rows of a step: the median of {STEPS} steps (the slowest step).")
    print("The steps begin with nothing kept of the type, and the rows go their own ways.")
    print(f"`{THREADS} threads` is the time of one call for all rows, divided by the threads.\n")
    print("| type | rows | machine | llguidance | llguidance, 2 threads |\n|---|---:|---:|---:|---:|")
    for name in NAMES:
        for rows in ROWS:
            print(f"| {name} | {rows} | {' | '.join(map(_shown, _measured(name, rows, tokens)))} |", flush=True)


def _measured(name: str, rows: int, tokens: Tokens) -> tuple[list[float], ...]:
    forget_types()
    tokens.kept.pop("reached", None)
    guide = compile_guide(TYPES[name], form=Form.JSON, follow=FOLLOW, vocabulary=tokens)
    matchers = Matchers(grammar_of(TYPES[name], {}, follow=FOLLOW).text, tokens)
    return machine_steps(guide, rows), *grammar_steps(matchers, rows, tokens.size)


def _shown(costs: list[float]) -> str:
    return f"{statistics.median(costs):.2f} ({max(costs):.1f})"


if __name__ == "__main__":
    main()
