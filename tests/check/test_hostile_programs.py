"""Programs made to take time or memory: each is answered with a located finding, after work that its length bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from pastalang import check_path, check_source
from pastalang.diagnostics.render import render_text
from tests.work import calls_of, counted

CALLS_A_CHARACTER = 30  # of functions; more for the few that a short text needs
CALLS = 200_000

MANY_TYPES = "".join(f"type T{n} = {{ a: T{n + 1} }}\n" for n in range(2_000)) + "type T2000 = date\n"
DOUBLING = "".join(f"type T{n} = {{ a: T{n + 1}, b: T{n + 1} }}\n" for n in range(40)) + "type T40 = date\n"
CIRCLE = "".join(f"type T{n} = {{ a: T{(n + 1) % 2000} }}\n" for n in range(2_000))
ANSWER = "\ntemplate t()\nassistant json { a: T0 }\n"
ALIASES = "".join(f"type T{n} = T{n + 1}\n" for n in range(5_000)) + "type T5000 = date\n"
SPREADS = "".join(f"type T{n} = {{ ...T{n + 1} }}\n" for n in range(3_000)) + "type T3000 = { a: date }\n"
FIELDS = ", ".join(f"f{n}: string after f{n + 1}" for n in range(4_000))

HOSTILE = {
    "a chain of 2,000 types": (MANY_TYPES + ANSWER, "too-large"),
    "a chain of 5,000 names for one type": (ALIASES + ANSWER, "too-large"),
    "a chain of 3,000 objects, each the fields of the next": (SPREADS + ANSWER, "too-large"),
    "a type that doubles 40 times": (DOUBLING + ANSWER, "too-large"),
    "a circle of 2,000 types without a value": (CIRCLE + ANSWER, "impossible-type"),
    "a circle of 4,000 fields": (
        f"template t()\nassistant json {{ {FIELDS}, f4000: string after f0 }}",
        "dependency-cycle",
    ),
    "1,500 unknown types among 1,500 known ones": (
        "".join(f"type Known{n} = date\n" for n in range(1_500))
        + "template t()\nassistant json { "
        + ", ".join(f"a{n}: Konwn{n}x" for n in range(1_500))
        + " }",
        "unknown-name",
    ),
    "6,000 values of one enum": (
        "template t()\nassistant json { a: " + " | ".join(f'"{n}"' for n in range(6_000)) + " }",
        "too-large",
    ),
    "a million items of a fork": (
        'template t()\nassistant text """{fork a (1..1000000)}- {b: string}{end}"""',
        "too-large",
    ),
    "forks inside forks": (
        'template t()\nassistant text """' + "".join(f"{{fork a{n} (1..9)}}- " for n in range(20))
        + "{async x: string}" + "{end}" * 20 + '"""',
        "too-large",
    ),
    "a pattern that multiplies": (
        "template t()\nassistant json { a: /((((a{99}){99}){99}){99}){99}/ }",
        "unsupported-regex",
    ),
    "a number that grows": ("template t()\nassistant json { a: integer(max=9e300) }", "too-large"),
    "a default that makes patterns backtrack": (
        f'template t()\nassistant json {{ a: string(pattern=/(a*)*b/) = "{"a" * 5_000}" }}',
        "wrong-default",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_it_is_refused_after_little_work(what: str) -> None:
    text, code = HOSTILE[what]
    (program, found), checking = counted(lambda: check_source(text))
    assert program is None
    assert code in {one.code for one in found}
    assert checking + calls_of(lambda: render_text(found)) <= CALLS + CALLS_A_CHARACTER * len(text)


def test_the_work_of_checking_branches_grows_with_their_number() -> None:
    def calls(branches: int) -> int:
        parts = "".join(f"{{h{n}: date}} {{async a{n}: date}}\n" for n in range(branches))
        text = f'template t()\nassistant text """{parts}{{sync}}\nso: {{z: date}}"""'
        (program, _), calls = counted(lambda: check_source(text))
        assert program is not None
        return calls

    calls(10)
    assert calls(1_000) < 2.1 * calls(500)


def test_a_chain_of_200_files_is_too_long(tmp_path: Path) -> None:
    for number in range(200):
        text = f'import T{number + 1} from "./{number + 1}.pasta"\ntype T{number} = T{number + 1}\n'
        (tmp_path / f"{number}.pasta").write_text(text, encoding="utf-8")
    (tmp_path / "200.pasta").write_text("type T200 = date\n", encoding="utf-8")
    (tmp_path / "main.pasta").write_text(
        'import T0 from "./0.pasta"\ntemplate t()\nassistant json { a: T0 }\n', encoding="utf-8"
    )
    program, found = check_path(tmp_path / "main.pasta")
    assert program is None
    assert "too-large" in {one.code for one in found}
