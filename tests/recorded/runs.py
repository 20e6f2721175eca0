"""The runs that are recorded, in groups; a group is a file of `data` and a test."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pastalang
from pastalang import Sampling
from tests.recorded.models import Rig
from tests.recorded.validators import WANTED

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent.relative_to(ROOT)
BYTE = Rig()
BPE = Rig("bpe", "qwen3", 1)
CHAT = Rig("chat", "mistral", 2)
TAGS = Rig("tags", "llama", 3)
RIGS = (BYTE, BPE, CHAT, TAGS)
MODES = ("strict", "lockstep", "sequential")
WARM = Sampling(temperature=1.0)
SAMPLINGS = (
    None,
    Sampling(temperature=0.3),
    Sampling(temperature=1.0),
    Sampling(temperature=2.0),
    Sampling(temperature=1.2, top_k=5),
    Sampling(temperature=1.2, top_p=0.6),
    Sampling(temperature=1.2, min_p=0.1),
    Sampling(repetition_penalty=1.5),
    Sampling(temperature=1.0, repetition_penalty=0.8),
    Sampling(temperature=0.9, top_k=40, top_p=0.9, min_p=0.02, repetition_penalty=1.2),
)
TITLE = 'Sharp "Aquos" 42 inch 4K TV, 899 €'
TITLES = (TITLE, "Tea, green, 100 g", "Ein Fahrrad für Kinder, 16 Zoll, rot", "", "A B")
GOODS = ("Tea, green, 100 g", "Coffee from Peru, dark", "A red bicycle for children", "A lamp, 40 W, of brass", "Pens")
MORE = {
    "other": "the second text is here",
    "points": [{"name": "price", "why": "it is low"}, {"name": "size", "why": "42 inch"}],
    "names": ["Ada", "Linus", "Grace Hopper"],
    "question": "What is it about?",
    "review": ["Good tea. I liked it.", "It broke after a day, sadly.", "42"],
    "letter": [{"from": "Ada", "body": "When does it arrive?"}, {"from": "Linus", "body": "It is broken."}],
}
CORPUS: dict[str, dict[str, Any]] = {
    "fork-over-an-input": {"points": MORE["points"]},
    "inputs-named-like-keywords": {"each": "a", "after": "b", "from": "c", "in": ["d", "e"]},
    "inputs-of-every-type": {
        "a": "x", "b": 3, "c": 1.5, "d": True, "e": ["y", "z"], "f": {"name": "n", "qty": 2, "unit": "kg"},
        "h": ["formal", "friendly"], "i": "formal",
    },
    "chat-history": {
        "history": [{"role": "user", "content": "1 + 2?"}, {"role": "assistant", "content": "3"}], "question": "+ 1?",
    },
    "examples-with-values product": {"title": "Red sock", "tone": "brief"},
    "examples-with-values trip": {"example": "Oslo"},
    "loops-and-conditions-in-messages t": {
        "xs": [{"name": "A", "tags": ["u", "v"]}, {"name": "B", "tags": []}], "tone": "formal", "count": 1.5,
        "document": ["First one.", ""], "brief": False,
    },
    "loops-and-conditions-in-messages names": {"for": "a", "if": "", "not": ["b"]},
    "schema-of-the-answer list": {"title": TITLE, "schema": "S"},
    "inputs-over-several-lines": {"a": "x", "b": 3, "c": ["one", "two"]},
    "inputs-with-defaults": {},
    "comments-everywhere": {"title": TITLE, "body": "And a body."},
    "stacked-documents": {"question": "What?", "document": ["First one.", "Second one.", "Third"]},
    "template-named-template": {},
    "template-without-parentheses": {},
    "thought-before-the-answer": {"claim": "Water is wet."},
    "texts-with-threads-among-other-values": {"city": "Oslo"},
}  # fmt: skip
THREADS = ("automatic-answer", "texts-with-threads-among-other-values")  # only one tokenizer writes their tags often


class Way(Enum):
    STREAM = "one after another"
    BATCH = "in one batch"
    TOGETHER = "as tasks"
    IN_TURNS = "as streams that take turns"
    LEFT = "begun and left, then run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`inputs`: of one request, or a list of those of several. Of a brief one the fields are kept as a digest."""

    name: str
    program: Path
    inputs: Any
    rig: Rig = BYTE
    way: Way = Way.STREAM
    options: dict[str, Any] = field(default_factory=dict)
    is_brief: bool = False

    @property
    def how(self) -> str:
        said = {name: _spelled(value) for name, value in self.options.items()}
        parts = [f"{name}={value}" for name, value in said.items() if value is not None and name != "template"]
        return ", ".join([str(self.rig), *([] if self.way is Way.STREAM else [self.way.value]), *parts])


def _spelled(value: Any) -> Any:
    if isinstance(value, Sampling):
        names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        return " ".join(f"{name}={found}" for name in names if (found := getattr(value, name)) is not None)
    return value.__name__ if isinstance(value, type) else value


# ── the groups ───────────────────────────────────────────────────────────────────────────────────────────────


def _examples(mode: str) -> Iterator[Run]:
    for path in sorted((ROOT / "examples").glob("*.pasta")):
        inputs = json.loads((ROOT / "examples" / "data" / f"{path.stem}.json").read_text("utf-8"))
        number = _number(path.stem)
        turns = (RIGS[number % 3], None, "greedy"), (RIGS[(number + 1) % 3], WARM, "warm")
        for rig, sampling, turn in turns if mode == "strict" else turns[1:]:
            yield Run(
                name=f"{path.stem} {mode} {turn}", program=path.relative_to(ROOT), inputs=inputs, rig=rig,
                options={"mode": mode, "seed": number % 1000, "sampling": sampling},
            )  # fmt: skip


def _number(name: str) -> int:
    """What a program is recorded with comes from its name, so that a new program changes no run of the others."""
    return zlib.crc32(name.encode())


def _listings() -> Iterator[Run]:
    path = Path("examples/demo/listings.pasta")
    rows = [json.loads(line) for line in (ROOT / path).with_suffix(".jsonl").read_text("utf-8").splitlines()]
    titles = [{"title": row["title"]} for row in rows[:3]]
    for template in pastalang.load(ROOT / path).templates:
        for rig in (BYTE, BPE):
            options = {"template": template, "sampling": WARM, "seed": 5}
            yield Run(
                name=f"{template} {rig.tokens}", program=path, inputs=titles, rig=rig, way=Way.BATCH, options=options
            )


def _corpus(turn: int) -> Iterator[Run]:
    """Each program once greedily and once warm, on another model. Models and modes are spread over the programs."""
    for path in sorted((ROOT / "tests/corpus/valid").glob("*.pasta")):
        for template in pastalang.load(path).templates:
            name = f"{path.stem} {template}"
            number = _number(name) + turn
            options = {
                "template": template, "mode": MODES[number // 12 % 3] if turn else "strict", "seed": number % 1000,
                "sampling": WARM if turn else None,
            }  # fmt: skip
            known = CORPUS.get(name, CORPUS.get(path.stem))
            inputs = {"title": TITLES[number % 3]} if known is None else known
            yield Run(
                name=f"{name} {turn}", program=path.relative_to(ROOT), inputs=inputs,
                rig=TAGS if path.stem in THREADS else RIGS[number % 4], options=options,
            )  # fmt: skip


def _each_template(name: str, *turns: tuple[Rig, Sampling | None, str]) -> Iterator[Run]:
    path = HERE / "programs" / f"{name}.pasta"
    for at, template in enumerate(pastalang.load(ROOT / path).templates):
        for turn, (rig, sampling, mode) in enumerate(turns):
            inputs = inputs_of(name, template, TITLES[(at + turn) % 3])
            yield Run(
                name=f"{template} {turn}", program=path, inputs=inputs, rig=rig,
                options={"template": template, "mode": mode, "seed": 100 * turn + at, "sampling": sampling},
            )  # fmt: skip


def inputs_of(program: str, template: str, title: str) -> dict[str, Any]:
    if program == "stacks":
        names = {"reviews": ("review", "question"), "letters": ("letter",)}.get(template)
        return {name: MORE[name] for name in names} if names else {"title": list(TITLES)}
    more = {"copies": "other", "over_input": "points", "over_texts": "names"}.get(template)
    return {"title": title, **({more: MORE[more]} if more else {})}


def _holes(turn: int) -> Iterator[Run]:
    turns = ((BYTE, WARM, "strict"), (BPE, None, "strict")), ((CHAT, WARM, "lockstep"), (BPE, WARM, "sequential"))
    yield from _each_template("holes", *turns[turn])


def _samplings() -> Iterator[Run]:
    for rig, program, template in ((BYTE, "holes", "strings"), (BPE, "texts", "branches"), (CHAT, "holes", "lists")):
        for at, sampling in enumerate(SAMPLINGS):
            options = {"template": template, "sampling": sampling, "seed": at}
            yield Run(
                name=f"{template} {at}", program=HERE / "programs" / f"{program}.pasta",
                inputs={"title": TITLE}, rig=rig, options=options, is_brief=True,
            )  # fmt: skip


SCHEDULED = (("holes", "waiting"), ("holes", "lists"), ("texts", "branches"), ("texts", "forest"), ("stacks", "trees"))


def _scheduled(name: str, *rigs: Rig, way: Way, details: bool = False) -> Iterator[Run]:
    """The same programs, inputs and seeds in other ways and on other engines."""
    for rig in rigs:
        for program, template in SCHEDULED:
            inputs = [inputs_of(program, template, title) for title in TITLES[:3]]
            options: dict[str, Any] = {"template": template, "sampling": WARM, "seed": 9}
            options |= {"details": True} if details else {}
            yield Run(
                name=f"{template} {name} {rig}", program=HERE / "programs" / f"{program}.pasta", inputs=inputs,
                rig=rig, way=way, options=options, is_brief=not details,
            )  # fmt: skip


def _limits() -> Iterator[Run]:
    yield from _scheduled("chunk", Rig("bpe", "qwen3", 1, chunk=5), way=Way.BATCH)
    yield from _scheduled("requests", Rig("bpe", "qwen3", 1, requests=2, chunk=7), way=Way.BATCH)


def _more_limits() -> Iterator[Run]:
    yield from _scheduled("chunk", Rig(chunk=1), Rig("chat", "mistral", 2, chunk=16), way=Way.BATCH)
    yield from _scheduled("requests", Rig(requests=1), way=Way.BATCH)


def _memory() -> Iterator[Run]:
    """Enough for some at once, for one branch at a time, and for nothing."""
    yield from _scheduled("cells", _cells(230), way=Way.IN_TURNS)
    yield from _scheduled("cells together", _cells(100), way=Way.BATCH)
    yield from itertools.islice(_scheduled("cells together", _cells(20), way=Way.BATCH), 1)


def _more_memory() -> Iterator[Run]:
    yield from _scheduled("cells", _cells(300), _cells(260), way=Way.IN_TURNS)
    yield from _scheduled("cells together", _cells(160), way=Way.BATCH)


def _cells(cells: int) -> Rig:
    return Rig("bpe", "qwen3", 1, cells=cells)


def _kept() -> Iterator[Run]:
    """Prompts that are found again, and too little room for all of them: which one goes shows in what is read anew."""
    yield from _scheduled("kept", Rig("bpe", "llama", 4, cells=600, kept=400), way=Way.STREAM)
    yield from _scheduled("kept", Rig("byte", "llama", 4, cells=420, kept=100), way=Way.BATCH)
    yield from _scheduled("kept", Rig(kept=2000, chunk=9), way=Way.IN_TURNS)
    for kept in (60, 90, 120):
        inputs = [{"title": GOODS[at]} for at in (0, 1, 2, 1, 3, 1, 4, 2, 0, 1, 3, 2)]
        yield Run(
            name=f"in turns {kept}", program=HERE / "programs/holes.pasta", inputs=inputs, is_brief=True,
            rig=Rig("bpe", "llama", 4, cells=400, kept=kept), options={"template": "only_scalar", "seed": 1},
        )  # fmt: skip


def _ways() -> Iterator[Run]:
    yield from _scheduled("tasks", BPE, way=Way.TOGETHER)
    yield from _scheduled("left", BYTE, way=Way.LEFT)
    yield from _scheduled("details", BYTE, way=Way.STREAM, details=True)
    holes = HERE / "programs/holes.pasta"
    for template in ("enums", "literals", "unions"):
        options = {"template": template, "details": True, "sampling": WARM, "seed": 4}
        yield Run(name=f"{template} details", program=holes, inputs={"title": TITLE}, rig=BPE, options=options)
    wrong: list[Any] = [{"title": TITLE}, {"name": TITLE}, {"title": 3}, {}, {"title": TITLE, "more": 1}, {"title": ""}]
    yield Run(name="wrong inputs", program=holes, inputs=wrong, way=Way.BATCH, options={"template": "waiting"})
    refused: dict[str, dict[str, Any]] = {
        "no template": {}, "another template": {"template": "wating"},
        "another mode": {"template": "waiting", "mode": "strickt"}, "a seed": {"template": "waiting", "seed": "x"},
        "a repair of nothing": {"template": "waiting", "repair": 1},
    }  # fmt: skip
    for name, options in refused.items():
        yield Run(name=f"refused for {name}", program=holes, inputs={"title": TITLE}, options=options)


def _repairs() -> Iterator[Run]:
    path = HERE / "programs/repairs.pasta"
    for at, (template, model) in enumerate(WANTED):
        for turn, rig in enumerate((BYTE, BPE)):
            options: dict[str, Any] = {
                "template": template, "model": model, "repair": 1 + (at + turn) % 3, "keep_invalid": at % 2 == 0,
                "sampling": (None, WARM)[turn], "seed": at, "mode": MODES[(at + turn) % 3 if at > 3 else 0],
            }  # fmt: skip
            options |= {"retry_below": 0.2} if at % 3 == 0 else {}
            yield Run(
                name=f"{template} {model.__name__} {turn}", program=path, rig=rig, options=options,
                inputs={"title": list(TITLES[:2])} if template == "stacked" else {"title": TITLE},
            )  # fmt: skip
    for template in ("plain", "waiting", "lines"):
        for at, (share, repair) in enumerate(((0.01, 0), (0.5, 0), (0.9, 3), (1.0, 1))):
            options = {"template": template, "retry_below": share, "repair": repair, "seed": at, "sampling": WARM}
            yield Run(
                name=f"{template} below {share}", program=path, inputs={"title": TITLE}, rig=RIGS[at % 2],
                options=options,
            )  # fmt: skip


GROUPS = {
    "examples-strict": lambda: _examples("strict"),
    "examples-lockstep": lambda: _examples("lockstep"),
    "examples-sequential": lambda: _examples("sequential"),
    "listings": _listings,
    "corpus-greedy": lambda: _corpus(0),
    "corpus-warm": lambda: _corpus(1),
    "holes-strict": lambda: _holes(0),
    "holes-other-modes": lambda: _holes(1),
    "texts": lambda: _each_template("texts", (BYTE, WARM, "strict"), (BPE, None, "strict"), (CHAT, WARM, "strict")),
    "texts-of-tags": lambda: _each_template(
        "texts", (TAGS, WARM, "strict"), (TAGS, Sampling(temperature=1.4), "strict")
    ),
    "stacks": lambda: _each_template(
        "stacks", (BYTE, WARM, "strict"), (BPE, None, "lockstep"), (TAGS, WARM, "sequential")
    ),
    "samplings": _samplings,
    "limits": _limits,
    "more-limits": _more_limits,
    "memory": _memory,
    "more-memory": _more_memory,
    "kept-prompts": _kept,
    "ways": _ways,
    "repairs": _repairs,
}
