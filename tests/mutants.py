"""Does a test notice? Each mutant is one wrong line. The tests that should find it run on a copy with this line.

    python -m tests.mutants            all of them (`make mutants`)
    python -m tests.mutants top_p fork those whose names contain one of these words

Look here before you delete a test, and add the mutant that it alone finds. A mutant is found by its text, wherever it
stands in the package, so it needs no care when a module moves. One whose text has changed is reported as `not aimed`:
aim it again at the line that now does the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
COPIED = ("pastalang", "tests", "examples", "recipes", "docs", "benchmarks", "pyproject.toml", "README.md")
MOST_SECONDS = 1200
HEAVY = ("torch", "transformers", "llguidance", "lark", "networkx", "pydantic", "hypothesis", "pytest", "numpy")


@dataclass(frozen=True)
class Mutant:
    """`tests` are files and node ids below `tests`, quick ones."""

    name: str
    old: str
    new: str
    tests: tuple[str, ...]


API = "api/"
RECORDED = "recorded"  # every token of fixed runs: what anything decodes otherwise is found there first
INVARIANTS = "properties/test_invariants.py::test_a_run_is_what_the_slow_decoder_says_however_it_is_run"

MUTANTS = (
    # what a token sees
    Mutant(
        "views: a token sees the later tokens of its step",
        "own_numbers * (own_numbers <= count + self._shown[tokens][:, None])",
        "own_numbers",
        ("runtime/attention/test_masks.py",),
    ),
    Mutant(
        "views: what one path has is left out of the next",
        "self._is_seen[path] = False",
        "pass",
        ("runtime/attention/test_masks.py",),
    ),
    Mutant(
        "views: what both see stands behind",
        "source[~self._is_seen[source]]",
        "source",
        ("runtime/attention/test_masks.py",),
    ),
    # positions
    Mutant(
        "positions: a parent leaves one position too few",
        "return Forked(position, position + reserve)",
        "return Forked(position, position + max(reserve - 1, 0))",
        (RECORDED, INVARIANTS),
    ),
    Mutant(
        "positions: a join stands on the last token that it sees",
        "return max(position, highest_seen + 1)",
        "return max(position, highest_seen)",
        (RECORDED, INVARIANTS),
    ),
    # what a branch does next
    Mutant(
        "machine: a list may end one item before its minimum",
        "if done >= repeat.minimum:",
        "if done + 1 >= repeat.minimum:",
        ("plan/test_machine.py",),
    ),
    Mutant(
        "machine: a join inside an item waits for those of all items",
        "Wait(tuple([Awaited(branch, items[:shared])",
        "Wait(tuple([Awaited(branch, items[:0])",
        ("plan/test_machine.py",),
    ),
    Mutant(
        "machine: whatever is chosen, the branch goes on in the first arm",
        "return self._at(point.inner[answer], lists)",
        "return self._at(point.inner[0], lists)",
        ("plan/test_machine.py",),
    ),
    Mutant(
        "machine: a branch whose fork is still to come is taken for begun",
        "return point.index > wanted",
        "return point.index < wanted",
        ("plan/test_machine.py",),
    ),
    Mutant(
        "machine: a list over known elements goes on behind the last one",
        "if here.item + 1 < here.elements:",
        "if here.item < here.elements:",
        ("plan/test_machine.py",),
    ),
    Mutant(
        "machine: between two items the one before counts as an item around it",
        "inside = lists[:-1] if point is not None and point.segment is None else lists",
        "inside = lists",
        ("plan/test_machine.py",),
    ),
    Mutant(
        "passes: a chunk has room for a token more",
        "min(self.left, self.kept + chunk - self.fed_in_pass)",
        "min(self.left, self.kept + chunk + 1 - self.fed_in_pass)",
        ("properties/test_passes.py",),
    ),
    Mutant(
        "simulate: a value in lock-step goes on before those before it",
        "room = min(room, max(other.fed - state.fed, 0))",
        "pass",
        ("plan/test_every_interleaving.py",),
    ),
    Mutant(
        "simulate: a branch waits for the first of those that it joins",
        "next((other for other in awaited if other not in self._ended), None)",
        "next((other for other in awaited[:1] if other not in self._ended), None)",
        ("plan/test_every_interleaving.py",),
    ),
    # scheduler, joins, cells
    Mutant(
        "scheduler: memory is freed while others see it",
        "if not branch.memory.is_held and not branch.memory.viewers and not",
        "if not branch.memory.is_held and not",
        (API + "test_limits.py", API + "test_many.py", RECORDED, INVARIANTS),
    ),
    Mutant(
        "scheduler: a value in lock-step does not wait for those before it",
        "if length <= at:\n                return None",
        "if length <= at:\n                continue",
        (RECORDED, API + "test_sampling.py", INVARIANTS),
    ),
    Mutant(
        "scheduler: a short memory lets every branch begin",
        "self._left -= wanted\n                return self._left >= 0",
        "self._left -= wanted\n                return True",
        ("runtime/test_reservations.py", "runtime/test_admission.py", "properties/test_memory.py"),
    ),
    Mutant(
        "scheduler: a kept prompt is taken one token too long",
        "return next(index for index in range(most) if kept[index] != tokens[at + index])",
        "return 1 + next(index for index in range(most) if kept[index] != tokens[at + index])",
        (API + "test_many.py", "runtime/test_kept_prompts.py"),
    ),
    Mutant(
        "joins: branches that do not exist yet are not waited for",
        "if has_pending_instances(branch, awaited.branch, awaited.items):",
        "if False:",
        (API + "test_text.py", RECORDED, INVARIANTS),
    ),
    Mutant(
        "joins: a join sees only what it names",
        "for seen in (*one.sequence.view, Seen(one, len(one.sequence.tokens))):",
        "for seen in (Seen(one, len(one.sequence.tokens)),):",
        (RECORDED, INVARIANTS),
    ),
    Mutant(
        "cells: a cell that was given back stays owned",
        "self._owned[cell] = False\n            heappush",
        "heappush",
        ("runtime/test_cells.py", API + "test_many.py"),
    ),
    Mutant(
        "cells: a cell is given back twice",
        "self._owned[cell] = False\n            heappush(self._freed, cell)",
        "self._owned[cell] = False\n            heappush(self._freed, cell)\n            heappush(self._freed, cell)",
        ("runtime/test_cells.py", API + "test_many.py"),
    ),
    # sampling
    Mutant(
        "sampling: a penalty rewards what is unlikely",
        "torch.where(scores > 0, scores / penalty, scores * penalty)",
        "scores / penalty",
        ("runtime/sampling/test_sampler.py",),
    ),
    Mutant(
        "sampling: top_p leaves out the token that reaches it",
        "reached - ordered >= sampling.top_p",
        "reached >= sampling.top_p",
        ("runtime/sampling/test_sampler.py", API + "test_sampling.py"),
    ),
    Mutant(
        "sampling: min_p is compared with the sum",
        "chances.amax(dim=1, keepdim=True) * sampling.min_p",
        "chances.sum(dim=1, keepdim=True) * sampling.min_p",
        ("runtime/sampling/test_sampler.py",),
    ),
    Mutant(
        "sampling: all items of a list share their random numbers",
        '",".join(map(str, self.items))',
        '""',
        ("recorded", "runtime/sampling/test_sampler.py"),
    ),
    Mutant(
        "sampling: a probability is not that among the allowed tokens",
        "- highest + log_of_highest",
        "- highest",
        (API + "test_confidence.py",),
    ),
    # constraints
    Mutant(
        "constraints: a value may end before it is complete",
        "if machine.accepts(position.state):\n            parts.append(seam.mask)",
        "parts.append(seam.mask)",
        (API + "test_types.py",),
    ),
    Mutant(
        "constraints: forced text takes the room of an ending",
        "len(found) + len(ending) <= self._position.remaining",
        "len(found) <= self._position.remaining",
        ("properties/test_guides.py", "runtime/constraints", API + "test_types.py"),
    ),
    Mutant(
        "constraints: a string may have one character too many",
        "return self._least <= characters and (self._most is None or characters <= self._most)",
        "return self._least <= characters + 1 and (self._most is None or characters <= self._most)",
        (API + "test_types.py", "properties/test_guides.py"),
    ),
    # repair
    Mutant(
        "repair: an attempt draws what the one before has drawn",
        'purpose = "" if again is None else f"attempt {again.number}"',
        'purpose = ""',
        ("runtime/repair/test_validation.py", "properties/test_repairs.py"),
    ),
    Mutant(
        "repair: what the model rejects is not shown to it",
        'f"not accepted: {_on_one_line(reason, MAX_REASON)}"',
        '"not accepted"',
        (API + "test_repair.py",),
    ),
    Mutant(
        "repair: a rule over several fields decodes all of them again",
        "for place in read or [node.place] for target",
        "for place in [node.place] for target",
        (API + "test_repair.py",),
    ),
    # drafts
    Mutant(
        "drafts: a guess is confirmed without its position",
        "(node.guess.token, node.guess.parent, node.position) == wanted",
        "(node.guess.token, node.guess.parent) == wanted[:2]",
        ("runtime/test_draft_law.py", RECORDED, "properties/test_drafted.py"),
    ),
    Mutant(
        "drafts: a guess counts although another was drawn before it",
        "(node.guess.token, node.guess.parent, node.position) == wanted",
        "(node.guess.token, node.position) == (wanted[0], wanted[2])",
        (API + "test_sampling.py", "runtime/test_draft_law.py", "properties/test_drafted.py"),
    ),
    Mutant(
        "drafts: a join sees what a draft has not seen",
        " or number in sequence.joins:",
        ":",
        ("runtime/test_draft_law.py", "runtime/test_drafts.py", RECORDED, "properties/test_drafted.py"),
    ),
    # values
    Mutant(
        "values: an item may stand twice",
        "if type.unique and (twice := _find_twice(value)) is not None:",
        "if False and (twice := _find_twice(value)) is not None:",
        ("values/test_read.py", "properties/test_values.py", "values/test_uniqueness.py"),
    ),
    Mutant(
        "values: a key that a type does not have is read",
        "return _together(fitted, missing + unknown)",
        "return _together(fitted, missing)",
        ("values/test_read.py",),
    ),
    Mutant(
        "values: a value of a union is that of its first type",
        "fitting = next((arm for arm in arms if not find_mismatches(arm, value, types)), None)\n"
        "            return scalar",
        "fitting = arms[0]\n            return scalar",
        (API + "test_types.py", API + "test_models.py", "values/test_read.py"),
    ),
    Mutant(
        "values: a quotation from a list is looked for in its first text",
        "source = sources[name][place.item or 0]",
        "source = sources[name][0]",
        (API + "test_quotations.py",),
    ),
    # checker
    Mutant(
        "checker: groups may wait for one another",
        "circle = find_cycle(self._needs_of_groups())",
        "circle = None",
        ("corpus",),
    ),
    # many documents
    Mutant(
        "bulk: a resumed run does not look at its documents",
        "if found < chunk.rows or digest.value != chunk.documents:",
        "if found < chunk.rows:",
        ("bulk/test_runs.py",),
    ),
    Mutant(
        "bulk: a chunk counts before it is written",
        "draft.replace(part)\n        _sync_folder(self.folder)\n        self._log(asdict(chunk))",
        "self._log(asdict(chunk))\n        draft.replace(part)\n        _sync_folder(self.folder)",
        ("bulk/test_runs.py",),
    ),
)


def places_of(mutant: Mutant, copy: Path) -> list[Path]:
    return [path for path in sorted(copy.glob("pastalang/**/*.py")) if mutant.old in path.read_text("utf-8")]


@contextmanager
def applied(mutant: Mutant, path: Path) -> Iterator[None]:
    right = path.read_text("utf-8")
    path.write_text(right.replace(mutant.old, mutant.new, 1), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(right, encoding="utf-8")


def tests_fail(copy: Path, tests: Sequence[str]) -> bool:
    """Runs tests in a process of its own, which has imported everything but the project already."""
    child = os.fork()
    if not child:
        code = 3
        try:
            code = _pytest(copy, tests)
        finally:
            os._exit(code)
    deadline = time.monotonic() + MOST_SECONDS
    while (status := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True  # a test that never ends is noticed
        time.sleep(0.1)
    ended = os.waitstatus_to_exitcode(status[1])
    if ended not in (0, 1, 2):
        raise RuntimeError(f"pytest could not run {tests}: {(copy / 'pytest.log').read_text('utf-8')[-2000:]}")
    return ended != 0


def _pytest(copy: Path, tests: Sequence[str]) -> int:
    import pytest

    os.chdir(copy)
    sys.path[:] = [str(copy), *(entry for entry in sys.path if entry not in ("", str(PROJECT)))]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "pastalang")]:
        del sys.modules[name]
    words = ["-q", "-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with (copy / "pytest.log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        return int(pytest.main([*words, *(f"tests/{one}" for one in tests)]))


def main(words: Sequence[str]) -> int:
    chosen = [one for one in MUTANTS if not words or any(word in one.name for word in words)]
    for module in HEAVY:
        __import__(module)
    sys.dont_write_bytecode = True  # a mutant is no older than the code it stands for
    counts = {"found": 0, "MISSED": 0, "not aimed": 0}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            (shutil.copytree if (PROJECT / name).is_dir() else shutil.copy)(PROJECT / name, copy / name)
        for mutant in chosen:
            began, places = time.perf_counter(), places_of(mutant, copy)
            if len(places) != 1:
                told = "not aimed"
            else:
                with applied(mutant, places[0]):
                    told = "found" if tests_fail(copy, mutant.tests) else "MISSED"
            counts[told] += 1
            print(f"{told:9}  {time.perf_counter() - began:5.0f} s  {mutant.name}", flush=True)
    print(", ".join(f"{count} {told}" for told, count in counts.items() if count))
    return int(counts["found"] < len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
