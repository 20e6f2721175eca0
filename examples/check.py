"""`make examples`: check every example, compare it with its canonical form, and plan it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pastalang.compiler import check_path
from pastalang.diagnostics.render import render_text
from pastalang.grammar.parser import parse_text
from pastalang.grammar.printer import print_file
from pastalang.plan.build import build_plan
from pastalang.plan.forecast import forecast
from pastalang.program.program import Program, Template

EXAMPLES = Path("examples")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is printed about one example, and what is wrong with it."""

    lines: tuple[str, ...]
    problems: tuple[str, ...]


def main() -> int:
    outcomes = show_all()
    print("\n".join(line for outcome in outcomes for line in outcome.lines))
    print("\n" + summary(outcomes))
    failed = problems(outcomes)
    for problem in failed:
        print(problem, file=sys.stderr)
    return 1 if failed or not outcomes else 0


def show_all(folder: Path = EXAMPLES) -> list[Outcome]:
    """Every example of a folder, in the order of their names."""
    return [show(path) for path in sorted(folder.glob("*.pasta"))]


def summary(outcomes: Sequence[Outcome]) -> str:
    """One line for all of them."""
    if not outcomes:
        return f"there are no examples in {EXAMPLES.resolve()}"
    found = len(problems(outcomes))
    return f"{len(outcomes)} examples: checked, format-checked and planned; {found} problem{'' if found == 1 else 's'}"


def problems(outcomes: Sequence[Outcome]) -> list[str]:
    return [problem for outcome in outcomes for problem in outcome.problems]


def show(path: Path) -> Outcome:
    """Check one example, compare it with its canonical form, plan its templates."""
    program, found = check_path(path)
    problems = [render_text(found)] if found else []
    if not is_formatted(path):
        problems.append(f"{path} is not in its canonical form; `pasta fmt {path}` writes it")
    lines = [f"\n{path}", *_purpose(path)]
    if program is not None:
        lines += [line for template in program.templates.values() for line in _plan_lines(program, template)]
    return Outcome(tuple(lines), tuple(problems))


def is_formatted(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    file = parse_text(text, name=str(path)).file
    return file is not None and print_file(file) == text


def _purpose(path: Path) -> list[str]:
    """The first line of the comment at the top."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    return [f"  {first.removeprefix('#').strip()}"]


def _plan_lines(program: Program, template: Template) -> list[str]:
    plan = build_plan(template, program)
    cost = forecast(plan)
    times = cost.draws.high / max(1, cost.passes.high)
    passes = f"at most {cost.passes.high:,} forward passes, {cost.draws.high:,} in a row: {times:.1f} times fewer"
    return [f"  {template.name}: {len(plan.branches)} branches; {passes}"]


if __name__ == "__main__":
    sys.exit(main())
