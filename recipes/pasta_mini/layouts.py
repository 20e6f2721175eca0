"""How a document looks: the same facts as lines, sentences, a table, a letter, or one line of a log.

What is called `TEST` is kept for tests. Lines of a log look alike everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from recipes.pasta_mini.catalogue import Part

_GREETINGS = ("Hello,", "Hi team,", "Dear all,", "Good morning,", "To whom it may concern,", "Hi,")
_FAREWELLS = ("Best regards", "Thanks", "Cheers", "Kind regards", "See you", "Yours")
_FOOTERS = (
    "Thank you!", "Please keep this for your records.", "Questions? Just ask.", "Sent from my phone",
    "All rights reserved.", "Printed on recycled paper.", "This message was created automatically.", "***", "--",
)  # fmt: skip
_CHATTER = (
    "I hope you are well.", "It was nice to meet you.", "More details will follow.",
    "Let me know if anything is unclear.", "As discussed yesterday.", "Sorry for the late answer.",
    "Everything else is as usual.", "We talked about this last week.",
    "That is all for now.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that a document states. `lines`: it is a list, and can be printed one below the other."""

    label: str
    printed: str
    lines: tuple[str, ...]
    sentence: str | None


WriteLine: TypeAlias = Callable[[str, str], str]

# Most looks of a line are put together of these.
_MARKS = ("", "", "", "", "", "- ", "* ", "• ", "> ", "+ ", "# ")
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str, str, str, str, str.upper, str.upper, str.lower, str.title, lambda label: f"**{label}**",
    lambda label: f"[{label}]", lambda label: f"_{label}_", lambda label: f'"{label}"', lambda label: _key(label),
    lambda label: f"({label})",
)  # fmt: skip
_BETWEEN = (
    ": ",
    ": ",
    ": ",
    ": ",
    ": ",
    " : ",
    " = ",
    "=",
    " - ",
    " – ",
    " | ",
    "\t",
    "  ",
    "    ",
    " -> ",
    " => ",
    " >> ",
)
_ENDS = ("", "", "", "", ".", ";", ",", "  ")

LOOKS: tuple[WriteLine, ...] = (
    lambda label, value: f"<{_key(label)}>{value}</{_key(label)}>",
    lambda label, value: f'  "{_key(label)}": "{value}",',
    lambda label, value: f'{_key(label)}="{value}"',
    lambda label, value: f"{value} ({label})",
    lambda label, value: f"{label} ({value})",
    lambda label, value: f"{label} {'_' * max(3, 24 - len(label))} {value}",
    lambda label, value: f"{label:<22}{' ' if len(label) > 21 else ''}{value}",
    lambda label, value: f"{label}{' ' * max(2, 40 - len(label) - len(value))}{value}",
    lambda label, value: f"; {label} /// {value}",
)
TEST_LOOKS: tuple[WriteLine, ...] = (
    lambda label, value: f"| {label} | {value} |",
    lambda label, value: f"{label} {'.' * max(3, 24 - len(label))} {value}",
    lambda label, value: f"{label}\n  {value}",
    lambda label, value: f"~ {label} » {value}",
)
_SPECIAL = 0.3  # of the lines have a look of `LOOKS`
GLUES = (" | ", "; ", ", ", " // ", " * ", "   ")  # between facts in one line
TEST_GLUES = (" - ", " · ")
COLUMNS = (" | ", "\t", "; ", "   ")
TEST_COLUMNS = (" ¦ ",)


def _key(label: str) -> str:
    return "_".join(label.lower().split())


def lay_out(title: str, entries: Sequence[Entry], random: Random, part: Part, *, is_log: bool = False) -> str:
    """The document. The order of the entries changes a little."""
    ordered = _swapped(entries, random)
    if is_log:
        return _log_line(ordered, random)
    way = draw_look(random, part)
    roll = random.random()
    if roll < 0.5:
        body = _lines(ordered, way, random)
    elif roll < 0.68:
        body = _sentences(ordered, random)
    elif roll < 0.82:
        half = random.randint(0, len(ordered))
        parts = [_lines(ordered[:half], way, random), _sentences(ordered[half:], random)]
        body = "\n\n".join(text for text in parts if text)
    elif roll < 0.95:
        body = _joined(ordered, way, random, part)
    else:
        body = _table(ordered, random, part)
    return _framed(title, body, random)


def draw_look(random: Random, part: Part) -> WriteLine:
    """How the lines of one document look."""
    if part is Part.TEST:
        return random.choice(TEST_LOOKS)
    if random.random() < _SPECIAL:
        return random.choice(LOOKS)
    spell = random.choice(_SPELLINGS)
    mark, between, end = (random.choice(some) for some in (_MARKS, _BETWEEN, _ENDS))
    return lambda label, value: f"{mark}{spell(label)}{between}{value}{end}"


def add_entries(text: str, entries: Sequence[Entry], random: Random, part: Part) -> str:
    """A finished document that states a little more."""
    if not entries:
        return text
    more = _lines(entries, draw_look(random, part), random) if random.random() < 0.6 else _sentences(entries, random)
    parts = [text, more] if random.random() < 0.7 else [more, text]
    return random.choice(("\n", "\n\n")).join(parts)


def _swapped(entries: Sequence[Entry], random: Random) -> list[Entry]:
    ordered = list(entries)
    for place in range(len(ordered) - 1):
        if random.random() < 0.25:
            ordered[place], ordered[place + 1] = ordered[place + 1], ordered[place]
    return ordered


def _lines(entries: Sequence[Entry], way: WriteLine, random: Random) -> str:
    gap = "\n" if random.random() < 0.9 else "\n\n"
    return gap.join(_line(entry, way, random) for entry in entries)


def _joined(entries: Sequence[Entry], way: WriteLine, random: Random, part: Part) -> str:
    """Several facts in a line."""
    glue = _glue(entries, TEST_GLUES if part is Part.TEST else GLUES, random)
    if glue is None or "\n" in way("", ""):
        return _lines(entries, way, random)
    said, several = [way(entry.label, entry.printed) for entry in entries], random.choice((2, 3, 99))
    return "\n".join(glue.join(said[place : place + several]) for place in range(0, len(said), several))


def _table(entries: Sequence[Entry], random: Random, part: Part) -> str:
    """All labels in one line, all values in the next one."""
    glue = _glue(entries, TEST_COLUMNS if part is Part.TEST else COLUMNS, random)
    rows = ([entry.label for entry in entries], [entry.printed for entry in entries])
    return "\n".join((glue or "\t").join(row) for row in rows)


def _glue(entries: Sequence[Entry], choices: Sequence[str], random: Random) -> str | None:
    """One that no value contains."""
    free = [glue for glue in choices if not any(glue in entry.printed for entry in entries)]
    return random.choice(free) if free else None


def _line(entry: Entry, way: WriteLine, random: Random) -> str:
    if not entry.lines or random.random() < 0.3:
        return way(entry.label, entry.printed)
    mark = random.choice(("- ", "* ", "  ", "", "• "))
    return "\n".join([f"{entry.label}:", *(mark + line for line in entry.lines)])


def _sentences(entries: Sequence[Entry], random: Random) -> str:
    said = [entry.sentence or f"{entry.label}: {entry.printed}." for entry in entries]
    for chatter in random.sample(_CHATTER, random.choice((0, 0, 1, 2)) if said else 0):
        said.insert(random.randint(0, len(said)), chatter)
    text = ""
    for sentence in said:
        text += sentence + ("\n" if random.random() < 0.15 else " ")
    return text.strip()


def _framed(title: str, body: str, random: Random) -> str:
    parts = [body]
    if title and random.random() < 0.75:
        parts.insert(0, random.choice((title, title.upper(), f"# {title}", f"== {title} ==")))
    elif random.random() < 0.25:
        parts = [random.choice(_GREETINGS), body, random.choice(_FAREWELLS)]
    if random.random() < 0.3:
        parts.append(random.choice(_FOOTERS))
    return ("\n\n" if random.random() < 0.5 else "\n").join(parts)


def _log_line(entries: Sequence[Entry], random: Random) -> str:
    """One line, partly with the names of the values and partly without."""
    named = random.random()
    parts = []
    for place, entry in enumerate(entries):
        value = f'"{entry.printed}"' if " " in entry.printed and named < 0.6 else entry.printed
        if named < 0.35 or (place > 2 and named < 0.85):
            parts.append(f"{entry.label}={value}")
        elif place == 1:
            parts.append(random.choice((f"[{entry.printed}]", entry.printed)))
        else:
            parts.append(entry.printed)
    return " ".join(parts)
