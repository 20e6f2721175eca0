"""Moves white space from the end of a literal into the value that follows it, where a tokenizer joins the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from pastalang.plan.plan import (
    Arm,
    BranchId,
    Choose,
    Fork,
    Form,
    Hole,
    ItemNumber,
    Join,
    Place,
    Plan,
    Repeat,
    Segment,
    Text,
)
from pastalang.plan.structure import Segments, walk
from pastalang.program import types as t
from pastalang.runtime.binding.spaced import (
    SpacedArm,
    SpacedHole,
    SpacedRepeat,
    SpacedText,
    fed_end,
    fed_text,
    fields_of,
)
from pastalang.runtime.encoder import Encoder
from pastalang.values.lengths import first_characters, is_finite, longest_text, spell

AMPLE = 8  # tokens: a limit that does not decide how a value is spelled
_MANY = 1_000
_WORDS = ("a", "The", "Sony", "x9", "12", "(")
_OPENINGS = {
    '"': ('"a', '"The', '"12', '"'),
    "{": ('{"a', "{}"),
    "[": ('["a', "[1", '[{"', "[]"),
    "-": ("-1",),
    "t": ("true",),
    "f": ("false",),
    "n": ("null",),
}
_ALONE = frozenset('"{[')  # forced as tokens of their own
_ANY_JSON = frozenset('"{[-7tfn')


def beginnings_of(type: t.Type, form: Form, types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """All spellings of a closed list, up to a thousand; beginnings of every kind that an open type has."""
    quoted = form is Form.JSON
    found: list[str] = []
    for arm in _arms(type, types):
        if isinstance(arm, t.Literal):
            found.append(spell(arm.value, quoted=quoted))
            continue
        first = first_characters(arm, types, quoted=quoted)
        if first is None:
            found += [text for one in sorted(_ANY_JSON) for text in _from(one)] if quoted else _WORDS
        else:
            found += [text for one in sorted(first) for text in _from(one)]
    return tuple(dict.fromkeys(found[:_MANY]))


def keeps_its_values(
    hole: Hole, lead: str, types: Mapping[str, t.Type], encode: Callable[[str], Sequence[int]]
) -> bool:
    """Whether every value that the hole's limit lets through can be written behind the lead within the same limit."""
    quoted = hole.form is Form.JSON
    longest = longest_text(hole.type, types, quoted=quoted)
    if hole.max_tokens >= AMPLE and not is_finite(hole.type, types):
        return True
    if longest is not None and hole.max_tokens >= longest + len(lead):
        return True
    if is_finite(hole.type, types):
        return all(len(encode(lead + text)) <= hole.max_tokens for text in _spelled(hole.type, types, quoted=quoted))
    first = first_characters(hole.type, types, quoted=quoted)
    if first is None or any(len(encode(lead + one)) != 1 for one in first):
        return False
    return first <= _ALONE or (longest is not None and hole.max_tokens >= longest)


def _from(character: str) -> tuple[str, ...]:
    return _OPENINGS.get(character, (character,))


def _arms(type: t.Type, types: Mapping[str, t.Type]) -> Iterator[t.Type]:
    while isinstance(type, t.Named):
        type = types[type.name]
    if isinstance(type, t.Union):
        for arm in type.arms:
            yield from _arms(arm, types)
    else:
        yield type


def _spelled(type: t.Type, types: Mapping[str, t.Type], *, quoted: bool) -> Iterator[str]:
    """The values of a closed list; of a closed structure how it begins."""
    for arm in _arms(type, types):
        match arm:
            case t.Boolean():
                yield from ("true", "false")
            case t.Null():
                yield "null"
            case t.Literal(value=value):
                yield spell(value, quoted=quoted)
            case _:
                continue


SIGHT = 64  # characters before a border that are looked at
MANY = 64  # ways of going on that are tried


def move_whitespace(plan: Plan, encoder: Encoder) -> Plan:
    """The same plan where nothing has to be handed over."""
    handing = _Handing(plan, encoder)
    for branch in plan.branches:
        handing.segments[branch.id] = handing.all(handing.segments[branch.id], ends_in_text=True)
    if all(handing.segments[branch.id] == branch.segments for branch in plan.branches):
        return plan
    branches = tuple(replace(branch, segments=handing.segments[branch.id]) for branch in plan.branches)
    return replace(plan, branches=branches)


class _Handing:
    """`segments` are the branches as they become; a parent comes before its children."""

    def __init__(self, plan: Plan, encoder: Encoder) -> None:
        self.segments: dict[BranchId, Segments] = {branch.id: branch.segments for branch in plan.branches}
        self._types: Mapping[str, t.Type] = dict(plan.types)
        self._encoder = encoder
        self._placed = {
            segment.branch
            for branch in plan.branches
            for _, segment in walk(branch.segments)
            if isinstance(segment, Place)
        }

    def all(self, segments: Segments, *, ends_in_text: bool) -> Segments:
        """`ends_in_text`: whether what this branch is fed next, behind these segments, is text or nothing."""
        done = list(segments)
        for index, segment in enumerate(segments):
            behind = done[index + 1 :]
            segment = done[index]
            match segment:
                case Text(shown=True):
                    taken = self._hand_over(fed_text(segment), behind, ends_in_text=ends_in_text)
                    if taken is not None:
                        lead, done[index + 1] = taken
                        done[index] = SpacedText(segment.text, True, _without(fed_text(segment), lead))
                case Choose():
                    done[index] = self._choose(segment, _is_text(behind, ends_in_text))
                case Repeat():
                    repeat = done[index] = self._repeat(segment)
                    at_end = self._hand_over_at_end(repeat, behind, ends_in_text=ends_in_text)
                    if at_end is not None:
                        done[index], done[index + 1] = at_end
                case _:
                    continue
        return tuple(done)

    # ── who hands over ───────────────────────────────────────────────────────────────────────────────────

    def _hand_over(self, literal: str, behind: Sequence[Segment], *, ends_in_text: bool) -> tuple[str, Segment] | None:
        """The white space to be handed over, and the segment behind it with it."""
        if not behind or not _has_lead(literal):
            return None
        if isinstance(behind[0], Fork) and not _is_text(behind[1:], ends_in_text):
            return None  # what goes on here beside the child would miss the white space
        return self._take(behind[0], literal)

    def _choose(self, choose: Choose, is_text_behind: bool) -> Choose:
        arms: list[Arm] = []
        for arm in choose.arms:
            segments, fed = self.all(arm.segments, ends_in_text=is_text_behind), fed_text(arm)
            taken = self._hand_over(fed, segments, ends_in_text=is_text_behind)
            if taken is not None:
                lead, first = taken
                given = arm.given if isinstance(arm, SpacedArm) else ""
                segments = (first, *segments[1:])
                arms.append(SpacedArm(arm.label, arm.lead, segments, _without(fed, lead), given))
            else:
                arms.append(replace(arm, segments=segments))
        found = replace(choose, arms=tuple(arms))
        before, after = ([self._encoder.text(fed_text(arm)) for arm in one.arms] for one in (choose, found))
        return found if _tells_apart(before, after) else choose

    def _repeat(self, repeat: Repeat) -> Repeat:
        """Behind an item its branch may have to say whether there is another one."""
        body = self.all(repeat.body, ends_in_text=False)
        found = replace(repeat, body=body)
        leads = [_last_text(one) for one in (repeat.first, repeat.between)]
        if repeat.over is not None or not body or None in leads:
            return found
        first, between = (lead or "" for lead in leads)
        taken = self._hand_over(first, body, ends_in_text=False)
        if taken is None or not _is_handed(between, taken[0]):
            return found
        lead, segment = taken
        first_parts, between_parts = (_shortened(parts, lead) for parts in (repeat.first, repeat.between))
        handed = replace(found, first=first_parts, between=between_parts, body=(segment, *body[1:]))
        return handed if self._stops_apart(repeat, handed) else found

    def _hand_over_at_end(
        self, repeat: Repeat, behind: Sequence[Segment], *, ends_in_text: bool
    ) -> tuple[Repeat, Segment] | None:
        """What ends a list may be the literal before a hole."""
        if repeat.stop is None:
            return None
        taken = self._hand_over(repeat.stop, behind, ends_in_text=ends_in_text)
        if taken is None or not (repeat.empty is None or _is_handed(repeat.empty, taken[0])):
            return None
        led = repeat if isinstance(repeat, SpacedRepeat) else SpacedRepeat(**fields_of(repeat))
        handed = replace(led, handed=taken[0])
        return (handed, taken[1]) if self._stops_apart(repeat, handed) else None

    # ── who takes ────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, segment: Segment, literal: str) -> tuple[str, Segment] | None:
        match segment:
            case Hole():
                ways = beginnings_of(segment.type, segment.form, self._types)
                lead = self._lead(literal, ways)
                if not lead or not keeps_its_values(segment, lead, self._types, self._encoder.text):
                    return None
                return lead, SpacedHole(**fields_of(segment), lead=lead)
            case Text(shown=True, text=text) if text.strip(" "):
                lead = self._lead(literal, (text,))
                return (lead, SpacedText(text, True, lead + fed_text(segment))) if lead else None
            case Fork(branch=id) if id not in self._placed and self.segments[id]:
                first, *rest = self.segments[id]
                taken = self._take(first, literal)
                if taken is None:
                    return None
                self.segments[id] = (taken[1], *rest)
                return taken[0], segment
            case Choose():
                return self._take_by_choice(segment, literal)
            case Repeat():
                return self._take_by_list(segment, literal)
            case _:
                return None

    def _take_by_choice(self, choose: Choose, literal: str) -> tuple[str, Segment] | None:
        lead = self._lead(literal, tuple(arm.lead for arm in choose.arms))
        arms = tuple(SpacedArm(arm.label, arm.lead, arm.segments, lead + arm.lead, lead) for arm in choose.arms)
        before, after = ([self._encoder.text(fed_text(arm)) for arm in some] for some in (choose.arms, arms))
        return (lead, replace(choose, arms=arms)) if lead and _tells_apart(before, after) else None

    def _take_by_list(self, repeat: Repeat, literal: str) -> tuple[str, Segment] | None:
        first = repeat.first[0] if repeat.first else None
        if repeat.over is not None or not isinstance(first, Text) or (repeat.minimum == 0 and repeat.empty is None):
            return None
        ways = (first.text, *([repeat.empty] if repeat.minimum == 0 and repeat.empty else []))
        lead = self._lead(literal, ways)
        if not lead:
            return None
        opening = (SpacedText(first.text, True, lead + fed_text(first)), *repeat.first[1:])
        led = SpacedRepeat(**{**fields_of(repeat), "first": opening}, given=lead)
        return (lead, led) if self._stops_apart(repeat, led) else None

    def _stops_apart(self, before: Repeat, after: Repeat) -> bool:
        """Whether an item can be told from the end of the list as before."""
        for first in (True, False):
            old, new = ([self._way(one, first, stops) for stops in (False, True)] for one in (before, after))
            if not _tells_apart(old, new):
                return False
        return True

    def _way(self, repeat: Repeat, first: bool, stops: bool) -> tuple[int, ...]:
        if stops:
            return self._encoder.text(fed_end(repeat, is_empty=first) or "")
        parts = repeat.first if first else repeat.between
        texts = ("1" if isinstance(part, ItemNumber) else fed_text(part) for part in parts)
        return tuple(token for text in texts for token in self._encoder.text(text))

    def _lead(self, literal: str, ways: Sequence[str]) -> str:
        """How much white space is handed over: "" where the tokenizer writes no token across the border, or where it
        would write neither the literal nor what follows like this."""
        sight = literal[-SIGHT:]
        crossing = [way for way in ways[:MANY] if way and self._encoder.crosses(sight, way[:SIGHT])]
        if not crossing:
            return ""
        white = len(literal) - len(literal.rstrip(" "))
        lengths = range(1, min(white, len(sight) - 1) + 1)
        agreeing = {length: sum(self._agrees(sight, length, way[:SIGHT]) for way in crossing) for length in lengths}
        best = max(lengths, key=lambda length: (agreeing[length], -length))
        return literal[-best:] if agreeing[best] else ""

    def _agrees(self, sight: str, length: int, way: str) -> bool:
        encode = self._encoder.text
        return encode(sight[:-length]) + encode(sight[-length:] + way) == encode(sight + way)


def _is_text(segments: Sequence[Segment], at_end: bool) -> bool:
    """Whether what is fed next is text of this branch, or nothing is."""
    for segment in segments:
        match segment:
            case Join() | Place():
                continue
            case Text(text=text):
                return bool(text)
            case _:
                return False
    return at_end


def _has_lead(literal: str) -> bool:
    return literal.endswith(" ") and bool(literal.strip(" "))


def _is_handed(literal: str, lead: str) -> bool:
    return _has_lead(literal) and literal.endswith(lead)


def _without(literal: str, lead: str) -> str:
    return literal[: len(literal) - len(lead)]


def _last_text(parts: Sequence[Text | ItemNumber]) -> str | None:
    last = parts[-1] if parts else None
    return fed_text(last) if isinstance(last, Text) else None


def _shortened(parts: tuple[Text | ItemNumber, ...], lead: str) -> tuple[Text | ItemNumber, ...]:
    last = parts[-1]
    assert isinstance(last, Text)
    return (*parts[:-1], SpacedText(last.text, last.shown, _without(fed_text(last), lead)))


def _tells_apart(before: Sequence[tuple[int, ...]], after: Sequence[tuple[int, ...]]) -> bool:
    """Whether no way has become the beginning of another one."""
    return not any(
        after[one] == after[other][: len(after[one])] and before[one] != before[other][: len(before[one])]
        for one in range(len(after))
        for other in range(len(after))
        if one != other
    )
