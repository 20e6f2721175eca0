"""Random running texts: the checker answers all of them, and what it lets through can be planned in every mode."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastalang import Mode, build_plan, check_source

TYPES = (
    "string(max=9)",
    "boolean",
    "date",
    "[string(max=4)](1..3)",
    '"a" | "b"',
    "integer(1..5)",
    "{ x: date, y: string }",
)


class Writer:
    """Writes one random text. Names are mostly fresh, and mostly names that exist."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.names: list[str] = []

    def text(self) -> str:
        return (
            f'template t(title: text, list: [text])\n\nassistant text """\n{self.pieces(0)}\nso: {{last: date}}\n"""\n'
        )

    def pieces(self, depth: int) -> str:
        return "".join(self.piece(depth) for _ in range(self.draw.randint(1, 5)))

    def piece(self, depth: int) -> str:
        kinds = [self.words, self.words, self.hole, self.leaf_async, self.sync, self.promise, self.copy]
        if depth < 3:
            kinds += [lambda: self.block(depth), lambda: self.fork(depth), lambda: self.each(depth)]
        return self.draw.choice(kinds)()

    def words(self) -> str:
        return self.draw.choice([" and ", "- ", "\n", ", "])

    def fresh(self) -> str:
        self.names.append(f"a{len(self.names)}")
        return self.names[-1]

    def known(self) -> str:
        return self.draw.choice([*self.names, "title", "list", "missing"][: max(3, len(self.names) + 2)])

    def hole(self) -> str:
        return f"{{{self.fresh()}: {self.draw.choice(TYPES)}}}{self.words()}"

    def reserve(self) -> str:
        return self.draw.choice(["", " ~9", " ~60"])

    def leaf_async(self) -> str:
        return f"{{async {self.fresh()}{self.reserve()}: {self.draw.choice(TYPES)}}}"

    def promise(self) -> str:
        name = self.fresh()
        kept = f"{{async {name}: string(max=9)}}" if self.draw.random() < 0.9 else ""
        return f'{{promise {name} "topic"{self.reserve()}}}{self.words()}{kept}'

    def sync(self) -> str:
        some = [self.known() for _ in range(self.draw.randint(0, 2))] if self.draw.random() < 0.3 else []
        names = ", ".join(dict.fromkeys(some))
        return f"{{sync{' ' + names if names else ''}}}{self.words()}"

    def copy(self) -> str:
        return f"{{{self.fresh()}: verbatim({self.known()})}} "

    def block(self, depth: int) -> str:
        return f"{{async {self.fresh()}{self.reserve()}}}{self.words()}{self.pieces(depth + 1)}{{end}}"

    def fork(self, depth: int) -> str:
        low = self.draw.randint(0, 3)
        mark = self.draw.choice(["* ", "{n}) "])
        return f"{{fork {self.fresh()} ({low}..{low + 2})}}{mark}{self.pieces(depth + 1)}{{end}}"

    def each(self, depth: int) -> str:
        name = self.fresh()
        return f"{{fork {name} in {self.known()}}}- {{{name}}} {self.pieces(depth + 1)}{{end}}"


def check_and_plan(seed: int) -> bool:
    """Whether the checker let it through; then every mode has a plan, or this raises."""
    program, found = check_source(Writer(seed).text())
    assert (program is None) == any(one.is_error for one in found)
    if program is None:
        return False
    for mode in Mode:
        build_plan(program.only_template, program, mode=mode)
    return True


@settings(max_examples=200)
@given(st.integers(min_value=0, max_value=2**32))
def test_a_text_that_passes_the_check_can_be_planned(seed: int) -> None:
    check_and_plan(seed)


def test_many_random_texts_pass_the_check_so_that_the_property_says_something() -> None:
    assert sum(map(check_and_plan, range(300))) > 20


@pytest.mark.long
def test_ten_thousand_texts_that_pass_the_check_can_be_planned() -> None:
    for seed in range(10_000):
        check_and_plan(seed)
