"""Training rows with threads, made from rows without: by rule, or by a model that writes the tags.

plain rows ── tags by rule or annotator ── validated ── recorded ── rows with threads, and rejected ones with reasons

Whoever writes the tags, a row is kept only if its text without tags is the text that it was made from, if no thread
seems to refer to one that it cannot see, and if it can be trained on. With a `Bar`, a model has to find its threads
about as likely without one another.

Rules are for texts that have structure: lists, sections under headings, paragraphs that begin with their point.

pasta   the items of a list, and the bodies of sections, become threads; text that needs them waits
apar    the first sentence of an item, a section or a paragraph stays in the text, the rest of it becomes a thread

By rule, an item is written in a thread only if nothing in it seems to refer to an earlier one, and if it is long enough
to be worth its tag. Text that seems to refer to open threads waits for them.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

from pastalang.bulk.outputs import sync
from pastalang.compiler import compile
from pastalang.plan.branches import Mode
from pastalang.plan.plan import Plan
from pastalang.program.types import AutoPolicy, Sampling
from pastalang.runtime.encoder import Encoder
from pastalang.runtime.engine import Engine
from pastalang.training.answer import THREADS, read_thread_text
from pastalang.training.data import CATEGORY, THOUGHT, VALUE, Row
from pastalang.training.errors import BadData, BadRow, raised
from pastalang.training.independence import Grader
from pastalang.training.recording import Lesson, Recorder
from pastalang.values.json import spell_json

CountTokens: TypeAlias = Callable[[str], int]

FEWEST = 2  # threads that a text has to have
_ROUNDED = 10  # announced lengths are multiples of it
_ITEM = re.compile(r"^ ?(?:\d{1,2}[.)]|[-*•])[ \t]+(?P<body>\S.*(?:\n[ \t]{2,}\S.*)*)", re.MULTILINE)
_SECTION = re.compile(
    r"^(?:#{1,4} .+|\*\*[^*\n]+\*\*:?)\n+(?P<body>(?:(?!#{1,4} |\*\*[^*\n]+\*\*:?\n).*\n?)+)", re.MULTILINE
)
_PARAGRAPH = re.compile(r"(?P<body>\S.*(?:\n.*\S.*)*)")
_SENTENCE_END = re.compile(r":(?=\s)|(?<!\b[A-Z])(?<!\b[DM]r)(?<!\b[MS][st])(?<!\bMrs)[.!?](?=\s+[A-Z\"'(\[])")
_UNFIT = ("```", "$$", "http://", "https://", "<async>", "<promise", "<sync/>", "[Fork]", "[Child]")
_REFERS = re.compile(
    r"\b(?:above|aforementioned|previous(?:ly)?|preceding|former|latter|earlier|respectively|(?:step|point|item|option|"
    r"number) (?:\d+|one|two|three|four|five)|as (?:mentioned|noted|described|said|before)|the (?:same|other) (?:one|"
    r"way))\b",
    re.IGNORECASE,
)
_REFERS_AT_START = re.compile(
    r"(?:this|these|those|it|they|them|he|she|its|their|such|also|then|next|after(?:wards| that| this)?|finally|lastly|"
    r"however|therefore|thus|hence|instead|again|another|similarly|likewise|moreover|furthermore|additionally|otherwise|"
    r"both|once|now|overall|in (?:conclusion|summary|short|addition|contrast)|on the other hand|together|all (?:of )?"
    r"(?:this|these|in all))\b",
    re.IGNORECASE,
)
_STORY = re.compile(r"\b(?:he|she|him|her|his|hers|I|my|me|we|our|us)\b")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}")
_WORD = re.compile(r"[\w'-]+")


class Unfit(Exception):
    """Why a text gets no threads."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a text that may become a thread: text[begin:end]; `root` is where its first sentence ends."""

    begin: int
    root: int
    end: int


@dataclass(frozen=True, slots=True)
class Tagging:
    """`inputs` is the prompt: names in it are known everywhere. Threads have `least` tokens."""

    policy: AutoPolicy
    count: CountTokens
    least: int
    inputs: str = ""

    def tag(self, text: str) -> str:
        """The text with threads. Raises `Unfit`."""
        if mark := next((mark for mark in _UNFIT if mark in text), None):
            raise Unfit(f"it contains {mark}")
        units = units_of(text, paragraphs=self.policy is AutoPolicy.APAR)
        chosen = [unit for unit in units if self._is_long(text, unit)]
        if len(chosen) < FEWEST:
            raise Unfit(
                f"fewer than {FEWEST} of its parts have {self.least} tokens" if units else "it has no structure"
            )
        write = self._pasta if self.policy is AutoPolicy.PASTA else self._apar
        tagged, threads = write(text, chosen)
        if threads < FEWEST:
            raise Unfit("its parts seem to refer to one another")
        return tagged

    def _is_long(self, text: str, unit: Unit) -> bool:
        begin = unit.begin if self.policy is AutoPolicy.PASTA else unit.root
        return self.count(text[begin : unit.end]) >= self.least

    def _pasta(self, text: str, units: Sequence[Unit]) -> tuple[str, int]:
        """Waits before text that seems to need an open thread, and before text after the last one."""
        written, done, threads, opened = "", 0, 0, list[str]()
        for number, unit in enumerate(units):
            between, body = text[done : unit.begin], text[unit.begin : unit.end]
            if opened and (self._needs(between, opened) or self._needs(body, opened)):
                between, opened = _wait_in(between), []
            written += between + promise(topic_of(body), body, self.count)
            threads, done = threads + 1, unit.end
            opened.append(body)
            if number + 1 == len(units) and text[done:].strip():
                written += _wait_in(text[done:])
                done = len(text)
        return written + text[done:], threads if _is_parallel(written) else 0

    def _apar(self, text: str, units: Sequence[Unit]) -> tuple[str, int]:
        """What seems to need a detail that no text can see stays in the text, with that detail."""
        details = [text[unit.root : unit.end] for unit in units]
        needed = {
            number
            for number, detail in enumerate(details)
            for later in range(number + 1, len(units))
            if self._needs_name(text[units[later].begin : units[later].end], [detail])
        }
        written, done, threads = "", 0, 0
        for number, (unit, detail) in enumerate(zip(units, details, strict=True)):
            written += text[done : unit.root]
            done = unit.root
            if number in needed or _REFERS.search(detail):
                continue
            written, done, threads = f"{written}[Fork][Child]{detail}[/Child]", unit.end, threads + 1
        return written + text[done:], threads

    def _needs(self, text: str, opened: Sequence[str]) -> bool:
        return refers(text) or self._needs_name(text, opened)

    def _needs_name(self, text: str, opened: Sequence[str]) -> bool:
        """Whether it has a name that the open threads were the first to mention."""
        known = set(_WORD.findall(self.inputs))
        new = {name for body in opened for name in _NAME.findall(body)} - known
        return bool(new & set(_WORD.findall(text)))


def check_independence(text: str, policy: AutoPolicy) -> None:
    """Raises `Unfit` if a thread seems to refer to one that it cannot see, whoever wrote the tags."""
    opened = 0
    for part in re.split(r"(<sync/>)", text) if policy is AutoPolicy.PASTA else [text]:
        opened = 0 if part == "<sync/>" else opened
        for thread in THREADS[policy].findall(part):
            if opened and refers(thread):
                raise Unfit(f"a thread seems to refer to one that it cannot see: {thread.strip()[:40]!r}")
            opened += 1


def refers(text: str) -> bool:
    """Whether a text seems to refer to what stands before it."""
    start = text.lstrip(" \t\n\"'(*")
    return bool(_REFERS_AT_START.match(start) or _REFERS.search(text))


def units_of(text: str, *, paragraphs: bool) -> tuple[Unit, ...]:
    """Items of a list, else sections, else paragraphs of several sentences: the first of which there are three or more.

    The paragraphs of a story need one another, so they are none.
    """
    for pattern in (_ITEM, _SECTION, _PARAGRAPH) if paragraphs and not _STORY.search(text) else (_ITEM, _SECTION):
        units = tuple(_unit(text, *found.span("body")) for found in pattern.finditer(text))
        if pattern is _PARAGRAPH:
            units = tuple(unit for unit in units if unit.root < unit.end)
        if len(units) >= 3:
            return units
    return ()


def _unit(text: str, begin: int, end: int) -> Unit:
    end = begin + len(text[begin:end].rstrip())
    found = _SENTENCE_END.search(text, begin, end)
    return Unit(begin, end if found is None else found.end(), end)


def topic_of(body: str) -> str:
    """Its first three words."""
    return " ".join(_WORD.findall(body.replace("*", ""))[:3])


def promise(topic: str, body: str, count: CountTokens) -> str:
    """The tag with its thread. The announced length has room for the thread's own tags, rounded up to ten."""
    return f'<promise topic="{topic}" tokens="{in_tens(length_of(body, count))}"/><async>{body}</async>'


def length_of(body: str, count: CountTokens) -> int:
    """The tokens of a thread, with its own tags."""
    return count(body) + count("<async>") + count("</async>")


def in_tens(length: int) -> int:
    return -(-length // _ROUNDED) * _ROUNDED


def _wait_in(between: str) -> str:
    """The wait comes after the line end and before the words that may refer to a thread."""
    space = len(between) - len(between.lstrip())
    return f"{between[:space]}<sync/>{between[space:]}"


def _is_parallel(written: str) -> bool:
    """Whether two threads are ever open at the same time."""
    return any(part.count("<promise") >= FEWEST for part in written.split("<sync/>"))


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────


Annotator: TypeAlias = Callable[[str], str]  # answers a prompt: a hosted model, an engine, a person

LEAST = {AutoPolicy.PASTA: 20, AutoPolicy.APAR: 10}  # tokens of a thread that is worth its tag
_PROMISED = re.compile(r'<promise topic="([^"<>\n]*)"(?: tokens="[0-9]*")?/>[ \t]*<async>(.*?)</async>', re.DOTALL)

_INSTRUCTIONS = {
    AutoPolicy.PASTA: """\
Below is an answer. Copy it word for word, and mark the parts that could be written at the same time, because none of
them needs to know what the others say.

- Put <promise topic="..." tokens="..."/><async> before such a part and </async> after it. The topic is at most three
  words; tokens is how long the part is, in tokens, rounded up to a multiple of ten.
- Put <sync/> before the first text that needs to know what an earlier part says: a summary, a comparison, a count.
- Mark parts of at least twenty words. Mark at least two, or none. Do not mark a part that says "also", "this" or "then"
  about another part. Do not put a part into another one.
- Change nothing else, not even spaces and line ends. Answer with the copy alone.
""",
    AutoPolicy.APAR: """\
Below is an answer. Copy it word for word, and mark the details that nothing else in the answer needs.

- Put [Fork][Child] after the sentence that a detail belongs to, and [/Child] after the detail.
- A detail has at least ten words. Mark at least two, or none. Nothing outside a detail may refer to it, and no detail
  to another one. Do not put a detail into another one.
- Change nothing else, not even spaces and line ends. Answer with the copy alone.
""",
}


# Copies with tags, shown to an annotator next to the same answers without them.
_DEMONSTRATIONS: Final[Mapping[AutoPolicy, tuple[str, ...]]] = {
    AutoPolicy.PASTA: (
        """\
Both cities are worth a weekend.

- Vienna: <promise topic="Vienna in short" tokens="40"/><async>The old town is small enough to walk, the museums \
need a day of their own, and the coffee houses are where the evening ends.</async>
- Prague: <promise topic="Prague in short" tokens="40"/><async>The castle hill is best seen early in the morning, \
before the tour groups, and the river is best seen from any bridge but the famous one.</async>
<sync/>
So Vienna is the better choice in winter, and Prague in spring.""",
        """\
The Nile is the longest river of Africa. <promise topic="its sources" tokens="50"/><async>It has two sources: the \
White Nile comes from the lakes of East Africa and flows slowly all year, while the Blue Nile comes from Ethiopia \
and brings most of the water in summer.</async> <promise topic="people along it" tokens="40"/><async>Nearly all \
people of Egypt live within a few kilometres of its banks, on less than a twentieth of the country.</async>""",
        """\
# Storage
<promise topic="storage of rice" tokens="30"/><async>Keep rice in a closed jar, dry and out of the sun, where it \
lasts for more than a year without losing its taste.</async>

# Cooking
<promise topic="cooking of rice" tokens="40"/><async>Rinse it until the water is clear, cook it with one and a \
half times as much water, and let it rest for ten minutes under its lid.</async>
""",
        """\
Add up the three prices first: 12 and 7 are 19, and 19 and 11 are 30. A tenth of this is 3. So after the discount \
you pay 27 euros in all, which leaves 3 of your 30 euros.""",
        """\
Dear Ms. Novak,

<promise topic="thanks for visit" tokens="30"/><async>Thank you for showing us the workshop last Tuesday; all of \
us were impressed by how quiet the new machines are.</async>

<promise topic="the invoice" tokens="40"/><async>The invoice for the first delivery was paid on Friday. Please \
tell us should it not have arrived by the middle of next week.</async>

Kind regards
P. Berg""",
        """\
Anna lost her key on the way home. She went back to the station, and there it lay, under the bench where she had \
been sitting. She took it and promised herself to buy a second one.""",
        """\
1. Cats: <promise topic="keeping cats" tokens="40"/><async>A cat is content alone for a working day, and needs \
clean sand, fresh water and a window more than it needs a garden.</async>
2. Dogs: <promise topic="keeping dogs" tokens="40"/><async>A dog needs company and two long walks every day, in \
any weather, for ten years and more, and somebody who teaches it early what is allowed.</async>
<sync/>3. Both: whoever wants the two together should begin with the one that needs less time, the cat.""",
    ),
    AutoPolicy.APAR: (
        """\
1. Sleep at the same hours.[Fork][Child] Go to bed and get up at the same time on every day of the week, so that \
the body learns when to be tired.[/Child]
2. Leave the telephone outside.[Fork][Child] A bright screen keeps you awake, and messages do so even more, \
whatever they are about.[/Child]
3. Do not lie awake.[Fork][Child] Get up after a quarter of an hour, read something dull in another room, and come \
back when your eyes fall shut.[/Child]""",
        """\
Copper conducts electricity well.[Fork][Child] Only silver is better, and it costs about a hundred times as much, \
so wires are made of copper.[/Child]

Copper does not rust.[Fork][Child] Copper turns brown, and after years in the rain green, but the layer protects \
the metal below.[/Child]""",
        """\
Put the flour into a bowl and make a hollow in it. Pour the yeast into the hollow and wait until it foams. Then \
knead it with the butter, and wait once more until it is twice as high as before.""",
    ),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """`most`: how much less likely a thread may be without the others, in nats for each of its tokens."""

    judge: Grader
    most: float


@dataclass(frozen=True, slots=True)
class Tagged:
    """A row of training data. `tokens` are those of its text without tags and with its end.

    `loss` is that of the thread which loses most without the others, in nats for each token; None without a judge.
    """

    row: Mapping[str, Any]
    threads: int
    tokens: int
    in_threads: int
    passes: int
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that gets no threads, and why."""

    row: Mapping[str, Any]
    origin: str
    reason: str


def tag_rows(
    rows: Sequence[Row], plan: Plan, tokenizer: Any, *, least: int | None = None, annotate: Annotator | None = None,
    bar: Bar | None = None,
) -> Iterator[Tagged | Rejected]:  # fmt: skip
    """Rows of an `auto(...)` template whose answers have no tags, in their order, with tags. `least`: of a thread."""
    assert plan.auto is not None
    work = _Work(plan, plan.auto, tokenizer, LEAST[plan.auto] if least is None else least, annotate, bar)
    yield from map(work.tagged, rows)


class _Work:
    def __init__(
        self, plan: Plan, policy: AutoPolicy, tokenizer: Any, least: int, annotate: Annotator | None, bar: Bar | None
    ) -> None:
        self._plan, self._policy, self._least = plan, policy, least
        self._annotate, self._bar = annotate, bar
        self._recorder = Recorder(tokenizer)
        self._count = counter_of(tokenizer)

    def tagged(self, row: Row) -> Tagged | Rejected:
        [plain] = row.answer.plain_texts
        try:
            return self._tag(row, plain)
        except Unfit as problem:
            return Rejected(_written(row, plain), row.origin, str(problem))
        except BadRow as problem:
            return Rejected(_written(row, plain), row.origin, problem.reason)

    def _tag(self, row: Row, plain: str) -> Tagged:
        if self._annotate is None:
            inputs = " ".join(str(value) for value in row.inputs.values())
            text = Tagging(self._policy, self._count, self._least, inputs).tag(plain)
        else:
            text = self._annotated(plain, self._annotate)
        check_independence(text, self._policy)
        read = read_thread_text(text, self._policy)
        if read.plain != plain:
            raise Unfit("without its tags, it is another text")
        lesson = Lesson(lambda _: self._plan, row.inputs, text, row.origin, thought=row.thought)
        recorded = self._recorder.row(lesson, Mode.STRICT)
        inside = sum(map(self._count, read.threads))
        thought = self._count(row.thought) if isinstance(row.thought, str) else 0
        tokens, loss = thought + self._count(plain) + 1, self._loss(row, text)
        return Tagged(_written(row, text), len(read.threads), tokens, inside, recorded.passes, loss)

    def _loss(self, row: Row, text: str) -> float | None:
        if self._bar is None:
            return None
        loss = max((one.nats for one in self._bar.judge.losses(row, text)), default=0.0)
        if loss > self._bar.most:
            raise Unfit(f"a thread is less likely without the others: {loss:.2f} nats for each token")
        return loss

    def _annotated(self, plain: str, annotate: Annotator) -> str:
        text = _with_space_of(plain, _answered(annotate, annotation_prompt(plain, self._policy)))
        if self._policy is AutoPolicy.PASTA:
            text = _PROMISED.sub(lambda found: promise(found[1], found[2], self._count), text)
        if not read_thread_text(text, self._policy).threads:
            raise Unfit("the annotator marked nothing")
        return text


def counter_of(tokenizer: Any) -> CountTokens:
    """Counts the tokens of a text, those of tags as one where the tokenizer has such tokens."""
    encoder = Encoder(tokenizer)
    return lambda text: len(encoder.control(text) if text in ("<async>", "</async>") else encoder.text(text))


def _answered(annotate: Annotator, prompt: str) -> str:
    try:
        found: object = annotate(prompt)
    except Exception as problem:
        raise Unfit(f"the annotator raises {raised(problem)}") from problem
    if not isinstance(found, str):
        raise Unfit(f"the annotator returns text, not {found!r:.40}")
    if any("\ud800" <= letter <= "\udfff" for letter in found):
        raise Unfit("the annotator returns half of a surrogate pair")
    return found


def _with_space_of(plain: str, text: str) -> str:
    """White space around a copy, which annotators lose, as it was."""
    before, after = plain[: len(plain) - len(plain.lstrip())], plain[len(plain.rstrip()) :]
    return before + text.strip() + after


def _written(row: Row, text: str) -> Mapping[str, Any]:
    category = {CATEGORY: row.category} if row.category else {}
    thought = {THOUGHT: row.thought} if row.thought is not None else {}
    return {**row.inputs, **category, **thought, VALUE: text}


# ── annotators ───────────────────────────────────────────────────────────────────────────────────────────


def annotation_prompt(answer: str, policy: AutoPolicy) -> str:
    """What an annotator is asked, with demonstrations."""
    shown = [
        f"An answer:\n\n{read_thread_text(tagged, policy).plain}\n\nIts copy:\n\n{tagged}\n"
        for tagged in _DEMONSTRATIONS[policy]
    ]
    return "\n".join([_INSTRUCTIONS[policy], *shown, f"The answer:\n\n{answer}\n"])


class KeptAnswers:
    """An annotator whose answers are kept in a file as they come, so that a later run does not ask for them again. The
    file is deleted at the end, if every row has an answer or none has. `name`: of the annotator."""

    def __init__(self, annotate: Annotator, name: str, place: Path) -> None:
        self._annotate, self._name, self._place = annotate, name, place
        self._known: dict[str, deque[str]] = defaultdict(deque)  # rows that are the same have answers of their own
        self._missing = 0
        try:
            raw = place.read_bytes() if place.exists() else b""
            whole = raw[: raw.rfind(b"\n") + 1]  # a line that was cut off is asked for again
            for line in whole.splitlines():
                asked, text = json.loads(line)
                self._known[asked].append(text)
            self._stream = place.open("ab")
            self._stream.truncate(len(whole))
        except OSError as problem:
            raise BadData(f"{place} cannot be written: {problem.strerror}") from problem
        except (ValueError, TypeError) as problem:
            raise BadData(f"{place} holds no answers of an annotator: move it, or delete it") from problem
        self.kept = sum(map(len, self._known.values()))

    def __call__(self, prompt: str) -> str:
        asked = sha256(f"{self._name}\0{prompt}".encode("utf-8", "surrogatepass")).hexdigest()
        if self._known[asked]:
            return self._known[asked].popleft()
        self._missing += 1
        text = self._annotate(prompt)
        if isinstance(text, str):
            self._missing -= 1
            self.kept += 1
            self._stream.write(json.dumps([asked, text]).encode() + b"\n")
            sync(self._stream)
        return text

    def __enter__(self) -> KeptAnswers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._stream.close()
        if not self.kept or (kind is None and not self._missing):
            self._place.unlink()


def engine_annotator(engine: Engine, *, max_tokens: int = 1000) -> Annotator:
    """An annotator that decodes greedily with an engine."""
    program = compile(
        'template annotate(prompt: text)\nuser """{prompt}"""\n'
        f'assistant text """{{copy: string(max={max_tokens}, stop="<|end of copy|>")}}"""\n'
    )
    greedy = Sampling(temperature=0.0)
    return lambda prompt: str(engine.run(program, {"prompt": prompt}, sampling=greedy, on_truncated="keep").text)


# ── statistics ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of all rows. `theoretical` is the geometric mean of the tokens of a text for each pass that it takes, `loss` the
    mean of what the thread of a row that loses most loses."""

    kept: int
    threads: float
    in_threads: float
    theoretical: float
    loss: float | None
    plain: int
    rejected: Mapping[str, int]


def statistics_of(tagged: Sequence[Tagged], rejected: Sequence[Rejected], plain: int) -> Statistics:
    every = max(1, len(tagged))
    losses = [one.loss for one in tagged if one.loss is not None]
    reasons = Counter(one.reason.partition(":")[0] for one in rejected)
    return Statistics(
        kept=len(tagged),
        threads=sum(one.threads for one in tagged) / every,
        in_threads=sum(one.in_threads for one in tagged) / max(1, sum(one.tokens for one in tagged)),
        theoretical=math.exp(sum(math.log(one.tokens / one.passes) for one in tagged) / every),
        loss=sum(losses) / len(losses) if losses else None,
        plain=plain,
        rejected=dict(reasons.most_common()),
    )


def plain_among(rejected: Sequence[Rejected], count: int) -> list[Mapping[str, Any]]:
    """Rows that teach when an answer needs no threads. The same rows are chosen whatever stands around them."""
    named = {sha256(spell_json(dict(one.row)).encode()).hexdigest(): one.row for one in rejected}
    return [named[name] for name in sorted(named)[:count]]
