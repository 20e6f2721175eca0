"""Strategy for programs as text, rich in what makes passes hard to count.

Values that end early, that are forced, cut or dropped at their border; lists that go on or stop; arms that begin
alike; branches that begin with a value; joins of what is never drawn. Few are refused by the checker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

import pastalang
from pastalang import Program, ProgramError

SCALARS = (
    "string(max=2, max_chars=0)", "string(max=3)", "string(max=6)", "string(max=9)", "string(max=5, max_chars=2)",
    "string(max=6, min_chars=1)", "boolean", "integer(1..1)", "integer(0..20)", "number(min=0, max_tokens=4)",
    '"tv"', '"tv" | "tv set"', '"a" | "ab" | "abc"', '"television" | "phone"', "1 | 12 | 123",
    "/AB-[0-9]/", "/[A-Z]{1,2}/", "/(ab)*/", "date", "verbatim(title)", "verbatim(title, max=3)", "null",
)  # fmt: skip
COUNTS = ("0..1", "0..2", "0..3", "1..1", "1..3", "2..2", "2..4")
GLUE = ("\n", " ", ". ", "\n- ", ": ", ", ", "\n\n", "so ", "", "", '"')
PROMPTS = ("", "{schema}", "{for p in points}{n}. {p}{if p} {else}-{end}\n{end}", "{if not points}None{end}")
STOPS = (" ", ":", ".", ", ")
AUTOS = tuple(f"auto({policy}, max={most})" for policy in ("pasta", "apar") for most in (6, 15, 30))


def compiled(source: str) -> Program | None:
    """None where the checker refuses it."""
    try:
        return pastalang.compile(source)
    except ProgramError:
        return None


@st.composite
def sources(draw: st.DrawFn, *, depth: int = 2, autos: bool = False) -> str:
    """One template; its inputs are `title`, one or several, and `points`, a list. With `autos`, the model opens threads
    in half of its values."""
    writer = _Writer(draw, autos)
    each = "each " if writer.is_rare() else ""
    body = f"json {writer.record(depth)}" if writer.flag() else f'text """\n{writer.block(depth)}\n"""'
    prompt = f"Be brief.{draw(st.sampled_from(PROMPTS))}"
    return (
        f"template t({each}title: text, points: [text])\n"
        f'system """\n{prompt}\n"""\nuser """\n{{title}}{{points}}\n"""\nassistant {body}\n'
    )


@dataclass
class _Writer:
    draw: st.DrawFn
    autos: bool = False
    names: int = 0
    lists: list[str] = field(default_factory=list)  # holes that a fork can go over

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def count(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def is_rare(self) -> bool:
        return self.count(0, 3) == 3

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    # ── types ────────────────────────────────────────────────────────────────────────────────────────────

    def type(self, depth: int) -> str:
        if self.autos and self.flag():
            auto = self.pick(*AUTOS)
            return self.pick(auto, auto, f"{auto} | null", f"[{auto}]({self.pick(*COUNTS)})")
        kinds = ["scalar", "scalar", "optional", "optional", "list"]
        if depth:
            kinds += ["record", "optional record", "records", "records", "tagged", "tuple"]
        match self.pick(*kinds):
            case "optional":
                return f"{self.pick(*SCALARS[:-1])} | null"
            case "list":
                return self.list_of_scalars()
            case "record":
                return self.record(depth - 1)
            case "optional record":
                return f"{self.record(depth - 1)} | null"
            case "records":
                return f"[{self.record(depth - 1)}]({self.pick(*COUNTS)})"
            case "tagged":
                tags = self.draw(st.sampled_from((("a", "ab"), ("a", "b"), ("aa", "ab", "b"))))
                return " | ".join(self.record(depth - 1, tag=tag) for tag in tags)
            case "tuple":
                return "[integer(0..9), string(max=3)]"
            case _:
                return self.pick(*SCALARS)

    def list_of_scalars(self) -> str:
        item = self.pick("string(max=3)", "integer(0..9)", "boolean", '"a"')
        return f"[{item}]({self.pick(*COUNTS)}, max_tokens=30)"

    def record(self, depth: int, *, tag: str | None = None) -> str:
        """Some fields wait for others; the last ones may go one after another."""
        known: list[str] = []
        fields: list[str] = []
        for _ in range(self.count(0 if tag else 1, 3)):
            name = self.name("f")
            after = f" after {self.pick(*known)}" if known and self.is_rare() else ""
            fields.append(f"{name}: {self.type(depth)}{after}")
            known.append(name)
        if len(fields) > 1 and self.is_rare():
            start = self.count(0, len(fields) - 2)
            fields[start:] = ["sequential {", *fields[start:], "}"]
        lines = [f'kind: "{tag}"', *fields] if tag else fields
        return "\n".join(("{", *lines, "}"))

    # ── running text ─────────────────────────────────────────────────────────────────────────────────────

    def block(self, depth: int, *, number: bool = False) -> str:
        """Pieces with something or nothing between them; what was promised is kept at the end."""
        written = [self.pick("{n}. ", "- ", "{n}", "* ")] if number else []
        written.append(self.pick("Say ", "- ", "x", "\n", "", ""))
        owed: list[str] = []
        for _ in range(self.count(1, 4)):
            written += [self.piece(depth, owed), self.pick(*GLUE)]
        for name in owed:
            written.append(f"\n{{async {name}}}{self.pick('', 'so ', 'x')}{self.hole()}{{end}}")
        if owed:
            written.append(self.pick("\n", "", "{sync}fin"))
        return "".join(written)

    def piece(self, depth: int, owed: list[str]) -> str:
        kinds = ["hole", "hole", "hole", "input"]
        if depth:
            kinds += ["async", "async", "aside", "promise", "fork", "fork", "each", *(["over"] if self.lists else [])]
        match self.pick(*kinds):
            case "hole":
                return self.hole()
            case "async":
                return f"{{async {self.name('a')}{self.room()}}}{self.block(depth - 1)}{{end}}{self.sync()}"
            case "aside":
                type = self.pick("string(max=4)", "integer(0..20)", '"tv"', *(AUTOS if self.autos else ()))
                return f"{{async {self.name('a')}{self.room()}: {type}}}{self.sync()}"
            case "promise":
                owed.append(self.name("p"))
                return f'{{promise {owed[-1]} "a topic" ~9}}'
            case "fork":
                return f"{{fork {self.name('k')} ({self.pick(*COUNTS)})}}{self.block(depth - 1, number=True)}{{end}}"
            case "each":
                return self.each("points", depth)
            case "over":
                return self.each(self.pick(*self.lists), depth)
            case _:
                return "{title}"

    def each(self, over: str, depth: int) -> str:
        name = self.name("e")
        head = self.pick("* ", "") + self.pick(f"{{{name}}}", "")
        return f"{{fork {name} in {over}{self.room()}}}{head}{self.block(depth - 1)}{{end}}{self.sync()}"

    def sync(self) -> str:
        return "{sync}" + self.pick("In short: ", " ", "then\n") if self.flag() else ""

    def room(self) -> str:
        return self.pick("", " ~3", " ~20")

    def hole(self) -> str:
        name = self.name("h")
        if self.autos and self.flag():
            return f"{{{name}: {self.pick(*AUTOS)}}}"
        match self.pick("string", "string", "stop", "scalar", "record", "list"):
            case "string":
                type = f"string(max={self.count(1, 6)})"
            case "stop":
                type = f'string(max={self.count(1, 5)}, stop="{self.pick(*STOPS)}")'
            case "record":
                type = self.record(1)
            case "list":
                type = self.list_of_scalars()
                self.lists.append(name)
            case _:
                type = self.pick(*SCALARS)
        return f"{{{name}: {type}}}"
